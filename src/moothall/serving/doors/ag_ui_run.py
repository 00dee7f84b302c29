"""What the page of a run of AG-UI knows of it: its calls, and what it was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from moothall import CallEnded, CallProgress, CallStarted, Reply
from moothall.build import json_line
from moothall.serving.doors.asks import Ask
from moothall.serving.doors.openai.input import OpenAIRequest
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.served.served_run import Follower


class CallIds:
    """The ids under which a client knows the calls of a run: no other of its thread has one.

    A provider may begin to count anew in each turn, and each member of a group does. The mark
    stands in front: behind it, an id may hold what its provider wants back.
    """

    def __init__(self, run_id: str) -> None:
        self._mark = run_id[:16]
        self._counts: Counter[str] = Counter()
        self._current_ids: dict[tuple[str, str], str] = {}  # of each agent

    def begin(self, agent: str, id: str) -> str:
        """Return the id of a call that begins."""
        earlier_count = self._counts[id]
        self._counts[id] += 1
        new_id = f"{self._mark}.{earlier_count}-{id}" if earlier_count else f"{self._mark}-{id}"
        self._current_ids[agent, id] = new_id
        return new_id

    def current(self, agent: str, id: str) -> str:
        """Return the id of a call that has begun, here or before a restart."""
        return self._current_ids.get((agent, id), f"{self._mark}-{id}")


@dataclass(eq=False)
class PageRun:
    """What the page of a run knows of it, which may take several requests."""

    run_id: str
    tools: frozenset[str]
    client_tool_names: dict[str, str]  # the client's names of its tools, by those that models take
    known_calls: set[str]  # the ids of the calls that the client knows
    calls: dict[str, CallStarted] = field(default_factory=dict)  # those under way, by their ids
    is_version_1: bool = False  # whether the client of this request states that version
    # Of what its run tells: what comes between two requests is for the next.
    reader: Follower = field(init=False)
    events_sent: list[dict[str, Any]] = field(default_factory=list)  # since its last answers
    events_again: list[dict[str, Any]] = field(default_factory=list)  # for answers sent again
    asks_shown: dict[str, Ask] = field(default_factory=dict)
    call_ids: CallIds = field(init=False)

    def __post_init__(self) -> None:
        self.call_ids = CallIds(self.run_id)

    @staticmethod
    def for_request(
        run_id: str, request: OpenAIRequest, known_calls: Iterable[str] = ()
    ) -> PageRun:
        """Return what a page knows of a run by a request."""
        names = frozenset(each.name for each in request.tools)
        return PageRun(run_id, names, request.client_tool_names, {*known_calls})

    def tell_again(self, messages: Any, is_worked_on: bool) -> None:
        """Have the next events be those that were told since its last answers.

        Args:
            messages: those that the client has; of their texts only what it lacks is told
            is_worked_on: whether the run goes on

        Raises:
            BadRequest: it goes on
        """
        events = [*_missing_events(self.events_sent, messages)]
        if not events or events[-1]["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
            if is_worked_on:
                text = "this answer was taken: its run goes on in another request"
                raise BadRequest(text, status=409)
            text = "the run was cancelled, since the client of its request has left"
            events.append({"type": "RUN_ERROR", "message": text, "code": "cancelled"})
        self.events_again = events

    def with_client_id(self, event: Any) -> Any:
        """Return an event of the reply, whose call has the id under which the client knows it."""
        if isinstance(event, CallStarted):
            client_id = self.call_ids.begin(event.agent, event.call_id)
            self.known_calls |= {client_id} if event.call_id in self.known_calls else set()
            return replace(event, call_id=client_id)
        if isinstance(event, CallProgress | CallEnded):
            return replace(event, call_id=self.call_ids.current(event.agent, event.call_id))
        return event

    def find_calls(self, asks: Mapping[str, Ask]) -> None:
        """Find the calls that are asked about."""
        for key, ask in asks.items():
            if key not in self.asks_shown:
                ask.call = ask.call or self._call_of(ask, asks)
                self.asks_shown[key] = ask

    def _call_of(self, ask: Ask, asks: Mapping[str, Ask]) -> str:
        if not ask.is_approval:
            return next(iter(self.calls)) if len(self.calls) == 1 else ""
        asked_calls = {each.call for each in asks.values()}
        call_text = json_line([ask.details["action"], ask.details["args"]])
        matching_ids = (
            id
            for id, each in self.calls.items()
            if id not in asked_calls and json_line([each.action, each.args]) == call_text
        )
        return next(matching_ids, "")

    def pending_calls(self, reply: Reply, agent: str) -> list[str]:
        """Return the calls that a reply leaves to the page."""
        if reply.stop_reason != "terminal":
            return []
        last = [each for each in reply.messages if each.get("tool_calls")][-1]
        calls = (each["id"] for each in last["tool_calls"] if each["name"] in self.tools)
        return [self.call_ids.current(agent, each) for each in calls]


def _missing_events(events: list[dict[str, Any]], messages: Any) -> Iterator[dict[str, Any]]:
    """Yield the events without the pieces of text that the client has."""
    # A client adds a piece to its message of this id: told again, a text would stand there twice.
    texts: dict[str, str] = {}
    for each in messages:
        match each:
            case {"id": str(id), "content": str(text)}:
                texts[id] = text
    for event in events:
        delta, text = event.get("delta"), texts.get(event.get("messageId", ""), "")
        if delta and text:
            texts[event["messageId"]] = text[len(delta) :]
            event = event | {"delta": delta[len(text) :]}
        if delta is None or event["delta"]:
            yield event
