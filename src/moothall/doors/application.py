"""The ASGI application with all doors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from moothall.agent import Agent
from moothall.arguments import check_text
from moothall.doors.a2a import A2ADoor
from moothall.doors.a2a_rest import A2ARest
from moothall.doors.ag_ui import AGUIDoor
from moothall.doors.callers import Callers
from moothall.doors.guard import Guard
from moothall.doors.mcp import MCPDoor
from moothall.doors.openai.door import OpenAIDoor, nowhere
from moothall.doors.served import Served
from moothall.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from moothall.budget import Budget


def asgi(
    agents: Agent | Iterable[Agent],
    *,
    token: str | Mapping[str, str] | None = None,
    title: str = "moothall",
    budget: Budget | Callable[[str], Budget | None] | None = None,
    rate: int | None = None,
) -> Guard:
    """Return an ASGI application that serves agents by MCP, A2A, OpenAI's interface and AG-UI.

    `/mcp` is the Model Context Protocol over streamable HTTP: each action of the agents is a tool.
    `/a2a/AGENT` serves each agent that has `reply` by A2A 1.0; the card at the well-known path is
    that of the first one. `/v1` is OpenAI's interface, `/v1/responses` and `/v1/chat/completions`:
    each agent that has `reply` is a model, by its id. `/ag-ui/ID` is AG-UI. Any ASGI server runs
    the application, such as uvicorn; `moothall serve AGENT --http HOST:PORT` runs it, too.

    Agents without a space are added to a new one, which closes with the application; there the
    caller is asked for approvals. Agents of one space stay there, and its approver decides.

    A program that sends a token is a caller. Its name is `token`, if there is one token, or the
    name that `token=` has for it. Without tokens, the one caller is `local`, any program of this
    machine. A caller's requests by all protocols count together for its budget and its rate.

    Args:
        agents: the agents
        token: the secret that callers send as `Authorization: Bearer TOKEN`, or one for each
            caller by its name; without one, only programs of this machine may call
        title: the server's name in its cards and answers
        budget: what callers may spend: a budget of which each caller has a part by its name, or a
            function that returns the budget of a caller's name
        rate: how many requests a caller may make in a minute

    Raises:
        DefinitionError: there are no agents, or they are of several spaces
        ConfigError: the token is empty, another argument is not valid, or an agent has a budget
            of which the callers' budget is not a part
        MissingExtra: the extra `mcp` is not installed
    """
    check_text("title=", title)
    MissingExtra.unless("doors", "mcp", "mcp", "mcp_types", "starlette")
    callers = Callers(token, budget, rate)
    return application(Served(agents, callers), callers, title)


def application(
    served: Served,
    callers: Callers,
    title: str,
    routes: Iterable[Any] = (),
    open_paths: Iterable[str] = (),
) -> Guard:
    """Return the application of all doors, with more routes; `open_paths` need no token."""
    a2a = A2ADoor(served, title, callers.tokens is not None)
    inner = _application(served, MCPDoor(served, title), a2a, routes)
    return Guard(inner, callers, frozenset(open_paths))


def _application(served: Served, door: MCPDoor, a2a: A2ADoor, more: Iterable[Any]) -> Starlette:
    from starlette.applications import Starlette
    from starlette.routing import Route

    ag_ui = AGUIDoor(served)
    routes: list[Any] = [
        *more,
        *A2ARest(a2a).routes(),
        *a2a.routes(),
        *OpenAIDoor(served).routes(),
        *ag_ui.routes(),
    ]
    for each in routes:  # an id may have line breaks, too
        each.path_regex = re.compile(each.path_regex.pattern, re.DOTALL)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            async with door.over_http() as mcp:
                app.router.routes.append(Route("/mcp", endpoint=mcp))
                await a2a.open()
                yield
        finally:
            ag_ui.close()
            await a2a.close()
            await served.close()

    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: nowhere})
