"""Orders: the options that a command was run with, as its run records them, and their agents."""
