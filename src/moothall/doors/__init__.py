"""Doors: each serves agents by a protocol that other programs speak. Loaded on first use."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {"asgi": "application"}

__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
