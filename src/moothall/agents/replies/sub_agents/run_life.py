"""The life of a run: it is opened, attended, goes on or waits, tells who asked, and is closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakMethod

from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance import merged_sources
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_context import ASK_CONTEXT, caller_context_of
from moothall.agents.replies.resume import NULL_RECORD
from moothall.agents.replies.sub_agents.background import Workers
from moothall.agents.replies.sub_agents.beside import hear, may_have_workers
from moothall.agents.replies.sub_agents.late_replies import ASKED_BY
from moothall.agents.replies.sub_agents.resumable import until_up
from moothall.foundation.errors import JournalError, RequestCancelled, RunMismatch
from moothall.journal.entry import begin_data_of
from moothall.journal.stop_reason import ANSWERED_REASONS, FINAL_REASONS

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.journal import Journal, RunPart
    from moothall.journal.store.run_requests import ToldText

logger: logging.Logger = logging.getLogger("moothall.agents")
_SUSPECT_DEATHS: Final = 2
"""After so many deaths a run is resumed while no other such run has just begun."""
_SUSPECT_S: Final = 10.0
"""Seconds after which a suspect that lives holds up the next one no more."""
_LOCKS: Final[WeakKeyDictionary[Any, asyncio.Lock]] = WeakKeyDictionary()
"""By event loop, the lock of the suspect that has just begun."""
_IS_OF_SUSPECT: Final[ContextVar[bool]] = ContextVar("is_of_suspect", default=False)
"""Whether a suspect goes on here: the runs of the agents that it asks are no others."""


class RunLife:
    """The run of its own by which an agent answers a request, from its opening to its close.

    Args:
        agent: the agent
        request: what it is asked
        journal: the journal that has the run
    """

    __slots__ = ("__weakref__", "agent", "journal", "part", "record", "request")

    def __init__(self, agent: Any, request: ReplyRequest, journal: Journal) -> None:
        self.agent: Any = agent
        self.request: ReplyRequest = request
        self.journal: Journal = journal
        self.part: RunPart
        self.record: Record[Any] = NULL_RECORD

    async def reply(self) -> Reply:
        """Open the run, new or resumed; return its reply once it is over, stops or waits."""
        agent, request = self.agent, self.request
        self.part = await self._open()
        try:
            try:
                self.record = agent.open_record(self.part, request)
            except RunMismatch as error:
                await self._note_mismatch(error)
                raise
            self._refuse_cancelled()
            if request.background == "woken" and request.sender:
                await asyncio.to_thread(self.journal.waits.keep_late_reply, self.record.run_id)
            self._attend()
            if self.record.is_over:  # it has its span
                reply: Reply = await agent.recorded_reply(request, self.record)
                return reply
            if self.part.past_entries:
                reply = await self._go_on()
                await self._answer_asker(reply)
            else:
                reply = await agent.traced_reply(request, self.record)
            if request.background != "worker":  # else who has asked goes on
                await self._keep_late_reply(reply)
                if reply.stop_reason == "waiting":
                    agent.pause_budget(request)
            if reply.stop_reason == "waiting" and reply.error is not None:
                await self._note_mismatch(reply.error)  # an asked agent's program has changed
                raise reply.error
            return reply
        finally:
            self._close()

    async def _open(self) -> RunPart:
        agent, request = self.agent, self.request
        is_begun = ASK_CONTEXT.get().resumed_run == request.run_id
        kind = "" if is_begun or request.background == "worker" else agent.run_kind
        run_fields = (kind, str(agent.id), request.task, request.thread)
        part = await self.journal.begin(request.run_id, *run_fields, **request.attributes)
        if request.background in ("worker", "woken"):  # if the loop ends; cancelled, it has its end
            part.run.resumes_later = True
        has_workers = part.run.has_workers or (part.past_entries and may_have_workers(agent))
        if has_workers and request.state.workers is None:
            request.state.workers = Workers(agent, request.state)
        return part

    def _refuse_cancelled(self) -> None:
        """Raise RequestCancelled if somebody has cancelled the run since it was to be resumed."""
        end, run_id = self.record.over, self.request.run_id
        if ASK_CONTEXT.get().resumed_run == run_id and end and end["reason"] == "cancelled":
            raise RequestCancelled(f"run {run_id!r} does not go on: {end['detail']}")

    def _attend(self) -> None:
        """Have the run hear what it is told: now what came before it was opened."""
        work, start = self.part.run.work, self.record.start or {}
        work.asked_for = start.get("asked_for", "")
        # Weak: a reply that somebody has dropped is to be collected, and its run to end.
        work.hear = WeakMethod(self.hear)
        for each in work.told_texts:
            self.hear(each)

    def hear(self, message: ToldText) -> None:
        """Hear what somebody tells the run from another process, as the user's words."""
        hear(self.agent, self.request.state, message)

    async def _go_on(self) -> Reply:
        """Go on with a run that was begun before, once the agents are up that it may call.

        If one of these does not come, it waits in its journal. If its process has ended each time
        that it went on, it waits there for its operator.
        """
        waits, run_id = self.journal.waits, self.request.run_id
        if names := await until_up(self.agent, partial(waits.note_away, run_id)):
            text = await asyncio.to_thread(waits.note_away, run_id, names)
            return Reply("", None, stop_reason="waiting", detail=text, run_id=run_id)
        async with bounded_resumption(self.journal, run_id, self.agent.deaths) as resumption:
            if resumption.may_begin:
                reply: Reply = await self.agent.traced_reply(self.request, self.record)
                resumption.is_over = reply.stop_reason in FINAL_REASONS
                return reply
        open_waits = await asyncio.to_thread(self.journal.waiting, run_id)
        text = "; ".join(f"waiting for {each}" for each in open_waits)
        return Reply("", None, stop_reason="in_doubt", detail=text, run_id=run_id)

    async def _answer_asker(self, reply: Reply) -> None:
        """Answer the runs whose actions wait for this one, once it has ended.

        Those under way here have asked again, and get the reply itself. The answer comes from what
        the run's thread has read from outside.
        """
        if "asked_for" not in (self.record.start or ()) or reply.stop_reason not in FINAL_REASONS:
            return
        text = reply.text
        if reply.stop_reason not in ANSWERED_REASONS:
            text = f"it has no answer: {reply.detail or reply.stop_reason}"
        texts, replies = self.request.state.texts_by_origin, ENCLOSING_REPLIES.get()
        sources = merged_sources((*reply.outside, *(() if texts is None else texts.sources)))
        asking = (*replies[-1].outer_replies, *replies)
        ids = [each.request.run_id for each in asking if each.request and each.open]
        answer_askers = self.journal.waits.answer_askers
        await asyncio.to_thread(answer_askers, [self.record.run_id], text, (*sources,), ids)

    async def _keep_late_reply(self, reply: Reply) -> None:
        """Keep that the sender of the run's message gets its reply later, once it has one.

        A door asks for it by its id. A message that is delivered again gets its reply at once, and
        later, too: its sender may know that the first request has ended.
        """
        is_asked = ASKED_BY in (self.record.start or ())
        goes_on = is_asked and reply.stop_reason not in FINAL_REASONS
        if goes_on and caller_context_of(self.agent).run_id is None:
            await asyncio.to_thread(self.journal.waits.keep_late_reply, self.record.run_id)

    async def _note_mismatch(self, error: BaseException) -> None:
        """Have the operator decide about a run that goes on no more: its program has changed.

        That of an agent that was asked in a run of its own asks itself.
        """
        run_id = self.request.run_id
        if not isinstance(error, RunMismatch) or error.run_id != run_id:
            return
        if not {"task", "thread"} & set(error.changed):  # else its caller asks for something else
            start = begin_data_of(self.part.past_entries) or {}
            resumed_run = ASK_CONTEXT.get().resumed_run
            # Who resumes runs, or delivers a message again, has nobody who sees this error.
            goes_on = resumed_run == run_id or (
                self.part.run.is_open and (resumed_run is not None or ASKED_BY in start)
            )

            def note() -> None:
                self.journal.waits.note_changed_program(run_id, error.detail, goes_on)
                self.part.close()  # an answer at once, on this loop too, finds it free

            await asyncio.to_thread(note)

    def _close(self) -> None:
        if self.record.at_end is not None:
            self.record.at_end()
        if keys := self.part.run.work.heard_keys:
            # What it has not heard its journal keeps, and the next reply is another run.
            texts = self.request.state.pending_texts
            texts[:] = [each for each in texts if _key_of(each) not in keys]
        self.part.close()
        if self.record.is_over:
            self.agent.end_run(f"{self.part.run.key}/", self.request.thread)


def _key_of(text: Any) -> str:
    content = text[0] if isinstance(text, tuple) else text  # a conversation's has its sources
    return content.told_key if isinstance(content, SourcedText) else ""


@dataclass(slots=True)
class Resumption:
    """A run that is resumed: whether it may go on, and whether it is over then."""

    may_begin: bool = False
    is_over: bool = False


@asynccontextmanager
async def bounded_resumption(
    journal: Journal, run_id: str, most: int | None
) -> AsyncIterator[Resumption]:
    """Note for a `with` block that a run is resumed, if that was not deadly too often."""
    waits, suspects = journal.waits, ExitStack()
    is_of_suspect = _IS_OF_SUSPECT.get()
    if not is_of_suspect and await asyncio.to_thread(waits.deaths, run_id) >= _SUSPECT_DEATHS:
        lock = _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        await lock.acquire()  # the death of one must not count for the others
        suspects.callback(lock.release)
        _IS_OF_SUSPECT.set(True)
    timer = asyncio.get_running_loop().call_later(_SUSPECT_S, suspects.close)
    resumption = Resumption()
    try:
        resumption.may_begin = await asyncio.to_thread(waits.begins_again, run_id, most)
        if not resumption.may_begin:
            logger.error("run %r does not go on: its process has ended each time", run_id)
        yield resumption
    finally:
        _IS_OF_SUSPECT.set(is_of_suspect)
        timer.cancel()
        suspects.close()
        # Of one that is over nothing is counted, and its caller is told at once.
        if resumption.may_begin and not resumption.is_over:
            with suppress(JournalError):
                waits.has_lived(run_id)
