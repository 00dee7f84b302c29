"""Where a company's agents are: its space, broker, journal and budgets."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall.agent import Agent
from moothall.budget import Budget
from moothall.company.settings import AgentSettings, BrokerSettings, BudgetSettings, Settings
from moothall.company.supervisor import Supervised
from moothall.errors import DuplicateAgent, InboxError, MoothallError
from moothall.spaces.native import NativeSpace

if TYPE_CHECKING:
    from moothall.journal import Journal, Outline

logger: logging.Logger = logging.getLogger("moothall.company")

_LOOK_S: Final = 0.1
"""How often a process that stands by looks whether an id is free: the broker does not tell."""

_FIRST: Final = 5
_BURY_S: Final = 5.0


class Place:
    """Where a company's agents are: its space, broker, journal and budgets.

    Args:
        settings: the company's
        folder: of its file
        lost: told, in any thread, that the broker was away for longer than `lost_after`

    Attributes:
        space: the space
        budgets: by name
        journal: the journal, once open
        connected: whether the broker is connected; None without a broker
    """

    def __init__(self, settings: Settings, folder: Path, lost: Callable[[str], None]) -> None:
        self._settings = settings
        self._folder = folder
        self._lost = lost
        self._timer: threading.Timer | None = None
        self._waiting_space: Any = None
        self._senders: dict[str, Agent] = {}
        self._adding = asyncio.Lock()
        self.budgets: dict[str, Budget] = {}
        self._whole: Budget | None = None
        self.journal: Journal | None = None
        self.connected: bool | None = None
        broker = settings.broker
        self.space: Any
        if broker is None:
            from moothall.doors.served import Desk

            approver = None if settings.http is None else Desk()
            self.space = NativeSpace(approver=approver, mailbox=settings.mailbox)
        else:
            self.connected = False
            self.space = self._amqp(broker, inbox=self._path(broker.inbox))

    def _path(self, name: str | None) -> Path | None:
        """Return a path that is meant from the file's folder."""
        return None if name is None else self._folder / name

    def _amqp(self, broker: BrokerSettings, **more: Any) -> Any:
        from moothall.spaces.amqp.amqp_options import AMQPOptions
        from moothall.spaces.amqp.amqp_space import AMQPSpace

        logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # we say it in one line
        given: dict[str, Any] = {
            "hostname": broker.host,
            "port": broker.port,
            "username": broker.username,
            "password": broker.password,
            "virtual_host": broker.virtual_host,
            "use_ssl": broker.tls,
            "heartbeat": broker.heartbeat,
            "ca_file": self._path(broker.ca_file),
            "cert_file": self._path(broker.cert_file),
            "key_file": self._path(broker.key_file),
        }
        options = AMQPOptions.from_environment(
            **{name: value for name, value in given.items() if value is not None}
        )
        return AMQPSpace(
            amqp_options=options,
            exchange=broker.exchange,
            quorum=broker.quorum,
            keep=broker.keep,
            mailbox=self._settings.mailbox,
            **{"on_connection": self._on_connection, **more},
        )

    async def open(self, name: str) -> None:
        """Open the journal and the budgets."""
        given = self._settings.journal
        if given is not None:
            from moothall.journal import Journal

            where = given if "://" in given else self._folder / given
            self.journal = await asyncio.to_thread(Journal, where)
        limits = self._settings.budget
        if limits is not None:
            self._whole = self._budget(limits, name)
            self.budgets[name] = self._whole
        for each, agent in self._settings.agents.items():
            if agent.budget is None:
                continue
            if self._whole is not None:
                self.budgets[each] = self._whole.child(**agent.budget.limits(), name=each)
            else:
                self.budgets[each] = self._budget(agent.budget, f"{name} {each}")

    def _budget(self, given: BudgetSettings, name: str) -> Budget:
        """Return a budget of its own, shared by the journal if there is one."""
        limits, back = given.limits(), given.release_dead
        return Budget(**limits, name=name, journal=self.journal, release_dead=back)

    # -- agents come and go ------------------------------------------------------------------------

    def equip(self, agent: Agent, name: str, given: AgentSettings) -> Agent:
        """Give an agent the company's journal and its budget, unless it has its own."""
        if self.journal is not None and getattr(agent, "journal", self.journal) is None:
            agent.journal = self.journal  # type: ignore[attr-defined]
        budget = self.budgets.get(name, self._whole)
        if budget is not None and agent.budget is None:
            agent.budget = budget
        if hasattr(agent, "on_mismatch"):
            agent.on_mismatch = given.on_mismatch
        return agent

    async def enter(self, agent: Agent, old: Agent | None, part: Supervised) -> None:
        """Put an agent into its place: of one that died, or a new one, once the id is free."""
        if old is not None and old._mailbox is not None and str(old.id) in self.space.ids():
            await asyncio.to_thread(self.space.replace, old, agent)
            return
        while True:
            try:
                await asyncio.to_thread(self.space.add, agent)
                break
            except (DuplicateAgent, InboxError) as error:
                if self._settings.broker is None or not _is_taken(error):
                    raise
            # First: who sees that it stands by may end the other process.
            if await self._stand_by(part.name) and part.state != "standby":
                logger.info("%r stands by: another process has its id or its inbox", part.name)
                part.set("standby")
            await asyncio.sleep(_LOOK_S)
        if self._waiting_space is not None:
            space, self._waiting_space = self._waiting_space, None
            await asyncio.to_thread(space.close)

    async def _stand_by(self, id: str) -> bool:
        """Have requests to an id wait at the broker until this process has it; say if they do."""
        broker = self._settings.broker
        assert broker is not None
        if self._waiting_space is None:
            # A space of its own: that of the agents cannot open its inbox yet.
            self._waiting_space = self._amqp(broker, on_connection=None)
        try:
            waits: bool = await self._waiting_space._stand_by(id)
        except MoothallError as error:
            logger.warning("requests to %r do not wait for this process: %s", id, error)
            return False
        return waits

    def suspend(self, agent: Agent) -> None:
        """Have a dead agent handle no more messages: they wait for the next one."""
        mailbox = agent._mailbox
        if mailbox is not None:
            with suppress(MoothallError):
                self.space._thread.enter(self.space._suspend, mailbox)

    def leave(self, agent: Agent) -> None:
        """Take an agent out that is not started again; what waits for it ends."""
        with suppress(MoothallError):
            self.space.remove(agent)

    async def sender(self, id: str) -> Agent:
        """Return the agent in whose name a schedule calls."""
        async with self._adding:
            agent = self._senders.get(id)
            if agent is None or agent._mailbox is None:
                agent = Agent(id, receive_own_broadcasts=False)
                await asyncio.to_thread(self.space.add, agent)
                self._senders[id] = agent
        return agent

    async def bury(self, name: str, why: str) -> None:
        """Tell people by a dead letter, where there is a broker."""
        if self._settings.broker is None or not self.connected:
            return
        import pika

        from moothall.spaces.amqp.dead_letters import bury

        message = {"from": name, "to": name, "action": {"name": "given_up", "args": {"why": why}}}
        body = json.dumps(message).encode()
        confirmed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def publish() -> None:
            told = self.space._router.broker
            done = lambda: loop.call_soon_threadsafe(confirmed.set)  # noqa: E731
            bury(told, pika.BasicProperties(type="send"), body, why, name, done)

        with suppress(TimeoutError, MoothallError):
            self.space._thread.enter(publish)
            await asyncio.wait_for(confirmed.wait(), _BURY_S)

    def resumes(self, agent: str, run: Outline) -> bool:
        """Return whether a run is resumed at the start, since nothing else goes on with it."""
        from moothall.doors.a2a_store import is_task

        if self.journal is None or is_task(run.id):
            return False
        if (run.thread or "").startswith("schedule/") or run.id.endswith("/reply"):
            return False  # its firing goes on
        if self._settings.broker is None:
            return True
        # The broker redelivers the message that asked for it.
        entries = self.journal.entries(run.id, most=_FIRST)
        begun = next((each.data for each in entries if each.kind == "begun"), {})
        return begun.get("asked_by") is None

    def close(self) -> None:
        """Close the space within its grace time, and the journal."""
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting_space is not None:
            self._waiting_space.close()
        self.space.close()
        if self.journal is not None:
            self.journal.close()

    # -- the broker --------------------------------------------------------------------------------

    def _on_connection(self, what: str, text: str) -> None:
        """Note whether the broker is connected; called on the space's loop."""
        broker = self._settings.broker
        assert broker is not None
        if what == "connected":
            self.connected = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif what in ("lost", "retrying"):
            self.connected = False
            if broker.lost_after is not None and self._timer is None:
                self._timer = threading.Timer(
                    broker.lost_after,
                    self._lost,
                    (f"the broker was away for {broker.lost_after:g} s: {text}",),
                )
                self._timer.daemon = True
                self._timer.start()


def _is_taken(error: MoothallError) -> bool:
    """Return whether another process has an agent's id, or its inbox."""
    if isinstance(error, DuplicateAgent):
        return True
    cause = error.__cause__
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", None) in codes
