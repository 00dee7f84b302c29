"""Who speaks next in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moothall.actions import Action
from moothall.actions.message import address
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.replies.group import await_in_time
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import ConfigError, DefinitionError, MoothallError
from moothall.foundation.text import shorten
from moothall.foundation.threads import call_user, in_worker
from moothall.models.protocol import Usage


@dataclass(frozen=True, slots=True)
class Choice:
    """Who speaks next, at once if several; no id ends the conversation, and `detail` says why."""

    ids: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)
    detail: str = ""


class NoChoice(MoothallError):
    """The next speaker could not be chosen; `usage` is the tokens that trying took."""

    def __init__(self, text: str, usage: Usage) -> None:
        super().__init__(text)
        self.usage = usage


@dataclass(slots=True)
class Transfer:
    """The participant that a speaker handed over to in its turn, or None; `note` records it."""

    note: Callable[[str], None]
    to: str | None = None
    is_over: bool = False  # whether the speaker's turn is over

    def hand_over(self, to: str) -> None:
        """Hand over to a participant."""
        self.to = to
        self.note(to)


class Order:
    """Decides who speaks next, from the conversation's state alone; it has no state of its own.

    A subclass needs only `choose`.
    """

    async def choose(self, state: ConversationState) -> Choice:
        """Return who speaks next; raise NoChoice if it cannot decide."""
        raise NotImplementedError

    def check(self, agents: dict[str, Any]) -> None:
        """Raise DefinitionError for participants that it cannot work with."""

    def end_reason(self, state: ConversationState) -> str | None:
        """Return why the conversation ends, if that is known without choosing; else None."""
        return None

    def settings_data(self) -> Any:
        """Return its settings as JSON data; a recorded run resumes only with equal ones."""
        return [type(self).__qualname__]

    def offer(self, state: ConversationState, id: str, transfer: Transfer) -> tuple[Action, ...]:
        """Return extra actions for a participant's model in its turn."""
        return ()


async def choose_in_time(order: Order, state: ConversationState, _step: Any) -> Choice:
    """Return who speaks next, if that is known before the budget's time is over."""
    return await await_in_time(order.choose(state), state.budget, "the next speaker was chosen")  # type: ignore[no-any-return]


class RoundRobin(Order):
    """The participants speak in the given order, again and again.

    Each reply starts with the first.
    """

    async def choose(self, state: ConversationState) -> Choice:
        """Return the participant after the last speaker."""
        if not state.last:
            return Choice(state.agents[:1])
        place = state.agents.index(state.last[-1]) + 1
        return Choice((state.agents[place % len(state.agents)],))

    def __repr__(self) -> str:
        return "RoundRobin()"


class _FunctionOrder(Order):
    def __init__(self, function: Callable[[ConversationState], Any]) -> None:
        self.function = function

    def settings_data(self) -> Any:
        function = self.function
        return ["function", getattr(function, "__name__", type(function).__name__)]

    async def choose(self, state: ConversationState) -> Choice:
        choice = await call_with_state(self.function, state)
        # One that offers actions, as HandOver does, must be the conversation's own.
        if isinstance(choice, Order) and type(choice).offer is Order.offer:
            choice.check(state.participants)
            return await choice.choose(state)
        ids = _ids(choice, state.participants)
        return Choice(ids, detail="" if ids else "next= named nobody")


def _ids(choice: Any, agents: dict[str, Any]) -> tuple[str, ...]:
    if choice is None:
        return ()
    is_list = isinstance(choice, list | tuple)
    ids = tuple(_id(each, agents) for each in (choice if is_list else [choice]))
    if len(set(ids)) < len(ids):
        raise DefinitionError(f"next= named one of {list(ids)!r:.200} twice")
    return ids


def _id(choice: Any, agents: dict[str, Any]) -> str:
    for id, agent in agents.items():
        if agent is choice:
            return id
    if isinstance(choice, str | int) and not isinstance(choice, bool) and str(choice) in agents:
        return str(choice)
    raise DefinitionError(
        f"next= named {shorten(repr(choice))}, which is not a participant: it must give an id or a "
        "participant, a list of these for several at once, ChosenBy(model), or None to end; the "
        "participants are "
        f"{shorten(', '.join(map(repr, agents)), 300)}"
    )


def as_order(order: Any) -> Order:
    """Return an order as it is, or a function as an order."""
    if order is None:
        return RoundRobin()
    if isinstance(order, Order):
        return order
    if callable(order) and not isinstance(order, type):
        check_function("next=", order, "state")
        return _FunctionOrder(order)
    raise DefinitionError(
        "next= is RoundRobin(), ChosenBy(model), HandOver() or a function of the conversation's "
        f"state, not {order!r:.80}"
    )


async def call_with_state(
    function: Callable[[ConversationState], Any], state: ConversationState
) -> Any:
    """Call a user's function; if there is a deadline, in a thread, so as not to delay it."""
    budget = state.budget
    is_timed = budget is not None and budget.remaining_seconds() is not None
    return await call_user(function, state, in_thread=in_worker if is_timed else None)


def roles_of(role_texts: Mapping[str | int, str] | None, order: str) -> dict[str, str]:
    """Return the role of each participant, by id, of an `about=`."""
    roles = {} if role_texts is None else role_texts
    if not isinstance(roles, Mapping) or not all(isinstance(each, str) for each in roles.values()):
        raise ConfigError(f"{order}: about= must be a text for each id, got {role_texts!r:.80}")
    return {address(id): text for id, text in roles.items()}
