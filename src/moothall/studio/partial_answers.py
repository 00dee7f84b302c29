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
    from moothall.studio.event_feed import EventFeed

_PUBLISH_INTERVAL_S: Final = 0.1
"""How often pages are told what has grown."""
_MAX_CHARS: Final = 100_000
"""How many characters of an answer grow on a page."""
_MAX_ENDED: Final = 100
"""Of how many replies it is known what they called, until their answer comes."""
_ANSWER_S: Final = 2.0
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
class PartialAnswer:
    """An answer as far as it is written.

    Attributes:
        source: its run and agent, to whom it is and in which thread of theirs
        text: what is written so far
        calls: the actions that the reply has called, before it
    """

    source: _AnswerSource
    text: str = ""
    calls: list[str] = field(default_factory=list)
    sent_chars: int = 0  # how many characters pages have got
    is_scheduled: bool = False  # whether they get more in a moment
    end: float = 0.0  # when its reply ended

    def to_json(self, after: int = 0) -> dict[str, Any]:
        """Return it as pages get it: its text from a character on."""
        return {
            **self.source._asdict(),
            "at": after,
            "text": self.text[after:],
            "calls": self.calls,
        }


class PartialAnswers:
    """Watches agents; publishes what their models write on the topic `growing`.

    Each event has the text from a character on, `at`; a page that lacks what is before it asks for
    all. The answer itself comes as a message or in the journal, and what grew goes.
    """

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._lock = guard()
        self._watched_agents: WeakSet[Threaded] = WeakSet()
        self._answers: dict[_AnswerSource, PartialAnswer] = {}
        self._ended_answers: dict[tuple[str, str], PartialAnswer] = {}

    def watch(self, agent: object, *, drafts: bool = False) -> None:
        """Show what an agent's model writes from now on; with `drafts`, also what it thinks."""
        if isinstance(agent, Threaded):
            with self._lock:
                if agent in self._watched_agents:
                    return
                self._watched_agents.add(agent)
            piece_types = (TextPiece, ReasoningPiece) if drafts else TextPiece
            agent.watch(partial(self._on_event, agent, piece_types))

    def to_json(self) -> list[dict[str, Any]]:
        """Return all that grows now."""
        with self._lock:
            return [each.to_json() for each in self._answers.values()]

    def take_ended(self, agent: str, to: str) -> PartialAnswer | None:
        """Return the reply whose answer an agent has just sent; what grew of it goes."""
        with self._lock:
            answer = self._ended_answers.pop((agent, to), None)
            # An agent without runs does not say when its reply ends.
            open_sources = [
                each
                for each in self._answers
                if (each.run, each.receiver, each.to) == (None, agent, to)
            ]
        self._end(open_sources)
        return answer if answer is not None and time.monotonic() - answer.end < _ANSWER_S else None

    def _on_event(self, agent: Threaded, piece_types: Any, event: Event) -> None:
        if getattr(event, "past", False):
            return
        message = agent.current_message or {}
        thread_name = message.get("action", {}).get("args", {}).get("thread")
        to, thread = message.get("from"), thread_name if isinstance(thread_name, str) else None
        receiver, sent_to = str(agent.id), str(message.get("to"))
        addressee = sent_to if sent_to.startswith("#") else receiver
        source = _AnswerSource(event.run_id, str(event.agent), receiver, addressee, to, thread)
        if isinstance(event, Done):
            self._end([each for each in [*self._answers] if each.run == event.run_id])
        elif isinstance(event, TextPiece | ReasoningPiece):
            if isinstance(event, piece_types) and not event.decides:
                self._grow(source, event.text)
        else:
            self._begin_turn(source, event)

    def _grow(self, source: _AnswerSource, text: str) -> None:
        with self._lock:
            answer = self._answers.setdefault(source, PartialAnswer(source))
            answer.text = (answer.text + text)[:_MAX_CHARS]
            if answer.is_scheduled:
                return
            answer.is_scheduled = True
        asyncio.get_running_loop().call_later(_PUBLISH_INTERVAL_S, self._publish, answer)

    def _begin_turn(self, source: _AnswerSource, event: Event) -> None:
        """Begin anew: what was written is recorded by now."""
        with self._lock:
            answer = self._answers.get(source)
            if isinstance(event, CallStarted):
                answer = answer or self._answers.setdefault(source, PartialAnswer(source))
                answer.calls.append(event.action)
            elif answer is None or not answer.text:
                return
            answer.text, answer.sent_chars = "", 0
        self._publish(answer)

    def _publish(self, answer: PartialAnswer) -> None:
        with self._lock:
            # With the guard: loops of several threads publish, and pieces must keep their order.
            answer.is_scheduled = False
            if self._answers.get(answer.source) is answer:
                self._feed.publish("growing", answer.to_json(answer.sent_chars))
                answer.sent_chars = len(answer.text)

    def _end(self, sources: list[_AnswerSource]) -> None:
        with self._lock:
            for source in sources:
                answer = self._answers.pop(source, None)
                if answer is None:
                    continue
                if answer.calls and source.to is not None:
                    answer.end = time.monotonic()
                    self._ended_answers[source.receiver, source.to] = answer
                    while len(self._ended_answers) > _MAX_ENDED:
                        del self._ended_answers[next(iter(self._ended_answers))]
                self._feed.publish("growing", {**source._asdict(), "over": True})
