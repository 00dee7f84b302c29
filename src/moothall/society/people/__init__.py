"""Citizens: drawn from stated distributions, or read from a table."""
