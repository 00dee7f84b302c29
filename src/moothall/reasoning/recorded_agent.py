"""Agents whose replies are recorded in a journal, so that they can be resumed after a crash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from moothall.jsonvalue import json_text
from moothall.reasoning.conversational import ConversationalAgent
from moothall.reasoning.read_record import fingerprint
from moothall.reasoning.record import NULL_RECORD, Record
from moothall.reasoning.reply import Reply
from moothall.reasoning.resume import ended

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Journal, Part
    from moothall.reasoning.reply_request import ReplyRequest


class RecordedAgent(ConversationalAgent):
    """An agent whose replies are recorded in a journal, or as part of another agent's run."""

    _records = True
    _kind = ""
    """What its runs are called in a journal."""
    _state_type: type
    """The dataclass that its state is in a record."""
    _journal: Journal | None = None

    @property
    def journal(self) -> Journal | None:
        """Return the journal that records its replies, or None."""
        return self._journal

    @journal.setter
    def journal(self, journal: Journal | str | os.PathLike[str] | None) -> None:
        from moothall.journal.journal import as_journal

        self._journal = None if journal is None else as_journal(journal, f"agent {self.id!r}")

    async def _respond(self, request: ReplyRequest) -> Reply:
        self._check_request(request)
        part = request.record
        if part is None and self._journal is not None:
            task = json_text(request.content)
            part = await self._journal.begin(request.run_id, self._kind, str(self.id), task)
        if part is None:
            return await self._work(request, NULL_RECORD)
        record: Record[Any] | None = None
        try:
            record = self._begun(part, request)
            return await self._work(request, record)
        finally:
            if record is not None and record.at_end is not None:
                record.at_end()
            if request.record is None:
                part.close()
                if record is not None and ended(record):
                    self._end_run(f"{part.run.key}/", request.thread)

    def _begun(self, part: Part, request: ReplyRequest) -> Record[Any]:
        """Return the record of a new run, or of a resumed one if the program is the same."""
        record: Record[Any] = Record(part, self._state_type)
        schema = None if request.answer is None else request.answer.json
        if schema is None and request.resumed and record.begun is not None:
            schema = record.begun["schema"]  # `resume` need not pass it again
        program = fingerprint(task=request.given, thread=request.thread, schema=schema)
        if record.begun is not None and (request.record is not None or request.resumed):
            program.pop("task")  # the group has recorded it, or `resume` does not repeat it
        given = None if request.given == request.content else request.given  # before hooks
        about = {
            "task": request.content,
            "given": given,
            "thread": request.thread,
            "schema": schema,
        }
        record.begin(self._kind, str(self.id), program | self._program(), **about)
        assert record.begun is not None
        request.content = record.begun["task"]
        return record

    def _end_run(self, key: str, thread: str | None) -> None:
        """Note in the memories of the members that a run is over."""
        for member in self._member_agents:
            if isinstance(member, RecordedAgent):
                member._end_run(key, thread)

    def _check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""

    async def _work(self, request: ReplyRequest, record: Record[Any]) -> Reply:
        """Answer, or resume from the record."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it works")

    def _program(self) -> dict[str, Any]:
        """Return its program and those of its members, independent of the request."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")

    async def _restore(self, part: Part, budget: Budget | None) -> None:
        """Restore what it did in a part that is over, and charge the budget of this reply."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it knows")
