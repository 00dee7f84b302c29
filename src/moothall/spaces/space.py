"""The base of all spaces: their agents, and the loop that runs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypeVar

from moothall.actions.approval import Approver, check_approver
from moothall.actions.message import address, check_groups
from moothall.agents.agent import CURRENT, Agent, overrides
from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    check_integer,
    names_checked,
)
from moothall.foundation.errors import DefinitionError, DuplicateAgent, SpaceClosed
from moothall.foundation.text import counted
from moothall.foundation.threads import ProcessBound, guard, loop_is_running, refuse_on_loop
from moothall.spaces import replacing
from moothall.spaces.delivery import Delivery
from moothall.spaces.draining import summary, wait_until_drained, wait_until_idle
from moothall.spaces.handler import callback_delivery, run_callback
from moothall.spaces.lanes import laned_class
from moothall.spaces.loop import LoopThread
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.request import Request
from moothall.spaces.router import Router
from moothall.spaces.watchdog import WATCHDOG

logger: logging.Logger = logging.getLogger("moothall.spaces")

A = TypeVar("A", bound=Agent)

MAILBOX = 10_000
"""How many messages may wait for one agent."""

MAILBOX_BYTES = 2**27
"""How many bytes these may have together."""


@names_checked
class Space(ProcessBound, remedy="make a space there; an AMQPSpace spans processes"):
    """Holds agents and delivers messages between them. Use `NativeSpace`.

    One event loop runs all agents, in a thread that starts at the first `add`. The public methods
    are short, and may be called in any thread, on any loop and from inside actions.

    A space with rules of its own overrides `make_router`, `attach`, `note_agent` and `detach`.

    Attributes:
        mailbox_capacity: how many messages may wait for one agent
        is_closed: whether it is closed
        loop_thread: the thread of its event loop
    """

    mailbox_type: type[Mailbox] = Mailbox
    """The class of its mailboxes: `Mailbox`, or a subclass with an order of its own."""
    grace_s: float | None = None
    """How long `close` lets started actions continue; None to cancel them at once."""
    _keeps_messages = False
    """Whether messages that wait when the space is closed wait elsewhere for the next one."""
    on_removed: Callable[[Agent], None] | None = None
    """Told, on the loop, of each agent that leaves the space."""
    _on_request_end: Callable[[Delivery], None] | None = None

    def __init__(
        self,
        *,
        approver: Approver | None = None,
        mailbox: int = MAILBOX,
        mailbox_bytes: int = MAILBOX_BYTES,
    ) -> None:
        check_integer("mailbox=", mailbox)
        check_integer("mailbox_bytes=", mailbox_bytes)
        if approver is not None:
            check_approver(approver, type(self).__name__)
        self.approver = approver
        self.mailbox_capacity: int = mailbox
        self._capacity_bytes = mailbox_bytes
        self._observers: tuple[Callable[[dict[str, Any]], Any], ...] = ()
        self._start_lock = guard()
        self._members_lock = guard()
        self.is_closed: bool = False
        self._dropped_counts: dict[str, int] = {}  # by agent, how many messages it left at the end
        self.expected: replacing.Expected = replacing.Expected(lambda: self._mailboxes)
        self.loop_thread: LoopThread = LoopThread(
            f"moothall-{type(self).__name__}", self._shut_down, self._on_loop_end
        )
        self._router: Router | None = None

    # -- the public calls --------------------------------------------------------------------------

    def add(self, agent: A, *, shared: bool = False, groups: Iterable[str] = ()) -> A:
        """Add an agent to the space.

        In a thread without a running event loop, this waits for the agent's `after_add` and raises
        its error. Waiting would block a running loop: there, `after_add` runs later, before any
        message is handled, and its error is logged.

        Args:
            agent: the agent
            shared: whether other processes may add an agent of this id, too, with `shared=True`.
                Each message to it is handled by one of them, the first that is free; messages of
                one sender may be handled side by side. In a space of one process it is the only one
            groups: the names of its groups: it gets what is sent to `#NAME`, too

        Returns:
            the agent

        Raises:
            DuplicateAgent: the space has an agent of that id already (a ValueError), which stays
            InvalidId: the agent's id is not valid (a ValueError)
            SpaceClosed: the space is closed
            DefinitionError: it is not an agent, is in a space, or has an action without help
        """
        if not isinstance(agent, Agent):
            hint = f": make one, {agent.__name__}(id)" if isinstance(agent, type) else ""
            raise DefinitionError(f"add takes an agent, got {agent!r}{hint}")
        if not hasattr(agent, "id"):
            kind = type(agent).__name__
            raise DefinitionError(f"a {kind} has no id: its __init__ calls super().__init__(id)")
        check_boolean("add: shared=", shared)
        names = check_groups(groups)
        agent.check_joining()
        self.start_loop()
        mailbox = self.attach(agent)
        mailbox.shared, mailbox.groups = shared, names
        self.note_agent(agent)
        self._finish_adding(mailbox, waits=not loop_is_running())
        return agent

    async def aadd(self, agent: A, *, shared: bool = False, groups: Iterable[str] = ()) -> A:
        """Add an agent as `add` does in a thread: wait for its `after_add`, and raise its error."""
        return await asyncio.to_thread(self.add, agent, shared=shared, groups=groups)

    def remove(self, agent: Agent | str | int, *, drain: bool = False) -> None:
        """Remove an agent from the space.

        Its `before_remove` runs first. Then its waiting messages end as `AgentStopped`, and its
        running actions are cancelled, except one that removes its own agent. In a thread, this
        waits for all that; where an event loop is running, it does not wait for `before_remove`.

        Args:
            agent: the agent, or its id
            drain: whether the agent first handles the messages that wait for it, however long that
                takes; new ones end as `AgentStopped` meanwhile. Not where an event loop is running

        Raises:
            AgentNotFound: the agent is not in this space
            RuntimeError: `drain`, where an event loop is running: `await space.aremove(…)` there
        """
        router = self._router
        if router is None or self.is_closed:
            raise replacing.not_here_error(agent)
        if drain:
            refuse_on_loop("remove(drain=True)", "space.aremove(agent, drain=True)")
            self.loop_thread.run(self._finish, self._mailbox_of(agent)).result()
        handling = CURRENT.get()
        removal = self._remove(agent, router, handling)
        # Without a `before_remove` this takes microseconds: any loop but a space's may wait.
        quick = removal.envelope.name != "before_remove"
        if removal is not handling and not (LoopThread.is_here() if quick else loop_is_running()):
            Request(removal, router).result()

    async def aremove(self, agent: Agent | str | int, *, drain: bool = False) -> None:
        """Remove an agent as `remove` does in a thread: wait until it has left."""
        await asyncio.to_thread(self.remove, agent, drain=drain)

    async def _finish(self, mailbox: Mailbox) -> None:
        """Wait until an agent has handled what waits for it; let it take nothing new."""
        await self._stop_routing(mailbox)
        await wait_until_idle(self.router, only=mailbox)

    async def _stop_routing(self, mailbox: Mailbox) -> None:
        mailbox.finish_waiting()

    def replace(self, agent: Agent, new: Agent) -> None:
        """Put an agent in the place of another of the same id, such as one that has died.

        Messages that wait for the id wait for the new agent. What the old one was doing has a
        second to end; then it is cancelled, and ends as `AgentStopped`. Then the old one's
        `before_remove` runs and the new one's `after_add`; if that raises, messages wait until
        another agent takes the place. Call it in a thread without a running event loop: it waits.

        Raises:
            AgentNotFound: the old agent is not in this space, or is removed meanwhile
            DefinitionError: the new one has another id, is in a space, or keeps messages in lanes
                where the old one does not
            RuntimeError: called where an event loop is running, which it would block
        """
        for each in (agent, new):
            if not isinstance(each, Agent):
                raise DefinitionError(f"replace takes an agent for an agent, got {each!r:.80}")
        refuse_on_loop("replace", "it in a thread: asyncio.to_thread(space.replace, …)")
        mailbox = self._mailbox_of(agent)
        replacing.check_successor(agent, new)
        new.check_joining()
        note = partial(self.note_agent, new)
        self.loop_thread.run(replacing.take_place, mailbox, new, note).result()

    @property
    def router(self) -> Router:
        """What takes its messages in; the first use starts it, as `start_loop` does."""
        return self._router or self.start_loop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of its agents; None before the first is added."""
        return None if self._router is None else self._router.loop

    def suspend(self, agent: Agent) -> None:
        """Have an agent handle no more messages until another takes its place."""
        self.loop_thread.call_soon(self._mailbox_of(agent).suspend)

    def meter(self, on_end: Callable[[Delivery], None]) -> None:
        """Call `on_end(delivery)`, on the loop, with each request to an agent here at its end."""
        self._on_request_end = on_end
        if self._router is not None:
            self._router.on_request_end = on_end

    def note_agent(self, agent: Agent) -> None:
        """Note that an agent has come, new or in the place of another; it has its mailbox."""

    @property
    def _mailboxes(self) -> dict[str, Mailbox]:
        return {} if self._router is None or self.is_closed else self._router.mailboxes

    def _mailbox_of(self, agent: Agent | str | int) -> Mailbox:
        """Return the mailbox of an agent or id that is here."""
        mailbox = self._mailboxes.get(address(agent.id if isinstance(agent, Agent) else agent))
        if mailbox is None or (isinstance(agent, Agent) and mailbox.agent is not agent):
            raise replacing.not_here_error(agent)
        return mailbox

    def ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents in the space, in the order in which they were added.

        Args:
            group: only those in the group of this name
        """
        mailboxes = [*self._mailboxes.items()]
        return [id for id, each in mailboxes if group is None or group in each.groups]

    def groups(self) -> dict[str, list[str]]:
        """Return the ids of the agents of this process in each group, by the group's name."""
        members: dict[str, list[str]] = {}
        for id, mailbox in [*self._mailboxes.items()]:
            for group in mailbox.groups:
                members.setdefault(group, []).append(id)
        return members

    def expects(self, *ids: str | int) -> None:
        """Say which agents will come: runs that may call their actions go on once these are up.

        A run that goes on waits for those of its `discover=`. Where one's `after_add` raises, those
        that name it wait for another of its id.

        Raises:
            InvalidId: an id is not valid (a ValueError)
        """
        self.expected.expect(map(address, ids))

    def give_outbox(self, agent: Agent) -> None:
        """Let an agent send that is not in the space: nothing reaches it, and its id stays free."""
        router = self.start_loop()
        router.senders.add(address(agent.id))
        agent.space_mailbox = agent.space_mailbox or Mailbox(agent, self, router)

    def forget_sender(self, id: str) -> None:
        """Drop what agents keep of a sender that is not in the space."""
        if self._router is not None:
            self._router.senders.discard(id)

    def note_keeper(self, agent: Agent, sender: str) -> None:
        """Note that an agent keeps a conversation with a sender, who may leave."""

    def agent(self, id: str) -> Agent | None:
        """Return the agent of this id that is in this process, or None."""
        mailbox = self._mailboxes.get(id)
        return None if mailbox is None else mailbox.agent

    async def all_ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents, or of a group, of all processes that share the space."""
        return self.ids(group)

    def observe(
        self, callback: Callable[[dict[str, Any]], Any], *, everywhere: bool = False
    ) -> None:
        """Call `callback(message)` with each message that this process sends or receives.

        Answers to requests count too. The callback gets a copy, on the space's loop, before the
        message is handled. It must not block; if it raises, that is logged and it is not called
        again.

        Args:
            callback: a plain function
            everywhere: whether it sees the messages of all processes, where there are several, a
                moment later. Where an event loop is running, this does not wait for the broker,
                and an error is logged: `await space.aobserve(…)` waits

        Raises:
            DefinitionError: the callback is not a plain function
            SpaceClosed: the space is closed
            BrokerError: `everywhere`, and the broker cannot be reached
        """
        check_function("observe: callback", callback, "message", plain=True)
        (self._observe_everywhere if everywhere else self._observe)(callback)

    def _observe(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        with self._start_lock:
            self._check_open()
            if self._router is None:
                self._observers = (*self._observers, callback)
            else:
                # Another tuple: the loop may be going through this one.
                self._router.observers = (*self._router.observers, callback)

    async def aobserve(
        self, callback: Callable[[dict[str, Any]], Any], *, everywhere: bool = False
    ) -> None:
        """Call `callback(message)` as `observe` does; wait for the broker without blocking."""
        await asyncio.to_thread(self.observe, callback, everywhere=everywhere)

    def idle(self, timeout: float = 30.0) -> None:
        """Wait in a thread until no message waits, is handled or is on its way to an agent here.

        Args:
            timeout: at most so many seconds

        Raises:
            TimeoutError: messages are under way after `timeout` seconds; it names the agents
            RuntimeError: called where an event loop is running: `await asyncio.to_thread(…)` there
        """
        if busy := self._idle("idle", timeout):
            raise TimeoutError(f"after {timeout} s these agents are not idle: {summary(busy)}")

    def drain(self, timeout: float = 30.0) -> int:
        """Let the agents handle what waits, at most `timeout` seconds, and close the space.

        What is sent meanwhile is handled too.

        Returns:
            how many messages were not handled; over RabbitMQ they wait there for the next process

        Raises:
            RuntimeError: called where an event loop is running: `await asyncio.to_thread(…)` there
        """
        remaining = self._idle("drain", timeout)
        self.close()
        return sum(remaining.values())

    def _idle(self, method: str, timeout: float) -> dict[str, int]:
        refuse_on_loop(method, f"asyncio.to_thread(space.{method})")
        if self._router is None or self.is_closed:
            return {}
        return dict(self.loop_thread.run(wait_until_idle, self._router, timeout).result())

    def close(self) -> None:
        """Remove every agent and end the loop; messages that wait end as `SpaceClosed`.

        The log says how many these were. A second call does nothing. On the loop of this or another
        space, it does not wait.
        """
        with self._start_lock:
            if self._router is None:
                self.is_closed = True
                return
        self.loop_thread.stop()

    def statistics(self, *, everywhere: bool = False) -> dict[str, Any]:
        """Return what waits in the space and what each agent is doing.

        Args:
            everywhere: whether to count the agents of all processes, where there are several, which
                takes a moment, and what waits for them at the broker

        Returns:
            `agents`: by id, how many messages are `waiting`, the actions being `handling`, and how
            many are `asking` for approval, and `everywhere` how many `processes` have an agent of
            this id; `deadlines`: how many requests of this process have a deadline running

        Raises:
            RuntimeError: `everywhere`, where an event loop is running: `await
                asyncio.to_thread(…)` there
        """
        if everywhere:
            refuse_on_loop("statistics", "asyncio.to_thread(space.statistics, everywhere=True)")
        if self._router is None or self.is_closed:
            return {"agents": {}, "deadlines": 0}
        # On the loop: elsewhere requests that get their timers just now would be missed.
        here = self._count() if LoopThread.is_here() else self.loop_thread.call(self._count)
        if everywhere:
            here["agents"] = self.loop_thread.run(self._count_everywhere).result()
        return here

    def _count(self) -> dict[str, Any]:
        agents = {id: each.statistics() for id, each in [*self._mailboxes.items()]}
        return {"agents": agents, "deadlines": self.router.pending}

    async def _count_everywhere(self) -> dict[str, Any]:
        return {id: each | {"processes": 1} for id, each in self._count()["agents"].items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # In a thread, so that agents can still use the caller's loop before they leave.
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else counted(len(self._mailboxes), "agent")
        return f"<{type(self).__name__}, {state}>"

    _observe_everywhere = _observe

    # -- agents come and go ------------------------------------------------------------------------

    def start_loop(self) -> Router:
        """Start its loop, unless it runs, and return its router; SpaceClosed once it is closed."""
        with self._start_lock:
            self._check_open()
            if self._router is not None:
                return self._router
            self._prepare()
            self.loop_thread.start()
            router = self.make_router()
            router.observers = self._observers
            router.on_request_end = self._on_request_end
            # Last, once it is whole: whoever finds a router uses it without this lock.
            self._router = router
            if self.is_closed:  # a signal handler did that meanwhile
                self.loop_thread.stop()
        WATCHDOG.watch(router)
        return router

    def _check_open(self) -> None:
        if self.is_closed:
            self.loop_thread.check_process()
            raise SpaceClosed("the space is closed; make another")

    def _prepare(self) -> None:
        """Create what the space needs, or raise why that fails."""

    def make_router(self) -> Router:
        """Return a router to deliver the messages; `loop_thread` already runs."""
        return Router(self.loop_thread, self.mailbox_capacity, self._capacity_bytes)

    def attach(self, agent: Agent) -> Mailbox:
        """Give an agent that is being added its mailbox, and return that; raise as `add` does."""
        id, router, mailbox_class = address(agent.id), self.router, self.mailbox_type
        has_lanes = mailbox_class.has_lanes and overrides(agent, "find_lane")
        mailbox = (laned_class(mailbox_class) if has_lanes else mailbox_class)(agent, self, router)
        with self._members_lock:
            if self.is_closed or router.ending:
                raise SpaceClosed("the space is closed; make another")
            if id in router.mailboxes:
                raise DuplicateAgent(
                    f"an agent {id!r} is in the space already, and ids are unique; "
                    f"to replace it, space.remove({id!r}) first"
                )
            replacing.check_free(agent)
            if overrides(agent, "after_add"):
                mailbox.arrival = callback_delivery(mailbox, "after_add")
                mailbox.paused = 1  # messages wait until that has ended
            router.mailboxes[id] = mailbox
            agent.space_mailbox = mailbox
        self.expected.note_change()
        router.call_soon(router.mark_added, mailbox)
        return mailbox

    def _finish_adding(self, mailbox: Mailbox, *, waits: bool) -> None:
        """Run an agent's `after_add`, if it has one."""
        if mailbox.arrival is not None:
            after_add = self._run_callback(mailbox, mailbox.arrival, is_reported=waits)
            if waits:
                Request(after_add, mailbox.router).result()

    def _remove(self, agent: Agent | str | int, router: Router, handling: Any) -> Delivery:
        """Remove an agent; return the delivery that ends once the agent has left."""
        with self._members_lock:
            mailbox = self._mailbox_of(agent)
            # It is being removed already: all wait for the one end.
            if mailbox.departure is not None:
                return mailbox.departure
            spared = handling if handling is not None and handling.mailbox is mailbox else None
            name = "before_remove" if overrides(mailbox.agent, "before_remove") else "removed"
            removal = mailbox.departure = callback_delivery(mailbox, name)
        if name == "before_remove":
            return self._run_callback(mailbox, removal, spared)

        def leave() -> None:
            self.detach(mailbox, spared)
            released = self.loop_thread.spawn(self._wait_until_released(mailbox))
            released.add_done_callback(lambda _: router.settle(removal, None, None))

        # In turn: what was sent to it before this is in its mailbox by then, and is ended.
        router.call_soon(leave)
        return removal

    def _run_callback(
        self,
        mailbox: Mailbox,
        delivery: Delivery,
        spared: Delivery | None = None,
        *,
        is_reported: bool = False,
    ) -> Delivery:
        """Run `after_add` or `before_remove` as a delivery of its own.

        The agent leaves if its `after_add` fails, and after its `before_remove` in any case. The
        callback's error is logged; only at DEBUG level if it `is_reported` to a caller.
        """
        delivery.is_reentrant = delivery.envelope.name == "before_remove"  # it waits for no other

        async def leave() -> None:
            self.detach(mailbox, delivery, spared)
            await self._wait_until_released(mailbox)

        def begin() -> None:
            mailbox.active[delivery] = None
            mailbox.router.start(delivery, run_callback(mailbox, delivery, leave, is_reported))

        mailbox.router.call_soon(begin)
        return delivery

    async def _wait_until_released(self, mailbox: Mailbox) -> None:
        """Wait until what a removed agent has outside this process is released."""

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Take an agent out of the space; end what it was doing, except `spared`; on the loop."""
        router = self.router
        with self._members_lock:
            # Another agent may have the id by now, and this one be in another space.
            if router.mailboxes.get(mailbox.id) is mailbox:
                del router.mailboxes[mailbox.id]
            if mailbox.agent.space_mailbox is mailbox:
                mailbox.agent.space_mailbox = None
        if mailbox.open:
            dropped = mailbox.detach(router.stopped_error(mailbox.id), spared)
            if dropped and router.ending:
                self._dropped_counts[mailbox.id] = dropped
            elif dropped:
                messages = counted(dropped, "message")
                logger.warning("agent %r was removed before it handled %s", mailbox.id, messages)
        if self.on_removed is not None:
            self.on_removed(mailbox.agent)

    async def _shut_down(self) -> None:
        """Remove all agents and close the router: the last work on the loop."""
        router = self.router
        if self.grace_s is not None:
            await wait_until_drained(router, self.grace_s)
        with self._members_lock:
            router.ending = True  # no agent is added any more
        departures = [
            mailbox.departure or self._remove(mailbox.agent, router, None)
            for mailbox in list(router.mailboxes.values())
            if overrides(mailbox.agent, "before_remove")
        ]
        # These still send and ask, so the router is closed after them.
        await replacing.wait_for_callbacks(departures)
        self.is_closed = router.closed = True
        for mailbox in list(router.mailboxes.values()):
            self.detach(mailbox)
        if self._dropped_counts and not self._keeps_messages:
            logger.warning(
                "the space was closed before its agents handled %s", summary(self._dropped_counts)
            )
        router.end_waiting()
        router.tasks.close()
        WATCHDOG.forget(router)

    def _on_loop_end(self) -> None:
        self.is_closed = True
        self.expected.note_change()
        if self._router is not None:
            self._router.thread_id = 0  # the system may give it to another thread
            if not self.loop_thread.inherited:
                self._router.tasks.abandon()
