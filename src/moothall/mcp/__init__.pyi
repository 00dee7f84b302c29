"""The names of `__init__.py` for type checkers and editors."""

from moothall.mcp.agent import MCPAgent as MCPAgent
