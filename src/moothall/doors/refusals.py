"""What the doors refuse by an error of their protocols: our errors, as each door tells them."""

from __future__ import annotations

from typing import Final, NamedTuple

from moothall.errors import BudgetExceeded, MoothallError, NotPermitted


class _Refusal(NamedTuple):
    reason: str | None  # of A2A and MCP, with codes in `a2a/wire.py`; None: a result says it there
    code: str  # of OpenAI's interface, as the next two
    kind: str
    status: int


_REFUSALS: Final[dict[type[MoothallError], _Refusal]] = {
    BudgetExceeded: _Refusal("BUDGET_EXCEEDED", "insufficient_quota", "insufficient_quota", 429),
    NotPermitted: _Refusal(None, "not_permitted", "permission_error", 403),
}

REFUSED: Final = tuple(kind for kind, refusal in _REFUSALS.items() if refusal.reason)
"""The errors that A2A and MCP tell as errors of the protocol."""


def refusal_of(error: BaseException) -> _Refusal | None:
    """Return how the doors tell an error; None if as a failure."""
    return next((each for kind, each in _REFUSALS.items() if isinstance(error, kind)), None)


def reason_of(error: MoothallError) -> str:
    """Return the reason of one that is `REFUSED`."""
    found = (each.reason for kind, each in _REFUSALS.items() if isinstance(error, kind))
    return next(reason for reason in found if reason)
