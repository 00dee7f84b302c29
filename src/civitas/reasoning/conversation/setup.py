"""What a conversation is made of, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from civitas.errors import DefinitionError
from civitas.message import address
from civitas.reasoning.conversation.order import Order, as_order
from civitas.reasoning.conversation.state import ConversationState
from civitas.reasoning.conversation.termination import Condition, as_condition

MAX_TURNS: Final = 20
"""How many turns one reply may have, if neither `max_turns` nor `until` says it."""
_RULES: Final = ("all", "any", "none")


@dataclass(slots=True)
class Setup:
    """What a conversation is made of, as `Conversation` describes it."""

    id: str
    agents: dict[str, Any]
    next: Order
    until: Condition | None
    max_turns: int
    max_kept: int
    stop_if_failed: str


def set_up(
    id: str,
    agents: Iterable[Any],
    next: Order | Callable[[ConversationState], Any] | None,
    until: Condition | Callable[[ConversationState], Any] | None,
    max_turns: int | None,
    max_kept: int,
    stop_if_failed: str,
) -> Setup:
    """What `Conversation` was given, checked."""
    participants, order = _participants(agents, id), as_order(next)
    order.check(participants)
    condition = None if until is None else as_condition(until)
    if condition is not None and (unknown := condition.ids() - participants.keys()):
        raise DefinitionError(
            f"conversation {id!r}: until={condition} waits for {sorted(unknown)!r:.200}, "
            "who takes no part"
        )
    if max_turns is None:
        bound = condition.most_turns() if condition is not None else None
        max_turns = MAX_TURNS if bound is None else bound
    for number, what in ((max_turns, "max_turns"), (max_kept, "max_kept")):
        if type(number) is not int or number < 1:
            raise DefinitionError(f"conversation {id!r}: {what}= is 1 or more, not {number!r:.80}")
    if stop_if_failed not in _RULES:
        raise DefinitionError(
            f"conversation {id!r}: stop_if_failed= is one of {', '.join(_RULES)}, not "
            f"{stop_if_failed!r:.80}"
        )
    return Setup(id, participants, order, condition, max_turns, max_kept, stop_if_failed)


def _participants(agents: Iterable[Any], id: str) -> dict[str, Any]:
    """The participants by id."""
    if isinstance(agents, str | dict) or not isinstance(agents, Iterable):
        raise DefinitionError(
            f"conversation {id!r}: agents= is a list of agents, not {agents!r:.80}"
        )
    found: dict[str, Any] = {}
    for agent in agents:
        missing = [n for n in ("id", "reply", "observe") if not hasattr(agent, n)]
        if missing or isinstance(agent, type):
            given = f"the class {agent.__name__}" if isinstance(agent, type) else repr(agent)[:80]
            raise DefinitionError(
                f"conversation {id!r}: a participant has id, reply and observe, and {given} has "
                f"not{' ' + ', '.join(missing) if missing else ''}"
            )
        name = address(agent.id)
        if name in found:
            raise DefinitionError(
                f"conversation {id!r}: two participants have the id {name!r}: give each its own"
            )
        found[name] = agent
    if not found:
        raise DefinitionError(f"conversation {id!r} has no participants")
    return found
