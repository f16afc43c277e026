"""The commands, a module a group of them; `app` has the table of all."""
