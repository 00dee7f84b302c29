"""The error that a request ends as, as it travels."""

from __future__ import annotations

from typing import Any

from civitas.errors import (
    ActionError,
    ActionNotFound,
    AgentNotFound,
    AgentStopped,
    HopLimitExceeded,
    InDoubt,
    InvalidArguments,
    MailboxFull,
    NotPermitted,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)

__all__ = ["error_headers", "error_of"]

# By name: nothing else that comes is ever made into an exception.
_PLAIN: dict[str, type[RequestError]] = {
    kind.__name__: kind
    for kind in (
        InvalidArguments,
        ActionNotFound,
        NotPermitted,
        AgentNotFound,
        MailboxFull,
        RequestTimeout,
        RequestCancelled,
        AgentStopped,
        SpaceClosed,
    )
}


_LONGEST = 1000
"""How many characters of an error's type, or of where it was, travel."""


def error_headers(error: BaseException) -> dict[str, Any]:
    """What travels beside the text of an error."""
    if isinstance(error, ActionError):
        # Not the text, which is in the body: all headers must fit into one frame of 128 kB.
        found = {"outcome": type(error).__name__, "type": error.type[:_LONGEST]}
        if error.where is not None:
            found["where"] = error.where[:_LONGEST]
        return found
    return {"outcome": type(error).__name__}


def error_of(headers: dict[str, Any], args: dict[str, Any]) -> RequestError | None:
    """The error that came; None if none did."""
    outcome = headers.get("outcome")
    if outcome is None:
        return None
    text = str(args.get("error", ""))
    plain = _PLAIN.get(outcome) if isinstance(outcome, str) else None
    if plain is not None:
        return plain(text)
    type_ = str(headers.get("type", outcome))
    said = "" if text == type_ else text.removeprefix(f"{type_}: ")
    where = headers.get("where")
    if outcome == "HopLimitExceeded":
        return HopLimitExceeded(said)
    if outcome == "InDoubt":
        return InDoubt(said, where if isinstance(where, str) else None)
    return ActionError(type_, said, where if isinstance(where, str) else None)
