"""Answers without a model: what a question asks for, and the sentences that tell it."""
