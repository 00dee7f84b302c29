"""The answers that models are writing now, as far as they are written, for every page."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

from moothall import CallStarted, Done, ReasoningPiece, TextPiece
from moothall.build import Threaded, guard

if TYPE_CHECKING:
    from moothall import Event
    from moothall.studio.feed import EventFeed

_PAUSE_S: Final = 0.1
"""How often pages are told what has grown."""
_MAX_CHARS: Final = 100_000
"""How many characters of an answer grow on a page."""
_MOST_ENDED: Final = 100
"""Of how many replies it is known what they called, until their answer comes."""
_COMES_S: Final = 2.0
"""How soon after a reply its answer comes."""


class _AnswerSource(NamedTuple):
    """Whose answer it is: of what run and agent, for which agent that was asked, to whom.

    A participant of a conversation writes for the conversation. `addressee` is the receiver, or the
    group `#NAME` of which it is a member.
    """

    run: str | None
    agent: str
    receiver: str
    addressee: str
    to: str | None
    thread: str | None


@dataclass(eq=False)
class Growth:
    """An answer that grows.

    Attributes:
        whose: its run and agent, to whom it is and in which thread of theirs
        text: what is written so far
        calls: the actions that the reply has called, before it
    """

    source: _AnswerSource
    text: str = ""
    calls: list[str] = field(default_factory=list)
    sent_chars: int = 0  # how many characters pages have got
    is_scheduled: bool = False  # whether they get more in a moment
    at: float = 0.0  # when its reply ended

    def to_json(self, after: int = 0) -> dict[str, Any]:
        """Return it as pages get it: its text from a character on."""
        return {
            **self.source._asdict(),
            "at": after,
            "text": self.text[after:],
            "calls": self.calls,
        }


class Growing:
    """Watches agents; publishes what their models write on the topic `growing`.

    Each event has the text from a character on, `at`; a page that lacks what is before it asks for
    all. The answer itself comes as a message or in the journal, and what grew goes.
    """

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._guard = guard()
        self._watched: WeakSet[Threaded] = WeakSet()
        self._growths: dict[_AnswerSource, Growth] = {}
        self._ended_growths: dict[tuple[str, str], Growth] = {}

    def watch(self, agent: object, *, drafts: bool = False) -> None:
        """Show what an agent's model writes from now on; with `drafts`, also what it thinks."""
        if isinstance(agent, Threaded):
            with self._guard:
                if agent in self._watched:
                    return
                self._watched.add(agent)
            kinds = (TextPiece, ReasoningPiece) if drafts else TextPiece
            agent.watch(partial(self._on_event, agent, kinds))

    def to_json(self) -> list[dict[str, Any]]:
        """Return all that grows now."""
        with self._guard:
            return [each.to_json() for each in self._growths.values()]

    def answered(self, agent: str, to: str) -> Growth | None:
        """Return the reply whose answer an agent has just sent; what grew of it goes."""
        with self._guard:
            growth = self._ended_growths.pop((agent, to), None)
            # An agent without runs does not say when its reply ends.
            open = [
                each
                for each in self._growths
                if (each.run, each.receiver, each.to) == (None, agent, to)
            ]
        self._end(open)
        return growth if growth is not None and time.monotonic() - growth.at < _COMES_S else None

    def _on_event(self, agent: Threaded, kinds: Any, event: Event) -> None:
        if getattr(event, "past", False):
            return
        message = agent.current_message or {}
        thread_name = message.get("action", {}).get("args", {}).get("thread")
        to, thread = message.get("from"), thread_name if isinstance(thread_name, str) else None
        receiver, sent_to = str(agent.id), str(message.get("to"))
        addressee = sent_to if sent_to.startswith("#") else receiver
        source = _AnswerSource(event.run_id, str(event.agent), receiver, addressee, to, thread)
        if isinstance(event, Done):
            self._end([each for each in [*self._growths] if each.run == event.run_id])
        elif isinstance(event, TextPiece | ReasoningPiece):
            if isinstance(event, kinds) and not event.decides:
                self._grow(source, event.text)
        else:
            self._turn(source, event)

    def _grow(self, source: _AnswerSource, text: str) -> None:
        with self._guard:
            growth = self._growths.setdefault(source, Growth(source))
            growth.text = (growth.text + text)[:_MAX_CHARS]
            if growth.is_scheduled:
                return
            growth.is_scheduled = True
        asyncio.get_running_loop().call_later(_PAUSE_S, self._tell, growth)

    def _turn(self, source: _AnswerSource, event: Event) -> None:
        """Begin anew: what was written is recorded by now."""
        with self._guard:
            growth = self._growths.get(source)
            if isinstance(event, CallStarted):
                growth = growth or self._growths.setdefault(source, Growth(source))
                growth.calls.append(event.action)
            elif growth is None or not growth.text:
                return
            growth.text, growth.sent_chars = "", 0
        self._tell(growth)

    def _tell(self, growth: Growth) -> None:
        with self._guard:
            growth.is_scheduled = False
            if self._growths.get(growth.source) is growth:
                self._feed.publish("growing", growth.to_json(growth.sent_chars))
                growth.sent_chars = len(growth.text)

    def _end(self, sources: list[_AnswerSource]) -> None:
        with self._guard:
            for source in sources:
                growth = self._growths.pop(source, None)
                if growth is None:
                    continue
                if growth.calls and source.to is not None:
                    growth.at = time.monotonic()
                    self._ended_growths[source.receiver, source.to] = growth
                    while len(self._ended_growths) > _MOST_ENDED:
                        del self._ended_growths[next(iter(self._ended_growths))]
                self._feed.publish("growing", {**source._asdict(), "over": True})
