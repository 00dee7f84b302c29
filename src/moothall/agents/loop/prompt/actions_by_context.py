"""Actions that a function gives for each reply, such as those of a customer or a role."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from moothall.actions import Action
from moothall.agents.context import Context
from moothall.agents.loop.answer import as_action
from moothall.agents.loop.parts import registry_of
from moothall.foundation.arguments import can_take
from moothall.foundation.threads import awaited

if TYPE_CHECKING:
    from moothall.agents.loop.parts import ActionsByContext


def takes_context(function: Any) -> bool:
    """Return whether `actions=` is a function of the Context, and no action, registry or list."""
    parts = ("__iter__", "get_actions", "__moothall_action__")
    is_other = isinstance(function, (type, Action)) or any(hasattr(function, p) for p in parts)
    if is_other or not can_take(function, 1):
        return False
    first = next(iter(inspect.signature(function).parameters.values()))
    kind = getattr(first.annotation, "__origin__", first.annotation)
    named_by_text = isinstance(kind, str) and kind.partition("[")[0].endswith("Context")
    return kind is first.empty or kind is Any or kind is Context or named_by_text


async def actions_by_context(
    function: ActionsByContext, context: Context[Any]
) -> tuple[Action, ...]:
    """Return the actions of a reply.

    Raises:
        TypeError: the function has returned what is no list of actions
        DefinitionError: one cannot be described, or two have one name
    """
    result: Any = await awaited(function(context))
    if result is None or isinstance(result, (str, bytes, dict)) or not hasattr(result, "__iter__"):
        got = "one action: put it in a list" if callable(result) else repr(result)[:80]
        raise TypeError(f"it must return a list of actions, got {got}")
    registry = registry_of([*result])
    if registry.blocks or registry.sources or registry.guidance:
        raise TypeError(
            "it must return actions alone: servers of actions and skills, which bring more, "
            "belong into blocks= or the actions= of another agent"
        )
    return tuple(map(as_action, registry.get_actions()))
