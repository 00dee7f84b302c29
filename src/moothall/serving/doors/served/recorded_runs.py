"""The runs of a door in the agents' journals: found, listed, answered, cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from moothall import NoSuchRun, StateError
from moothall.journal import Journal, Outline, RunView
from moothall.serving.doors.asks import RESTING, asks_of, waiting_text
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.served.served_run import (
    CallerRequest,
    RunQuestions,
    RunRefused,
    ServedRun,
    Work,
    recorded_run,
    state_name_of,
)
from moothall.serving.doors.served_agents import Served

_CANCEL_WAIT_S: Final = 10.0
"""How long another process may take to cancel a run."""


_RECENT_S: Final = 3600.0
"""How long ago a request was sent first, at most: a client waits for ten minutes, three times."""


class RunRow(NamedTuple):
    """A run in a list: when it changed, its id, its context, the name of its state, and itself."""

    at: float
    id: str
    context: str
    state: str
    source: ServedRun | Outline


class DoorRuns:
    """What a door says of its runs; each door overrides what differs.

    Attributes:
        noun: what its protocol calls a run
        outlives_request: whether a run goes on when the client of its request has left
    """

    noun = "run"
    outlives_request = False

    def __init__(self, served: Served) -> None:
        self._served = served

    def journal(self, agent: str) -> Journal | None:
        """Return the journal that keeps an agent's runs of this door; None without one."""
        return self._served.journal_of(agent)

    def is_mine(self, run_id: str) -> bool:
        """Return whether a run is of this door, which resumes it."""
        return False

    def request_in(self, view: RunView, sender: str | None) -> CallerRequest | None:
        """Return who asks for a run of the journal; None if it is no run of this door and sender.

        Args:
            view: the run
            sender: who asks for it; None if that has to be found out, since it is to go on
        """
        return None

    def context_of(self, run: Outline, sender: str) -> str | None:
        """Return the conversation of a sender's run, as its client names it; None for others."""
        return None

    def work(self, request: CallerRequest) -> Work:
        """Return what has its agent reply, also after a restart."""
        raise NotImplementedError

    def door_data(self, request: CallerRequest) -> Any:
        """Return what the door keeps of a run."""
        return None


class RecordedRuns:
    """The runs of a door that the agents' journals have.

    Args:
        served: the agents
        door: what the door says of its runs
    """

    def __init__(self, served: Served, door: DoorRuns) -> None:
        self._served, self._door = served, door

    async def find_run(self, agent: str, sender: str, id: str) -> ServedRun:
        """Return a caller's run.

        Raises:
            RunRefused: the caller has no such run
        """
        journal = self._door.journal(agent)
        if journal is not None:

            def read_run() -> ServedRun | None:
                return self._read(agent, sender, RunView(journal, id))

            with suppress(NoSuchRun):
                run: ServedRun | None = await in_thread(read_run)
                if run is not None:
                    return run
        raise RunRefused("unknown", f"there is no such {self._door.noun}")

    async def load(self, agent: str, sender: str, row: RunRow) -> ServedRun:
        """Return a run of a list whole.

        Raises:
            NoSuchRun: it was deleted meanwhile
        """
        if isinstance(row.source, ServedRun):
            return row.source
        journal: Any = self._door.journal(agent)
        run: ServedRun = await in_thread(self._read, agent, sender, RunView(journal, row.source))
        return run

    def _read(self, agent: str, sender: str, view: RunView) -> ServedRun | None:
        """Return a caller's run as the journal has it; it reads the file."""
        is_agents = view.outline.agent == agent
        request = self._door.request_in(view, sender) if is_agents else None
        if request is None:
            return None
        may_permit = self._served.callers.permits(request.caller)
        door_data = self._door.door_data(request)
        return recorded_run(request, view, self._served.agents[agent], may_permit, door_data)

    async def rows(self, agent: str, sender: str, live_ids: set[str]) -> list[RunRow]:
        """Return all runs of a caller and an agent in short, but for those of these ids."""
        rows: list[RunRow] = await in_thread(lambda: [*self._rows(agent, sender, live_ids)])
        return rows

    def _rows(self, agent: str, sender: str, live_ids: set[str]) -> Iterator[RunRow]:
        journal = self._door.journal(agent)
        for run in [] if journal is None else journal.runs(agent=agent):
            context = None if run.id in live_ids else self._door.context_of(run, sender)
            if context is not None:
                name = state_name_of(run, self._served.agents[agent], journal)
                yield RunRow(run.changed, run.id, context, name, run)

    async def deleted(self, agent: str, ids: set[str]) -> set[str]:
        """Return which of the runs that an agent's journal had were deleted from it."""
        journal = self._door.journal(agent)
        if journal is None or not ids:
            return set()
        present_ids: set[str] = await in_thread(journal.deletions.ids_present, [*ids])
        return ids - present_ids

    # -- answering and going on --------------------------------------------------------------------

    async def has_answer(self, run: ServedRun, token: str) -> bool:
        """Return whether a run has got the answer that a token names, in any process."""
        journal: Any = self._door.journal(run.request.agent)
        return bool(await in_thread(journal.waits.marked, [run.id], token))

    async def questions(self, run: ServedRun) -> RunQuestions:
        """Return what a run asks its caller, and has asked."""
        questions: RunQuestions = await in_thread(self._read_questions, run, run.view)
        return questions

    def _read_questions(self, run: ServedRun, view: RunView) -> RunQuestions:
        journal: Any = self._door.journal(run.request.agent)
        caller = run.request.caller
        decided = journal.waits.decided(caller, run.id)
        late_keys = view.calls_by_wait.keys() - {each.key for each in (*view.waits, *decided)}
        answered_asks = asks_of(decided, self._served.callers.permits(caller))
        return RunQuestions(run.state.asks, answered_asks, late_keys)

    async def give(self, run: ServedRun, token: str, answers: Mapping[str, Any]) -> None:
        """Give a run answers by key, once; whoever calls this may go on with it.

        Raises:
            RunRefused: somebody else has answered otherwise
        """
        journal: Any = self._door.journal(run.request.agent)

        def give_all() -> None:
            journal.waits.mark(run.id, token)
            for key, answer in answers.items():
                journal.answer(run.id, key, answer, by=run.request.caller)

        try:
            await self._served.answer(run.id, give_all)
        except StateError as error:
            raise RunRefused("unexpected", str(error)) from error

    async def request_to_go_on(self, agent: str, id: str) -> CallerRequest | None:
        """Return who asks for a run that can go on; None for any other."""
        request: CallerRequest | None = await in_thread(self._request_to_go_on, agent, id)
        return request

    def _request_to_go_on(self, agent: str, id: str) -> CallerRequest | None:
        journal: Any = self._door.journal(agent)
        with journal.file.skipping_damaged(id):
            run = journal.run(id)
            if run.held or run.state not in ("stopped", *RESTING):
                return None
            view = RunView(journal, run)
            return None if view.is_in_doubt else self._door.request_in(view, None)
        return None

    async def cancel(self, run: ServedRun) -> ServedRun | None:
        """Cancel a run, whoever works on it, and return it; None if it was over, or does not end.

        Raises:
            RunRefused: the caller has no such run any more, or a person decides about a call of it
        """
        agent, sender = run.request.agent, run.request.sender
        run = await self.find_run(agent, sender, run.id)
        if run.is_in_doubt and run.state.waits:
            text = f"{self._door.noun} {run.id} is {waiting_text(run.state.waits)}"
            raise RunRefused("not_cancelable", text)
        if run.state.is_over:
            return None
        journal: Any = self._door.journal(agent)
        cause = f"the {self._door.noun} was cancelled"
        try:
            if not await in_thread(journal.waits.cancel, run.id, cause):
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await self.until_idle(run)
        except (TimeoutError, StateError):  # it has just ended
            return None
        run = await self.find_run(agent, sender, run.id)
        return run if run.state.name == "cancelled" else None

    async def until_idle(self, run: ServedRun) -> None:
        """Wait until no process works on a run any more."""
        journal: Any = self._door.journal(run.request.agent)
        async for _ in journal.follow(run.id):
            pass

    async def ids_to_resume(self, agent: str, cut_off: bool) -> list[str]:
        """Return the runs of an agent that wait, and those that were cut off if these are wanted.

        Raises:
            JournalError: the journal cannot be read
        """
        journal = self._door.journal(agent)
        if journal is None:
            return []
        ids: list[str] = await in_thread(journal.waits.run_ids, agent)
        if cut_off:
            find_runs = partial(journal.runs, agent=agent, state=Outline.cut_off)
            ids += [run.id for run in await in_thread(find_runs)]
        return [each for each in ids if self._door.is_mine(each)]

    async def sent_before(
        self, agent: str, sender: str, name: str, digest: str, is_taken: Callable[[str], bool]
    ) -> str | None:
        """Return the run of a request that was sent within the last hour, or None.

        Args:
            agent: its agent
            sender: its sender
            name: under what name its beginning has the digest of the request
            digest: the digest; the last part of the run's id begins with it
            is_taken: says of a run whether it is not wanted
        """
        journal = self._door.journal(agent)
        if journal is None:
            return None

        def find_sent() -> str | None:
            since = time.time() - _RECENT_S
            for run in journal.runs(agent=agent, thread=sender, since=since, sort="-began"):
                may_be = run.id.rpartition(".")[2].startswith(digest[:8]) and not is_taken(run.id)
                if may_be and RunView(journal, run).begun_with(name) == digest:
                    return run.id
            return None

        run_id: str | None = await in_thread(find_sent)
        if run_id is not None:  # perhaps it is still being cancelled, or goes on already
            async for _ in journal.follow(run_id):
                pass
        return run_id
