"""Where a journal keeps its runs: an SQLite file."""
