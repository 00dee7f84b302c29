"""Models that run in this process, and their weights."""
