"""What goes on with the runs of a service: one `Resumer` in a process, and the host that it has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from moothall.agents.replies.sub_agents.resumable import ResumedRun, who_resumes
from moothall.agents.replies.sub_agents.resuming import ResumeChoices
from moothall.foundation.text import log_failure
from moothall.foundation.threads import is_cancelled

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Outline


class ResumeHost:
    """A service whose runs go on: a company, a server of agents, a page. It says which, and how.

    Args:
        agents: its agents, of any kind; a service whose agents change overrides `agents`

    Attributes:
        look_s: seconds between two looks at what can go on
        logger: where it is logged
    """

    look_s: float = 2.0
    logger: logging.Logger = logging.getLogger("moothall.agents")

    def __init__(self, *agents: Any) -> None:
        self._agents = agents

    def agents(self) -> Iterable[Any]:
        """Return the agents that are up now."""
        return self._agents

    def is_wanted(self, run: Outline) -> bool:
        """Return whether a run that has waited goes on here once it can."""
        return True

    def is_cut_off_wanted(self, run: Outline) -> bool:
        """Return whether a run whose process ended is resumed here, once its agent is up."""
        return False

    def budget_of(self, run: Outline) -> Budget | None:
        """Return what a run may spend; None for what its agent may."""
        return None

    async def at_look(self) -> None:
        """Go on with what the service has beside the runs of its agents."""

    async def at_end(self, resumed: ResumedRun) -> None:
        """Hear what became of a run."""


class _Life:
    """An agent that has runs, from its first look until it leaves."""

    def __init__(self, agent: Any, service_agent: Any) -> None:
        self.agent, self.service_agent = agent, service_agent
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_over = False

    def track(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Have resumptions go on beside the looks."""
        for task in tasks:
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            if self.is_over:  # it has left while they were looked for
                task.cancel()


class _ResumingPart:
    """A part of the process that goes on with what it has itself, on its own loop."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look, self._loop = look, asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None

    async def look(self) -> None:
        """Look, on its loop."""
        if asyncio.get_running_loop() is self._loop:
            await self._look_here()
        else:
            look = asyncio.run_coroutine_threadsafe(self._look_here(), self._loop)
            await asyncio.wrap_future(look)

    async def _look_here(self) -> None:
        self._task = asyncio.current_task()
        try:
            await self._look()
        finally:
            self._task = None

    def end(self) -> None:
        """End the look that is under way."""
        if self._task is not None:
            self._task.cancel()


class Resumer:
    """Goes on with the runs of a service: those that were cut off, and those that have waited.

    Use it as `async with` around a service: it has looked before the first request, looks every few
    seconds, and cancels what goes on at the end. One that lets that end first awaits `look`, has
    `run` go on beside it, and `close` at last. A reply that comes late goes to the sender of its
    message. What fails is logged, and looked at again. It belongs to one loop.

    Args:
        host: the service
    """

    def __init__(self, host: ResumeHost) -> None:
        self._host = host
        self._lives: dict[int, _Life] = {}  # by the agent's identity
        self._ids_to_look_up: set[str] = set()  # agents with runs that were cut off
        self._parts: list[_ResumingPart] = []
        self._woken = asyncio.Event()
        self._looks: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.look()
        self._looks = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looks is not None:
            await _end([self._looks])
        await self.close()

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """What goes on now."""
        return [task for life in self._lives.values() for task in life.tasks]

    async def run(self) -> None:
        """Look every few seconds, and when it is woken, until this is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._host.look_s):
                    await self._woken.wait()
            self._woken.clear()
            await self.look()

    def wake(self) -> None:
        """Have `run` look at once; call it on the loop of that."""
        self._woken.set()

    def look_up_again(self, agent_id: str) -> None:
        """Have the runs of an agent that were cut off looked up again; callable in any thread."""
        self._ids_to_look_up.add(agent_id)

    async def look(self) -> None:
        """Begin to go on with what can; return once it has begun."""
        by_identity: dict[int, tuple[Any, Any]] = {}
        for service_agent in self._host.agents():
            with self._logging(service_agent):
                for agent in who_resumes(service_agent):
                    by_identity.setdefault(id(agent), (agent, service_agent))
        for key in self._lives.keys() - by_identity.keys():
            if not self._lives[key].tasks:
                del self._lives[key]
        for agent, service_agent in by_identity.values():
            with self._logging(agent):
                await self._look_at(agent, service_agent)
        await self._look_elsewhere(self._host.at_look)
        for part in [*self._parts]:
            await self._look_elsewhere(part.look)

    async def _look_at(self, agent: Any, service_agent: Any) -> None:
        """Begin to go on with the runs of an agent, and of those that it has asked."""
        agent_id, life = str(agent.id), self._lives.get(id(agent))
        if life is None:
            life = self._lives[id(agent)] = _Life(agent, service_agent)
            self._ids_to_look_up.add(agent_id)
            for each in agent.resuming.agents():  # they may be of a service that has ended
                each.is_ending = False
        # Before it resumes: a reply that meanwhile loses the journal adds it again.
        if agent_id in self._ids_to_look_up:
            self._ids_to_look_up.discard(agent_id)
            try:
                life.track(await self._begin_cut_off(life))
            except Exception:
                self._ids_to_look_up.add(agent_id)
                raise
        choices = self._choices(self._host.is_wanted, "run %r goes on: %s")
        life.track(await agent.resuming.begin_decided(choices))

    async def _begin_cut_off(self, life: _Life) -> list[asyncio.Task[Any]]:
        """Begin with an agent's own runs that were cut off; those that it has asked come then."""
        choices = self._choices(self._host.is_cut_off_wanted, "run %r had stopped: %s")
        own_tasks = await life.agent.resuming.begin_stopped(choices, are_own=True)

        async def begin_asked() -> None:
            if own_tasks:
                await asyncio.wait(own_tasks)
            try:
                life.track(await life.agent.resuming.begin_stopped(choices, are_own=False))
            except Exception as error:
                self.look_up_again(str(life.agent.id))
                self._log(life.agent, error)

        return [*own_tasks, asyncio.create_task(begin_asked())]

    def _choices(self, is_wanted: Callable[[Outline], bool], text: str) -> ResumeChoices:
        async def at_end(resumed: ResumedRun) -> None:
            self._host.logger.info(text, resumed.run.id, resumed.outcome)
            await self._host.at_end(resumed)

        return ResumeChoices(budget=self._host.budget_of, is_wanted=is_wanted, at_end=at_end)

    async def _look_elsewhere(self, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except asyncio.CancelledError:
            if is_cancelled():
                raise  # else the part has just ended
        except Exception as error:  # of a journal that is away, or code of others
            log_failure(self._host.logger, "what can go on cannot be looked up", error)

    @asynccontextmanager
    async def looking(self, look: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Have `look` awaited within a `with` block at each look, on this loop; once before it."""
        part = _ResumingPart(look)
        await self._look_elsewhere(part.look)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.remove(part)
            part.end()

    async def leave(self, service_agent: Any) -> None:
        """Cancel what goes on of an agent that has died: its next life goes on with that."""
        lives = [each for each in self._lives.values() if each.service_agent is service_agent]
        for life in lives:
            del self._lives[id(life.agent)]
            life.is_over = True
        await _end([task for life in lives for task in life.tasks])

    async def close(self) -> None:
        """Cancel what goes on: the next start goes on with it."""
        await _end(self.tasks)

    def _log(self, agent: Any, error: Exception) -> None:
        text = f"what agent {agent.id!r} had begun cannot be looked up"
        log_failure(self._host.logger, text, error)

    @contextmanager
    def _logging(self, agent: Any) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the others have other journals, and code of their own
            self._log(agent, error)


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
