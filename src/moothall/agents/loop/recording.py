"""Recording of the loop: its state, restoring memory and spending, and replay."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from moothall.actions.provenance import merged_sources, origins_of, sources_of
from moothall.actions.provenance.marks import (
    MARKS_FIELD,
    Marks,
    marks_of,
    with_marks,
    without_marks,
)
from moothall.agents.dispatch import block_name
from moothall.agents.loop.call_result import CallResult, error_of
from moothall.agents.replies.charging import OFFSETS
from moothall.agents.replies.events import CallEnded, CallStarted, MessageAdded
from moothall.agents.replies.read_record import ReadRecord
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.agents.replies.resume import overlap, reply_at_end
from moothall.agents.replies.state import APPENDED
from moothall.foundation.errors import MoothallError, NoSuchRun, RunHeld, StateError
from moothall.journal.store.backup import RecordedMessages
from moothall.memory.long_results import RESULT_KEY
from moothall.models.protocol import NO_USAGE, Usage

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ToolCall
    from moothall.agents.loop.parts import Looping
    from moothall.agents.replies.recorded_agent import RecordedAgent
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.budget import Budget
    from moothall.journal import Entry
    from moothall.memory.memory import Memory

logger: logging.Logger = logging.getLogger("moothall.agents")

KIND = "ReActAgent"


class LoopTurn:
    """What a turn adds to its run: it is made aside, and appended once it has ended."""

    __slots__ = ("found_actions", "iteration", "marks", "messages", "steps", "usage")

    def __init__(self, iteration: int = 0) -> None:
        self.iteration: int = iteration  # which answer it handles
        self.usage: Usage = NO_USAGE
        self.found_actions: Sequence[str] = ()  # deferred ones
        self.messages: list[dict[str, Any]] = []
        # Of the messages that have some: each with the number of its message.
        self.marks: Sequence[dict[str, Any]] = ()
        self.steps: Sequence[Step] = ()

    def add(self, message: dict[str, Any], marks: Marks | None = None, number: Any = None) -> None:
        """Add a message; beside it stand its marks, and the number of its result."""
        if (marks is not None or number is not None) and (mark := _mark_data(marks, number)):
            self.marks = [*self.marks, {"message": len(self.messages), **mark}]
        self.messages.append(message)

    def add_result(
        self,
        call: ToolCall,
        content: str | list[dict[str, Any]],
        marks: Marks | None,
        number: list[Any] | None = None,
    ) -> None:
        """Add the message of a call's result."""
        message = {
            "role": "tool",
            "tool_call_id": call.id,
            "name": call.safe_name,
            "content": content,
        }
        self.add(message, marks, number)

    def add_to(self, state: LoopState, ends: bool) -> None:
        """Append it to the turns so far. With `ends` it counts: else the run has it again."""
        if self.marks:
            first = len(state.messages)
            state.marks += [{**each, "message": first + each["message"]} for each in self.marks]
        state.messages += self.messages
        if self.steps:
            state.steps += self.steps
        if self.found_actions:
            state.joined.extend(self.found_actions)
        if ends:
            state.iteration, state.owed, state.open = self.iteration, None, {}
            if self.usage is not NO_USAGE:
                state.usage = state.usage + self.usage


@dataclass(slots=True)
class LoopState(LoopTurn):
    """The state of a run of the loop between two turns: those so far as one, and what they left."""

    iteration: int = 0
    usage: Usage = NO_USAGE
    joined: list[str] = field(default_factory=list, metadata=APPENDED)
    messages: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    marks: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)
    text: str = ""  # the last text that the model gave
    faults: str = ""  # what was wrong with the last answer; empty if nothing
    unusable: int = 0  # how many answers in a row could not be used
    same: int = 0  # how many turns in a row made the same calls with the same results
    alternating: int = 0  # how many turns in a row did as the turn before the last
    allowed: list[str] = field(default_factory=list)  # values from outside that were permitted
    # Of a turn that waits: the messages by which its thread shows it, once others come, and the
    # calls that wait. Then the calls whose results the thread is still to be shown; None: all.
    open: dict[str, Any] = field(default_factory=dict)
    owed: list[int] | None = None
    defers: bool | None = None  # whether actions of servers are deferred, once it is decided

    @property
    def found_actions(self) -> Sequence[str]:
        """The deferred actions that were found; they are recorded as `joined`."""
        return self.joined

    @found_actions.setter
    def found_actions(self, names: Sequence[str]) -> None:
        self.joined[:] = names

    @property
    def outside(self) -> tuple[str, ...]:
        """Return the outside sources of what was read and written."""
        return (*merged_sources(source for each in self.marks for source in sources_of(each)),)

    @property
    def cut_at_end(self) -> str:
        """Return what its last message says to leave out, if that is a refusal; else empty."""
        for last in self.marks[-1:]:
            if last["message"] == len(self.messages) - 1:
                return next(iter(last.get(MARKS_FIELD, {}).get("refused", ())), "")
        return ""

    @property
    def refusal_count(self) -> int:
        """Return how often the server of its model refused what it was sent."""
        return sum("refused" in each.get(MARKS_FIELD, ()) for each in self.marks)

    @property
    def last_message(self) -> dict[str, Any]:
        """Return the last message that is no refusal of what was said before."""
        refused = {e["message"] for e in self.marks if "refused" in e.get(MARKS_FIELD, ())}
        places = reversed(range(len(self.messages)))
        return next(self.messages[place] for place in places if place not in refused)

    def reset_faults(self) -> None:
        """Have no fault and no repetition: the user has spoken."""
        self.faults, self.unusable, self.same, self.alternating = "", 0, 0, -2

    def age_of_same(self, turn: LoopTurn, texts: Mapping[int, Sequence[str]]) -> int:
        """Return 1 if the last turn made the same calls with the same results, 2 if the one before.

        0: neither did. `texts` has the results as the model reads them, by turn; those of an
        earlier process are read in its record.
        """
        steps, place, count = self.steps, len(self.steps), len(turn.steps)
        for age in (1, 2):
            iteration = turn.iteration - age
            while place and steps[place - 1].iteration > iteration:
                place -= 1
            first, at = place - count, -count
            if first < 0 or (first and steps[first - 1].iteration == iteration):
                continue
            for step in turn.steps:
                past = steps[place + at]
                if (past.iteration, past.action, past.args) != (iteration, step.action, step.args):
                    break
                # Not by its value: the action may have changed what it returned before.
                text = texts[iteration][at] if iteration in texts else CallResult(past.result).text
                if text != texts[turn.iteration][at]:
                    break
                at += 1
            else:
                return age
        return 0


def _mark_data(marks: Marks | None, number: Any) -> dict[str, Any]:
    data: dict[str, Any] = {MARKS_FIELD: marks.to_json()} if marks else {}
    return data if number is None else {**data, RESULT_KEY: number}


def cannot_resume(fault: str) -> Stop:
    """Return the Stop for a partly executed answer whose actions the agent no longer has."""
    detail = (
        "calls of an answer were executed before the run was cut off, which cannot be "
        f"resumed: {fault}; give the agent the actions that it had"
    )
    return Stop("error", detail, StateError(detail))


def end_data(reply: Reply) -> dict[str, Any]:
    """Return what is recorded of the end, besides the state."""
    usage = reply.usage.to_json()
    data = {"detail": reply.detail, "text": reply.text, "value": reply.value, "usage": usage}
    return {**data, "under_way": [*reply.under_way]} if reply.under_way else data


def ended_reply(record: ReadRecord[LoopState], schema: AnswerSchema | None = None) -> Reply:
    """Return the reply that a run ended with, its value as the requested type."""
    state, end = record.state or LoopState(), record.over
    assert end is not None
    reply = reply_at_end(record, schema, state.messages, state.steps, Usage(*end["usage"]))
    return replace(reply, outside=state.outside, under_way=(*end.get("under_way", ()),))


def program_of(agent: Looping) -> dict[str, Any]:
    """Return an agent's program: what it does, independent of the request."""
    prompt = agent.system_prompt
    parts: dict[str, Any] = {
        "agent": [KIND, str(agent.id)],
        # Of a function, which one it is.
        "system_prompt": {"function": getattr(prompt, "__qualname__", type(prompt).__qualname__)}
        if callable(prompt)
        else prompt,
        "goals": [
            [goal.priority, goal.name, goal.description] for goal in agent.stated_goals or ()
        ],
        "actions": sorted(
            [action.name, action.description, action.parameters]
            for action in agent.actions.get_actions()
        ),
    }
    if (function := agent.actions_by_context) is not None:
        parts["actions_by_context"] = getattr(function, "__qualname__", "")
    guidance = [*getattr(agent.actions, "guidance", ())]
    guidance += [
        block_name(each) for each in agent.blocks if callable(getattr(each, "guidance", ""))
    ]
    if guidance:
        parts["guidance"] = guidance
    try:
        parts["model"] = getattr(agent.model, "name", None)
    except MoothallError:
        pass  # a model that cannot be made fails at its first call, which in a group is a turn
    return ReadRecord.fingerprint(**parts)


# -- what this process knows -----------------------------------------------------------------------


def catch_up(
    agent: Looping, record: Record[LoopState], memory: Memory, budget: Budget | None
) -> None:
    """Restore memory, scripted-model position and budget from the record."""
    try:
        catch_up_memory(memory, record)
    except Exception as error:
        raise Stop.on_memory(agent.id, error) from error
    record.catch_up(agent.model_or_name, agent.model, budget)


def remember(
    memory: Memory, record: Record[Any], messages: Sequence[dict[str, Any]], first: int = 0
) -> None:
    """Add messages of a run, `first` being the number of the first, to a memory, each once."""
    add_once: Any = getattr(memory, "add_once", None)
    if callable(add_once):
        copied = record.copied
        if messages[1:] and (add_turn := getattr(memory, "add_turn", None)) is not None:
            numbers = range(first, first + len(messages))
            keys = map(record.key_of, numbers) if copied else repeat(record.key)
            add_turn(messages, zip(keys, numbers, strict=False))
            return
        for number, message in enumerate(messages, first):
            add_once(message, record.key_of(number) if copied else record.key, number)
        return
    for message in messages:
        memory.add_memory(message)
    OFFSETS.set(memory, record.key, first + len(messages))


def catch_up_memory(memory: Memory, record: Record[LoopState]) -> None:
    """Add to a memory what it lacks of a run's messages."""
    state, start = record.state, 0
    messages = [] if state is None else with_marks(state.messages, state.marks)
    if (count_of_run := getattr(memory, "count_of_run", None)) is not None:
        if (count := count_of_run(record.key)) > len(messages):  # its journal was restored
            stored: Any = memory
            logger.warning(
                "run %r has no record of what its memory %r has of it, as after a restore of its "
                "journal: %d messages are set aside there",
                *(record.run_id, memory),
                stored.set_aside_later(RecordedMessages(record.run.file)),
            )
        elif not record.copied:  # a copy's first ones are known by the keys of other runs
            start = count
    elif not callable(getattr(memory, "add_once", None)):  # then compare with what it has
        start = record.known_count(memory, "messages") or overlap(
            [*map(without_marks, memory.get_memories())], [*map(without_marks, messages)]
        )
    remember(memory, record, messages[start:], start)


# -- what was recorded -----------------------------------------------------------------------------


def replayed_reply(run_id: str, entries: Iterable[Entry]) -> Reply:
    """Return the reply that a run ended with."""
    return ended_reply(ReadRecord.read(run_id, entries, LoopState))


def call_ids(messages: Iterable[Any]) -> set[str]:
    """Return the ids of the calls in recorded messages, as far as these are what we write."""
    listed = (each.get("tool_calls") for each in messages)
    calls = (call for each in listed if isinstance(each, list) for call in each)
    ids = (call.get("id") for call in calls if isinstance(call, dict))
    return {each for each in ids if isinstance(each, str)}


def tell_past(agent: str, request: ReplyRequest, entries: Sequence[Entry]) -> None:
    """Emit the recorded calls and messages as past events."""
    started: dict[tuple[str, str], str] = {}
    for entry in entries:
        if entry.kind == "state":
            for message in entry.data["appended"].get("messages", ()):
                request.tell(MessageAdded, agent, without_marks(message), past=True)
        for event, *parts in call_events(agent, entry, started):
            request.tell(event, *parts, past=True)


def call_events(
    agent: str, entry: Entry, started: dict[tuple[str, str], str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the events of an action's call from its entry, each as its class and what it takes.

    `started` has the ids of the calls that have begun so far: one that was cut off and is executed
    again has another id then.
    """
    data, details = entry.data, entry.data.get("about", {})
    if (
        entry.kind not in ("started", "ended")
        or not {"action", "iteration", "id"} <= details.keys()
    ):
        return
    key = (entry.path, data["key"])
    call_fields = (agent, details["iteration"], started.get(key, details["id"]), details["action"])
    is_over = entry.kind == "ended"
    # A refused call has no recorded start.
    if key not in started:
        args = data["result"]["args"] if is_over else data.get("args")
        checked_args = args if isinstance(args, dict) else {}
        yield CallStarted, *call_fields, checked_args, origins_of(data.get("origins"))
        started[key] = details["id"]
    if is_over:
        result = data["result"]["result"]
        yield CallEnded, *call_fields, result, error_of(result)


async def show_open_calls(
    agent: RecordedAgent, request: ReplyRequest, record: Record[Any], memory: Memory
) -> None:
    """Have the memory of a thread show the open calls of its other runs, which wait.

    A memory that has nothing of such a run is that of another conversation without a name.
    """
    thread = request.state
    for run_id, last_entry in record.run.waiting_runs:
        if thread.parked_runs.get(run_id, 0) >= last_entry:
            continue
        assert agent.journal is not None
        try:
            part = await agent.journal.begin(run_id, "", "", "")
        except (RunHeld, NoSuchRun):  # it goes on, and shows its calls itself, or was deleted
            continue
        with closing(part):
            other: Record[LoopState] = Record(part, LoopState)
            if other.state is None or not _has_seen(memory, other):
                thread.parked_runs[run_id] = last_entry
                continue
            end = other.over or {"reason": "waiting"}
            if messages := other.state.open.get("messages"):
                for message in messages:
                    other.state.add(
                        without_marks(message), marks_of(message), message.get(RESULT_KEY)
                    )
                other.state.owed, other.state.open = other.state.open["waits"], {}
                other.save(other.state)
                await other.end(**end)  # again: it is what a run ended with that comes last
            catch_up_memory(memory, other)
            thread.parked_runs[run_id] = part.run.end[0]


def _has_seen(memory: Memory, record: Record[Any]) -> bool:
    """Return whether a memory has messages of a run, as one in a file may have."""
    run_keys = getattr(memory, "run_offsets", None) or ()
    in_file = getattr(memory, "is_in_file", False)
    return in_file or record.key in run_keys or OFFSETS.get(memory, record.key) > 0
