"""The command line: one table of commands, their options read from the functions, one renderer."""
