"""Agents that other agents ask by an action."""
