"""Who speaks next in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from civitas.action import Action
from civitas.errors import AskAgain, CivitasError, DefinitionError
from civitas.message import address
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.state import ConversationState
from civitas.reasoning.members import called
from civitas.text import excerpt, shorten


@dataclass(frozen=True, slots=True)
class Choice:
    """Who speaks next: several speak at once, and nobody ends the conversation; `detail` says why.

    `usage` are the tokens that choosing took.
    """

    ids: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)
    detail: str = ""


class NoChoice(CivitasError):
    """Who speaks next could not be told; `usage` are the tokens that trying took."""

    def __init__(self, text: str, usage: Usage) -> None:
        super().__init__(text)
        self.usage = usage


@dataclass(slots=True)
class Handed:
    """Whom a speaker handed over to in its turn, or None; `note` is called with it."""

    note: Callable[[str], None]
    to: str | None = None
    is_over: bool = False  # whether the turn in which it could is over

    def over(self, to: str) -> None:
        """Hand over to a participant."""
        self.to = to
        self.note(to)


class Order:
    """Decides who speaks next. It keeps nothing itself: all it goes by is the conversation's state.

    A subclass needs no more than `choose`.
    """

    async def choose(self, state: ConversationState) -> Choice:
        """Who speaks next; raises NoChoice if that could not be told."""
        raise NotImplementedError

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse participants that it cannot work with, by a DefinitionError."""

    def over(self, state: ConversationState) -> str | None:
        """Why nobody is to speak any more, where that shows without choosing."""
        return None

    def described(self) -> Any:
        """What it does, as JSON data: a run that is recorded goes on only with the same."""
        return [type(self).__qualname__]

    def offered(self, state: ConversationState, id: str, handed: Handed) -> tuple[Action, ...]:
        """The actions that a participant's model has for its turn, beside its own."""
        return ()


class RoundRobin(Order):
    """One after the other as they were given, and then from the start again.

    Each reply starts with the first.
    """

    async def choose(self, state: ConversationState) -> Choice:
        """The one after the last speaker."""
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
        ids = _ids(named, self._agents)
        return Choice(ids, detail="" if ids else "next= named nobody")


def _ids(named: Any, agents: dict[str, Any]) -> tuple[str, ...]:
    """The ids that a function named."""
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
        f"next= named {shorten(repr(named))}, which is no participant: it gives an id or a "
        "participant, a list of these for several at once, or None to end; the participants are "
        f"{shorten(', '.join(map(repr, agents)), 300)}"
    )


def as_order(given: Any) -> Order:
    """An order, or the one that a function stands for."""
    if given is None:
        return RoundRobin()
    if isinstance(given, Order):
        return given
    if callable(given) and not isinstance(given, type):
        return _ByFunction(given)
    raise DefinitionError(
        "next= is RoundRobin(), ChosenBy(model), HandOver() or a function of the conversation's "
        f"state, not {given!r:.80}"
    )


async def of_user(function: Callable[[ConversationState], Any], state: ConversationState) -> Any:
    """What a function of the user's gives; where there is a deadline it cannot hold it up."""
    budget = state.budget
    is_timed = budget is not None and budget.remaining_seconds() is not None
    return await called(function, state, in_thread=is_timed)


HAND_OVER: Final = "hand_over"
"""The name of the action."""


class HandOver(Order):
    """The one who speaks hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to the model of a participant that is a `ReActAgent`, for its turn alone.
    It ends the turn; the message is what the others hear. Who answers without handing over ends the
    conversation with its answer.

    Args:
        first: who speaks first; the first participant if left out
        about: what each participant is there for, by id; it stands in the action's description
    """

    def __init__(
        self,
        first: str | int | None = None,
        *,
        about: Mapping[str | int, str] | None = None,
    ) -> None:
        self.first = None if first is None else address(first)
        self.about = {address(id): text for id, text in (about or {}).items()}

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse a first who takes no part, and participants with an action of the same name."""
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
        """Whether the last speaker has answered without handing over."""
        if not state.last or state.handed_to is not None:
            return None
        return f"{state.last[0]!r} answered without handing over"

    def described(self) -> Any:
        """Who is first, and what is told of each."""
        return ["HandOver", self.first, self.about]

    async def choose(self, state: ConversationState) -> Choice:
        """Whoever was handed over to."""
        if reason := self.over(state):
            return Choice((), detail=reason)
        return Choice((state.handed_to or self.first or state.agents[0],))

    def offered(self, state: ConversationState, id: str, handed: Handed) -> tuple[Action, ...]:
        """The action by which a participant hands over, for its turn."""
        others = [each for each in state.agents if each != id]
        return (_HandOverAction(handed, others, self.about),) if others else ()

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _HandOverAction(Action):
    """Handing over, of one turn."""

    def __init__(self, handed: Handed, others: list[str], about: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if handed.is_over:
                raise AskAgain("the turn in which this could be done is over")
            if handed.to is not None:
                raise AskAgain(f"you have handed over to {excerpt(handed.to)} already")
            handed.over(to)
            return message

        described = "Hand over to another participant of the conversation, who answers next."
        for id in others:
            if id in about:
                described += f" {excerpt(id)}: {about[id]}"
        super().__init__(HAND_OVER, hand_over, described, {}, terminal=True, idempotent=True)
        # Not given above, where it would be checked anew at each turn.
        self._parameters = {
            "type": "object",
            "properties": {
                "to": {"type": "string", "enum": others, "description": "who it is"},
                "message": {"type": "string", "description": "what you tell everyone"},
            },
            "required": ["to", "message"],
            "additionalProperties": False,
        }
