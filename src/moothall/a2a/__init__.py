"""Agents behind the A2A protocol, version 1.0. Loaded on first use."""

from moothall.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
