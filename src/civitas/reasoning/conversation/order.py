"""Who speaks next in a conversation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from civitas.action import Action, is_async
from civitas.errors import CivitasError, DefinitionError
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.state import ConversationState
from civitas.text import shorten
from civitas.threads import WORKERS


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
        named = await called(self.function, state)
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


async def called(function: Callable[[ConversationState], Any], state: ConversationState) -> Any:
    """What a function gives, plain or `async`.

    Where there is a deadline a plain one is called in a worker thread: it cannot be stopped, but it
    need not be waited for.
    """
    budget = state.budget
    if budget is None or budget.remaining_seconds() is None or is_async(function):
        given = function(state)
    else:
        given = await WORKERS.run(asyncio.get_running_loop(), function, state)
    return await given if inspect.isawaitable(given) else given
