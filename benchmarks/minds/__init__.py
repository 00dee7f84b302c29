"""Decisions, calls and texts of a model that thinks a little, in this process."""
