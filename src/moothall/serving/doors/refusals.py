"""What the doors refuse by an error of their protocols: our errors, as each door tells them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from moothall.foundation.errors import BudgetExceeded, NotPermitted
from moothall.serving.a2a.wire import A2AFault


class TooOften(Exception):
    """A caller asks more often than it may."""


class _RefusalCodes(NamedTuple):
    # Of A2A and MCP, with codes in `serving/a2a/wire.py`; None: a result says it there.
    reason: str | None
    code: str  # of OpenAI's interface, as the next two
    kind: str
    status: int
    run_error: str  # the code of AG-UI


TOO_OFTEN: Final = _RefusalCodes(
    "RATE_LIMIT_EXCEEDED", "rate_limit_exceeded", "requests", 429, "rate_limit_exceeded"
)
_REFUSALS: Final[dict[type[Exception], _RefusalCodes]] = {
    BudgetExceeded: _RefusalCodes(
        "BUDGET_EXCEEDED", "insufficient_quota", "insufficient_quota", 429, "BudgetExceeded"
    ),
    NotPermitted: _RefusalCodes(None, "not_permitted", "permission_error", 403, "NotPermitted"),
    TooOften: TOO_OFTEN,
}

REFUSED: Final = tuple(kind for kind, refusal in _REFUSALS.items() if refusal.reason)
"""The errors that A2A and MCP tell as errors of the protocol."""


def refusal_of(error: BaseException) -> _RefusalCodes | None:
    """Return how the doors tell an error; None if as a failure."""
    return next((each for kind, each in _REFUSALS.items() if isinstance(error, kind)), None)


def fault_of(error: BaseException) -> A2AFault:
    """Return the error of A2A and MCP for one that is `REFUSED`."""
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
