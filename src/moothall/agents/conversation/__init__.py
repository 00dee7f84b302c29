"""Conversations: several agents speak in turn, or at once, until a condition ends it."""
