"""MCP servers as agents. Loaded on first use; needs the extra `mcp`."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {"MCPAgent": "agent"}

__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
