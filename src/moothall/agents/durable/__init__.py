"""Durable functions: plain Python functions whose steps are recorded in a journal."""
