"""Agents whose replies are recorded, with a journal, so that they go on after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from civitas.jsonvalue import json_text
from civitas.reasoning.conversational import ConversationalAgent
from civitas.reasoning.read_record import fingerprint
from civitas.reasoning.record import NULL_RECORD, Record
from civitas.reasoning.reply import Reply
from civitas.reasoning.threaded import Journaled

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Part
    from civitas.reasoning.reply_request import Asked


class RecordedAgent(Journaled, ConversationalAgent):
    """An agent whose replies are recorded, with a journal or as part of another's run."""

    _records = True
    _kind = ""
    """What its runs are called in a journal."""
    _state_type: type
    """The dataclass that its state is in a record."""

    async def _respond(self, asked: Asked) -> Reply:
        self._check_asked(asked)
        part = asked.record
        if part is None and self._journal is not None:
            task = json_text(asked.content)
            part = await self._journal.begin(asked.run_id, self._kind, str(self.id), task)
        if part is None:
            return await self._work(asked, NULL_RECORD)
        try:
            return await self._work(asked, self._begun(part, asked))
        finally:
            if asked.record is None:
                part.close()

    def _begun(self, part: Part, asked: Asked) -> Record[Any]:
        """The record of a run, begun or resumed."""
        record: Record[Any] = Record(part, self._state_type)
        schema = None if asked.answer is None else asked.answer.json
        if schema is None and asked.resumed and record.begun is not None:
            schema = record.begun["schema"]  # `resume` need not name it again
        begin(record, asked, self._kind, str(self.id), schema, self._program())
        return record

    def _check_asked(self, asked: Asked) -> None:
        """Refuse what it cannot be asked, before a run begins."""

    async def _work(self, asked: Asked, record: Record[Any]) -> Reply:
        """Answer, or go on with what was recorded."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it works")

    def _program(self) -> dict[str, Any]:
        """What it and its members do, whatever they are asked."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")

    async def _recall(self, part: Part, budget: Budget | None) -> None:
        """Know what it did in a part of a run that is over, within the budget of this reply."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it knows")


def begin(
    record: Record[Any], asked: Asked, kind: str, agent: str, schema: Any, program: dict[str, Any]
) -> None:
    """Note what a reply begins with, or see that it goes on with what it began with."""
    now = fingerprint(task=asked.given, thread=asked.thread, schema=schema) | program
    if record.begun is not None and (asked.record is not None or asked.resumed):
        now.pop("task")  # whoever made it has recorded that, or nobody says it again
    given = None if asked.given == asked.content else asked.given  # before a hook changed it
    about = {"task": asked.content, "given": given, "thread": asked.thread, "schema": schema}
    record.begin(kind, agent, now, **about)
    assert record.begun is not None
    asked.content = record.begun["task"]
