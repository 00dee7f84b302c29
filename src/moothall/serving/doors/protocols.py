"""The protocols of the doors: where each is reached, as whom callers send, how it tells errors.

The guard, the pages and the commands read `DOORS`. Our errors have their codes in `_CODES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from moothall import BudgetExceeded, NotPermitted
from moothall.build import UnreadableText
from moothall.serving.a2a.wire import A2AFault
from moothall.serving.a2a.wire_03 import STREAMING_03
from moothall.serving.doors.checks import RequestRefused, json_of, sse_event

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


def openai_error(
    message: str, type: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error in the form of OpenAI's interface."""
    return {"message": message, "type": type, "param": param, "code": code}


def run_error(error: BaseException) -> dict[str, Any]:
    """Return the event of AG-UI for an error that ends a run."""
    refusal = refusal_of(error)
    code = type(error).__name__ if refusal is None else refusal.run_error
    return {"type": "RUN_ERROR", "message": str(error), "code": code}


def _answer_mcp(error: RequestRefused, path: str, body: bytes) -> ErrorAnswer | None:
    if not isinstance(error, REFUSALS):
        return None
    id = _read_request(body).get("id")
    fault = {
        "jsonrpc": "2.0",
        "id": id if isinstance(id, str | int) else None,
        "error": fault_of(error).to_json(),
    }
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
