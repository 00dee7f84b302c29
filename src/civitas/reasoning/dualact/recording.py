"""A dual act as it is recorded in a journal, and taken up again from there."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from civitas.errors import JournalError, StateError
from civitas.journal import Entry, Record
from civitas.reasoning.dualact.progress import DualActReply, Progress
from civitas.reasoning.dualact.review import described
from civitas.reasoning.events import ConclusionReached, DecisionMade
from civitas.reasoning.fingerprint import check, check_kind, fingerprint, of_group
from civitas.reasoning.jsonform import as_json, reply_json, reply_of_json
from civitas.reasoning.parsing import Unreadable
from civitas.reasoning.past import ENDED
from civitas.reasoning.reply import Reply
from civitas.reasoning.replying import joined
from civitas.reasoning.schema import AnswerSchema

if TYPE_CHECKING:
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.dualact.agent import DualActAgent

__all__ = ["DualActRecording", "program_of", "recall", "replayed"]

logger = logging.getLogger("civitas.reasoning")


class DualActRecording:
    """What a dual act writes down, and what had been written before.

    How far it has come is written after each turn. Members that can, record their own turn as parts
    of the same run; what the others reply is written when they have.

    Attributes:
        progress: how far it had come after its last turn, or in the end; None if nothing was
            recorded
        over: why it ended, if it did and nothing came after it

    Raises:
        RunMismatch: another program began it
        StateError: what was recorded is not what this civitas writes
    """

    def __init__(self, agent: DualActAgent, record: Record, asked: Asked) -> None:
        self._agent = agent
        self._record = record
        self._asked = asked
        self.progress: Progress | None = None
        self.over: dict[str, Any] | None = None
        self._replies: dict[str, Any] = {}
        self._ends = False
        begun: dict[str, Any] | None = None
        for entry in record.past:
            self.over = None
            if entry.kind == "begun":
                begun = entry.data
            elif entry.kind == "progress":
                self.progress = Progress.of_json(entry.data["progress"])
            elif entry.kind == "replied":
                self._replies[entry.data["part"]] = entry.data["reply"]
            elif entry.kind == "over":
                self.over = entry.data
        wanted = None if asked.schema is None else AnswerSchema(asked.schema)
        schema = None if wanted is None else wanted.json
        program = fingerprint(task=asked.given, thread=asked.thread, schema=schema)
        program |= program_of(agent)
        if begun is None:
            data = {
                "kind": "DualActAgent",
                "agent": str(agent.id),
                "task": asked.content,
                # What a hook made another task of.
                "given": None if asked.given == asked.content else asked.given,
                "schema": schema,
            }
            record.note("begun", {**data, "thread": asked.thread, "fingerprint": program})
            return
        check_kind(record.run_id, "DualActAgent", begun)
        if asked.record is not None:
            program.pop("task")  # whoever made it has recorded that
        check(record.run_id, str(agent.id), begun["fingerprint"], program)
        if begun["fingerprint"] is None:
            record.note("begun", {**begun, "fingerprint": program})
        asked.content = begun["task"]
        if self.over is not None and self.over["reason"] in ENDED:
            self.progress = Progress.of_json(self.over["progress"])
        if self.progress is not None:
            self._become(self.progress, wanted)

    def _become(self, progress: Progress, wanted: AnswerSchema | None) -> None:
        """Have what was recorded be of this run, and of the type that is asked for."""
        progress.run_id = self._record.run_id  # in a copy it is that of the other
        if wanted is not None:
            several = len(self._agent.config.reactives) > 1
            progress.values = [_typed(each, wanted, several) for each in progress.values]

    @property
    def ended(self) -> DualActReply | None:
        """The reply, if the run is over for good."""
        if self.progress is None or self.over is None or self.over["reason"] not in ENDED:
            return None
        return self.progress.reply([], None)

    async def recall(self) -> None:
        """Have the members know what they did in the turns that are over.

        Raises:
            BudgetExceeded: the budget does not reach for what the run has spent already
        """
        self._emit_past()
        await recall(self._agent, self._record)

    async def turned(self, progress: Progress) -> None:
        """Write down how far it has come, unless its end is about to be.

        Raises:
            JournalError: it cannot be written
        """
        if progress.turn == "over":
            return
        self._record.note("progress", {"progress": progress.to_json()})
        await self._record.commit()

    async def ask(self, part: str, agent: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What a member replies: now, or as it was recorded.

        Args:
            part: which turn it is
            agent: the member
            ask: asks it

        Raises:
            JournalError: it cannot be written
        """
        if getattr(agent, "_records", False):
            self._record.note("asked", {"part": part, "agent": str(agent.id)})
            with joined(agent, self._record.part(part)):
                return await ask()
        known = self._replies.get(part)
        if known is not None:
            return reply_of_json(known, self._record.run_id)
        self._record.note("asked", {"part": part, "agent": str(agent.id)})
        await self._record.commit()
        reply = await ask()
        if isinstance(reply, Reply):
            self._record.note("replied", {"part": part, "reply": reply_json(reply)})
            await self._record.commit()
        return reply

    async def ends(self, progress: Progress, reply: DualActReply) -> None:
        """Write down why it ended.

        Raises:
            JournalError: it cannot be written
        """
        self._note_over(progress, reply)
        await self._record.commit()

    async def broken_off(self, progress: Progress, why: str) -> None:
        """Write down that it was stopped from outside. What cannot be written is logged."""
        self._note_broken_off(progress, why)
        try:
            await self._record.commit()
        except JournalError:
            self._log_lost()

    def broken_off_now(self, progress: Progress, why: str) -> None:
        """The same, for where nothing can be awaited."""
        self._note_broken_off(progress, why)
        try:
            self._record.commit_now()
        except JournalError:
            self._log_lost()

    def _note_broken_off(self, progress: Progress, why: str) -> None:
        if not self._ends:  # else it had ended, and only its end was still to be written
            progress.over("cancelled", why)
            self._note_over(progress, progress.reply([], None))

    def _log_lost(self) -> None:
        logger.error("dual act %r: its end is not in the journal", self._agent.id)

    def _note_over(self, progress: Progress, reply: DualActReply) -> None:
        self._ends = True
        data = {"reason": reply.stop_reason, "detail": reply.detail, "text": reply.text}
        self._record.note(
            "over", {**data, "value": as_json(reply.value), "progress": progress.to_json()}
        )
        if not self._record.path:
            self._record.end(reply.stop_reason)

    def _emit_past(self) -> None:
        emit, progress = self._asked.emit, self.progress
        if emit is None or progress is None:
            return
        id, of = str(self._agent.id), (self._asked.run_id, self._asked.thread)
        decisions = [
            DecisionMade(id, number, decision, True, *of)
            for number, decision in enumerate(progress.decisions, 1)
        ]
        conclusions = [
            ConclusionReached(id, number, conclusion, True, *of)
            for number, conclusion in enumerate(progress.conclusions, 1)
        ]
        first, second = decisions, conclusions
        if self._agent.config.first == "reactive":
            first, second = conclusions, decisions  # type: ignore[assignment]
        for number in range(max(len(first), len(second))):
            for each in (first, second):
                if number < len(each):
                    emit(each[number])


def program_of(agent: DualActAgent) -> dict[str, Any]:
    """What a dual act and its members do, whatever they are asked."""
    config = agent.config
    return of_group(
        agent._agents,
        agent=["DualActAgent", str(agent.id)],
        human=str(config.human.id),
        reactive=[str(each.id) for each in config.reactives],
        human_decision_prompt=config.human_decision_prompt,
        reactive_task_prompt=config.reactive_task_prompt,
        conclusion_format_prompt=config.conclusion_format_prompt,
        first=config.first,
        review=described(config.review),
        shared_memory=config.shared_memory,
    )


async def recall(agent: DualActAgent, record: Record) -> None:
    """Have the members of a dual act know what they did in it.

    Raises:
        BudgetExceeded: their budget does not reach for what they have spent
    """
    members = {str(each.id): each for each in agent._agents}
    done = set()
    for entry in record.past:
        if entry.kind != "asked" or entry.data["part"] in done:
            continue
        done.add(entry.data["part"])
        member = members.get(entry.data["agent"])
        if member is not None and getattr(member, "_records", False):
            await member._recall(record.part(entry.data["part"]))


def replayed(run_id: str, entries: Sequence[Entry]) -> DualActReply:
    """The reply that a run ended with.

    Raises:
        StateError: it has not ended
    """
    over = None
    for entry in entries:
        if not entry.path:
            over = entry.data if entry.kind == "over" else None
    if over is None:
        raise StateError(
            f"run {run_id!r} has not ended: call its agent with this run_id to go on with it"
        )
    progress = Progress.of_json(over["progress"])
    progress.run_id = run_id
    return progress.reply([], None)


def _typed(value: Any, wanted: AnswerSchema, several: bool) -> Any:
    """A value that was recorded as JSON, as the type that was asked for."""
    if value is None:
        return None
    if several and isinstance(value, dict):
        return {id: _typed(each, wanted, False) for id, each in value.items()}
    try:
        return wanted.read(json.dumps(value))
    except Unreadable:
        return value
