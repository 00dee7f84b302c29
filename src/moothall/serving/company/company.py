"""A company: the agents of a file, supervised, with schedules, health and metrics."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from moothall import (
    Agent,
    AgentDied,
    ConfigError,
    Done,
    Event,
    GivenUp,
    MissingExtra,
    MoothallError,
)
from moothall.build import Threaded, call_user, error_text, log_failure
from moothall.serving.company.company_file import read_settings
from moothall.serving.company.company_runs import CompanyRuns, is_journal_away
from moothall.serving.company.company_space import CompanySpace
from moothall.serving.company.health_routes import routes
from moothall.serving.company.metrics import Metrics
from moothall.serving.company.probe import LIVE_LIMIT_S, Probe, keep_watchdog, notify_systemd
from moothall.serving.company.program import CompanyProgram
from moothall.serving.company.scheduled_call import (
    ScheduleCaller,
    ScheduledCall,
    warn_of_invalid_calls,
)
from moothall.serving.company.scheduler import Scheduler
from moothall.serving.company.settings import CompanyAgentSettings, Settings
from moothall.serving.company.supervisor import Supervised, Supervisor

logger: logging.Logger = logging.getLogger("moothall.serving.company")

_JOURNAL_POLL_S: Final = 1.0
"""Seconds after which a schedule is begun again that could not use the journal."""
_DRAIN_POLL_S: Final = 0.01
_AGENT_FIELDS: Final = ("state", "since", "deaths", "restarts", "error")
_STREAM_GRACE_S: Final = 1.0
"""Seconds that idle streams may stay open at the end."""


class Company:
    """The agents of one process, by name, each supervised. `moothall serve FILE.yaml` runs one.

    An agent dies if making it or its `after_add` raises, if it leaves its space, or if its
    coroutine `background()` raises; an action that raises is an outcome and no death. A dead agent
    is created again and takes its place; messages that wait for it wait for the new one.

    Use it as `async with`, which starts it, and drains it at the end; or call `run`.

    Attributes:
        settings: what the file says
        space: the space of the agents

    Example:
        >>> import asyncio
        >>> from moothall.serving import Company
        >>> async def main() -> None:
        ...     async with Company.from_yaml("company.yaml") as company:
        ...         print(company.health()["ready"])
        >>> asyncio.run(main())  # doctest: +SKIP
        True
    """

    def __init__(self, settings: Settings, folder: Path, name: str = "company") -> None:
        self.settings: Settings = settings
        self.name: str = name
        self._agents: dict[str, Agent] = {}
        self._scheduled_calls: dict[str, ScheduledCall] = {
            id: ScheduledCall(id, each.schedule(), each.to, each.action, each.args, each.time_as)
            for id, each in settings.schedules.items()
        }
        self._program = CompanyProgram(settings, folder)
        self._company_space = CompanySpace(settings, folder, self._on_broker_lost)
        self.space: Any = self._company_space.space
        self._supervisor = Supervisor(
            settings.restart.with_defaults_of(Supervisor().restart), changed=self._on_part_change
        )
        self._probe = Probe(self._company_space)
        self._metrics = Metrics(self._supervisor, self._company_space, self._probe)
        self._departure_events: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._scheduler: Scheduler | None = None
        self._runs = CompanyRuns(
            self._company_space, self._agents, self._supervisor.parts, self._scheduled_calls
        )
        self._failure: BaseException | None = None
        self._is_draining = False
        self._loop: Any = None
        self._server: Any = None
        self._served: Any = None

    @classmethod
    def from_yaml(
        cls, path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Return the company of a file; nothing is started.

        Args:
            path: the file; paths in it are meant from its folder
            environment: the variables that fields for secrets may name; default: those of this
                process

        Raises:
            ConfigError: the file cannot be read, or something in it is wrong: all of it is named,
                each with its line
            MissingExtra: an extra is not installed
        """
        file = Path(path)
        settings = cls.read_settings(file, environment=environment)
        return cls(settings, file.resolve().parent, file.stem)

    @staticmethod
    def read_settings(
        path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None
    ) -> Settings:
        """Return what a file says; its agents are not imported. It raises as `from_yaml` does."""
        return read_settings(Path(path), environment)

    # -- what an operator sees ---------------------------------------------------------------------

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents that are in the space now, by name."""
        return dict(self._agents)

    @property
    def port(self) -> int | None:
        """The port at which HTTP is served, or None."""
        return None if self._server is None else int(self._server.port)

    def health(self) -> dict[str, Any]:
        """Return what `GET /health` says: live, ready, each agent, the broker, the schedules."""
        parts = self._supervised_parts()
        all_run = len(parts) == len(self.settings.agents) and all(
            each.state == "running" for each in parts.values()
        )
        connected = self._company_space.is_connected
        report: dict[str, Any] = {
            "live": self._failure is None and self._probe.silent_s < LIVE_LIMIT_S,
            "ready": (
                all_run
                and connected is not False
                and not self._is_draining
                and self._probe.loops_answer
                and self._probe.journal_answers
            ),
            "draining": self._is_draining,
            "loops": self._probe.loops_answer,
            "agents": {
                name: {key: getattr(each, key) for key in _AGENT_FIELDS}
                for name, each in parts.items()
            },
        }
        if self._company_space.journal is not None:
            report["journal"] = self._probe.journal_answers
            report["operator"] = self._probe.operator_waits
        if connected is not None:
            report["broker"] = {"connected": connected}
        return report

    def metrics(self) -> str:
        """Return what `GET /metrics` says: OpenMetrics text."""
        return self._metrics.text()

    # -- its life ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start it, run until `stop` is called, then drain it.

        Raises:
            GivenUp: an agent has died too often, or the broker was away for too long
            MoothallError: it could not be started
        """
        async with self:
            await self.ended()

    async def ended(self) -> None:
        """Wait until `stop` is called.

        Raises:
            GivenUp: an agent has died too often, or the broker was away for too long
        """
        await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Have `run` and `ended` return; callable in any thread. Does nothing before the start."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._agents_changed = asyncio.Event()
        try:
            await asyncio.to_thread(self._check)
            # Before anything begins: a second process of the same file has done nothing.
            self._bind()
            await self._company_space.open(self.name, self._on_budget_low)
            self._start()
            await self._wait_until_started()
            self._refuse([*self._program.faults.values()])
            warn_of_invalid_calls(self._scheduled_calls.values(), self._agents)
            await self._runs.resumer.look()  # what each run calls is there
            self._start_task(self._runs.resumer.run())
            if self._server is not None:
                self._server.start()
            self._start_task(keep_watchdog(self._probe))
            notify_systemd("READY=1")
        # Also if it is cancelled: what has begun ends, and the journal is closed.
        except BaseException:
            await self._drain(0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._drain(self.settings.drain)

    def _check(self) -> None:
        """Import the modules that the file names, to report mistakes before the start."""
        self._refuse([*self._company_space.missing_files(), *self._program.check()])

    def _refuse(self, faults: Sequence[str]) -> None:
        if faults:
            raise ConfigError("\n".join(f"{self.name}: {each}" for each in faults))

    def _start(self) -> None:
        self.space.on_removed = self._on_agent_left
        self.space.expects(*self.settings.agents)
        self.space.meter(self._metrics.count_request)
        for name, agent_settings in self.settings.agents.items():
            self._start_task(self._supervise(name, agent_settings))
        if self._company_space.journal is not None and self._scheduled_calls:
            caller = ScheduleCaller(self._agents, self._company_space, self.settings.schedules)
            self._scheduler = Scheduler(
                self._company_space.journal,
                caller.make,
                caller.repeats,
                self._metrics.count_firing,
                deaths=caller.deaths,
            )
            self._runs.scheduler = self._scheduler
            self._start_task(self._run_schedules(self._scheduler))
        if self._company_space.journal is not None:
            self._start_task(self._company_space.notify_of_waits(self._program.hooks["on_waiting"]))

    def _start_task(self, work: Any) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        """End the company, if a part of its own work has failed: nothing else would show it."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_failure(logger, "the company cannot go on", error)
            self._end(GivenUp(f"the company cannot go on: {error_text(error, 1000)}"))

    async def _wait_until_started(self) -> None:
        """Wait until each agent runs, stands by or has died once."""
        while True:
            # Before the parts are read: a change in between sets it again.
            self._agents_changed.clear()
            parts = self._supervised_parts()
            started = [each for each in parts.values() if each.state != "starting" or each.deaths]
            if len(started) == len(self.settings.agents) or self._stopping.is_set():
                return
            await self._agents_changed.wait()

    def _bind(self) -> None:
        """Take the address of the doors, `/health` and `/metrics`; they are served later."""
        http = self.settings.http
        if http is None:
            return
        MissingExtra.unless("http", "mcp", "mcp", "mcp_types", "starlette")
        from moothall.serving.doors.application import application
        from moothall.serving.doors.callers import Callers
        from moothall.serving.doors.front import Front
        from moothall.serving.doors.served_agents import Served
        from moothall.serving.doors.server import HTTPServer

        host, port = HTTPServer.place_of(http.listen, "http.listen")
        tokens_by_name = {
            name: [each.token, *([each.old_token] if each.old_token else ())]
            for name, each in http.callers.items()
        }
        if http.token is None and not tokens_by_name and HTTPServer.needs_token(host):
            raise ConfigError(f"{host} can be reached from elsewhere: set http.token")
        limits: Any = {"rate": http.rate, "max_replies": http.max_replies, **http.rights()}
        callers = Callers(tokens_by_name or http.token, **limits)
        self._served = Served((), callers, self.space)
        self._runs.answered_runs = self._served.answered_runs
        parts = (self._company_space, self._probe)
        built_routes, open_paths = routes(self.health, self.metrics, *parts, callers.permits)
        front, drain = Front.of(**http.front_options()), self.settings.drain
        application_args = (self.name, built_routes, open_paths, front, self._runs.resumer)
        app = application(self._served, self._served.callers, *application_args, drain_s=drain)
        self._server = HTTPServer(app, host, port, drain)

    async def _drain(self, seconds: float) -> None:
        """Begin nothing new; let what runs end within some seconds; then end it."""
        self._is_draining = True
        notify_systemd("STOPPING=1")
        deadline = self._loop.time() + seconds

        def seconds_left() -> float:
            return max(0.0, float(deadline - self._loop.time()))

        if self._server is not None:
            self._server.stop()
        self._runs.begin_no_more()
        for task in self._tasks:
            task.cancel()
        firings = () if self._scheduler is None else self._scheduler.firing_tasks.values()
        if tasks := [*firings, *self._runs.resumer.tasks]:
            await asyncio.wait(tasks, timeout=seconds_left())
        while self._served is not None and self._served.busy and seconds_left():  # noqa: ASYNC110
            await asyncio.sleep(_DRAIN_POLL_S)  # calls end without an event
        # Before they are cancelled, so that their runs go on at the next start.
        self._runs.leave()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)
        if self._server is not None:
            # Idle streams get a moment to end by themselves; then their connections are cut.
            await asyncio.to_thread(self._server.join, _STREAM_GRACE_S)
            self._server.stop(at_once=True)
            await asyncio.to_thread(self._server.join, _STREAM_GRACE_S)
        self.space.grace_s = seconds_left()
        await asyncio.to_thread(self._company_space.close)
        self._runs.leave(False)  # another company of this process may have the same agents

    # -- agents ------------------------------------------------------------------------------------

    def _supervised_parts(self) -> dict[str, Supervised]:
        return self._supervisor.parts

    def _on_part_change(self, part: Supervised) -> None:
        expected = self.space.expected
        if part.state == "standby":
            expected.forget(part.name)  # another process has it
        elif part.state == "given up":
            expected.fail(part.name)
        else:
            expected.expect([part.name])
        self._agents_changed.set()
        self._runs.resumer.wake()

    async def _supervise(self, name: str, agent_settings: CompanyAgentSettings) -> None:
        """Supervise one agent until it is given up."""
        rule = agent_settings.restart.with_defaults_of(self._supervisor.restart)
        try:
            await self._supervisor.keep(
                name, partial(self._run_agent, name, agent_settings), restart=rule
            )
        except GivenUp as error:
            await self._give_up(name, error)

    async def _run_agent(
        self, name: str, agent_settings: CompanyAgentSettings, part: Supervised
    ) -> None:
        """Make an agent, add it to the space, and wait until it dies."""
        old_agent = self._agents.get(name)
        # In a thread: a user's function may load a model or ask a server.
        agent = await asyncio.to_thread(self._create_agent, name, agent_settings)
        departure = self._departure_events[name] = asyncio.Event()
        self._agents[name] = agent
        tasks: list[asyncio.Task[Any]] = []
        if isinstance(agent, Threaded) and agent is not old_agent:
            # Before it enters: what waits for it begins at once, and is counted, too.
            agent.watch(partial(self._on_event, name))
        try:
            await self._company_space.enter(agent, old_agent, part)
            departure.clear()  # an attempt to add it that failed set this
            if agent.space_mailbox is None:  # it has left since
                departure.set()
            if self._served is not None:
                self._served.put(agent)
            part.running()
            departure_task = asyncio.create_task(departure.wait())
            tasks = [departure_task, asyncio.create_task(self._run_background(agent))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not departure_task.done():
                tasks[1].result()  # raises, if the agent has died of it
                await departure_task  # its `background()` has returned, and it lives on
            raise AgentDied(f"agent {name!r} has left its space")
        # Not if it is cancelled: what it handles then has the seconds of `drain:`.
        except Exception:
            self._company_space.suspend(agent)
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not self._is_draining:  # else its runs have the seconds of `drain:`, too
                await self._runs.resumer.leave(agent)

    def _create_agent(self, name: str, agent_settings: CompanyAgentSettings) -> Agent:
        return self._company_space.equip(self._program.create_agent(name), name, agent_settings)

    async def _run_background(self, agent: Agent) -> None:
        """Run an agent's `background()`; return at once if it has none."""
        background = getattr(agent, "background", None)
        mailbox = agent.space_mailbox
        if background is None or "background" in agent.offers or mailbox is None:
            return
        await mailbox.carry(partial(call_user, background))

    def _on_agent_left(self, agent: Agent) -> None:
        """Wake the supervisor of an agent that has left; called on the space's loop."""
        name = str(agent.id)
        # One that was replaced may leave late: its successor lives.
        if self._agents.get(name) is agent and name in self._departure_events:
            self._loop.call_soon_threadsafe(self._departure_events[name].set)

    async def _give_up(self, name: str, error: GivenUp) -> None:
        """Report an agent that is not started again; end the company if the file says `exit`."""
        logger.error("%s", error)
        self._metrics.count_given_up()
        agent = self._agents.pop(name, None)
        if self._served is not None:
            self._served.give_up(name)
        await self._company_space.report_given_up(name, str(error))
        await self._program.call_hook("on_given_up", self._supervised_parts()[name])
        if self.settings.given_up == "exit":
            self._end(error)
        elif agent is not None:
            await asyncio.to_thread(self._company_space.leave, agent)

    def _on_broker_lost(self, text: str) -> None:
        """End, since the broker was away for longer than `lost_after`; callable in any thread."""
        logger.error("%s", text)
        self._loop.call_soon_threadsafe(self._end, GivenUp(text))

    def _end(self, error: BaseException) -> None:
        # The first failure is the reason; others follow from it.
        if self._failure is None:
            self._failure = error
        self._stopping.set()

    def _on_budget_low(self, *details: Any) -> None:
        """Call the hook for a budget that gets low; callable in any thread."""
        asyncio.run_coroutine_threadsafe(
            self._program.call_hook("on_budget_low", *details), self._loop
        )

    # -- runs and schedules ------------------------------------------------------------------------

    def _on_event(self, name: str, event: Event) -> None:
        """Count a reply's event; a run that its journal has stopped is resumed later."""
        self._metrics.count_reply(name, event)
        if not isinstance(event, Done):
            return
        reply = event.reply
        if is_journal_away(reply.error):
            self._runs.resumer.look_up_again(name)
        if reply.stop_reason == "waiting":
            logger.warning("agent %r: run %r is %s", name, reply.run_id, reply.detail)
            # Replies end on the loop of the space; the company awaits this on its own.
            self._loop.call_soon_threadsafe(self._company_space.new_wait.set)

    async def _run_schedules(self, scheduler: Scheduler) -> None:
        """Fire the schedules once their agents are in the space."""
        await self._wait_until_started()
        while self._runs.are_any_on_standby:
            # Nothing is awaited between the look and this, so no change is lost.
            self._agents_changed.clear()
            await self._agents_changed.wait()
        async with asyncio.TaskGroup() as group:
            for call in self._scheduled_calls.values():
                group.create_task(self._fire_at_times(scheduler, call))

    async def _fire_at_times(self, scheduler: Scheduler, call: ScheduledCall) -> None:
        """Fire one schedule; times at which the journal could not be used count as missed."""
        while True:
            try:
                await scheduler.fire_at_times(call)
                return
            except MoothallError as error:
                logger.error("schedule %r waits for the journal: %s", call.name, error)
            await asyncio.sleep(_JOURNAL_POLL_S)
