"""`mcp` 2 as a server: both revisions, in the later of which it asks nothing within a call."""

from mcp.server import MCPServer

from serving import MODE, PRICES, serve

app = MCPServer("shop")


@app.tool()
def price(item: str) -> str:
    """Tell the price of an item."""
    return f"{item}: {PRICES[item]}"


if MODE == "stdio":
    app.run()
else:
    serve(app.streamable_http_app())
