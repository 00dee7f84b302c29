"""The runs of a door in the agents' journals: found, listed, answered, cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from moothall import NoSuchRun, StateError
from moothall.agents import runs_that_go_on
from moothall.journal import Journal, Outline, RunView
from moothall.serving.doors.asks import RESTING, Ask, asks_of, waiting_text
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.protocols import DoorProtocol
from moothall.serving.doors.served.served_run import (
    CallerRequest,
    Content,
    RunQuestions,
    RunRefused,
    RunState,
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


class DoorRuns:
    """What a door says of its runs; each door overrides what differs.

    Args:
        served: the agents
        protocol: the protocol of the door

    Attributes:
        noun: what its protocol calls a run
        outlives_request: whether a run goes on when the client of its request has left
    """

    noun = "run"
    outlives_request = False

    def __init__(self, served: Served, protocol: DoorProtocol) -> None:
        self._served, self._protocol = served, protocol

    def request(
        self,
        id: str,
        agent: str,
        sender: str,
        context: str = "",
        content: Content = "",
        **more: Any,
    ) -> CallerRequest:
        """Return the request of the caller who sends as this sender; `more` are other fields."""
        name = sender.partition("/")[0]
        caller = self._served.callers.name_of_sender(self._protocol.sender, name)
        return CallerRequest(id, agent, sender, caller, context, content, **more)

    def journal(self, agent: str) -> Journal | None:
        """Return the journal that keeps an agent's runs of this door; None without one."""
        return self._served.journal_of(agent)

    def is_mine(self, run_id: str) -> bool:
        """Return whether a run is of this door, which resumes it."""
        return False

    def request_in(self, view: RunView, sender: str | None) -> CallerRequest | None:
        """Return who asks for a run of the journal; None if it is no run of this door and sender.

        Without a sender, that has to be found out: the run is to go on.
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
    """The runs of a door that the agents' journals have; its plain functions read files."""

    def __init__(self, served: Served, door: DoorRuns) -> None:
        self._served, self._door = served, door

    def find_run(self, agent: str, sender: str, id: str) -> ServedRun:
        """Return a caller's run; raise RunRefused if it has none."""
        run, journal = None, self._door.journal(agent)
        if journal is not None:
            with suppress(NoSuchRun):
                run = self._read(agent, sender, RunView(journal, id))
        if run is None:
            raise RunRefused("unknown", f"there is no such {self._door.noun}")
        return run

    def load(self, run: ServedRun) -> ServedRun:
        """Return a run of `outlines` whole; raise NoSuchRun if it was deleted meanwhile."""
        request, journal = run.request, self._door.journal(run.request.agent)
        if run.view is None or journal is None:
            return run
        view = RunView(journal, run.view.outline)
        return self._read(request.agent, request.sender, view) or run

    def _read(self, agent: str, sender: str, view: RunView) -> ServedRun | None:
        is_agents = view.outline.agent == agent
        request = self._door.request_in(view, sender) if is_agents else None
        if request is None:
            return None
        may_permit = self._served.callers.permits(request.caller)
        door_data = self._door.door_data(request)
        return recorded_run(request, view, self._served.agents[agent], may_permit, door_data)

    def outlines(self, agent: str, sender: str, live_ids: Collection[str]) -> Iterator[ServedRun]:
        """Yield all runs of a caller and an agent but these, with no more than their outlines."""
        if (journal := self._door.journal(agent)) is None:
            return
        for run in journal.runs(agent=agent):
            context = None if run.id in live_ids else self._door.context_of(run, sender)
            if context is not None:
                name = state_name_of(run, self._served.agents[agent], journal)
                request = self._door.request(run.id, agent, sender, context)
                yield ServedRun(request, RunState(name, at=run.changed), view=RunView(journal, run))

    def deleted(self, agent: str, ids: set[str]) -> set[str]:
        """Return which of the runs that an agent's journal had were deleted from it."""
        journal = self._door.journal(agent) if ids else None
        return set() if journal is None else ids - journal.deletions.ids_present([*ids])

    # -- answering and going on --------------------------------------------------------------------

    def has_answer(self, run: ServedRun, token: str) -> bool:
        """Return whether a run has got the answer that a token names, in any process."""
        return bool(self._journal_of(run).waits.marked([run.id], token))

    def questions(self, run: ServedRun, view: RunView) -> RunQuestions:
        """Return what a run asks its caller, and has asked."""
        caller, waits = run.request.caller, self._journal_of(run).waits
        views = view.with_asked()
        decided = [wait for each in views for wait in waits.decided(caller, each.outline.id)]
        asked_keys = {key for each in views for key in each.calls_by_wait}
        late_keys = asked_keys - {each.key for each in (*view.all_waits, *decided)}
        answered_asks = asks_of(decided, self._served.callers.permits(caller))
        return RunQuestions(run.state.asks, answered_asks, late_keys)

    async def give(
        self, run: ServedRun, token: str, answers: Mapping[str, Any], asks: Mapping[str, Ask]
    ) -> None:
        """Give a run answers by key; raise RunRefused if somebody else has answered otherwise.

        `asks` say which run asks: also those are answered for which it waits.
        """
        journal = self._journal_of(run)

        def give_all() -> None:
            journal.waits.mark(run.id, token)
            for key, answer in answers.items():
                id = asks[key].run if key in asks else run.id
                journal.answer(id, key, answer, by=run.request.caller)

        try:
            await self._served.answer(run.id, give_all)
        except StateError as error:
            raise RunRefused("unexpected", str(error)) from error

    def request_to_go_on(self, agent: str, id: str) -> CallerRequest | None:
        """Return who asks for a run that can go on; None for any other."""
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
        ids, journal, noun = run.ids, self._journal_of(run), self._door.noun
        run = await in_thread(self.find_run, *ids)
        if run.is_in_doubt and run.state.waits:
            text = f"{noun} {run.id} is {waiting_text(run.state.waits)}"
            raise RunRefused("not_cancelable", text)
        if run.state.is_over:
            return None
        cause = f"the {noun} was cancelled"
        try:
            if not await in_thread(journal.waits.cancel, run.id, cause):
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await self.until_idle(run.request.agent, run.id)
        except (TimeoutError, StateError):  # it has just ended
            return None
        run = await in_thread(self.find_run, *ids)
        return run if run.state.name == "cancelled" else None

    async def until_idle(self, agent: str, id: str) -> None:
        """Wait until no process works on a run any more."""
        journal: Any = self._door.journal(agent)
        async for _ in journal.follow(id):
            pass

    def ids_to_resume(self, agent: str, cut_off: bool) -> list[str]:
        """Return the runs of an agent that can go on; if wanted, also those that were cut off.

        Raises:
            JournalError: the journal cannot be read
        """
        if self._door.journal(agent) is None:
            return []
        served_agent = self._served.agents[agent]
        by_agent = runs_that_go_on(served_agent, cut_off=cut_off)
        runs = [run for each, runs in by_agent if each is served_agent for run in runs]
        return [each.id for each in runs if self._door.is_mine(each.id)]

    def sent_before(
        self, agent: str, sender: str, name: str, digest: str, is_taken: Callable[[str], bool]
    ) -> str | None:
        """Return the run of a request that was sent within the last hour, or None.

        Its beginning has the digest of the request under this name, and the last part of its id
        begins with it. `is_taken` says of a run that it is not wanted.
        """
        journal, since = self._door.journal(agent), time.time() - _RECENT_S
        if journal is None:
            return None
        for run in journal.runs(agent=agent, thread=sender, since=since, sort="-began"):
            may_be = run.id.rpartition(".")[2].startswith(digest[:8]) and not is_taken(run.id)
            if may_be and RunView(journal, run).begun_with(name) == digest:
                return run.id
        return None

    def _journal_of(self, run: ServedRun) -> Any:
        return self._door.journal(run.request.agent)
