"""Agents written with other frameworks, as agents of ours. Loaded on first use."""
