"""A population in columns: up to millions of citizens as arrays, run by `step_rows`."""
