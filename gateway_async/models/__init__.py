"""What goes out and what comes back, in the interface's own field names."""
