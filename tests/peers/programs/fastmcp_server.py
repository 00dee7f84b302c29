"""`fastmcp` as a server."""

import fastmcp
from fastmcp import Context, FastMCP

from serving import MODE, PRICES, serve

app = FastMCP("shop")


@app.tool
def price(item: str) -> str:
    """Tell the price of an item."""
    return f"{item}: {PRICES[item]}"


async def order(item: str, ctx: Context) -> str:
    """Order an item."""
    told = await ctx.elicit(f"Order a {item}?", bool)
    return f"ordered {item}" if told.action == "accept" and told.data else "refused"


if fastmcp.__version__ < "4":  # later ones ask nothing within a call in the revision 2026-07-28
    app.tool(order)

if MODE == "stdio":
    app.run(show_banner=False)
else:
    serve(app.http_app())
