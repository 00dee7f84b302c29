"""The protocols of the doors: where each is reached, as whom callers send, how it tells errors.

The guard, the pages and the commands read `DOORS`. Our errors have their codes in `_CODES`.
`caller_text`, `ended_text` and `failed_call_text` are what callers read of a failure.
"""

from __future__ import annotations

import builtins
import json
import logging
import re
import secrets
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from moothall import (
    ActionError,
    AskAgain,
    BudgetExceeded,
    ContextOverflow,
    MoothallError,
    NobodyToAsk,
    NotPermitted,
    Reply,
    RequestError,
)
from moothall.build import UnreadableText, log_failure
from moothall.journal import REASONS
from moothall.serving.a2a.wire import A2AFault
from moothall.serving.a2a.wire_03 import STREAMING_03
from moothall.serving.doors.checks import RequestRefused, json_of, sse_event

logger: logging.Logger = logging.getLogger("moothall.serving.doors")
ErrorAnswer: TypeAlias = tuple[int, str, bytes]
"""The status, the text and the media type of an answer."""
_JSON: Final = b"application/json"
_DOT_PART: Final = re.compile(r"~*\.{1,2}")


class TooOften(RequestRefused):
    """A caller asks more often than it may, or while the server is busy."""

    def __init__(self, wait_s: int, reason: str = "too many requests") -> None:
        super().__init__(429, f"{reason}: wait {wait_s} s")
        self.wait_s = wait_s

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header that says when to ask again."""
        return [(b"retry-after", str(self.wait_s).encode())]


class _RefusalCodes(NamedTuple):
    # Of A2A and MCP, with codes in `serving/a2a/wire.py`; None: a result says it there.
    reason: str | None
    code: str  # of OpenAI's interface, as the next two
    kind: str
    status: int
    run_error: str  # the code of AG-UI


_CODES: Final[dict[type[Exception], _RefusalCodes]] = {
    BudgetExceeded: _RefusalCodes(
        "BUDGET_EXCEEDED", "insufficient_quota", "insufficient_quota", 429, "BudgetExceeded"
    ),
    NotPermitted: _RefusalCodes(None, "not_permitted", "permission_error", 403, "NotPermitted"),
    TooOften: _RefusalCodes(
        "RATE_LIMIT_EXCEEDED", "rate_limit_exceeded", "requests", 429, "rate_limit_exceeded"
    ),
}

REFUSALS: Final = tuple(kind for kind, refusal in _CODES.items() if refusal.reason)
"""The errors that A2A and MCP tell as errors of the protocol."""


def refusal_of(error: BaseException) -> _RefusalCodes | None:
    """Return how the doors tell an error; None if as a failure."""
    return next((each for kind, each in _CODES.items() if isinstance(error, kind)), None)


def fault_of(error: BaseException) -> A2AFault:
    """Return the error of A2A and MCP for one of `REFUSALS`."""
    refusal = refusal_of(error)
    return A2AFault(refusal.reason if refusal and refusal.reason else "INTERNAL_ERROR", str(error))


# -- failures --------------------------------------------------------------------------------------

_TELLING_REASONS: Final = (
    *("budget", "deadline", "max_iterations", "no_progress", "max_loops", "unreadable"),
)
"""Why a reply has no answer, where its detail says nothing of the machines behind it."""
_CONTENT_TEXT: Final = "the model's server refused what you said or attached"
_OVERFLOW_TEXT: Final = "what was said does not fit the model's context"


def caller_text(error: BaseException, run_id: str | None = None, *, logs: bool = True) -> str:
    """Return what a caller is told of an error; the log has the rest.

    The families that speak of the caller's own request are told whole: `RequestError`, with the
    `ActionError` that an action raises itself, `AskAgain` and `BudgetExceeded`. Any other error,
    of a model, a database, a broker, a file or an action, may name addresses, paths and queries:
    its kind is told, and the id under which the log has it.
    """
    source = _source_of(error)
    if _is_for_callers(source):
        return str(error)
    id = f"run {run_id}" if run_id else f"call {secrets.token_hex(8)}"
    if logs:
        log_failure(logger, f"{id} failed", error)
    if isinstance(source, ContextOverflow):
        return f"{_OVERFLOW_TEXT} ({id})"
    if getattr(source, "of_content", False):
        return f"{_CONTENT_TEXT} ({id})"
    kind = source.type if isinstance(source, ActionError) else type(source).__name__
    return _failure_text(kind, id)


def ended_text(reply: Reply, run_id: str | None = None, *, logs: bool = True) -> str:
    """Return what a caller is told of a reply that has no answer."""
    reason, run_id = reply.stop_reason, run_id or reply.run_id
    if reason in _TELLING_REASONS:
        return reply.detail or reason
    if reason in REASONS and reason != "error":
        return REASONS.explain(reason)
    if reply.error is not None:
        return caller_text(reply.error, run_id, logs=logs)
    if logs:
        logger.error("run %s failed: %s", run_id, reply.detail)
    return _failure_text(reason, f"run {run_id}")


def failed_call_text(result: dict[str, Any]) -> str:
    """Return what a caller is told of a call of the agent's that failed, by the call's result."""
    text, trace = str(result.get("error")), result.get("traceback")
    if not isinstance(trace, str):  # of no exception: what the environment says itself
        return text
    # The last line of a traceback has the class, and then all of the text.
    place = trace.rstrip().removesuffix(text.rstrip()).rpartition("\n")[2].removesuffix(": ")
    kind = place.rpartition(".")[2]
    if not kind.isidentifier():  # it has notes, or is several
        return "it has failed"
    if kind == ActionError.__name__:
        kind, _, rest = text.partition(": ")
        error: BaseException = ActionError(kind, rest)
    else:
        error = ActionError(kind, text, place)
    return text if _is_for_callers(error) else f"it has failed ({kind})"


def _failure_text(kind: str, id: str) -> str:
    return f"the server has failed ({kind}); its log has the reason, under {id}"


def _source_of(error: BaseException) -> BaseException:
    """Return what an action raised, of the error as which it reached the caller."""
    while isinstance(error, ActionError) and (cause := error.__cause__) is not None:
        is_passed_on = isinstance(cause, ActionError) and cause.text == error.text
        if not is_passed_on and type(cause).__name__ != error.type:
            break
        error = cause
    return error


def _is_for_callers(error: BaseException) -> bool:
    """Return whether a text speaks of the caller's own request."""
    families = (RequestError, BudgetExceeded, NobodyToAsk, AskAgain, RequestRefused)
    if not isinstance(error, ActionError):
        return isinstance(error, families)
    error_class = _classes_by_name().get(error.type) or getattr(builtins, error.type, None)
    if isinstance(error_class, type):
        return issubclass(error_class, families)
    return error.where is None  # made by an action, not of an exception


def _classes_by_name() -> dict[str, type]:
    """Return our exceptions: of another process an error has the name of its class alone."""
    classes: list[type] = [MoothallError]
    for each in classes:
        classes += each.__subclasses__()
    return {each.__name__: each for each in classes}


def openai_error(
    message: str, type: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error in the form of OpenAI's interface."""
    return {"message": message, "type": type, "param": param, "code": code}


def run_error(error: BaseException, text: str | None = None) -> dict[str, Any]:
    """Return the event of AG-UI for an error that ends a run, of which callers read a text."""
    refusal = refusal_of(error)
    code = type(error).__name__ if refusal is None else refusal.run_error
    message = caller_text(error) if text is None else text
    return {"type": "RUN_ERROR", "message": message, "code": code}


def _answer_mcp(error: RequestRefused, path: str, body: bytes) -> ErrorAnswer | None:
    if not isinstance(error, REFUSALS):
        return None
    id = _read_request(body).get("id")
    id = id if isinstance(id, str | int) else None
    fault = {"jsonrpc": "2.0", "id": id, "error": fault_of(error).to_json()}
    return error.status, json.dumps(fault), _JSON


def _answer_a2a(error: RequestRefused, path: str, body: bytes) -> ErrorAnswer | None:
    if (answer := _answer_mcp(error, path, body)) is None:
        return None
    if _read_request(body).get("method") in STREAMING_03:
        return 200, f"data: {answer[1]}\n\n", b"text/event-stream"
    return 200, *answer[1:]  # its client reads no body of another status


def _answer_openai(error: RequestRefused, path: str, body: bytes) -> ErrorAnswer:
    refusal, text, kind, code = refusal_of(error), str(error), "invalid_request_error", None
    if refusal is not None:
        kind, code = refusal.kind, refusal.code
    elif error.status == 404:
        text, code = f"{path[:80]} is not offered by this server", "unknown_url"
    return error.status, json.dumps({"error": openai_error(text, kind, code=code)}), _JSON


def _answer_ag_ui(error: RequestRefused, path: str, body: bytes) -> ErrorAnswer | None:
    if not isinstance(error, TooOften):
        return None
    # Its client reads events, and no other answer.
    return 200, sse_event(run_error(error)).decode(), b"text/event-stream"


def _read_request(body: bytes) -> dict[str, Any]:
    """Return a request of JSON-RPC, if its body has one."""
    try:
        request = json_of(body)
    except UnreadableText:
        return {}
    return request if isinstance(request, dict) else {}


@dataclass(frozen=True, slots=True)
class DoorProtocol:
    """A protocol by which callers reach agents.

    Attributes:
        sender: the sender of its callers' messages; of a caller with a name it is `SENDER-NAME`
        title: its name for people
        path: where its addresses begin
        serves: all actions of the agents, the agents that reply, or each of these at an address
        form: returns the answer to a refused request, by the error, the path and the body; None
            for the error's text
        token_header: a header that has the token alone, for clients that send no
            `Authorization: Bearer TOKEN`
    """

    sender: str
    title: str
    path: str
    serves: Literal["actions", "replies", "each"]
    form: Callable[[RequestRefused, str, bytes], ErrorAnswer | None]
    token_header: str = "authorization"

    def addresses(self, replying: Iterable[str]) -> list[str]:
        """Return where agents are reached; `replying` has those that reply, as paths have them."""
        agent_addresses = [f"{self.path}/{id}" for id in replying]
        if self.serves == "each":
            return agent_addresses
        return [self.path] if agent_addresses or self.serves == "actions" else []


MCP: Final = DoorProtocol("mcp", "MCP", "/mcp", "actions", _answer_mcp)
A2A: Final = DoorProtocol("a2a", "A2A", "/a2a", "each", _answer_a2a)
OPENAI: Final = DoorProtocol("openai", "OpenAI", "/v1", "replies", _answer_openai)
AG_UI: Final = DoorProtocol("ag-ui", "AG-UI", "/ag-ui", "each", _answer_ag_ui)
DOORS: Final = (MCP, A2A, OPENAI, AG_UI)
"""The protocols that `moothall serve` speaks, in the order of its list."""


def protocol_at(path: str) -> DoorProtocol | None:
    """Return the protocol of an address."""
    return next((each for each in DOORS if f"{path}/".startswith(f"{each.path}/")), None)


def answer_to(error: RequestRefused, path: str, body: bytes = b"") -> ErrorAnswer:
    """Return the answer to a refused request, in the form of its protocol or as a line of text."""
    protocol = protocol_at(path)
    answer = None if protocol is None else protocol.form(error, path, body)
    return answer or (error.status, str(error), b"text/plain; charset=utf-8")


def to_path(id: str) -> str:
    """Return an id as the part of an address, where `~` stands before the parts `.` and `..`.

    Clients and proxies resolve these two, even if they are percent-encoded.
    """
    parts = [f"~{part}" if _DOT_PART.fullmatch(part) else part for part in id.split("/")]
    return quote("/".join(parts), safe="")


def to_id(path: str, agents: Container[str]) -> str:
    """Return the id that a part of an address, already decoded, stands for."""
    parts = [
        part.removeprefix("~") if _DOT_PART.fullmatch(part) else part for part in path.split("/")
    ]
    id = "/".join(parts)
    return id if id in agents else path
