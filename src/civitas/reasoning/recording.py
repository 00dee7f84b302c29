"""A run of the loop as it is recorded in a journal, and taken up again from there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from civitas.errors import CivitasError, StateError
from civitas.journal import Entry, Record
from civitas.journal.marks import Marks
from civitas.reasoning.charging import charge, spending
from civitas.reasoning.events import CallEnded, CallStarted, Event, MessageAdded
from civitas.reasoning.fingerprint import check, check_kind, fingerprint
from civitas.reasoning.jsonform import answer_json, as_json
from civitas.reasoning.parsing import Wanted
from civitas.reasoning.past import Past
from civitas.reasoning.reply import Reply
from civitas.reasoning.schema import AnswerSchema

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.budget.bill import Bill
    from civitas.memory.memory import Memory
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.react import ReActAgent

__all__ = ["Recording", "begun", "catch_up", "program_of", "replayed"]

logger = logging.getLogger("civitas.reasoning")

_MARKS = Marks()


class Recording:
    """What one run of the loop writes down, and what had been written before.

    A message is remembered once it is recorded, so that a memory never holds what the journal does
    not: what comes after it might come out differently the next time.

    Attributes:
        past: what had been recorded
    """

    def __init__(self, agent: ReActAgent, record: Record, asked: Asked, memory: Memory) -> None:
        self.past = Past(record.run_id, record.past)
        self._agent = agent
        self._record = record
        self._asked = asked
        self._memory = memory
        self._unwritten: list[dict[str, Any]] = []  # messages that are not noted yet
        self._told: list[dict[str, Any]] = []  # noted, and not yet remembered
        self._remembered = len(self.past.messages)
        self._entries = len(record.past)
        self._over = False
        self._bill: Bill | None = None  # of the call that is under way

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._record.run_id

    def recall(self) -> None:
        """Have this process know what was recorded: its memory, its model, its budget.

        Raises:
            BudgetExceeded: the budget does not reach for what the run has spent already
        """
        emit = self._asked.emit
        if emit is not None:
            for event in _events(str(self._agent.id), self._record.past):
                emit(event)
        _recall(self._agent, self._record, self._memory)

    def begin(self, about: dict[str, Any]) -> None:
        """Note what the run begins with."""
        self._note("begun", about)

    def remember(self, message: dict[str, Any]) -> None:
        """Note a message; with the next commit it is remembered."""
        self._unwritten.append(message)

    def heard(self) -> None:
        """Note that the user has spoken meanwhile."""
        self._note_messages()
        self._note("heard", {})

    @property
    def untold(self) -> list[dict[str, Any]]:
        """The messages that will be remembered with the next commit."""
        return [*self._told, *self._unwritten]

    def asking(
        self, iteration: int, bill: Bill | None = None, reserved: dict[str, Any] | None = None
    ) -> None:
        """Note that the model is asked.

        Args:
            iteration: for which answer
            bill: what the call comes to; None without a budget
            reserved: what it will reserve, which counts if no more is heard of it
        """
        self._note_messages()
        self._bill = bill
        known = {} if reserved is None else {"reserved": reserved}
        self._note("asked", {"iteration": iteration, **known})

    def answered(self, iteration: int, answer: Any) -> None:
        """Note the model's answer, and what was charged for it."""
        data = {"iteration": iteration, "answer": answer_json(answer)}
        self._note("answered", data | self._charged())

    def failed(self, iteration: int, error: BaseException) -> None:
        """Note that the model gave none, and what was charged all the same."""
        told = f"{type(error).__name__}: {error}"
        data = {"iteration": iteration, "error": as_json(told)}
        self._note("failed", data | self._charged())

    def unanswered(self, iteration: int) -> None:
        """Note what was charged for a call of which nothing else is noted."""
        charged = self._charged()
        if charged:
            self._note("charged", {"iteration": iteration, **charged})

    def _charged(self) -> dict[str, Any]:
        bill, self._bill = self._bill, None
        return {} if bill is None else {"charged": bill.json()}

    def started(self, iteration: int, place: int, call: Wanted) -> None:
        """Note that a call is executed."""
        assert call.action is not None
        data = {
            "iteration": iteration,
            "call": place,
            "id": call.id,
            "action": call.name,
            "args": call.args,
            "idempotent": call.action.idempotent is True,
        }
        self._note("started", data)

    def ended(
        self, iteration: int, place: int, call: Wanted, result: dict[str, Any], error: str | None
    ) -> None:
        """Note what came of a call."""
        data = {
            "iteration": iteration,
            "call": place,
            "id": call.id,
            "action": call.name,
            "args": call.args,
            "result": as_json(result),
            "error": error,
        }
        self._note("ended", data)

    def permitted(self, iteration: int, place: int, fingerprint: str) -> None:
        """Note that whoever was asked has permitted a call."""
        data = {"iteration": iteration, "call": place, "fingerprint": fingerprint}
        self._note("permitted", data)

    def turned(self, iteration: int, text: str, faults: str = "") -> None:
        """Note that an answer was dealt with to its end."""
        self._note_messages()
        self._note("turned", {"iteration": iteration, "text": text, "faults": faults})

    async def commit(self) -> None:
        """Write what was noted, then remember the messages that are in it.

        Raises:
            JournalError: it cannot be written
        """
        self._note_messages()
        told, self._told = self._told, []
        try:
            await self._record.commit()
        except asyncio.CancelledError:
            if not self._record.broken:
                self._remember(told)
            raise
        self._remember(told)

    async def over(self, reply: Reply) -> None:
        """Write down why the run ended.

        Raises:
            JournalError: it cannot be written
        """
        self._note_over(reply.stop_reason, reply.detail, reply.text, reply.value)
        await self.commit()

    async def broken_off(self, why: str, text: str) -> None:
        """Write down that the run was stopped from outside. What cannot be written is logged."""
        self._note_broken_off(why, text)
        try:
            await self.commit()
        except CivitasError:  # the memory's too: what stopped the run goes on
            self._log_lost()

    def broken_off_now(self, why: str, text: str) -> None:
        """The same, for where nothing can be awaited."""
        self._note_broken_off(why, text)
        told, self._told = self._told, []
        try:
            self._record.commit_now()
            self._remember(told)
        except CivitasError:
            self._log_lost()

    def _note_broken_off(self, why: str, text: str) -> None:
        if not self._over:  # else it had ended, and only its end was still to be written
            self._note_over("cancelled", why, text, None)

    def _log_lost(self) -> None:
        logger.error("agent %r: its last steps are not kept", self._agent.id)

    def close(self) -> None:
        """Let others work on the run."""
        self._record.close()

    def _note_over(self, reason: str, detail: str, text: str, value: Any) -> None:
        self._note_messages()
        self._over = True
        data = {"reason": reason, "detail": detail, "text": text, "value": as_json(value)}
        self._note("over", data)
        if not self._record.path:
            self._record.end(reason)

    def _note_messages(self) -> None:
        if self._unwritten:
            self._note("remembered", {"messages": self._unwritten})
            self._told += self._unwritten
            self._unwritten = []

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        self._record.note(kind, data)
        self._entries += 1

    def _remember(self, messages: list[dict[str, Any]]) -> None:
        emit = self._asked.emit
        for message in messages:
            _add(self._memory, message, self._record.key, self._remembered)
            self._remembered += 1
            if emit is not None:
                emit(MessageAdded(str(self._agent.id), message))
        for each in (self._agent._model, self._agent.budget):
            if each is not None:
                _MARKS.set(each, self._record.key, self._entries)


# -- beginning, and going on -----------------------------------------------------------------------


def begun(agent: ReActAgent, asked: Asked, record: Record, memory: Memory) -> Recording:
    """Begin to record a run, or take up what was recorded of it.

    Raises:
        RunMismatch: another program began it
        StateError: what was recorded is not what this civitas writes
    """
    recording = Recording(agent, record, asked, memory)
    schema = None if asked.schema is None else AnswerSchema(asked.schema).json
    program = fingerprint(task=asked.given, thread=asked.thread, schema=schema) | program_of(agent)
    begun = recording.past.begun
    if begun is None:
        recording.begin(
            {
                "kind": "ReActAgent",
                "agent": str(agent.id),
                "task": asked.content,
                # What a hook made another task of.
                "given": None if asked.given == asked.content else asked.given,
                "thread": asked.thread,
                "schema": schema,
                "fingerprint": program,
            }
        )
        return recording
    check_kind(record.run_id, "ReActAgent", begun)
    if asked.record is not None:
        # What it is asked was made by whoever it works for, and that was recorded.
        program.pop("task")
    check(record.run_id, str(agent.id), begun["fingerprint"], program)
    if begun["fingerprint"] is None:
        recording.begin({**begun, "fingerprint": program})
    asked.content = begun["task"]
    return recording


def program_of(agent: ReActAgent) -> dict[str, Any]:
    """What an agent does, whatever it is asked."""
    parts: dict[str, Any] = {
        "agent": ["ReActAgent", str(agent.id)],
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


def catch_up(agent: ReActAgent, record: Record, memory: Memory) -> None:
    """Have an agent know what it did in a part of a run that is over.

    Raises:
        BudgetExceeded: as `Recording.recall`
    """
    _recall(agent, record, memory)


def _recall(agent: ReActAgent, record: Record, memory: Memory) -> None:
    past = record.past
    whole = Past(record.run_id, past)
    for number, message in enumerate(whole.messages):
        copied = (each["key"] for each in whole.copied if number < each["messages"])
        _add(memory, message, next(copied, record.key), number)
    skip: Callable[[int], None] | None = getattr(agent.model, "skip", None)
    known = _known(agent._model, record, whole)
    answers = sum(entry.kind in ("answered", "failed") for entry in past[known:])
    _MARKS.set(agent._model, record.key, len(past))
    if answers and callable(skip):
        skip(answers)
    if agent.budget is not None:
        _charge(agent.budget, agent, record, whole)


def _known(of: Any, record: Record, past: Past) -> int:
    """How many entries of a run an object knows, from this run or from that it is a copy of."""
    known = _MARKS.get(of, record.key)
    for copied in past.copied:
        known = max(known, min(_MARKS.get(of, copied["key"]), copied["entries"]))
    return known


def _charge(budget: Budget, agent: ReActAgent, record: Record, past: Past) -> None:
    """Count what a run has spent in another process."""
    new = record.past[_known(budget, record, past) :]
    if not new:
        return
    _MARKS.set(budget, record.key, len(record.past))  # it counts, also if it is too much
    charge(budget, agent.model, spending(new))


def _add(memory: Memory, message: dict[str, Any], run: str, number: int) -> None:
    """Add a message of a run to a memory that may have it already."""
    once: Any = getattr(memory, "add_once", None)
    if callable(once):
        once(message, run, number)
        return
    if _MARKS.get(memory, run) <= number:
        memory.add_memory(message)
        _MARKS.set(memory, run, number + 1)


# -- what was recorded -----------------------------------------------------------------------------


def replayed(run_id: str, entries: Sequence[Entry]) -> Reply:
    """The reply that a run ended with.

    Raises:
        StateError: it has not ended
    """
    past = Past(run_id, [entry for entry in entries if not entry.path])
    if past.over is None:
        raise StateError(
            f"run {run_id!r} has not ended: call its agent with this run_id to go on with it"
        )
    return past.reply(past.over["value"])


def _events(agent: str, past: Sequence[Entry]) -> list[Event]:
    events: list[Event] = []
    begun = set()
    for entry in past:
        data = entry.data
        if entry.kind == "remembered":
            events.extend(MessageAdded(agent, message, past=True) for message in data["messages"])
        elif entry.kind in ("started", "ended"):
            common = (agent, data["iteration"], data["id"], data["action"])
            call = (data["iteration"], data["call"])
            # What was refused has an end alone.
            if entry.kind == "started" or call not in begun:
                events.append(CallStarted(*common, data["args"], past=True))
            begun.add(call)
            if entry.kind == "ended":
                events.append(CallEnded(*common, data["result"], data["error"], past=True))
    return events
