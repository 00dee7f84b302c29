"""Who speaks next in a conversation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from civitas.action import is_async
from civitas.errors import CivitasError, DefinitionError, InvalidId
from civitas.jsonvalue import shorten
from civitas.message import address
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.state import ConversationState
from civitas.threads import WORKERS

__all__ = ["Choice", "Handed", "NoChoice", "Order", "RoundRobin", "as_order", "called"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Who speaks next.

    Attributes:
        ids: the participants, at once if there are several; nobody if the conversation is over
        usage: the tokens that choosing took
        detail: why nobody speaks, in words
    """

    ids: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)
    detail: str = ""


class NoChoice(CivitasError):
    """Who speaks next could not be told.

    Attributes:
        usage: the tokens that trying took
    """

    def __init__(self, text: str, usage: Usage) -> None:
        super().__init__(text)
        self.usage = usage


class Handed:
    """Whom a speaker handed over to in its turn.

    Attributes:
        to: a participant; None as long as to nobody
        note: called with it, where that is recorded
    """

    __slots__ = ("note", "to")

    def __init__(self) -> None:
        self.to: str | None = None
        self.note: Callable[[str], None] | None = None

    def over(self, to: str) -> None:
        """Hand over to a participant."""
        self.to = to
        if self.note is not None:
            self.note(to)


class Order:
    """Decides who speaks next. It keeps nothing itself: all it goes by is the conversation's state.

    A subclass needs no more than `choose`.
    """

    async def choose(self, state: ConversationState) -> Choice:
        """Who speaks next.

        Raises:
            NoChoice: it could not be told
        """
        raise NotImplementedError

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse participants that it cannot work with.

        Args:
            agents: the participants by id

        Raises:
            DefinitionError: it cannot
        """

    def over(self, state: ConversationState) -> str | None:
        """Why nobody is to speak any more, where that shows without choosing."""
        return None

    def described(self) -> Any:
        """What it does, as JSON data: a run that is recorded goes on only with the same."""
        return [type(self).__qualname__]

    def speaking(
        self, state: ConversationState, id: str, agent: Any
    ) -> AbstractContextManager[Handed | None]:
        """What surrounds the turn of a participant."""
        return nullcontext()


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
    """The ids that a function named.

    Raises:
        DefinitionError: it named none
    """
    if named is None:
        return ()
    if not isinstance(named, list | tuple):
        return (_id(named, agents),)
    ids = tuple(_id(each, agents) for each in named)
    if len(set(ids)) < len(ids):
        raise DefinitionError(f"next= named one of {list(ids)!r:.200} twice")
    return ids


def _id(named: Any, agents: dict[str, Any]) -> str:
    if not isinstance(named, str | int) or isinstance(named, bool):
        for id, agent in agents.items():
            if agent is named:
                return id
        raise DefinitionError(
            f"next= named {shorten(repr(named))}, which is no participant: it gives an id or a "
            "participant, a list of these for several at once, or None to end"
        )
    try:
        id = address(named)
    except InvalidId:
        id = ""
    if id not in agents:
        raise DefinitionError(
            f"next= named {shorten(repr(named))}, which is no participant; these are "
            f"{shorten(', '.join(map(repr, agents)), 300)}"
        )
    return id


def as_order(given: Any) -> Order:
    """An order, or the one that a function stands for.

    Raises:
        DefinitionError: it is neither
    """
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
