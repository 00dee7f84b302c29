"""MCP servers as agents, and agents as MCP servers."""
