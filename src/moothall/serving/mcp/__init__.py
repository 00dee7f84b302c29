"""MCP servers as agents. Loaded on first use; needs the extra `mcp`."""
