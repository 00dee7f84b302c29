"""A call of a client of MCP under way: how its client's person is asked, and whose it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.foundation.jsonvalue import json_text
from moothall.serving.doors.asks import Ask, Asking
from moothall.serving.doors.callers import caller_of
from moothall.serving.doors.checks import Message, Receive, Scope, Send
from moothall.serving.mcp.results import ResultSchema, content_of

if TYPE_CHECKING:
    import mcp_types as types

CALLS: Final = "moothall.calls"
"""In a request's scope: the calls that end if the client closes its connection."""
ANSWER_S: Final = 86_400.0
"""How long a call under way waits for an answer to its question."""


def _form(name: str, kind: str, title: str) -> dict[str, Any]:
    about = {"type": kind, "title": title}
    return {"type": "object", "properties": {name: about}, "required": [name]}


_PERMIT: Final = _form("permit", "boolean", "Permit this call?")
_ANSWER: Final = _form("answer", "string", "Answer")


@dataclass(eq=False)
class Job:
    """A running call, which may take several requests, one for each answer."""

    sender: str
    caller: str
    tool: str
    given: dict[str, Any]  # the arguments as the client states them
    to: str
    action: Action
    args: dict[str, Any]
    meta: Any
    can_ask: bool  # whether the client can ask its person
    run_id: str | None = None  # that of a reply, which may wait in a journal
    # What happens: an event of a reply, what it asks, or that it has ended, which is None.
    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[Any] | None = None
    asked: Ask | None = None  # what the client was given to answer
    told: int = 0
    asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self.asking = Asking(self._changed, ANSWER_S)

    def _changed(self, ask: Ask) -> None:
        if ask.key in self.asking.open:
            self.news.put_nowait(ask)


def form_of(ask: Ask) -> dict[str, Any]:
    """Return the schema of the form by which a person answers."""
    return _PERMIT if ask.is_approval else _ANSWER


def said_in(ask: Ask, result: Any) -> bool | str | None:
    """Return what a client's result answers; what is no form permits and answers nothing."""
    content = getattr(result, "content", None)
    form = dict(content or {}) if getattr(result, "action", None) == "accept" else {}
    if ask.is_approval:
        return form.get("permit") is True
    said = form.get("answer")
    return said if isinstance(said, str) else None


def required(state: str, ask: Ask) -> types.InputRequiredResult:
    """Return what a client that comes again with the answer is to ask its person."""
    import mcp_types as types

    params = types.ElicitRequestFormParams(message=ask.text, requested_schema=form_of(ask))
    return types.InputRequiredResult(
        input_requests={"question": types.ElicitRequest(params=params)}, request_state=state
    )


def gives(action: Action) -> ResultSchema | None:
    """Return the schema of the results of an action's tool; None if its type is not known."""
    return ResultSchema.of(action.returned)


def result_of(value: Any, action: Action, where: str, meta: Any) -> types.CallToolResult:
    """Return the value of a call as its result."""
    import mcp_types as types

    its = gives(action)
    if its is None:
        structured = value if isinstance(value, dict) else None
    else:
        structured = its.content(value, where)
    return types.CallToolResult(
        content=content_of(value) or [types.TextContent(text=json_text(value))],
        structured_content=structured,
        _meta=meta,
    )


def failed(text: str) -> types.CallToolResult:
    """Return the result of a call that failed."""
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


class Owned:
    """An ASGI application that lets each named caller use only its own sessions."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its caller as the user to whom the session belongs."""
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken
        from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
        from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
        from starlette.datastructures import Headers
        from starlette.responses import JSONResponse

        stated = Headers(scope=scope).get("mcp-protocol-version", KNOWN_PROTOCOL_VERSIONS[-1])
        if stated not in KNOWN_PROTOCOL_VERSIONS:
            its = ", ".join(KNOWN_PROTOCOL_VERSIONS)
            error = {
                "code": UNSUPPORTED_PROTOCOL_VERSION,
                "message": f"mcp-protocol-version must be one of {its}, got {stated[:80]!r}",
                "data": {"supported": [*KNOWN_PROTOCOL_VERSIONS], "requested": stated},
            }
            refusal = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            await refusal(scope, receive, send)
            return
        owner = AccessToken(token="", client_id=caller_of(scope), scopes=[])
        scope["user"] = AuthenticatedUser(owner)
        calls: set[asyncio.Task[Any]] = set()
        scope[CALLS] = calls

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for each in calls:
                    each.cancel()
            return message

        await self._app(scope, heard, send)
