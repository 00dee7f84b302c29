"""MCP servers as agents. Loaded on first use; needs the extra `mcp`."""

from moothall.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
