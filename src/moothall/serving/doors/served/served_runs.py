"""The runs of a door that callers wait for: begun once, found, answered once, followed, resumed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

from moothall import Agent, BudgetExceeded, JournalError
from moothall.agents import Retries
from moothall.build import log_failure
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.served.last_items import LastItems
from moothall.serving.doors.served.recorded_runs import DoorRuns, RecordedRuns
from moothall.serving.doors.served.served_run import (
    ENDS,
    CallerRequest,
    ClientWait,
    Follower,
    RunEvent,
    RunQuestions,
    RunRefused,
    RunState,
    ServedRun,
    Work,
)
from moothall.serving.doors.served_agents import Served

logger: logging.Logger = logging.getLogger("moothall.serving.doors")

Item: TypeAlias = ServedRun | RunState | RunEvent
_POLL_S: Final = 0.5
"""Seconds between two looks whether a run that waits has gone on."""
_MAX_LIVE, _MAX_OF_CALLER, _MAX_ENDED = 1000, 100, 1000
_MAX_WAITING: Final = 1000
"""How many runs of a caller and an agent may wait in the journal."""
_MAX_TOKENS: Final = 10_000
_MAX_LEFT: Final = 1000
_LEFT_S: Final = 600.0
"""How long a run is kept whose client comes again with the answer."""


class ServedRuns:
    """The runs of a door, of all its callers.

    Args:
        served: the agents
        door: what the door says of its runs
        ask_s: after how many seconds a question to a caller counts as not answered
    """

    def __init__(self, served: Served, door: DoorRuns, ask_s: float = _LEFT_S) -> None:
        self._served, self._door, self._ask_s = served, door, ask_s
        self._recorded = RecordedRuns(served, door)
        self._runs: dict[str, ServedRun] = {}  # those under way here, and the last that have ended
        self._tokens = LastItems[str, None](_MAX_TOKENS)  # of the last answers
        self._delivered = LastItems[str, None](_MAX_TOKENS)  # whose clients have their answers
        # Those that ask their clients, which come again with the answer.
        self._left_runs = LastItems[str, ServedRun](_MAX_LEFT)
        self._retries = Retries()  # those of another program
        self._changed_runs: dict[str, str] = {}  # for each of these, the run that asks its operator
        self._resumed_agents: dict[str, Agent] = {}  # the agents whose runs that were cut off go on

    # -- beginning and ending ----------------------------------------------------------------------

    async def begin(self, request: CallerRequest) -> ServedRun:
        """Begin a run; return the first one of a request that is sent again.

        Raises:
            RunRefused: the caller, or all callers together, have too many
            BudgetExceeded: the caller has spent its budget
            TooOften: the server is busy
        """
        agent, sender = request.agent, request.sender
        with suppress(RunRefused):
            return await self.find_run(agent, sender, request.id)
        self._served.check(request.caller)
        if (journal := self._door.journal(agent)) is not None:
            waiting_count = await in_thread(journal.waits.runs_below, agent, sender)
            if waiting_count >= _MAX_WAITING:
                text = f"{_MAX_WAITING} {self._door.noun}s wait for an answer: answer one first"
                raise RunRefused("full", text)
        live_runs = [each for each in self._runs.values() if not each.state.is_over]
        own_count = sum(each.request.sender == sender for each in live_runs)
        if len(live_runs) >= _MAX_LIVE or own_count >= _MAX_OF_CALLER:
            text = f"too many {self._door.noun}s are under way: wait until one has ended"
            raise RunRefused("full", text)
        return self._runs.get(request.id) or self.start(request, self._door.work(request))

    def start(
        self,
        request: CallerRequest,
        work: Work,
        *,
        is_new: bool = True,
        door_data: Any = None,
    ) -> ServedRun:
        """Begin a run, or go on with one of the journal.

        Args:
            request: who asks for what
            work: has the agent reply
            is_new: whether it begins
            door_data: what the door keeps of it, if it says so here

        Raises:
            TooOften: it is new, and the server is busy
        """
        run, end_reply = self._new_run(request, is_new, door_data)
        run.task = asyncio.create_task(run.go(self._served, work))
        run.task.add_done_callback(lambda task: self._on_end(run))
        if end_reply is not None:
            run.task.add_done_callback(end_reply)
        ended_runs = [each for each in self._runs.values() if each.state.is_over]
        for each in ended_runs[: max(0, len(ended_runs) - _MAX_ENDED)]:
            del self._runs[each.id]
        return run

    async def complete(
        self, request: CallerRequest, work: Work, deliver: Callable[[ServedRun], Awaitable[None]]
    ) -> None:
        """Have an agent reply in the task of its client's request, and deliver what came of it.

        Raises:
            TooOften: the server is busy
        """
        run, end_reply = self._new_run(request)
        try:
            with ClientWait(run, self._delivered):
                try:
                    await run.go(self._served, work)
                finally:
                    if end_reply is not None:
                        end_reply()
                await deliver(run)
        finally:
            self._on_end(run)

    def _new_run(
        self, request: CallerRequest, is_new: bool = True, door_data: Any = None
    ) -> tuple[ServedRun, Callable[..., None] | None]:
        """Return a run of this process, and what ends its reply where replies are counted."""
        end_reply = self._served.count_reply(is_new=is_new) if request.is_reply else None
        door_data = self._door.door_data(request) if door_data is None else door_data
        state = RunState("new" if is_new else "working")
        run = self._runs[request.id] = ServedRun(request, state, door_data, ask_s=self._ask_s)
        return run, end_reply

    def _on_end(self, run: ServedRun) -> None:
        """End a run's followers, and drop it if it rests: the journal has its state then."""
        run.tell(None)
        id = run.request.id
        self._served.answered_runs.discard(id)
        if self._runs.get(id) is not run:
            return  # it has gone on already
        is_kept = self._door.outlives_request or run.answer_token or id in self._left_runs
        if not (is_kept and run.state.is_over) and not run.has_client:
            del self._runs[id]
        if run.error is not None and (changed_run := run.changed_run):
            self._retries.note(id)
            self._changed_runs[id] = changed_run
        elif id in self._changed_runs:  # what it waits for now is a later matter
            self._retries.forget(id)
            del self._changed_runs[id]

    async def resume(self) -> None:
        """Go on with runs that have waited and can; of an agent that has entered, the cut-off."""
        for id, agent in self._served.offered.items():
            is_new = self._resumed_agents.get(id) is not agent
            try:
                run_ids = await in_thread(self._recorded.ids_to_resume, id, is_new)
                are_settled = [await self._resume(id, each) for each in run_ids]
            except JournalError as error:
                log_failure(logger, f"agent {id!r}: its {self._door.noun}s do not go on", error)
            else:
                if all(are_settled):
                    self._resumed_agents[id] = agent

    async def _resume(self, agent: str, run_id: str) -> bool:
        """Go on with a run of the journal; return False if it must be tried again."""
        journal = self._door.journal(agent)
        assert journal is not None
        is_due = self._retries.is_due(run_id) or not await in_thread(
            journal.waits.asks_operator, self._changed_runs.get(run_id, run_id)
        )
        if run_id in self._runs or not is_due:
            return True
        request = await in_thread(self._recorded.request_to_go_on, agent, run_id)
        if request is None or run_id in self._runs:
            return True
        if self._served.is_full or not self._can_pay(request.caller):
            return False
        served_agent: Any = self._served.agents[agent]
        if not await served_agent.resuming.put_off(run_id):
            self._go_on_with(request)
        return True

    def _go_on_with(self, request: CallerRequest) -> ServedRun:
        return self.start(request, self._door.work(request), is_new=False)

    def _can_pay(self, caller: str) -> bool:
        """Return whether a run would not fail at once since its caller's budget is spent."""
        try:
            self._served.check(caller)
        except (BudgetExceeded, JournalError):
            return False
        except Exception:  # of the program's function: the run ends with it
            return True
        return True

    # -- runs that end with the request of their client --------------------------------------------

    @asynccontextmanager
    async def bound(self, run: ServedRun) -> AsyncIterator[None]:
        """End a run with the request of its client in the `with` block, unless that leaves it."""
        try:
            with ClientWait(run, self._delivered):
                yield
        finally:
            if run.id not in self._left_runs and run.task is not None:
                run.task.cancel()
                await asyncio.wait((run.task,))
                self._on_end(run)

    async def find_asking(self, agent: str, sender: str, id: str, token: str) -> ServedRun:
        """Return a caller's run that takes an answer: one that was left here, or of the journal.

        One whose last answer is that of this token is returned, too: it was sent again.

        Raises:
            RunRefused: the caller has no such run
        """
        run = self._runs.get(id)
        is_here = run is not None and (run.answer_token == token or id in self._left_runs)
        if run is not None and is_here and run.is_of(agent, sender):
            return run
        return await in_thread(self._recorded.find_run, agent, sender, id)

    def leave(self, run: ServedRun) -> None:
        """Keep a run that asks its client, which comes again with the answer."""
        keys = {*run.open_asks.open}
        asyncio.get_running_loop().call_later(_LEFT_S, self._end_left, run, keys)
        for each in self._left_runs.keep(run.id, run):
            self.drop(each)

    def _end_left(self, run: ServedRun, keys: set[str]) -> None:
        """End a run that nobody has answered in time, also if it needs no answer any more."""
        still_asked = keys & (run.open_asks.open.keys() | run.open_asks.withdrawn)
        if still_asked and run.id in self._left_runs:
            self.drop(run)

    def end_all_left(self) -> None:
        """End the runs that wait for their clients."""
        for each in [*self._left_runs.values()]:
            self.drop(each)

    def drop(self, run: ServedRun) -> None:
        """End a run that its client has left; nothing is done to one of the journal."""
        self._left_runs.pop(run.id, None)
        if run.task is not None:
            run.task.cancel()

    async def sent_before(self, agent: str, sender: str, name: str, digest: str) -> str | None:
        """Return the run of a request that was sent before, once nobody works on it, or None.

        The first run may have acted already, so it goes on, unless another client waits for it, or
        has had its answer. Without a journal there is none.
        """

        def is_taken(run_id: str) -> bool:
            run = self._runs.get(run_id)
            return run_id in self._delivered or (run is not None and run.has_client)

        args = agent, sender, name, digest, is_taken
        run_id = await in_thread(self._recorded.sent_before, *args)
        if run_id is not None:  # perhaps it is still being cancelled, or goes on already
            await self._recorded.until_idle(agent, run_id)
        return run_id

    async def close(self, drain_s: float = 0.0) -> None:
        """Cancel the runs that do not end in time; the next process resumes what a journal has."""
        if tasks := [each.task for each in self._runs.values() if each.task is not None]:
            await asyncio.wait(tasks, timeout=drain_s)
        live_tasks = []
        for run in self._runs.values():
            if run.task is None or run.task.done():
                continue
            live_tasks.append(run.task)
            if (journal := self._door.journal(run.request.agent)) is not None:
                run.is_handed_over = True
                journal.leave_runs(run.id)
        for each in live_tasks:
            each.cancel()
        await asyncio.gather(*live_tasks, return_exceptions=True)

    # -- answering ---------------------------------------------------------------------------------

    async def answer(
        self, run: ServedRun, token: str, read: Callable[[RunQuestions], Mapping[str, Any]]
    ) -> bool:
        """Give a run what its caller answers; return whether it answers something that is open.

        Args:
            run: the run
            token: what names the answer: sent again, it changes nothing
            read: returns the answers by key, or raises

        Raises:
            RunRefused: somebody else has answered otherwise
        """
        if token in self._tokens:
            return False
        if run.view is None:
            questions = RunQuestions(run.open_asks.open, {}, run.open_asks.withdrawn)
            answers = read(questions)
        elif await in_thread(self._recorded.has_answer, run, token):
            self._tokens.keep(token, None)
            return False  # else a text that is sent again would answer the next question
        else:
            questions = await in_thread(self._recorded.questions, run, run.view)
            answers = read(questions)
            keys = answers.keys() - {*questions.late_keys}
            asks = {**questions.answered_asks, **questions.open_asks}
            await self._recorded.give(run, token, {key: answers[key] for key in keys}, asks)
        self._left_runs.pop(run.id, None)
        self._tokens.keep(token, None)
        run.answer_token = token
        run.open_asks.withdrawn -= answers.keys()
        is_open = not answers.keys().isdisjoint(questions.open_asks)
        for key in answers:
            run.open_asks.settle(key, answers[key])
        return is_open

    async def go_on(self, run: ServedRun) -> ServedRun | None:
        """Go on with a run of the journal that was answered; None if another process does."""
        agent = run.request.agent
        if (live_run := await self._find_live(agent, run.request.sender, run.id)) is not None:
            return live_run
        request = await in_thread(self._recorded.request_to_go_on, agent, run.id)
        self._served.answered_runs.discard(run.id)
        return None if request is None else self._go_on_with(request)

    async def cancel(self, run: ServedRun) -> ServedRun | None:
        """Cancel a run, whoever works on it, and return it; None if it was over, or does not end.

        Raises:
            RunRefused: the caller has no such run any more, or a person decides about a call of it
        """
        if run.view is None and run.state.is_over:
            return None
        if run.task is not None:
            run.task.cancel()
            await run.until(ENDS)
            if run.state.is_over:
                return run
        return await self._recorded.cancel(run)  # it may have begun to wait meanwhile

    # -- finding and following ---------------------------------------------------------------------

    async def find_run(self, agent: str, sender: str, id: str) -> ServedRun:
        """Return a caller's run, of this process or as the journal has it.

        Raises:
            RunRefused: the caller has no such run
        """
        run = await self._find_live(agent, sender, id)
        return await in_thread(self._recorded.find_run, agent, sender, id) if run is None else run

    async def _find_live(self, agent: str, sender: str, id: str) -> ServedRun | None:
        run = self._runs.get(id)
        if run is None or run.state.name == "at_rest" or not run.is_of(agent, sender):
            return None
        return next(iter(await self._without_deleted(agent, [run])), None)

    async def _without_deleted(self, agent: str, runs: list[ServedRun]) -> list[ServedRun]:
        """Return these runs, but for those that were deleted from the agent's journal."""
        ended_ids = {each.id for each in runs if each.has_begun and each.state.is_over}
        deleted_ids = await in_thread(self._recorded.deleted, agent, ended_ids)
        for each in deleted_ids:
            self._runs.pop(each, None)
        return [each for each in runs if each.id not in deleted_ids]

    async def runs_of(self, agent: str, sender: str) -> list[ServedRun]:
        """Return all runs of a caller and an agent: those of the journal as `load` takes them."""
        own_runs = [each for each in self._runs.values() if each.is_of(agent, sender)]
        live_runs = await self._without_deleted(agent, own_runs)
        ids = {each.id for each in live_runs}
        read = self._recorded.outlines
        return [*live_runs, *await in_thread(lambda: [*read(agent, sender, ids)])]

    async def load(self, run: ServedRun) -> ServedRun:
        """Return a run of `runs_of` whole; raise NoSuchRun if it was deleted meanwhile."""
        return await in_thread(self._recorded.load, run)

    def follow(self, run: ServedRun) -> AsyncGenerator[Item]:
        """Return what happens to a run from this call on, wherever it is worked on.

        A run stands for all that it is then: one that was at rest and goes on here, asks something
        else, or has ended elsewhere.
        """
        return self._follow(run, run.follow())

    async def _follow(self, run: ServedRun, items: Follower) -> AsyncGenerator[Item]:
        async with aclosing(items):
            async for item in items:
                yield item
        first_asks = run.state.asks.keys()
        while run.view is not None and run.state.name == "at_rest":
            await asyncio.sleep(_POLL_S)
            run = await self.find_run(*run.ids)
            if run.view is None:
                async with aclosing(run.follow()) as items:
                    yield run
                    async for item in items:
                        yield item
            elif run.state.asks and run.state.asks.keys() != first_asks:
                yield run
                return
        if run.state.is_elsewhere or run.view is not None:
            yield await self.once_idle(run)

    async def once_idle(self, run: ServedRun) -> ServedRun:
        """Return a run as it is once no other process works on it."""
        if run.state.is_elsewhere:
            await self._recorded.until_idle(run.request.agent, run.id)
            run = await self.find_run(*run.ids)
        return run
