"""Sub-agents that work in the background: a call begins one, and a later turn hears of its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Container
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.actions.acting import CALL_SCOPE, CallScope
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.agent import CURRENT
from moothall.agents.replies.charging import budget_in_call
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_context import (
    note_on_thread,
    sources_of_asker,
)
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.sub_agents.beside import (
    asking_in_background,
    work,
    worker_id,
    worker_request,
)
from moothall.agents.replies.thread import Thread
from moothall.foundation.errors import (
    DefinitionError,
    JournalError,
    NoSuchRun,
    RequestCancelled,
    RunHeld,
    RunMismatch,
    TooManyThreads,
)
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import error_text, log_failure
from moothall.foundation.threads import WORKERS
from moothall.journal.attributes import attributes_json
from moothall.journal.run_view import RunView
from moothall.journal.stop_reason import FINAL_REASONS, PARKED_STATES
from moothall.journal.store.run_requests import WORKER_KEY
from moothall.journal.store.wait_rows import WorkerRow, woken_id
from moothall.journal.tally import TASK_CHARS

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Journal, Outline

logger: logging.Logger = logging.getLogger("moothall.agents")
_NO_END: Final = (RequestCancelled, NoSuchRun, RunHeld, RunMismatch)
"""What is raised by work that may go on elsewhere, or whose run has what came of it."""
_RUNNING: Final[set[asyncio.Task[Any]]] = set()
"""What works here: a loop alone would not keep it."""


class Workers:
    """What works in the background for one conversation of an agent.

    Whether one has ended, and whether that is told, is read from the journal: both are written with
    what they follow from. Without a journal it is kept here.
    """

    def __init__(self, asker: Any, thread: Thread) -> None:
        self._asker = asker
        self._thread = thread
        self._rows: dict[str, WorkerRow] = {}  # of whose end the conversation has not heard
        self._told_here = set[str]()  # the next commit may still have to say so
        self._ends: dict[str, Reply | str] = {}  # without a journal
        self._tasks: dict[str, asyncio.Task[Reply]] = {}
        self._count = 0
        self._callers: dict[str, ReplyRequest] = {}  # what has asked here, by its run
        self._loop: asyncio.AbstractEventLoop | None = None  # of what works here
        self._waking: asyncio.Task[None] | None = None
        self._places: tuple[Any, asyncio.Semaphore] | None = None  # of an event loop

    @property
    def under_way(self) -> tuple[str, ...]:
        """The ids of those of whose end the conversation has not heard."""
        return (*self._rows,)

    def with_names(self, detail: str) -> str:
        """Return more on a stop reason with what is still under way."""
        names = ", ".join(f"{row.action} ({id})" for id, row in self._rows.items())
        until = "" if self._asker.journal is not None else ", until the event loop is closed"
        parts = (detail, f"still under way{until}: {names}" if names else "")
        return "; ".join(filter(None, parts))

    # -- beginning ---------------------------------------------------------------------------------

    async def begin(
        self, agent: Any, text: str, thread: str, caller: ReplyRequest, call: Any, budget: Any
    ) -> dict[str, str]:
        """Begin a call's work, once; return what the call gives."""
        self._count += 1
        id = worker_id(caller.run_id, call.key or str(self._count))
        sources, texts = sources_of_asker(agent)
        asker_cells = (caller.run_id, str(self._asker.id))
        row = WorkerRow(id, call.action.name, *asker_cells, thread, readable(text), (*sources,))
        if (journal := self._asker.journal) is not None:
            task = readable(text[:TASK_CHARS])
            attributes = attributes_json(caller.attributes)
            run = (agent.run_kind, str(agent.id), task, thread, attributes)
            begin = journal.held_runs.begin_worker
            await _in_thread(begin, run, self._thread.id, row)
        self._rows.setdefault(id, row)
        self._callers[row.asker], self._loop = caller, asyncio.get_running_loop()
        self.start(row, call.action, caller, budget, texts)
        return {"id": id, "state": "working"}

    async def go_on(
        self, find: Callable[[str], Action | None], caller: ReplyRequest, budget: Budget | None
    ) -> None:
        """Go on with what a resumed reply has begun, unless another process does."""
        self._told_here.clear()  # what an earlier reply has told is committed, or was not told
        await self._read()
        self._callers[caller.run_id], self._loop = caller, asyncio.get_running_loop()
        resumed = self._asker.resuming.tasks
        for id, row in self._rows.items():
            if row.end_time is None and row.asker == caller.run_id and id not in resumed:
                with suppress(DefinitionError):  # of which `resume_runs` says more
                    action = find(row.action)
                    self.start(row, action, caller, budget, caller.state.texts_by_origin)

    def start(
        self, row: WorkerRow, action: Action | None, caller: ReplyRequest, budget: Any, texts: Any
    ) -> asyncio.Task[Reply]:
        """Begin to work on a row, or to go on with it, in a task that gives its reply."""
        if (task := self._tasks.get(row.id)) is not None:
            return task
        if action is None or action.origin.agent is None:
            text = f"agent {self._asker.id!r} has no action {row.action!r} any more, which has "
            text += f"begun run {row.id!r}: give it that action, or cancel the run"
            raise DefinitionError(text)
        replies = ENCLOSING_REPLIES.get()
        replying = next((each for each in reversed(replies) if each.request is caller), None)
        asking = asking_in_background(row, self._asker, replying, texts)
        budget = budget and budget_in_call(action.origin.agent, budget)
        request = worker_request(row, self._asker.journal, caller.deps, budget)
        task = asyncio.create_task(self._work(row, action, request, asking))
        self._tasks[row.id] = task
        _RUNNING.add(task)
        task.add_done_callback(_RUNNING.discard)
        task.add_done_callback(partial(self._end, row))
        return task

    def _end(self, row: WorkerRow, task: asyncio.Task[Reply]) -> None:
        """Wake who asked, unless its reply goes on: that hears it."""
        self._tasks.pop(row.id, None)
        is_here = row.asker in self._callers and not task.cancelled()
        if is_here and self._waking is None and not isinstance(task.exception(), _NO_END):
            self._waking = asyncio.ensure_future(self.wake())
            _RUNNING.add(self._waking)
            self._waking.add_done_callback(_RUNNING.discard)

    async def _work(
        self, row: WorkerRow, action: Action, request: ReplyRequest, asking: Any
    ) -> Reply:
        journal = self._asker.journal
        try:
            async with self._place():
                self._ends[row.id] = reply = await work(action, request, asking)
            return reply
        except _NO_END as error:
            logger.warning("run %r does not go on in the background here: %s", row.id, error)
            raise
        except asyncio.CancelledError:
            if row.id in self._rows:
                self._ends[row.id] = "it was cancelled"
            raise
        except Exception as error:
            log_failure(logger, f"run {row.id!r} has failed in the background", error)
            self._ends[row.id] = error_text(error)
            if journal is not None:
                with suppress(JournalError):
                    await _in_thread(journal.waits.fail_worker, row.id, error_text(error))
            raise
        finally:
            if journal is not None:  # which has what came of it
                self._ends.pop(row.id, None)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait until fewer work than may."""
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            self._places = loop, asyncio.Semaphore(self._asker.max_background)
        async with self._places[1]:
            yield

    async def wake(self) -> None:
        """Reply to what has come since the last reply of the conversation has ended."""
        ENCLOSING_REPLIES.set(())
        CURRENT.set(None)
        CALL_SCOPE.set(CallScope())
        lock, heard_before = self._thread.turn_lock, set[str]()
        try:
            while True:
                await lock.take()  # the reply under way hears it, if it has a turn
                lock.end()
                rows = [row for row in await self._ended_rows() if self.wakes(row.asker)]
                if not rows or heard_before.issuperset(row.id for row in rows):
                    return
                heard_before |= {row.id for row in rows}
                self._thread.workers = self._thread.workers or self
                caller, told_ids = self._callers[rows[0].asker], self._told_here
                told_ids = told_ids if self._asker.journal is None else set[str]()
                if await reply_to_results(self._asker, caller, self._thread.id, told_ids) is None:
                    return
        except RunHeld:
            pass
        except Exception as error:
            log_failure(logger, f"agent {self._asker.id!r} was not woken", error)
        finally:
            self._waking = None

    def wakes(self, asker: str) -> bool:
        """Return whether what a run has asked for wakes the agent here: it has ended."""
        is_here = self._loop is not None and not self._loop.is_closed()
        return is_here and asker in self._callers and may_be_woken(self._asker, asker)

    def cancel(self, asker: str) -> None:
        """Cancel what works for a run here, since it is cancelled; nobody is told."""
        for row in [row for row in self._rows.values() if row.asker == asker]:
            if (task := self._tasks.get(row.id)) is not None:
                task.cancel()
            self._rows.pop(row.id)
            self._ends.pop(row.id, None)
        if (journal := self._asker.journal) is not None:
            with suppress(TooManyThreads):  # the next process ends them
                WORKERS.submit(journal.waits.end_workers, asker, journal.cancel)

    # -- telling -----------------------------------------------------------------------------------

    async def take_results(self) -> list[str]:
        """Return what has come since the last turn, each once, in the order of the ends."""
        journal, texts = self._asker.journal, list[str]()
        for row in await self._ended_rows():
            if journal is None:
                text, sources = _told_end(row, self._ends.pop(row.id))
            else:
                try:
                    text, sources = await _in_thread(_read_end, journal, row)
                except NoSuchRun:  # it was deleted: nobody is told
                    text, sources = "", ()
            del self._rows[row.id]
            self._told_here.add(row.id)
            if text:
                if sources:
                    note_on_thread(self._thread, sources)
                key = "" if journal is None else WORKER_KEY + row.id
                texts.append(SourcedText(text, sources, key))
        return texts

    async def _ended_rows(self) -> list[WorkerRow]:
        """Return those that have ended, and of which the conversation has not heard."""
        if self._asker.journal is not None:
            await self._read()
            return [row for row in self._rows.values() if row.end_time is not None]
        await asyncio.sleep(0)  # they are on this loop
        return [self._rows[id] for id in self._ends]

    async def _read(self) -> None:
        waits, asker = self._asker.journal.waits, str(self._asker.id)
        rows = await _in_thread(waits.workers, asker, self._thread.id or "")
        self._rows = {row.id: row for row in rows if row.id not in self._told_here}


async def reply_to_results(
    asker: Any, caller: ReplyRequest, thread: str | None, told_ids: Collection[str] = ()
) -> Reply | None:
    """Reply to what came of the work for a run, with the options of that.

    None if another process does now. Two that begin at a time have one id: one of them does.
    """
    journal, number = asker.journal, len(told_ids) + 1
    while journal is not None:
        try:
            run = await _in_thread(journal.run, woken_id(caller.run_id, number))
        except NoSuchRun:
            break
        if run.held:
            return None
        number += 1
    id = woken_id(caller.run_id, number)
    text, options = "What came of the work in the background.", (caller.deps, caller.budget)
    request = ReplyRequest(text, None, thread, id, *options)
    request.attributes = caller.attributes
    request.background, request.door_data = "woken", {"background": "woken"}
    reply: Reply = await asker.reply_to_request(request)
    return reply


def may_be_woken(asker: Any, run_id: str) -> bool:
    """Return whether a run of an agent has ended: one that goes on hears what has come itself."""
    with suppress(NoSuchRun):
        return asker.journal is None or asker.journal.run(run_id).state in FINAL_REASONS
    return False


def workers_to_resume(agent: Any, runs: Container[str], cut_off: bool) -> list[Outline]:
    """Return the runs in the background that can go on, and that none of these runs goes on with.

    `cut_off`: also those that were cut off.
    """
    journal: Journal = agent.journal
    rows = [each for each in journal.waits.workers(str(agent.id)) if each.end_time is None]
    due_ids = {*journal.waits.run_ids()} if rows else set[str]()
    outlines: list[Outline] = []
    for row in rows:
        with suppress(NoSuchRun):  # it was deleted, or who asked for it
            run, asker = journal.run(row.id), journal.run(row.asker)
            is_cut_off = cut_off and run.state == "stopped" and not asker.held
            is_due = run.state in PARKED_STATES and run.id in due_ids
            if asker.state == "cancelled":
                journal.waits.end_workers(row.asker, journal.cancel)
            elif row.asker not in runs and (is_cut_off or is_due):
                outlines.append(run)
    return outlines


def _read_end(journal: Journal, row: WorkerRow) -> tuple[str, tuple[str, ...]]:
    """Return what is told of a run that has ended, and where that is from."""
    if row.fault is not None:
        return _told_end(row, row.fault)
    view = RunView(journal, row.id)
    if (reply := view.reply) is not None:
        return _told_end(row, reply)
    end = {} if view.end is None else view.end.data
    return _told_end(row, str(end.get("detail") or end.get("reason", "its end is not known")))


def _told_end(row: WorkerRow, end: Reply | str) -> tuple[str, tuple[str, ...]]:
    head = f"{row.action} ({row.id}), in the background"
    if isinstance(end, str):
        return f"{head}, has no result: {end}", row.sources
    if Reply.gives_text(None, end.stop_reason, end.text):
        return f"Result of {head}:\n{end.text}", end.outside
    detail = end.detail or end.stop_reason
    return f"{head}, has no result ({end.stop_reason}): {detail}", end.outside


def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return WORKERS.run(asyncio.get_running_loop(), lambda: function(*args))
