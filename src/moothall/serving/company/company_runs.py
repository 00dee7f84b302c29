"""The runs of a company that go on: its agents', and the firings of its schedules."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moothall import JournalError, MoothallError, RunDamaged
from moothall.agents import ResumeHost, Resumer, who_resumes
from moothall.serving.company.scheduled_call import REPLY_SUFFIX, ScheduledCall
from moothall.serving.company.supervisor import Supervised

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.journal import Outline
    from moothall.serving.company.company_space import CompanySpace
    from moothall.serving.company.scheduler import Scheduler


class CompanyRuns(ResumeHost):
    """What a company goes on with.

    Args:
        space: its space
        agents: its agents that are in the space, by name
        parts: what becomes of each of them, by name
        calls: what its schedules call

    Attributes:
        resumer: what goes on with it, and how far that is
        scheduler: makes the firings; None without schedules or a journal
        answered_runs: the runs that a caller has answered at a door, whose call goes on with them
    """

    look_s: float = 1.0
    logger: logging.Logger = logging.getLogger("moothall.serving.company")

    def __init__(
        self,
        space: CompanySpace,
        agents: Mapping[str, Agent],
        parts: Mapping[str, Supervised],
        calls: Mapping[str, ScheduledCall],
    ) -> None:
        super().__init__()
        self._space, self._agents_by_name, self._parts = space, agents, parts
        self._calls = calls
        self._has_waiting_firings = True  # what waited may have gone on before the last end
        self.resumer: Resumer = Resumer(self)
        self.scheduler: Scheduler | None = None
        self.answered_runs: set[str] = set()

    def agents(self) -> Iterable[Agent]:
        """Return those that are in the space."""
        agents = [*self._agents_by_name.items()]
        return [each for name, each in agents if self._parts[name].state == "running"]

    def is_wanted(self, run: Outline) -> bool:
        """Return whether a run that has waited goes on by its agent, and not by a door."""
        return run.id not in self.answered_runs and self._space.resumes_waiting(run)

    def is_cut_off_wanted(self, run: Outline) -> bool:
        """Return whether a run that was cut off is resumed by its agent: nothing else does."""
        return self._space.resumes_stopped(run)

    async def at_look(self) -> None:
        """Go on with firings that stopped, that a person has decided about, or wants."""
        if self.scheduler is None or self.are_any_on_standby:
            return
        await self.scheduler.resume(self._calls, self._has_waiting_firings)
        self._has_waiting_firings = False

    @property
    def are_any_on_standby(self) -> bool:
        """Whether another process has the id of an agent that a schedule calls."""
        return any(self._parts[each.to].state == "standby" for each in self._calls.values())

    async def at_end(self, resumed: Any) -> None:
        """Go on with the firing of a run; note one that a lost journal has stopped again."""
        run_id, reply = resumed.run.id, resumed.reply
        if is_journal_away(resumed.error if reply is None else reply.error):
            self.resumer.look_up_again(resumed.run.agent)
        if run_id.endswith(REPLY_SUFFIX) and self.scheduler is not None:
            try:
                await self.scheduler.finish(self._calls, run_id.removesuffix(REPLY_SUFFIX))
            except MoothallError as error:
                self.logger.error("the firing of run %r does not go on: %s", run_id, error)

    # -- its end -----------------------------------------------------------------------------------

    def begin_no_more(self) -> None:
        """Have no run begin to go on: a resumption is shielded from the end of the looks."""
        for agent in self._agents_with_runs():
            agent.is_ending = True

    def leave(self, leave: bool = True) -> None:
        """Have the runs that are cancelled from now on go on at the next start."""
        journals = (self._space.journal, *(each.journal for each in self._agents_with_runs()))
        for journal in journals:
            if journal is not None:
                journal.leave_runs(leave=leave)

    def _agents_with_runs(self) -> list[Any]:
        """Return the agents with runs in a journal, and those that they ask."""
        resuming = [each for agent in self._agents_by_name.values() for each in who_resumes(agent)]
        return [each for agent in resuming for each in agent.resuming.agents()]


def is_journal_away(error: object) -> bool:
    """Return whether an error says that the journal was away, so that a run goes on later."""
    return isinstance(error, JournalError) and not isinstance(error, RunDamaged)
