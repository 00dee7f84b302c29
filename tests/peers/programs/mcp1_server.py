"""`mcp` 1 as a server: over HTTP it has sessions, which end with its process."""

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

from serving import MODE, PRICES, serve

app = FastMCP("shop")


class Permit(BaseModel):
    permit: bool


@app.tool()
def price(item: str) -> str:
    """Tell the price of an item."""
    return f"{item}: {PRICES[item]}"


@app.tool()
async def order(item: str, ctx: Context) -> str:
    """Order an item."""
    told = await ctx.elicit(f"Order a {item}?", Permit)
    return f"ordered {item}" if told.action == "accept" and told.data.permit else "refused"


if MODE == "stdio":
    app.run()
else:
    serve(app.streamable_http_app())
