"""The commands about a journal and its runs."""
