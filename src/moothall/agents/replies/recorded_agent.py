"""Agents whose replies are recorded in a journal, so that they can be resumed after a crash."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from moothall.agents.replies.conversational import ConversationalAgent
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_request import KeptOptions
from moothall.agents.replies.resume import NULL_RECORD
from moothall.agents.replies.state import VERSION, dump_state, load_state
from moothall.agents.replies.sub_agents.askers import asker_data
from moothall.agents.replies.sub_agents.resumable import ResumedRun
from moothall.agents.replies.sub_agents.resuming import ResumeChoices, ResumingRuns, results_of
from moothall.agents.replies.sub_agents.run_life import RunLife
from moothall.foundation import tracing
from moothall.foundation.errors import DefinitionError, StateError
from moothall.foundation.format_version import json_version_problem
from moothall.foundation.jsonvalue import NotJSON, as_json, copy_json
from moothall.foundation.threads import WORKERS

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget
    from moothall.journal import Journal, Outline, RunPart


class RecordedAgent(ConversationalAgent):
    """An agent whose replies are recorded in a journal, or as part of another agent's run."""

    is_recorded: bool = True
    run_kind: str = ""
    """What its runs are called in a journal."""
    kind_label: str = ""
    """What it is called in errors."""
    state_type: type[Any]
    """The dataclass that its state is in a record."""
    _journal: Journal | None = None
    is_ending: bool = False  # whether no further run is resumed
    deaths: int | None = 3
    """After so many ends of its process at the same step, a run that would be resumed waits for a
    person: `journal.answer(run, "operator:deaths", "resume")`, or `"cancel"`; None for never."""

    @cached_property
    def resuming(self) -> ResumingRuns:
        """Its runs that are resumed now."""
        return ResumingRuns(self)

    @property
    def journal(self) -> Journal | None:
        """Return the journal that records its replies, or None."""
        return self._journal

    @journal.setter
    def journal(self, journal: Journal | str | os.PathLike[str] | None) -> None:
        from moothall.journal.journal import Journal

        self._journal = (
            None if journal is None else Journal.from_argument(journal, f"agent {self.id!r}")
        )

    def load_parts(self) -> tuple[Any, list[Action] | None]:
        """Import and make what a reply needs."""
        load_state(self.state_type, as_json(dump_state(self.state_type())), f"agent {self.id!r}")
        return super().load_parts()

    async def resume_runs(
        self,
        *,
        deps: Callable[[Outline], Any] | None = None,
        budget: Callable[[Outline], Budget | None] | None = None,
        which: Callable[[Outline], bool] | None = None,
        schema: Any = None,
        concurrency: int = 16,
    ) -> list[ResumedRun]:
        """Resume the runs of this agent in its journal that stopped because their process ended.

        Call it when the program starts. The runs of a thread are resumed one after the other, in
        the order in which they began; those of different threads side by side. A run that cannot
        be resumed is reported, and the others go on. Whoever asks again with the same `run_id`
        gets the reply. A run that is `in_doubt`, or waits, is resumed once it can go on.

        Args:
            deps: returns the `deps` of a run's reply; the run's outline has its `thread`
            budget: returns the budget of a run's reply
            which: returns whether a run is to be resumed; all are, if it is left out
            schema: the type of the replies' values, or a list of types: a run's is the one that has
                the schema with which it was asked for; its value is JSON data if none has
            concurrency: how many runs are resumed at a time, by all calls together

        Returns:
            What became of each run, in the order in which they began.

        Raises:
            DefinitionError: the agent has no journal, or an argument is not valid
            JournalError: the journal cannot be read
        """
        choices = (deps, budget, which, schema, concurrency)
        checked = ResumeChoices.checked(self, "resume_runs", *choices)
        return await self.resuming.resume_stopped(checked)

    async def resume_decided(
        self,
        *,
        deps: Callable[[Outline], Any] | None = None,
        budget: Callable[[Outline], Budget | None] | None = None,
        which: Callable[[Outline], bool] | None = None,
        schema: Any = None,
        concurrency: int = 16,
    ) -> list[ResumedRun]:
        """Resume the runs that can go on since: a person has decided, or what they waited for came.

        The reply to a message goes to its sender, as a `say` that is not answered. A server calls
        this every few seconds, in a task of its own: a run that another call resumes is left to
        that. What could not be resumed is tried again after a minute. Arguments and errors are
        those of `resume_runs`.
        """
        choices = (deps, budget, which, schema, concurrency)
        checked = ResumeChoices.checked(self, "resume_decided", *choices)
        return await results_of(await self.resuming.begin_decided(checked))

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer a request."""
        if request.state.runs is not None:
            await self._forget_deleted(request.state)
        for source in self.action_sources():
            await source.get_ready()
        self.check_request(request)
        if request.record is not None:
            return await self._reply_in_part(request.record, request)
        if (journal := request.journal or self._journal) is not None:
            return await RunLife(self, request, journal).reply()
        reply = await self.traced_reply(request, NULL_RECORD)  # nothing is recorded
        if reply.stop_reason == "waiting":
            self.pause_budget(request)
        return reply

    async def _reply_in_part(self, part: RunPart, request: ReplyRequest) -> Reply:
        """Answer in a part of another agent's run."""
        record = self.open_record(part, request)
        try:
            answer = self.recorded_reply if record.is_over else self.traced_reply  # it has its span
            return await answer(request, record)
        finally:
            if record.at_end is not None:
                record.at_end()

    def traced_reply(self, request: ReplyRequest, record: Record[Any]) -> Awaitable[Reply]:
        """Answer, or resume from the record, in a span of its own."""
        if tracing.active is None:
            return self.recorded_reply(request, record)
        return tracing.in_span(
            partial(self.recorded_reply, request, record), "reply", self, request
        )

    def pause_budget(self, request: ReplyRequest) -> None:
        """Have the seconds of a run's budget stand still while it waits."""
        budget = request.budget or self.budget
        if budget is not None:
            budget.pause()

    async def _forget_deleted(self, thread: Thread) -> None:
        """Forget a conversation in this process if a run of it was deleted from its journal."""
        assert thread.id is not None
        assert thread.runs is not None
        check_deleted = partial(thread.runs.is_any_deleted, [*thread.parked_runs])
        if await WORKERS.run(asyncio.get_running_loop(), check_deleted):
            thread.forget()
            self.forget_memory(thread.id)
            self.drop_in_members(thread.id)

    def open_record(self, part: RunPart, request: ReplyRequest) -> Record[Any]:
        """Return the record of a new run, or of a resumed one if the program is the same."""
        record: Record[Any] = Record(part, self.state_type)
        schema = None if request.answer is None else request.answer.json
        if schema is None and request.resumed and record.start is not None:
            schema = record.start["schema"]  # `resume` need not pass it again
        if record.start is not None:  # a resumed run keeps those that it began with
            kept_names = KeptOptions.__annotations__.keys() & record.start
            request.options = {**{n: record.start[n] for n in kept_names}, **request.options}
            request.background = request.background or record.start.get("background", "")
        request_fields = {"task": request.original_content, "thread": request.thread}
        program = record.fingerprint(**request_fields, schema=schema)
        if record.start is not None and (request.record is not None or request.resumed):
            program.pop("task")  # the group has recorded it, or `resume` does not repeat it
        before_hooks = request.original_content
        original = None if before_hooks == request.content else before_hooks
        beginning: dict[str, Any] = {"task": request.content, "given": original}
        beginning |= {"thread": request.thread, "schema": schema, **request.options}
        if request.record is None:
            if record.start is not None:
                request.attributes = record.start.get("attributes") or {}
            if request.attributes:
                beginning["attributes"] = dict(request.attributes)
            # Where a process that resumes the run continues it.
            beginning |= tracing.Tracing.trace_headers()
        if record.start is None:
            beginning |= self.begin_data(record, request) | request.door_data
            beginning |= {"background": request.background} if request.background else {}
        if request.record is None:
            beginning |= asker_data(self)
        record.begin(self.run_kind, str(self.id), program | self.describe_program(), **beginning)
        assert record.start is not None
        request.content, request.recorded = record.start["task"], record
        _note_run(part, request.state)
        return record

    def begin_data(self, record: Record[Any], request: ReplyRequest) -> dict[str, Any]:
        """Return what else is recorded of how a run begins."""
        return {}

    async def _prepare(self) -> None:
        for source in self.action_sources():
            await source.get_ready()
        await super()._prepare()

    def action_sources(self) -> Iterable[Any]:
        """Return what says what it may call, before its program is compared: such as a server."""
        agents: list[Any] = [self]
        for agent in agents:  # a group may be its own member, which its reply refuses
            members = agent.member_agents if isinstance(agent, RecordedAgent) else ()
            agents += [each for each in members if all(each is not other for other in agents)]
        leaves = [e for e in agents[1:] if isinstance(e, RecordedAgent) and not e.member_agents]
        return [source for agent in leaves for source in agent.action_sources()]

    def end_run(self, key: str, thread: str | None) -> None:
        """Note in the memories of the members that a run is over."""
        for member in self.member_agents:
            if isinstance(member, RecordedAgent):
                member.end_run(key, thread)

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""
        self._check_thread(request.thread)

    def _check_thread(self, thread: str | None) -> None:
        """Refuse a thread, if it cannot keep threads apart."""
        if thread is not None and (fault := self.thread_fault()) is not None:
            raise DefinitionError(
                f"{self.kind_label} {self.id!r} cannot keep threads apart: {fault}. "
                f"Leave out thread=, or make the {self.kind_label} with shared=True"
            )

    async def recorded_reply(self, request: ReplyRequest, record: Record[Any]) -> Reply:
        """Answer, or resume from the record."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it works")

    def describe_program(self) -> dict[str, Any]:
        """Return its program and those of its members, independent of the request."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore what it did in a part that is over, and charge the budget of this reply."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it knows")

    # -- states ------------------------------------------------------------------------------------

    @staticmethod
    def as_state(kind: str, **parts: Any) -> dict[str, Any]:
        """Return a state of this kind, as copied JSON data; raise StateError if it has no form."""
        try:
            copied: dict[str, Any] = copy_json({"kind": kind, "format": VERSION, **parts})
        except NotJSON as error:
            raise StateError(f"the state of a {kind} cannot be written as JSON: {error}") from error
        return copied

    @staticmethod
    def read_state(saved: Any, kind: str) -> dict[str, Any]:
        """Return a copy of a saved state; StateError if it is not of this kind and version."""
        try:
            copied: dict[str, Any] = copy_json(RecordedAgent.checked_state(saved, kind, VERSION))
        except NotJSON as error:
            raise StateError(f"the state of a {kind} is damaged: {error}") from error
        return copied

    @staticmethod
    def checked_state(saved: Any, kind: str, version: int) -> dict[str, Any]:
        """Return a saved state; StateError if it is not of this kind and version."""
        if not isinstance(saved, dict) or saved.get("kind") != kind:
            actual = saved.get("kind") if isinstance(saved, dict) else type(saved).__name__
            raise StateError(f"this is not a state of a {kind}, but of {actual!r:.80}")
        if problem := json_version_problem(saved, version):
            raise StateError(f"this state of a {kind} cannot be loaded: {problem}")
        return saved


def _note_run(part: RunPart, thread: Thread) -> None:
    """Have a conversation know of which runs it is; an agent's own is its program's."""
    if thread.id is not None:
        from moothall.journal.holders import KnownRuns

        file = part.run.file
        thread.runs = (thread.runs or KnownRuns(file)).note(file, part.run_id)
