"""The dual act: one agent decides, one executes, until the work is accepted."""
