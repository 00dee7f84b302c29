"""Conversations: several agents in turn, or at once, until it is over."""
