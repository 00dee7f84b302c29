"""Kinds of entries that are noted beside the work of a run, each with all that is known of it."""
