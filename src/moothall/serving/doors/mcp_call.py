"""A call of a client of MCP under way: how its client's person is asked, and whose it is."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall import Action, ActionError, MoothallError, RunHeld
from moothall.build import Thread, as_json, json_text
from moothall.journal import RunView
from moothall.serving.doors.asks import Ask, Caller, answer_schema, read_form
from moothall.serving.doors.callers import LOCAL, caller_of
from moothall.serving.doors.checks import Message, Receive, Scope, Send, hash_of, in_thread
from moothall.serving.doors.protocols import caller_text, fault_of
from moothall.serving.doors.served.recorded_runs import DoorRuns
from moothall.serving.doors.served.served_run import (
    CallerRequest,
    Follower,
    RunEvent,
    ServedRun,
    Work,
)
from moothall.serving.doors.served_agents import Served
from moothall.serving.mcp.tool_results import ResultSchema, content_of

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

CALLS: Final = "moothall.calls"
"""In a request's scope: the calls that end if the client closes its connection."""
POLL_S: Final = 0.5
"""Seconds between two looks whether somebody else has answered, or goes on with a run."""

_SIGNED_NAME: Final = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")
_SESSION_NAME: Final = re.compile(r"([0-9a-f]{16})(?:/(.+))?", re.DOTALL)
"""How results name threads: without sessions, and those of a session."""


@dataclass(eq=False)
class MCPCall:
    """A call of a client of MCP: its run may take several requests, one for each answer."""

    tool: str
    client_args: dict[str, Any]  # the arguments as the client states them
    action: Action
    args: dict[str, Any]
    meta: Any
    progress_count: int = 0
    reader: Follower = field(init=False)  # of what its run tells

    def is_same(self, tool: str, args: dict[str, Any]) -> bool:
        """Return whether it is this call of a client."""
        return (self.tool, self.client_args) == (tool, args)

    def work(self, served: Served) -> Work:
        """Return what calls its action, once no other process works on its run."""

        async def work(run: ServedRun, caller: Caller) -> Any:
            def tell_progress(text: str) -> None:
                run.tell(RunEvent(text, is_own=False))

            to = run.request.sender, run.request.agent, self.action.name
            while True:
                try:
                    return await served.call(*to, self.args, caller, tell_progress)
                except ActionError as error:
                    if error.type != RunHeld.__name__:
                        raise
                await asyncio.sleep(POLL_S)

        return work


class CallRuns(DoorRuns):
    """The runs of the MCP door: what a client says goes on in the thread of its run."""

    def request_in(self, view: RunView, sender: str | None) -> CallerRequest | None:
        """Return who asks for a run of the journal; None if it is of no thread of this sender."""
        run, thread = view.outline, view.outline.thread or ""
        is_own = sender is not None and (thread == sender or thread.startswith(f"{sender}/"))
        if sender is None or view.request is None or not is_own:
            return None
        context = thread.removeprefix(sender).removeprefix("/")
        return self.request(run.id, run.agent, sender, context, view.request.text)


def caller_in(ctx: ServerRequestContext[Any]) -> str:
    """Return the caller; at the standard streams, it is the program that started this one."""
    return LOCAL if ctx.request is None else caller_of(ctx.request.scope)


@contextmanager
def protocol_refusals() -> Iterator[None]:
    """Raise an error of the `with` block as the protocol's: callers would read its own text."""
    from mcp import MCPError

    try:
        yield
    except MCPError:
        raise
    except Exception as error:
        raise MCPError(fault_of(error).code, caller_text(error)) from None


async def until_answered(served: Served, run: ServedRun, key: str) -> None:
    """Wait until a run has an answer by somebody else, or waits no more."""
    with suppress(MoothallError):  # it has none
        agent = run.request.agent
        while any(each.key == key for each in await served.waits(agent, run.id)):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


class SessionThreads:
    """The threads of those who say something, by the names that results give them."""

    def __init__(self, served: Served) -> None:
        self._agents, self._key = served.agents, secrets.token_bytes(32)

    async def resolve(
        self, caller_sender: str, session_sender: str | None, id: str, args: dict[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, str] | None] | None:
        """Return who says something, the arguments, and how the result names the thread.

        A thread of an earlier process goes on if a run of the journal has it; a name that no
        result has told cannot be guessed. None if there is no such thread.
        """
        thread = args.get("thread")
        if session_sender is None:  # a revision without sessions
            if thread is None:
                thread = self._sign(secrets.token_hex(16))
            elif not isinstance(thread, str) or not (
                thread == self._sign(thread.partition(".")[0])
                or (
                    _SIGNED_NAME.fullmatch(thread)
                    and await self._has_run(id, caller_sender, thread)
                )
            ):
                return None
            return caller_sender, {**args, "thread": thread}, {"thread": thread}
        if session_sender == caller_sender:  # the one client at the standard streams
            return caller_sender, args, None
        if isinstance(thread, str) and (match := _SESSION_NAME.fullmatch(thread)):
            earlier_sender = f"{caller_sender}/{match[1]}"
            if await self._has_run(id, earlier_sender, match[2]):
                return earlier_sender, {**args, "thread": match[2]}, {"thread": thread}
        name = session_sender.removeprefix(f"{caller_sender}/")
        return session_sender, args, {"thread": name if thread is None else f"{name}/{thread}"}

    async def _has_run(self, id: str, sender: str, thread: str | None) -> bool:
        """Whether the journal of an agent has a run of a thread."""
        journal: Any = getattr(self._agents[id], "journal", None)
        if journal is None:
            return False
        sender_thread = Thread.id_for(sender, thread)
        return bool(await in_thread(partial(journal.runs, agent=id, thread=sender_thread, limit=1)))

    def _sign(self, name: str) -> str:
        """Return a thread's id, signed with this server's key."""
        signature = hmac.new(self._key, name.encode(), "sha256").hexdigest()[:32]
        return f"{name}.{signature}"


def can_ask(ctx: ServerRequestContext[Any]) -> bool:
    """Return whether a client can ask its person."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def has_trace(params: types.CallToolRequestParams) -> bool:
    """Return whether a call states its trace in `_meta`."""
    return bool(params.meta) and "traceparent" in dict(params.meta or {})


def elicited_form(ask: Ask) -> dict[str, Any]:
    """Return the schema of the form by which a person answers."""
    return answer_schema(ask, "permit", title="Permit this call?" if ask.is_approval else "Answer")


def answer_in(ask: Ask, result: Any) -> Any:
    """Return what a client's result answers; what is no form permits and answers nothing."""
    content = getattr(result, "content", None)
    form = dict(content or {}) if getattr(result, "action", None) == "accept" else {}
    return read_form(ask, form, "permit")


def answer_token(state: str, result: Any) -> str:
    """Return what names an answer of a client, by which one that is sent again is known."""
    content = dict(getattr(result, "content", None) or {})
    return hash_of(json_text(as_json([state, str(getattr(result, "action", "")), content])), 32)


def input_required_result(run_id: str, ask: Ask) -> types.InputRequiredResult:
    """Return what a client that comes again with the answer is to ask its person."""
    import mcp_types as types

    params = types.ElicitRequestFormParams(message=ask.text, requested_schema=elicited_form(ask))
    return types.InputRequiredResult(
        input_requests={"question": types.ElicitRequest(params=params)},
        request_state=f"{run_id}.{ask.key}",
    )


def result_schema_of(action: Action) -> ResultSchema | None:
    """Return the schema of the results of an action's tool; None if its type is not known."""
    return ResultSchema.of(action.returned)


def result_of(value: Any, action: Action, label: str, meta: Any) -> types.CallToolResult:
    """Return the value of a call as its result."""
    import mcp_types as types

    output_schema = result_schema_of(action)
    if output_schema is None:
        structured = value if isinstance(value, dict) else None
    else:
        structured = output_schema.checked_content(value, label)
    return types.CallToolResult(
        content=content_of(value) or [types.TextContent(text=json_text(value))],
        structured_content=structured,
        _meta=meta,
    )


def failed_result(text: str) -> types.CallToolResult:
    """Return the result of a call that failed."""
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


class SessionOwnerApp:
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

        version = Headers(scope=scope).get("mcp-protocol-version", KNOWN_PROTOCOL_VERSIONS[-1])
        if version not in KNOWN_PROTOCOL_VERSIONS:
            versions = ", ".join(KNOWN_PROTOCOL_VERSIONS)
            error = {
                "code": UNSUPPORTED_PROTOCOL_VERSION,
                "message": f"mcp-protocol-version must be one of {versions}, got {version[:80]!r}",
                "data": {"supported": [*KNOWN_PROTOCOL_VERSIONS], "requested": version},
            }
            refusal = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            await refusal(scope, receive, send)
            return
        owner = AccessToken(token="", client_id=caller_of(scope), scopes=[])
        scope["user"] = AuthenticatedUser(owner)
        calls: set[asyncio.Task[Any]] = set()
        scope[CALLS] = calls
        # No event is kept to be sent again: the SDK would answer such a request by nothing.
        scope["headers"] = [each for each in scope["headers"] if each[0] != b"last-event-id"]

        async def receive_until_gone() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                for each in calls:
                    each.cancel()
            return message

        await self._app(scope, receive_until_gone, send)
