"""Doors: each serves agents by a protocol that other programs speak. Loaded on first use."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
