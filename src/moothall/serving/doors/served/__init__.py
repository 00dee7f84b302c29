"""Runs that callers wait for: one machine for all doors."""
