"""The loop as it is recorded: its state, what it remembers and has spent, what is replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from civitas.errors import CivitasError, DeadlineExceeded
from civitas.models.protocol import Usage
from civitas.reasoning.charging import charge_spent, spending
from civitas.reasoning.events import CallEnded, CallStarted, Event, MessageAdded
from civitas.reasoning.read_record import ReadRecord, fingerprint
from civitas.reasoning.record import APPENDED, Record
from civitas.reasoning.reply import Reply, Step, Stop
from civitas.reasoning.reply_request import AnswerSchema
from civitas.reasoning.resume import Marks, overlap, value_at_end

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Entry
    from civitas.journal.run import RecordedPart
    from civitas.memory.memory import Memory
    from civitas.reasoning.loop.parts import LoopAgent
    from civitas.reasoning.reply_request import Asked

KIND = "ReActAgent"
_MARKS = Marks()


@dataclass(slots=True)
class LoopState:
    """How far a run of the loop has come: its state between two turns."""

    iteration: int = 0  # how many answers were dealt with
    text: str = ""  # the last text that the model gave
    faults: str = ""  # what was wrong with the last answer; empty if nothing
    same: int = 0  # how often the last calls came to the same, one after the other
    # Those calls, each with its name, arguments and the result that the model was shown.
    before: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    messages: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)


def over(reply: Reply) -> dict[str, Any]:
    """What is recorded of the end, beside the state."""
    usage = [reply.usage.input_tokens, reply.usage.output_tokens]
    return {"detail": reply.detail, "text": reply.text, "value": reply.value, "usage": usage}


def as_it_ended(record: ReadRecord[LoopState], schema: AnswerSchema | None = None) -> Reply:
    """The reply that a run ended with, its value as the type that is asked for."""
    state, over = record.state or LoopState(), record.over
    assert over is not None
    said = (over["text"], value_at_end(over, schema), state.messages, state.steps)
    why = (over["reason"], over["detail"], None, record.run_id)
    return Reply(*said, Usage(*over["usage"]), *why)


def program_of(agent: LoopAgent) -> dict[str, Any]:
    """What an agent does, whatever it is asked."""
    parts: dict[str, Any] = {
        "agent": [KIND, str(agent.id)],
        "system_prompt": agent.system_prompt,
        "goals": [[goal.priority, goal.name, goal.description] for goal in agent._goals or ()],
        "actions": sorted(
            [action.name, action.description, action.parameters]
            for action in agent.actions.get_actions()
        ),
    }
    try:
        parts["model"] = getattr(agent.model, "name", None)
    except CivitasError:
        pass  # one that cannot be made fails where it is asked, which in a group is a turn
    return fingerprint(**parts)


# -- what this process knows -----------------------------------------------------------------------


def catch_up(
    agent: LoopAgent, record: Record[LoopState], memory: Memory, budget: Budget | None
) -> None:
    """Have this process know what was recorded: its memory, its model, its budget."""
    try:
        _catch_up_memory(memory, record)
    except Exception as error:
        raise Stop.on_memory(agent.id, error) from error
    catch_up_models(record, agent._model, agent.model, budget)


def catch_up_models(record: Record[Any], known: Any, model: Any, budget: Budget | None) -> None:
    """Have a model and a budget of this process know the answers that were recorded."""
    entries = record.entries()
    skip: Callable[[int], None] | None = getattr(model, "skip", None)
    answers = spending(entries[_known(known, record) :]).answers
    _MARKS.set(known, record.key, len(entries))
    if answers and callable(skip):
        skip(answers)
    late: DeadlineExceeded | None = None
    # A budget made for this reply knows less than what it is a part of, which was charged before.
    for account, alone in () if budget is None else budget._each():
        before = _known(account, record)
        if before < len(entries):
            _MARKS.set(account, record.key, len(entries))  # it counts, also if it is too much
            try:
                charge_spent(alone, model, spending(entries[before:]))
            except DeadlineExceeded as error:
                late = late or error
    if late is not None:
        raise late


def note_known(record: Record[Any], model: Any, budget: Budget | None) -> None:
    """Have a model and a budget of this process know what it has recorded itself."""
    accounts = () if budget is None else budget._accounts
    for each in (model, *accounts):
        _MARKS.set(each, record.key, record.count)


def remember(
    memory: Memory, record: Record[Any], messages: Sequence[dict[str, Any]], first: int = 0
) -> None:
    """Have a memory remember messages of a run, of which the first has this number.

    A memory with `add_once` takes the run and the number, and remembers each message once.
    """
    once: Any = getattr(memory, "add_once", None)
    for number, message in enumerate(messages, first):
        if callable(once):
            once(message, record.key_of(number), number)
        else:
            memory.add_memory(message)
    _MARKS.set(memory, record.key, first + len(messages))


def _catch_up_memory(memory: Memory, record: Record[LoopState]) -> None:
    """Have a memory remember the messages that were recorded, each once."""
    messages = record.state.messages if record.state is not None else []
    after = 0
    if not callable(getattr(memory, "add_once", None)):  # then it is seen what it has
        after = _MARKS.get(memory, record.key)
        for each in record.copied:
            after = max(after, min(_MARKS.get(memory, each["key"]), each["messages"]))
        after = after or overlap(memory.get_memories(), messages)
    remember(memory, record, messages[after:], after)


def _known(of: Any, record: Record[Any]) -> int:
    """How many entries of a run an object knows, from this run or from that it is a copy of."""
    known = _MARKS.get(of, record.key)
    for each in record.copied:
        known = max(known, min(_MARKS.get(of, each["key"]), each["entries"]))
    return known


# -- what was recorded -----------------------------------------------------------------------------


def replayed(part: RecordedPart) -> Reply:
    """The reply that a run ended with."""
    return as_it_ended(ReadRecord(part, LoopState))


def past_events(agent: str, asked: Asked, entries: Sequence[Entry]) -> list[Event]:
    """What happened in the process before, for whoever looks on."""
    of: dict[str, Any] = {"past": True, **asked.of_run}
    events: list[Event] = []
    begun = set()
    for entry in entries:
        data = entry.data
        if entry.kind == "state":
            messages = data["appended"].get("messages", ())
            events.extend(MessageAdded(agent, message, **of) for message in messages)
        about = data.get("about", {})
        if entry.kind not in ("started", "ended") or "action" not in about:
            continue
        common = (agent, about["iteration"], about["id"], about["action"])
        args = data.get("args")
        if entry.kind == "ended":
            args = data["result"]["args"]
        # What was refused has an end alone.
        if data["key"] not in begun:
            events.append(CallStarted(*common, args or {}, **of))
        begun.add(data["key"])
        if entry.kind == "ended":
            result = data["result"]["result"]
            error = result.get("error")
            events.append(CallEnded(*common, result, None if error is None else str(error), **of))
    return events
