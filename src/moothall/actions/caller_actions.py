"""Actions that are left to the caller: the model may call them, and the caller executes them."""

from __future__ import annotations

from typing import Any, Final

from moothall.actions.capability import Action

LEFT_TO_CALLER: Final = "(the caller executes this call)"
"""The result of a call that the caller executes, until the caller sends the real result."""


def left_to_caller(name: str, description: str, parameters: dict[str, Any]) -> Action:
    """Return such an action: the reply ends with a call of it.

    Nobody knows what it reads; the caller guards what it does.
    """
    return Action(name, _leave_to_caller, description, parameters, True, outside=True, guard=())


def _leave_to_caller(**args: Any) -> str:
    return LEFT_TO_CALLER
