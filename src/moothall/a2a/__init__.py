"""Agents behind the A2A protocol, version 1.0. Loaded on first use."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {"A2AAgent": "agent"}

__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
