"""The ASGI application with all doors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack

from moothall import Agent, ConfigError, DefinitionError, MissingExtra
from moothall.agents import ResumeHost, Resumer
from moothall.build import check_text, nearest
from moothall.serving.doors.a2a.door import A2ADoor
from moothall.serving.doors.a2a.runs import is_task
from moothall.serving.doors.ag_ui import AGUIDoor
from moothall.serving.doors.callers import CallerOptions, Callers, Tokens
from moothall.serving.doors.checks import RequestRefused, in_thread, path_of
from moothall.serving.doors.door_guard import DoorGuard
from moothall.serving.doors.front import FRONT_OPTIONS, NO_FRONT, WILDCARD, Front, FrontOptions
from moothall.serving.doors.mcp import MCPDoor
from moothall.serving.doors.openai.door import OpenAIDoor
from moothall.serving.doors.openai.response_chain import is_response
from moothall.serving.doors.protocols import A2A, MCP, TooOften, answer_to
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from moothall.budget import Budget
    from moothall.journal import Outline


class DoorOptions(CallerOptions, FrontOptions, total=False):
    """What a program states of its doors; `asgi` documents it."""


def asgi(
    agents: Agent | Iterable[Agent],
    *,
    token: Tokens | None = None,
    title: str = "moothall",
    **options: Unpack[DoorOptions],
) -> DoorGuard:
    """Return an ASGI application that serves agents by MCP, A2A, OpenAI's interface and AG-UI.

    `/mcp` is the Model Context Protocol over streamable HTTP: each action of the agents is a tool.
    `/a2a/AGENT` serves each agent that has `reply` by A2A 1.0 and 0.3; the card at the well-known
    path is that of the first one. `/v1` is OpenAI's interface, `/v1/responses` and
    `/v1/chat/completions`: each agent that has `reply` is a model, by its id. `/ag-ui/ID` is AG-UI.
    Any ASGI server runs the application, such as uvicorn; `moothall serve AGENT --http HOST:PORT`
    runs it, too.

    Agents without a space are added to a new one, which closes with the application; there the
    caller is asked for approvals. Agents of one space stay there, and its approver decides.

    A program that sends a token is a caller. Its name is `token`, if there is one token, or the
    name that `token=` has for it. Without tokens, the one caller is `local`, any program of this
    machine. A caller's requests by all protocols count together for its budget and its rate.

    Args:
        agents: the agents
        token: the secret that callers send as `Authorization: Bearer TOKEN`, or one for each
            caller by its name, a list while a key is changed; without one, only programs of this
            machine may call
        title: the server's name in its cards and answers
        budget: what callers may spend: a budget of which each caller has a part by its name, or a
            function that returns the budget of a caller's name
        rate: how many requests a caller may make in a minute
        max_replies: how many replies the server gives at a time, to all callers together; more are
            refused before they begin
        approves: which callers of several may permit the calls that their own requests lead to; the
            others answer only the questions that they are asked
        public_url: the address by which callers reach it through a proxy, such as
            `https://agents.example/hall/`, for its cards; it needs a token
        proxies: the addresses or networks of proxies whose `X-Forwarded-For` and
            `X-Forwarded-Proto` are believed
        origins: the origins of web pages that may call it, such as `https://app.example`; `*` for
            all

    Raises:
        DefinitionError: there are no agents, or they are of several spaces
        ConfigError: the token is empty, another argument is not valid, or an agent has a budget
            of which the callers' budget is not a part
        MissingExtra: the extra `mcp` is not installed
    """
    check_text("title=", title)
    MissingExtra.unless("doors", "mcp", "mcp", "mcp_types", "starlette")
    for name in options.keys() - DoorOptions.__annotations__.keys():
        hint = nearest(name, DoorOptions.__annotations__)
        raise DefinitionError(f"asgi has no argument {name}={hint}")
    front_options: Any = {name: each for name, each in options.items() if name in FRONT_OPTIONS}
    caller_options: Any = {
        name: each for name, each in options.items() if name not in front_options
    }
    callers = Callers(token, **caller_options)
    served = Served(agents, callers)
    return application(served, callers, title, front=Front.of(**front_options))


def application(
    served: Served,
    callers: Callers,
    title: str,
    routes: Iterable[Any] = (),
    open_paths: Iterable[str] = (),
    front: Front = NO_FRONT,
    resumer: Resumer | None = None,
    drain_s: float = 0.0,
) -> DoorGuard:
    """Return the application of all doors.

    Args:
        served: the agents
        callers: the callers
        title: the server's name in its cards
        routes: more routes
        open_paths: the paths that need no token
        front: the public address
        resumer: what goes on with the runs of the agents; it has one of its own without
        drain_s: the seconds that tasks of A2A have to end when the server ends
    """
    if callers.tokens is None and (front.origin or WILDCARD in front.pages):
        subject = f"{front.origin} can be reached" if front.origin else "every web page may call"
        raise ConfigError(f"{subject} from elsewhere: give token=, too")
    a2a = A2ADoor(served, title, callers.tokens is not None, front, drain_s)
    doors = _Doors(served, MCPDoor(served, title), a2a, resumer)
    return DoorGuard(doors.app(routes), callers, frozenset(open_paths), front, doors.begin)


class _ServedHost(ResumeHost):
    """The runs of agents that are served: those that have waited, and responses that were cut off.

    A task goes on by its door, and a run that a caller has answered by that call.
    """

    def __init__(self, served: Served) -> None:
        self._served = served

    def agents(self) -> Iterable[Agent]:
        """Return those that callers may call."""
        return [*self._served.offered.values()]

    def is_wanted(self, run: Outline) -> bool:
        """Return whether a run goes on by its agent, and not by a door."""
        return not (is_task(run.id) or run.id in self._served.answered_runs)

    def is_cut_off_wanted(self, run: Outline) -> bool:
        """Return whether a run is a response: its client looks for it."""
        return is_response(run.id)

    def budget_of(self, run: Outline) -> Budget | None:
        """Return what the caller of a run may spend."""
        return self._served.callers.budget_of_thread(run.thread)


class _Doors:
    """The application behind the guard, and what runs while it serves."""

    def __init__(self, served: Served, mcp: MCPDoor, a2a: A2ADoor, resumer: Resumer | None) -> None:
        self._served, self._mcp, self._a2a, self._resumer = served, mcp, a2a, resumer
        self._ag_ui = AGUIDoor(served)
        self._lifespan_task: asyncio.Task[None] | None = None

    def app(self, extra_routes: Iterable[Any]) -> Starlette:
        """Return the application."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes: list[Any] = [
            *extra_routes,
            *OpenAIDoor(self._served).routes(),  # first: Starlette tries one after the other
            *self._a2a.routes(),
            *self._ag_ui.routes(),
            Route(MCP.path, endpoint=self._mcp),
        ]
        for each in routes:  # an id may have line breaks, too, and clients may add a slash
            pattern = each.path_regex.pattern.removesuffix("$")
            each.path_regex = re.compile(f"{pattern}/?$", re.DOTALL)
        handlers: Any = {404: _answer_unknown_path, TooOften: _answer_busy}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            async with self._open():
                yield
        finally:
            await self._served.close()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        await in_thread(self._served.open)  # a server may have started and ended the application
        try:
            async with self._mcp.over_http(), AsyncExitStack() as stack:
                resumer = self._resumer
                if resumer is None:
                    own_resumer = Resumer(_ServedHost(self._served))
                    resumer = await stack.enter_async_context(own_resumer)
                await stack.enter_async_context(resumer.looking(self._a2a.resume))
                yield
        finally:
            self._ag_ui.close()
            await self._a2a.close()

    async def begin(self) -> None:
        """Begin what the lifespan would, where no server runs it, as below a path of another app.

        It ends with the event loop.
        """
        loop = asyncio.get_running_loop()
        if self._lifespan_task is None or self._lifespan_task.get_loop() is not loop:
            started: asyncio.Future[None] = loop.create_future()
            self._lifespan_task = loop.create_task(self._hold_open(started))
            self._started = started
        await asyncio.shield(self._started)

    async def _hold_open(self, started: asyncio.Future[None]) -> None:
        try:
            async with self._open():
                started.set_result(None)
                await asyncio.Event().wait()
        except BaseException as error:
            self._lifespan_task = None
            if not started.done():
                started.set_exception(error)
                started.exception()
            raise


async def _answer_unknown_path(request: Request, error: Exception) -> Response:
    """Answer an address that no door offers."""
    from starlette.responses import Response

    path = path_of(request.scope)
    status, text, kind = answer_to(RequestRefused(404, "Not Found"), path)
    return Response(text, status, media_type=kind.decode())


async def _answer_busy(request: Request, error: TooOften) -> Response:
    """Answer a request for more replies than may be under way."""
    from starlette.responses import Response

    # Only A2A's form has the id in the body; its request has read it already.
    body = await request.body() if path_of(request.scope).startswith(A2A.path) else b""
    status, text, kind = answer_to(error, path_of(request.scope), body)
    headers = {name.decode(): value.decode() for name, value in error.headers}
    return Response(text, status, headers, kind.decode())
