"""The public names of this package: `__init__.py` loads them from here."""

from moothall.mcp.agent import MCPAgent as MCPAgent
