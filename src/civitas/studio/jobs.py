"""What the studio runs in the background: orders, each on a loop and a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from civitas.agents.person import Person
from civitas.approval import CallbackApprover
from civitas.errors import ConfigError, NoSuchRun, RunMismatch, StateError
from civitas.orders.act import act_agent, apart, is_small, keys
from civitas.orders.order import AnyOrder, Order, ResearchOrder, order_of, record, without_keys
from civitas.orders.research import check, researcher, write
from civitas.orders.simulate import SimulateOrder
from civitas.reasoning.read_record import check as check_program
from civitas.reasoning.resume import ENDED
from civitas.studio.cards import PageDesk

if TYPE_CHECKING:
    from civitas.studio.hub import Hub
    from civitas.studio.society import SocietyTab

logger = logging.getLogger("civitas.studio")
_Order: TypeAlias = Order | ResearchOrder

NO_MORE: Final[Mapping[str, float]] = {}
_MORE: Final[dict[str, Callable[[float], float]]] = {
    "iterations": int,
    "max_usd": float,
    "max_tokens": int,
    "max_seconds": float,
}
"""The limits that a run may go on with other ones of."""
_ENDS_S = 20.0
"""How long `close` waits for a run to end what it does."""


@dataclass
class _Job:
    """One run in the background, on a loop and a thread of its own."""

    run_id: str
    order: _Order
    told: list[str]  # what it hears when it goes on
    state: str = "running"
    began: Future[None] = field(default_factory=Future)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None
    loop: Any = None
    task: Any = None
    thread: Any = None

    def to_json(self) -> dict[str, Any]:
        """What pages are told of it."""
        of = {"run": self.run_id, "command": self.order.command, "told": [*self.told]}
        return {**of, "state": self.state}

    def call(self, function: Callable[[], object]) -> None:
        """Call it on the loop of the run."""
        with suppress(RuntimeError):  # it has ended in this moment
            self.loop.call_soon_threadsafe(function)


class Jobs:
    """Runs in the background: begun, held, steered and stopped, by any page and in any thread.

    They are recorded as those of the command line are, so that either goes on with the other's.
    Each change is told to the pages by the topic `job`.
    """

    def __init__(self, hub: Hub, society: SocietyTab) -> None:
        self._hub = hub
        self._society = society
        self._jobs: dict[str, _Job] = {}
        self._told: dict[str, list[str]] = {}

    def start(self, order: _Order, *, run_id: str | None = None) -> str:
        """Begin a run, or go on with one; give its id once it is under way.

        A loop that runs in this thread waits for that. What it comes to is in the journal.
        """
        if not order.task.strip():
            raise ConfigError("the task is empty: say what is to be done")
        without_keys(order)
        run_id = run_id or secrets.token_hex(8)
        if run_id in self._jobs:
            raise ConfigError(f"run {run_id!r} is under way already")
        job = _Job(run_id, order, self._told.setdefault(run_id, []))
        job.goes_on.set()
        job.thread = threading.Thread(
            target=self._run, args=(job,), name=f"civitas-{run_id}", daemon=True
        )
        job.thread.start()
        job.began.result()
        return run_id

    def resume(self, run_id: str, more: Mapping[str, float] = NO_MORE) -> str:
        """Go on with a run that has stopped, as its order says; give its id, or that of a copy.

        `more` has new limits, such as `max_usd`; with more iterations a research that has used up
        those that it had goes on too.
        """
        journal = self._hub.journal
        outline = journal.run(run_id)
        order = order_of(journal.entries(run_id))
        if order is None:
            raise StateError(
                f"run {run_id!r} was begun by a program of yours, which goes on with it by "
                f"run_id={run_id!r}; or `civitas resume {run_id} --agent MODULE:AGENT`"
            )
        if more:
            order = _with_more(order, more)
        if isinstance(order, SimulateOrder):
            self._society.set_up(order, run_id)
            return run_id
        if outline.state in ENDED and "iterations" not in more:
            raise StateError(f"run {run_id!r} is over ({outline.state}): begin another")
        copies = [each.id for each in journal.runs() if each.forked_from == run_id]
        if copies:
            raise StateError(f"run {run_id!r} has gone on as a copy: resume run {copies[-1]!r}")
        doubts = [] if outline.state == "running" else journal.in_doubt(run_id)
        if doubts:
            raise StateError(
                f"run {run_id!r} cannot go on before you decide: nobody knows whether "
                f"{', '.join(each.action for each in doubts)} took effect when the process ended: "
                "decide in the tab Runs"
            )
        try:
            return self.start(order, run_id=run_id)
        except RunMismatch as error:
            # The small model is given the names of the files with its actions.
            small = isinstance(order, Order) and is_small(order.model)
            if not small or error.changed != ("actions",):
                raise
            return self.start(order, run_id=journal.fork(run_id))

    def stop(self, run_id: str) -> None:
        """Cancel a run; `resume` goes on with it. ConfigError if it is not under way here."""
        job = self._job(run_id)
        self._become(job, "stopping", job.task.cancel)

    def pause(self, run_id: str) -> None:
        """Have a run wait before its next call of a model or a tool. Its time limit runs on."""
        job = self._job(run_id)
        self._become(job, "paused", job.goes_on.clear)

    def go_on(self, run_id: str) -> None:
        """Have a run that was paused wait no more."""
        job = self._job(run_id)
        self._become(job, "running", job.goes_on.set)

    def steer(self, run_id: str, text: str) -> None:
        """Tell a run something: its agent stops what it is doing, and goes on with this.

        One that is paused hears it when it goes on; `told` has it until then.
        """
        if not text.strip():
            raise ConfigError("write what the agent is to be told")
        job = self._job(run_id)
        job.told.append(text.strip())
        self._hear(job)

    def told(self, run_id: str) -> list[str]:
        """What a run was told and hears when it goes on."""
        return [*self._told.get(run_id, ())]

    def running(self) -> list[dict[str, Any]]:
        """The runs under way here, the oldest first; `state` is running, paused or stopping."""
        return [job.to_json() for job in list(self._jobs.values())]

    def state(self, run_id: str) -> str | None:
        """How a run stands that is under way here; None if it is not."""
        job = self._jobs.get(run_id)
        return None if job is None else job.state

    def close(self) -> None:
        """Cancel all runs, and wait until what they do has ended; they can go on later."""
        jobs = list(self._jobs.values())
        for job in jobs:
            self._become(job, "stopping", job.task.cancel)
        for job in jobs:
            job.thread.join(_ENDS_S)

    def _job(self, run_id: str) -> _Job:
        job = self._jobs.get(run_id)
        if job is None:
            raise ConfigError(f"run {run_id!r} is not under way here")
        return job

    def _become(self, job: _Job, state: str, change: Callable[[], object]) -> None:
        if job.state != "stopping":
            job.state = state
            self._hear(job)
            job.call(change)

    def _hear(self, job: _Job) -> None:
        """Have the agent hear what it was told, unless it is paused; and tell pages of the run."""
        if job.state == "running" and job.told:
            job.agent.interrupt("\n\n".join(job.told))
            job.told.clear()
        if job.run_id in self._jobs:
            self._hub.feed.publish("job", job.to_json())

    def _run(self, job: _Job) -> None:
        try:
            job.agent = _agent_for(job.order, self._hub)
            _check_goes_on(job.run_id, job.agent, self._hub)
            _hold_at(job.agent, job.goes_on.wait)
            asyncio.run(self._live(job))
        except BaseException as error:
            if job.began.done():
                raise
            job.began.set_exception(error)

    async def _live(self, job: _Job) -> None:
        order, agent, run_id = job.order, job.agent, job.run_id
        await record(order, self._hub.journal, run_id, agent)
        job.loop = asyncio.get_running_loop()
        job.task = asyncio.create_task(agent.reply(order.task, run_id=run_id))
        self._jobs[run_id] = job
        self._hear(job)
        job.began.set_result(None)
        reason, text, reply = "cancelled", "", None
        try:
            try:
                reply = await job.task
                reason, text = reply.stop_reason, reply.detail
            except asyncio.CancelledError:
                pass
            if isinstance(order, ResearchOrder):  # as the command does
                write(reply.value if reply else agent.report_so_far(), order)
        except Exception as error:
            reason, text = "error", str(error) or type(error).__name__
            logger.error("run %r failed", run_id, exc_info=error)
        del self._jobs[run_id]
        told = {**job.to_json(), "state": "ended", "reason": reason, "text": text}
        self._hub.feed.publish("job", told)


def _agent_for(order: _Order, hub: Hub) -> Any:
    journal, cards = hub.journal, hub.cards
    if not isinstance(order, Order):
        check(order)
        agent: Any = researcher(order, journal, os.environ.get("CIVITAS_KEY"))
        agent.approver = cards
        return agent
    apart(order, journal.path)
    key, own_key = keys(order, {})  # a key of civitas.toml is for the command that read it
    given: dict[str, Any] = {"key": key, "own_key": own_key, "journal": journal}
    approve = partial(cards.approve, task=order.task, folder=order.root)
    given["approver"] = CallbackApprover(approve, cards.answer)
    if order.review != "me":
        return act_agent(order, **given)
    desk = PageDesk(cards, order.task)
    agent = act_agent(order, reviewer=Person("you", desk=desk), **given)
    agent.watch(desk.saw)
    return agent


def _with_more(order: AnyOrder, more: Mapping[str, float]) -> AnyOrder:
    """An order with other limits; ConfigError for what is none."""
    if not more.keys() <= _MORE.keys() & {*order.may_change}:
        raise ConfigError(f"a run of civitas {order.command} has no such limits: {', '.join(more)}")
    wrong = next((name for name, value in more.items() if not 0 < value < math.inf), None)
    if wrong is not None:
        raise ConfigError(f"{wrong} must be a number above 0, got {more[wrong]}")
    given: dict[str, Any] = {name: _MORE[name](value) for name, value in more.items()}
    return replace(order, **given)


class _Held:
    """A model that waits while its run is paused."""

    def __init__(self, model: Any, wait: Any) -> None:
        self._model = model
        self._wait = wait

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, *args: Any, **options: Any) -> Any:
        """Answer, once the run goes on."""
        await self._wait()
        return await self._model.complete(*args, **options)


def _hold_at(agent: Any, wait: Any) -> None:
    """Have an agent wait before each call of its model and of a tool."""

    async def held(agent: Any, about: dict[str, Any]) -> None:
        await wait()

    if hasattr(agent, "human_agent"):  # a dual act has the two wait, and is asked nothing itself
        members = [agent.human_agent, agent.reactive_agent]
    else:
        members = [agent]
    for each in members:
        each.register_hook("pre_reasoning", "studio", held)
        each.register_hook("pre_acting", "studio", held)
    if hasattr(agent, "steps") and agent.model is not None:
        agent.model = _Held(agent.model, wait)  # a researcher's model is asked without hooks


def _check_goes_on(run_id: str, agent: Any, hub: Hub) -> None:
    """See now, and not when it is under way, that an agent is the one that began a run."""
    try:
        entries = hub.journal.entries(run_id)
    except NoSuchRun:
        return
    begun = next((each.data for each in entries if not each.path and each.kind == "begun"), None)
    if begun is not None:
        check_program(run_id, begun, begun["kind"], str(agent.id), agent._program())
