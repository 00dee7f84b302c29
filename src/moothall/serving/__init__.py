"""Agents for other programs, and theirs for ours. Loaded on first use."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
