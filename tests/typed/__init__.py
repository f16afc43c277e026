"""What type checkers accept and refuse."""
