"""Reasoning: how an agent decides, with a model, what to do and what to answer."""
