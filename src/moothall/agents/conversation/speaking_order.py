"""Who speaks next in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.actions import Action
from moothall.actions.message import address
from moothall.actions.signature.schema import object_schema
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.replies.group import in_time
from moothall.foundation.arguments import check_boolean, check_function
from moothall.foundation.errors import AskAgain, ConfigError, DefinitionError, MoothallError
from moothall.foundation.text import excerpt, shorten
from moothall.foundation.threads import called, in_worker
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
class Handover:
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

    def over(self, state: ConversationState) -> str | None:
        """Return why the conversation ends, if that is known without choosing; else None."""
        return None

    def described(self) -> Any:
        """Return its settings as JSON data; a recorded run resumes only with equal ones."""
        return [type(self).__qualname__]

    def offered(self, state: ConversationState, id: str, handed: Handover) -> tuple[Action, ...]:
        """Return extra actions for a participant's model in its turn."""
        return ()


async def chosen(order: Order, state: ConversationState, _step: Any) -> Choice:
    """Return who speaks next, if that is known before the budget's time is over."""
    return await in_time(order.choose(state), state.budget, "the next speaker was chosen")  # type: ignore[no-any-return]


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


class _ByFunction(Order):
    def __init__(self, function: Callable[[ConversationState], Any]) -> None:
        self.function = function
        self._agents: dict[str, Any] = {}

    def check(self, agents: dict[str, Any]) -> None:
        self._agents = agents

    def described(self) -> Any:
        function = self.function
        return ["function", getattr(function, "__name__", type(function).__name__)]

    async def choose(self, state: ConversationState) -> Choice:
        named = await of_user(self.function, state)
        if isinstance(named, Order) and not isinstance(named, HandOver):
            named.check(self._agents)
            return await named.choose(state)
        ids = _ids(named, self._agents)
        return Choice(ids, detail="" if ids else "next= named nobody")


def _ids(named: Any, agents: dict[str, Any]) -> tuple[str, ...]:
    if named is None:
        return ()
    several = isinstance(named, list | tuple)
    ids = tuple(_id(each, agents) for each in (named if several else [named]))
    if len(set(ids)) < len(ids):
        raise DefinitionError(f"next= named one of {list(ids)!r:.200} twice")
    return ids


def _id(named: Any, agents: dict[str, Any]) -> str:
    for id, agent in agents.items():
        if agent is named:
            return id
    if isinstance(named, str | int) and not isinstance(named, bool) and str(named) in agents:
        return str(named)
    raise DefinitionError(
        f"next= named {shorten(repr(named))}, which is not a participant: it must give an id or a "
        "participant, a list of these for several at once, ChosenBy(model), or None to end; the "
        "participants are "
        f"{shorten(', '.join(map(repr, agents)), 300)}"
    )


def as_order(given: Any) -> Order:
    """Return an order as it is, or a function as an order."""
    if given is None:
        return RoundRobin()
    if isinstance(given, Order):
        return given
    if callable(given) and not isinstance(given, type):
        check_function("next=", given, "state")
        return _ByFunction(given)
    raise DefinitionError(
        "next= is RoundRobin(), ChosenBy(model), HandOver() or a function of the conversation's "
        f"state, not {given!r:.80}"
    )


async def of_user(function: Callable[[ConversationState], Any], state: ConversationState) -> Any:
    """Call a user's function; if there is a deadline, in a thread, so as not to delay it."""
    budget = state.budget
    is_timed = budget is not None and budget.remaining_seconds() is not None
    return await called(function, state, in_thread=in_worker if is_timed else None)


HAND_OVER: Final = "hand_over"
"""The name of the action."""


def roles_of(about: Mapping[str | int, str] | None, order: str) -> dict[str, str]:
    """Return the role of each participant, by id, of an `about=`."""
    roles = {} if about is None else about
    if not isinstance(roles, Mapping) or not all(isinstance(each, str) for each in roles.values()):
        raise ConfigError(f"{order}: about= must be a text for each id, got {about!r:.80}")
    return {address(id): text for id, text in roles.items()}


class HandOver(Order):
    """The speaker hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to the model of a participant that is a `ReActAgent`, in its turn only.
    It ends the turn; the others hear the message. A speaker that answers without handing over ends
    the conversation with its answer.

    Args:
        first: who speaks first; defaults to the first participant
        about: the role of each participant, by id, for the action's description
        stay: whether each later reply of a thread begins with its last speaker instead of `first`
    """

    def __init__(
        self,
        first: str | int | None = None,
        *,
        about: Mapping[str | int, str] | None = None,
        stay: bool = False,
    ) -> None:
        check_boolean("HandOver: stay=", stay)
        self.stay = stay
        self.first: str | None = None if first is None else address(first)
        self.about: dict[str, str] = roles_of(about, "HandOver")

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse ids that name no participant, and participants with an action of the same name."""
        named = self.about.keys() | ({self.first} if self.first is not None else set())
        if unknown := named - agents.keys():
            raise DefinitionError(f"HandOver names no participant: {sorted(unknown)!r:.200}")
        for id, agent in agents.items():
            find = getattr(getattr(agent, "actions", None), "get_action", None)
            if find is not None and find(HAND_OVER) is not None:
                raise DefinitionError(
                    f"agent {id!r} has an action {HAND_OVER!r} of its own: give it another name"
                )

    def over(self, state: ConversationState) -> str | None:
        """Return the reason to end if the last speaker answered without handing over; else None."""
        if not state.last or state.handed_to is not None:
            return None
        return f"{state.last[0]!r} answered without handing over"

    def described(self) -> Any:
        """Return the settings."""
        return ["HandOver", self.first, self.about, *(["stay"] if self.stay else [])]

    async def choose(self, state: ConversationState) -> Choice:
        """Return the participant that the last speaker handed over to."""
        if reason := self.over(state):
            return Choice((), detail=reason)
        before = (each.speaker for each in reversed(state.transcript) if each.speaker is not None)
        last = next(before, None) if self.stay else None
        return Choice((state.handed_to or last or self.first or state.agents[0],))

    def offered(self, state: ConversationState, id: str, handed: Handover) -> tuple[Action, ...]:
        """Return the action by which a participant hands over in its turn."""
        others = [each for each in state.agents if each != id]
        return (_HandOverAction(handed, others, self.about),) if others else ()

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _HandOverAction(Action):
    """The action `hand_over` for one turn."""

    def __init__(self, handed: Handover, others: list[str], about: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if handed.is_over:
                raise AskAgain("your turn is over: hand over only during your turn")
            if handed.to is not None:
                raise AskAgain(f"you have handed over to {excerpt(handed.to)} already")
            handed.hand_over(to)
            return message

        described = "Hand over to another participant of the conversation, who answers next."
        for id in others:
            if id in about:
                described += f" {excerpt(id)}: {about[id]}"
        super().__init__(HAND_OVER, hand_over, described, {}, terminal=True, idempotent=True)
        # Set here: as an argument, the schema would be checked anew at each turn.
        self._parameters = object_schema(
            to={"type": "string", "enum": others, "description": "who it is"},
            message={"type": "string", "description": "what you tell everyone"},
        )
