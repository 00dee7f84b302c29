"""Sub-agents that work in the background: a call begins one, and a later turn hears of its end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.actions.acting import CALL_SCOPE, CallScope
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.origin import SourcedText
from moothall.actions.provenance.reading import add_sources, current_reading
from moothall.agents.agent import CURRENT
from moothall.agents.caller_context import CallerContext
from moothall.agents.replies.charging import budget_in_call
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_context import (
    note_on_thread,
    sources_of_asker,
)
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.sub_agents.askers import asker_data
from moothall.agents.replies.sub_agents.beside import (
    NO_END,
    ParentQuestion,
    asking_in_background,
    earlier_replies,
    has_ended,
    hear,
    in_thread,
    may_be_woken,
    read_end,
    reply_to_results,
    told_end,
    work,
    worker_id,
    worker_request,
)
from moothall.agents.replies.sub_agents.late_replies import sender_of_run
from moothall.agents.replies.thread import Thread
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    JournalError,
    NoSuchRun,
    RunHeld,
    TooManyThreads,
)
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import error_text, log_failure
from moothall.foundation.threads import WORKERS
from moothall.journal.attributes import attributes_json
from moothall.journal.run_view import RunView
from moothall.journal.store.run_requests import WORKER_KEY, ToldText
from moothall.journal.store.wait_rows import WorkerRow
from moothall.journal.tally import TASK_CHARS

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")
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
        self.waking: asyncio.Task[list[Reply]] | None = None  # replies to what has come
        self._places: tuple[Any, asyncio.Semaphore] | None = None  # of an event loop
        self._agents: dict[str, Any] = {}  # that work here
        self._finished: dict[str, tuple[WorkerRow, Reply]] = {}  # without a journal
        # The runs that wait here for their work, each with what wakes it.
        self._holding: dict[str, asyncio.Event] = {}
        self._hears = False  # whether a reply is under way that has turns left
        self._questions: dict[str, list[ParentQuestion]] = {}  # of those that work here
        self.actions: tuple[Action, ...] = tuple(
            Action(each.__name__.strip("_"), each, guard=(), idempotent=True)
            for each in (self._tell, self._cancel)
        )

    @property
    def under_way(self) -> tuple[str, ...]:
        """The ids of those of whose end the conversation has not heard."""
        return (*self._rows,)

    def rows_of(self, run_id: str) -> list[WorkerRow]:
        """Return what a run has asked for and the conversation has not heard of."""
        return [row for row in self._rows.values() if row.asker == run_id]

    def tasks_of(self, run_id: str) -> list[asyncio.Task[Reply]]:
        """Return what works here now for a run."""
        return [self._tasks[row.id] for row in self.rows_of(run_id) if row.id in self._tasks]

    async def is_at_work(self, run_id: str) -> bool:
        """Return whether any works for a run now, here or in another process, or has ended."""
        journal = self._asker.journal
        if (tasks := self.tasks_of(run_id)) or journal is None:
            return bool(tasks)

        def is_any_held() -> bool:
            rows = journal.waits.workers(str(self._asker.id), self._thread.id or "")
            own_rows = [row for row in rows if row.asker == run_id]
            return any(row.end_time is not None or journal.run(row.id).held for row in own_rows)

        with suppress(NoSuchRun):  # it was deleted: the next look knows
            return bool(await in_thread(is_any_held))
        return True

    @contextmanager
    def held_by(self, run_id: str, woken: asyncio.Event) -> Iterator[None]:
        """Have a reply that waits in a `with` block hear what comes: `woken` is set, if asked."""
        self._holding[run_id] = woken
        try:
            yield
        finally:
            del self._holding[run_id]

    @property
    def is_needed(self) -> bool:
        """Whether the conversation has to hear of something, or may ask what has worked again."""
        return bool(self._rows or self._finished)

    def with_names(self, detail: str) -> str:
        """Return more on a stop reason with what is still under way."""
        names = ", ".join(f"{row.action} ({id})" for id, row in self._rows.items())
        until = "" if self._asker.journal is not None else ", until the event loop is closed"
        parts = (detail, f"still under way{until}: {names}" if names else "")
        return "; ".join(filter(None, parts))

    # -- beginning ---------------------------------------------------------------------------------

    async def begin(
        self,
        agent: Any,
        text: str,
        thread: str,
        caller: ReplyRequest,
        call: Any,
        budget: Any,
        resume: str,
        after: float | None,
    ) -> dict[str, str] | str:
        """Begin a call's work, once; return what the call gives.

        It is the id, unless the work has ended `after` so many seconds: then it is its text.
        """
        self._count += 1
        id = worker_id(caller.run_id, call.key or str(self._count))
        sources, texts = sources_of_asker(agent)
        if resume:
            earlier, outside = await self._finished_work(resume, call.action.name)
            thread, sources = earlier.thread, [*dict.fromkeys((*sources, *outside))]
        asker_cells = (caller.run_id, str(self._asker.id))
        row = WorkerRow(id, call.action.name, *asker_cells, thread, readable(text), (*sources,))
        if (journal := self._asker.journal) is not None:
            shown_task = readable(text[:TASK_CHARS])
            attributes = attributes_json(caller.attributes)
            run = (agent.run_kind, str(agent.id), shown_task, thread, attributes)
            begin = journal.held_runs.begin_worker
            await in_thread(begin, run, self._thread.id, row)
        self._rows.setdefault(id, row)
        self._callers[row.asker], self._loop = caller, asyncio.get_running_loop()
        caller.sender = caller.sender or sender_of_run(asker_data(self._asker), caller.background)
        self._hears = True
        task = self.start(row, call.action, caller, budget, texts)
        if after is not None:
            await asyncio.wait({task}, timeout=after)
            if has_ended(task) and await self._claims(row, caller.recorded):
                return self._end_call(row, agent, task, call)
        return {"id": id, "state": "working"}

    def _end_call(self, row: WorkerRow, agent: Any, task: asyncio.Task[Reply], call: Any) -> str:
        """Return what has come of the work of a call that has waited; nobody else hears of it."""
        self._rows.pop(row.id, None)
        self._ends.pop(row.id, None)
        self._told_here.add(row.id)
        if call.step is not None:
            call.step.tell(told_keys=[WORKER_KEY + row.id])
        reply = task.result()
        if reply.outside:
            add_sources(reply.outside, reply.text)
        return str(agent.reply_text(reply))

    async def go_on(
        self, find: Callable[[str], Action | None], caller: ReplyRequest, budget: Budget | None
    ) -> None:
        """Go on with what a resumed reply has begun, unless another process does."""
        self._told_here.clear()  # what an earlier reply has told is committed, or was not told
        await self._read()
        self._callers[caller.run_id], self._loop = caller, asyncio.get_running_loop()
        self._hears = True
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
        request.ask_parent = partial(self._ask, row)
        self._agents[row.id] = action.origin.agent
        waits: AbstractContextManager[None] = nullcontext()  # a held run waits with its work
        if caller.background == "held":
            waits = CallerContext.waiting_run(CURRENT.get(), caller.run_id, row.id)
        with waits:
            task = asyncio.create_task(self._work(row, action, request, asking))
        self._tasks[row.id] = task
        _RUNNING.add(task)
        task.add_done_callback(_RUNNING.discard)
        task.add_done_callback(partial(self._end, row))
        return task

    def _end(self, row: WorkerRow, task: asyncio.Task[Reply]) -> None:
        """Wake who asked, unless its reply goes on: that hears it."""
        self._tasks.pop(row.id, None)
        self._agents.pop(row.id, None)
        if row.asker in self._callers and has_ended(task):
            self.wake().add_done_callback(self._note_wake)

    async def _work(
        self, row: WorkerRow, action: Action, request: ReplyRequest, asking: Any
    ) -> Reply:
        journal = self._asker.journal
        try:
            async with self._place():
                earlier = await self._earlier(row)
                self._ends[row.id] = reply = await work(action, request, asking, earlier)
            if journal is None:
                self._finished[row.id] = row, reply
            return reply
        except NO_END as error:
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
                    await in_thread(journal.waits.fail_worker, row.id, error_text(error))
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

    def wake(self, caller: ReplyRequest | None = None) -> asyncio.Task[list[Reply]]:
        """Begin to reply to what has come since the last reply of the conversation has ended.

        Only one task does at a time. `caller` is the request of a run that is over, if another
        process has replied to it.
        """
        if caller is not None:
            self._callers[caller.run_id], self._loop = caller, asyncio.get_running_loop()
        if self.waking is None:
            self.waking = asyncio.create_task(self._wake())
            _RUNNING.add(self.waking)
            self.waking.add_done_callback(_RUNNING.discard)
        return self.waking

    def _note_wake(self, task: asyncio.Task[list[Reply]]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            log_failure(logger, f"agent {self._asker.id!r} was not woken", error)

    async def _wake(self) -> list[Reply]:
        ENCLOSING_REPLIES.set(())
        CURRENT.set(None)
        CALL_SCOPE.set(CallScope())
        lock, heard_before, replies = self._thread.turn_lock, set[str](), list[Reply]()
        try:
            while True:
                await lock.take()  # the reply under way hears it, if it has a turn
                lock.end()
                rows = [row for row in await self._ended_rows() if self.wakes(row.asker)]
                if not rows or heard_before.issuperset(row.id for row in rows):
                    return replies
                heard_before |= {row.id for row in rows}
                self._thread.workers = self._thread.workers or self
                caller, told_ids = self._callers[rows[0].asker], self._told_here
                told_ids = told_ids if self._asker.journal is None else set[str]()
                reply = await reply_to_results(self._asker, caller, self._thread.id, told_ids)
                if reply is None:
                    return replies
                replies.append(reply)
        except RunHeld:
            return replies
        finally:
            self.waking = None

    def wakes(self, asker: str) -> bool:
        """Return whether what a run has asked for wakes the agent here: it has ended."""
        is_here = self._loop is not None and not self._loop.is_closed()
        is_here = is_here and asker in self._callers and asker not in self._holding
        return is_here and may_be_woken(self._asker, asker)

    def cancel(self, asker: str) -> None:
        """Cancel what works for a run here, since it is cancelled; nobody is told."""
        for row in [row for row in self._rows.values() if row.asker == asker]:
            self._leave(row)
        if (journal := self._asker.journal) is not None:
            with suppress(TooManyThreads):  # the next process ends them
                WORKERS.submit(journal.waits.end_workers, asker, journal.cancel)

    def _leave(self, row: WorkerRow) -> None:
        if (task := self._tasks.get(row.id)) is not None:
            task.cancel()
        self._rows.pop(row.id, None)
        self._ends.pop(row.id, None)

    # -- what the model may do while one works -----------------------------------------------------

    async def _tell(self, id: str, text: str) -> str:
        """Tell an agent that works in the background for you something more, or answer it.

        Args:
            id: the id of its work
            text: what it is to hear before its next step
        """
        row, journal, asker = await self._working(id), self._asker.journal, str(self._asker.id)
        agent, call = self._agents.get(id), current_reading()
        sources, _ = sources_of_asker(agent)
        if questions := self._questions.pop(id, ()):
            for each in questions:
                each.answer.set_result((text, sources))
            return "It has your answer."
        if journal is not None:
            key = f"{row.asker}:{getattr(call, 'key', '') or secrets.token_hex(4)}"
            message = (id, readable(text), asker, (*sources,), key)
            await in_thread(journal.held_runs.requests.tell, *message)
        elif agent is not None:
            hear(agent, agent.all_threads.get(row.thread), ToldText("", text, asker, (*sources,)))
        return "It hears that before its next step."

    async def _cancel(self, id: str) -> str:
        """Cancel what an agent does in the background for you. You hear no more of it.

        Args:
            id: the id of its work
        """
        row, journal = await self._working(id), self._asker.journal
        self._leave(row)
        if journal is not None:
            await in_thread(journal.waits.end_workers, row.asker, journal.cancel, id)
        return "It is cancelled."

    async def _working(self, id: str) -> WorkerRow:
        """Return work that is under way."""
        if self._asker.journal is not None:
            await self._read()
        row = self._rows.get(id)
        if row is None or row.end_time is not None or id in self._ends:
            ids = ", ".join(each for each in self._rows if each not in self._ends)
            text = f"id= must be of work under way ({ids}), got {id!r:.80}"
            raise ConfigError(f"{text}: what has ended is asked again by resume=")
        return row

    # -- what is asked meanwhile -------------------------------------------------------------------

    async def _ask(self, row: WorkerRow, text: str) -> tuple[str, list[str]] | None:
        """Return the answer of who asked for work, with its sources; None if it has no turn."""
        if not self._hears:
            return None
        sources, _ = sources_of_asker(self._asker)
        answer = asyncio.get_running_loop().create_future()
        question = ParentQuestion(SourcedText(text, sources), answer)
        self._questions.setdefault(row.id, []).append(question)
        if row.asker in self._holding:
            self._holding[row.asker].set()
        try:
            result: tuple[str, list[str]] | None = await answer
            return result
        finally:
            with suppress(KeyError, ValueError):  # it is answered
                self._questions[row.id].remove(question)

    def end_hearing(self) -> None:
        """Have questions be asked of a person: the reply under way ends."""
        self._hears = False
        for questions in self._questions.values():
            for each in questions:
                if not each.answer.done():
                    each.answer.set_result(None)

    # -- what has worked, asked again --------------------------------------------------------------

    async def _finished_work(self, id: str, action: str) -> tuple[WorkerRow, tuple[str, ...]]:
        """Return work of the conversation that has ended, and the sources of what it has read."""
        journal, (row, reply) = self._asker.journal, self._finished.get(id, (None, None))
        if journal is not None:
            find = journal.waits.told_worker
            row = await in_thread(find, id, str(self._asker.id), self._thread.id or "")
            with suppress(NoSuchRun):
                reply = row and (await in_thread(RunView, journal, id)).reply
        if row is None or reply is None or row.action != action:
            raise ConfigError(
                f"resume= must be the id of work of {action} in this conversation that has ended, "
                f"got {id!r:.80}"
            )
        return row, reply.outside

    async def _earlier(self, row: WorkerRow) -> list[tuple[str, Reply]]:
        """Return what its agent was asked before in its conversation, each with the reply."""
        if (journal := self._asker.journal) is not None:
            replies: list[tuple[str, Reply]] = await in_thread(earlier_replies, journal, row)
            return replies
        finished = [each for each in self._finished.values() if each[0].thread == row.thread]
        return [(each.text, reply) for each, reply in finished]

    # -- telling -----------------------------------------------------------------------------------

    async def take_results(self, record: Record[Any] | None) -> list[str]:
        """Return what has come since the last turn, each once, in the order of the ends.

        `record` is that of the reply that hears it.
        """
        journal, texts, self._hears = self._asker.journal, list[str](), True
        for row in await self._ended_rows():
            if journal is None:
                text, sources = told_end(row, self._ends.pop(row.id))
            elif not await self._claims(row, record):
                continue  # a reply in another process tells it, if that is not killed
            else:
                try:
                    text, sources = await in_thread(read_end, journal, row)
                except NoSuchRun:  # it was deleted: nobody is told
                    text, sources = "", ()
            del self._rows[row.id]
            self._told_here.add(row.id)
            if text:
                if sources:
                    note_on_thread(self._thread, sources)
                key = "" if journal is None else WORKER_KEY + row.id
                texts.append(SourcedText(text, sources, key))
        for id, questions in self._questions.items():
            for each in (each for each in questions if not each.is_told):
                each.is_told = True
                head = f"{self._agents[id].id} ({id}), in the background, asks you:"
                advice = f'Answer by "tell" with the id {id!r}.'
                texts.append(SourcedText(f"{head}\n{each.text}\n{advice}", each.text.sources))
        return texts

    async def _claims(self, row: WorkerRow, record: Record[Any] | None) -> bool:
        """Return whether a reply alone tells of an end."""
        journal = self._asker.journal
        if journal is None or record is None:
            return True
        claim = journal.held_runs.claim_worker
        return bool(await in_thread(claim, row.id, record.run.number))

    async def _ended_rows(self) -> list[WorkerRow]:
        """Return those that have ended, and of which the conversation has not heard."""
        if self._asker.journal is not None:
            await self._read()
            return [row for row in self._rows.values() if row.end_time is not None]
        await asyncio.sleep(0)  # they are on this loop
        return [self._rows[id] for id in self._ends]

    async def _read(self) -> None:
        waits, asker = self._asker.journal.waits, str(self._asker.id)
        rows = await in_thread(waits.workers, asker, self._thread.id or "")
        self._rows = {row.id: row for row in rows if row.id not in self._told_here}
