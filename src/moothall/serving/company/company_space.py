"""A company's space, with its broker, journal and budgets; its agents enter and leave by it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    Agent,
    Approver,
    DuplicateAgent,
    InboxError,
    MoothallError,
    NativeSpace,
    RunDamaged,
    Waiting,
)
from moothall.agents import AgentSource
from moothall.budget import Budget
from moothall.build import RecordedAgent, call_user, log_failure
from moothall.serving.company.settings import (
    BrokerSettings,
    BudgetSettings,
    CompanyAgentSettings,
    Settings,
)
from moothall.serving.company.supervisor import Supervised

if TYPE_CHECKING:
    from moothall.journal import Journal, Outline, Wait, Waits

logger: logging.Logger = logging.getLogger("moothall.serving.company")

_STANDBY_S: Final = 0.1
"""Seconds between two tries to claim an id that another process has; the broker does not notify."""

_NOTICE_POLL_S: Final = 3.0
"""Seconds between two searches for waits to notify somebody about."""

_HOOK_RETRY_S: Final = 60.0
"""Seconds until a hook is called again that has raised."""


_CONFIRM_S: Final = 5.0
"""How long a dead letter may take until the broker confirms it."""


class CompanySpace:
    """A company's space, with its broker, journal and budgets.

    Args:
        settings: the company's settings
        folder: the folder of the company's file, where relative paths start
        on_broker_lost: called with a text, in any thread, if the broker is away for longer than
            `lost_after`

    Attributes:
        space: the space
        budgets: the budgets by the name of the company or agent
        journal: the journal; None before `open`, or without one
        is_connected: whether the broker is connected; None without a broker
        new_wait: set when a run begins to wait, for `notify_of_waits`
    """

    def __init__(
        self, settings: Settings, folder: Path, on_broker_lost: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._on_broker_lost = on_broker_lost
        self._lost_timer: threading.Timer | None = None
        self._standby_space: Any = None
        self._senders: dict[str, Agent] = {}
        self._sender_lock = asyncio.Lock()
        self.budgets: dict[str, Budget] = {}
        self._company_budget: Budget | None = None
        self.journal: Journal | None = None
        self.is_connected: bool | None = None
        self.new_wait: asyncio.Event = asyncio.Event()
        broker, approver = settings.broker, self._approver()
        self.space: Any
        if broker is None:
            self.space = NativeSpace(approver=approver, mailbox=settings.mailbox)
        else:
            self.is_connected = False
            inbox = None if broker.inbox is None else self._folder / broker.inbox
            self.space = self._broker_space(broker, inbox=inbox, approver=approver)

    def _approver(self) -> Approver | None:
        """Return who decides: the file's own approver, a caller, or a later answer."""
        settings = self._settings
        if settings.approver is not None:
            approver: Approver = AgentSource(settings.approver, "approver:", self._folder).load()
            return approver
        waiting = Waiting(until=settings.expire, remind=settings.remind)
        if settings.http is None or settings.broker is not None:
            return None if settings.journal is None else waiting
        from moothall.serving.doors.asks import CallerApprover

        return CallerApprover(waiting)

    def missing_files(self) -> list[str]:
        """Return what is wrong with the files of certificates that the settings name."""
        broker = self._settings.broker
        return [] if broker is None else broker.missing_files(self._folder)

    def _broker_space(self, broker: BrokerSettings, **settings: Any) -> Any:
        options = {
            "mailbox": self._settings.mailbox,
            "on_connection": self._on_connection,
            **settings,
        }
        return broker.space(self._folder, **options)

    async def open(self, name: str, on_low: Callable[[str, str, float], object]) -> None:
        """Open the journal and the budgets, which call `on_low` when they get low."""
        self._loop, self._on_low = asyncio.get_running_loop(), on_low
        journal_path = self._settings.journal
        if journal_path is not None:
            from moothall.journal import Journal

            address = journal_path if "://" in journal_path else self._folder / journal_path
            self.journal = await asyncio.to_thread(Journal, address)
        limits = self._settings.budget
        if limits is not None:
            self._company_budget = self._budget(limits, name)
            self.budgets[name] = self._company_budget
        for agent_id, agent in self._settings.agents.items():
            if agent.budget is None:
                continue
            if self._company_budget is not None:
                self.budgets[agent_id] = self._company_budget.child(
                    **agent.budget.limits(), name=agent_id
                )
            else:
                self.budgets[agent_id] = self._budget(agent.budget, f"{name} {agent_id}")

    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """Return the loop that has opened it, and the space's own if there is one."""
        own_loop = self.space.loop
        return [self._loop] if own_loop is None else [self._loop, own_loop]

    def _budget(self, budget_settings: BudgetSettings, name: str) -> Budget:
        """Return a budget of its own, shared by the journal if there is one."""
        return Budget(
            **budget_settings.limits(),
            name=name,
            journal=self.journal,
            release_dead=budget_settings.release_dead,
            on_low=self._on_low,
        )

    # -- agents enter and leave --------------------------------------------------------------------

    def equip(self, agent: Agent, name: str, agent_settings: CompanyAgentSettings) -> Agent:
        """Give an agent the company's journal and its budget, unless it has its own."""
        if self.journal is not None and getattr(agent, "journal", self.journal) is None:
            agent.journal = self.journal  # type: ignore[attr-defined]
        budget = self.budgets.get(name, self._company_budget)
        if budget is not None and agent.budget is None:
            agent.budget = budget
        if hasattr(agent, "deaths"):
            agent.deaths = self.deaths(name, agent.deaths)
        return agent

    def deaths(self, name: str, default: int | None = RecordedAgent.deaths) -> int | None:
        """Return after how many deaths at the same step what an agent does waits for an operator.

        `default` is what holds if the file does not say it; None is for never.
        """
        deaths = self._settings.agents[name].deaths or self._settings.deaths or default
        return None if deaths == "never" else deaths

    async def enter(self, agent: Agent, old_agent: Agent | None, supervised: Supervised) -> None:
        """Add an agent to the space: in place of one that died, or once its id is free."""
        if (
            old_agent is not None
            and old_agent.space_mailbox is not None
            and str(old_agent.id) in self.space.ids()
        ):
            await asyncio.to_thread(self.space.replace, old_agent, agent)
            return
        while True:
            try:
                await asyncio.to_thread(self.space.add, agent)
                break
            except (DuplicateAgent, InboxError) as error:
                if self._settings.broker is None or not _is_taken(error):
                    raise
            # Before the state says `standby`: a reader of that may end the other process.
            if await self._stand_by(supervised.name) and supervised.state != "standby":
                logger.info(
                    "%r stands by: another process has its id or its inbox", supervised.name
                )
                supervised.set("standby")
            await asyncio.sleep(_STANDBY_S)
        # Not before: until its id is in the space, requests to it wait at the broker by this one.
        if self._standby_space is not None:
            space, self._standby_space = self._standby_space, None
            await asyncio.to_thread(space.close)

    async def _stand_by(self, id: str) -> bool:
        """Have requests to an id wait at the broker; return whether they do.

        They wait while no process has the id, so that none is lost between two processes.
        """
        broker = self._settings.broker
        assert broker is not None
        if self._standby_space is None:
            # A second space: the agents' space cannot open its inbox while the other process runs.
            self._standby_space = self._broker_space(broker, on_connection=None)
        try:
            is_waiting: bool = await self._standby_space._stand_by(id)
        except MoothallError as error:
            logger.warning("requests to %r do not wait for this process: %s", id, error)
            return False
        return is_waiting

    def suspend(self, agent: Agent) -> None:
        """Stop a dead agent from handling messages; they wait for the agent that replaces it."""
        with suppress(MoothallError):
            self.space.suspend(agent)

    def leave(self, agent: Agent) -> None:
        """Remove an agent that is given up; requests that wait for it end as `AgentStopped`."""
        with suppress(MoothallError):
            self.space.remove(agent)

    async def sender(self, id: str) -> Agent:
        """Return the agent that sends a schedule's requests."""
        # `add` runs in a thread: two firings at once would both add the sender.
        async with self._sender_lock:
            agent = self._senders.get(id)
            if agent is None or agent.space_mailbox is None:
                agent = Agent(id, receive_own_broadcasts=False)
                await asyncio.to_thread(self.space.add, agent)
                self._senders[id] = agent
        return agent

    async def report_given_up(self, name: str, reason: str) -> None:
        """Publish a dead letter that says why an agent was given up, if there is a broker."""
        if self._settings.broker is None or not self.is_connected:
            return
        message = {
            "from": name,
            "to": name,
            "action": {"name": "given_up", "args": {"why": reason}},
        }
        with suppress(TimeoutError, MoothallError):
            async with asyncio.timeout(_CONFIRM_S):
                await self.space.report_dead(name, message, reason)

    def resumes_stopped(self, run: Outline) -> bool:
        """Return whether the agent resumes a run by itself, since nothing else does.

        A task of A2A, a firing and a message that the broker redelivers resume their own runs.
        """
        from moothall.journal import RunView
        from moothall.serving.doors.a2a.runs import is_task

        if self.journal is None or is_task(run.id):
            return False
        if (run.thread or "").startswith("schedule/") or run.id.endswith("/reply"):
            return False  # the scheduler resumes its firing
        if self._settings.broker is None:
            return True
        try:
            return not RunView(self.journal, run).asked_by
        except RunDamaged:
            return True  # the agent reports it

    def resumes_waiting(self, run: Outline) -> bool:
        """Return whether its agent goes on with a run that has waited: A2A's door has its tasks."""
        from moothall.serving.doors.a2a.runs import is_task

        return self._settings.http is None or not is_task(run.id)

    async def notify_of_waits(self, hook: Callable[[Any], Any] | None) -> None:
        """Call the hook `on_waiting` with what waits, once in all processes of the journal.

        One process at a time does so. If it dies before the hook has returned, the next one calls
        the hook again; if the hook raises, it is called again after a minute. Without a hook, log
        the calls in doubt: nothing else names them.
        """
        assert self.journal is not None
        waits = self.journal.waits
        if hook is None:
            await _log_doubts(waits)
            return
        while True:
            # Before what waits is read: a wait that begins meanwhile sets it again.
            self.new_wait.clear()
            try:
                if await asyncio.to_thread(waits.hold_notifying):
                    try:
                        for each in await asyncio.to_thread(waits.due_notices):
                            seconds = await self._call_hook(hook, each)
                            await asyncio.to_thread(waits.remind_in, each, seconds)
                    finally:
                        await asyncio.to_thread(waits.end_notifying)
            except MoothallError as error:  # a journal that is away, or a run that was deleted
                logger.error("nobody can be told what waits: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(_NOTICE_POLL_S):
                    await self.new_wait.wait()

    async def _call_hook(self, hook: Callable[[Any], Any], wait: Wait) -> float | None:
        """Call the hook with what waits; return in how many seconds it is called again, or None."""
        try:
            await call_user(hook, wait)
        except Exception as error:  # the user's own function
            log_failure(logger, f"on_waiting failed with {wait.key!r} of run {wait.run!r}", error)
            return _HOOK_RETRY_S
        return self._settings.remind if wait.kind == "doubt" else wait.remind

    def close(self) -> None:
        """Close the space, whose actions have its grace time, and then the journal."""
        if self._lost_timer is not None:
            self._lost_timer.cancel()
        if self._standby_space is not None:
            self._standby_space.close()
        self.space.close()
        if self.journal is not None:
            self.journal.close()

    # -- the broker --------------------------------------------------------------------------------

    def _on_connection(self, state: str, text: str) -> None:
        """Keep whether the broker is connected; the space's loop calls this."""
        broker = self._settings.broker
        assert broker is not None
        if state == "connected":
            self.is_connected = True
            if self._lost_timer is not None:
                self._lost_timer.cancel()
                self._lost_timer = None
        elif state in ("lost", "retrying"):
            self.is_connected = False
            # From the loss on: each try to connect again calls this, too.
            if broker.lost_after is not None and self._lost_timer is None:
                self._lost_timer = threading.Timer(
                    broker.lost_after,
                    self._on_broker_lost,
                    (f"the broker was away for {broker.lost_after:g} s: {text}",),
                )
                self._lost_timer.daemon = True
                self._lost_timer.start()


async def _log_doubts(waits: Waits) -> None:
    logged_doubts: list[Wait] = []
    while True:
        with suppress(MoothallError):  # a journal that is away: others log it
            doubts = await asyncio.to_thread(waits.doubts)
            for each in [each for each in doubts if each not in logged_doubts]:
                text = "agent %r: run %r waits for %s; `moothall waiting` shows it"
                logger.warning(text, each.agent, each.run, each)
            logged_doubts = doubts
        await asyncio.sleep(_NOTICE_POLL_S)


def _is_taken(error: MoothallError) -> bool:
    """Return whether another process has an agent's id, or its inbox."""
    if isinstance(error, DuplicateAgent):
        return True
    cause = error.__cause__
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", None) in codes
