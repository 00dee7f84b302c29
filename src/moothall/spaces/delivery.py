"""One message to one agent: its state, its call chain and its outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar, Final, Protocol, Unpack

from moothall.actions.approval import Approver
from moothall.actions.message import ENCLOSING_REPLIES, Envelope
from moothall.actions.provenance import merged_sources
from moothall.agents.agent import CURRENT, Agent
from moothall.agents.caller_context import CallerContext
from moothall.agents.messaging import Pending, RequestOptions, SendOptions
from moothall.foundation.errors import RequestError
from moothall.foundation.threads import guard
from moothall.spaces.loop import LoopThread

# The kind of a message decides what is sent, and to whom, when the message ends.
REQUEST: Final = 0  # one outcome, for the holder of the request
SEND: Final = 1  # `response`, `error` or `say` messages
BROADCAST: Final = 2  # as SEND, to all or to a group, but an unknown action is ignored
ANSWER: Final = 3  # itself an answer: never answered
CALLBACK: Final = 4  # not a message: `after_add`, `before_remove` or what `Mailbox.carry` runs

# The states of a delivery.
QUEUED: Final = 0
ASKING: Final = 1
RUNNING: Final = 2
FINISHED: Final = 3

MAX_HOPS: Final = 32
"""How many requests a chain may have, each made while handling the one before."""

_LOCK: Final = guard()


class Delivery:
    """The state of one message to one agent. Only the loop of the receiver's space changes it."""

    # Slots hold what every delivery has; only the few that have more get a `__dict__`.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "answered",
        "envelope",
        "hops",
        "is_reentrant",
        "kind",
        "mailbox",
        "parent",
        "recorder",
        "reentrant",
        "reservations",
        "state",
        "timeout",
        "value",
        "wait_count",
        "worker",
    )

    REQUEST: ClassVar[int] = REQUEST
    SEND: ClassVar[int] = SEND
    BROADCAST: ClassVar[int] = BROADCAST
    ANSWER: ClassVar[int] = ANSWER
    CALLBACK: ClassVar[int] = CALLBACK
    QUEUED: ClassVar[int] = QUEUED
    ASKING: ClassVar[int] = ASKING
    RUNNING: ClassVar[int] = RUNNING

    # Any, because their modules import this one: the receiver's `Mailbox`, if known; a worker.
    mailbox: Any
    worker: Any
    value: Any
    # The delivery whose handler made this request; with the parent's parent, the call chain.
    parent: Delivery | None

    error: BaseException | None = None
    waiter: asyncio.Future[None] | None = None
    outer: Delivery | None = None  # the waiting handler of its agent on which it runs re-entrantly
    reentrant: Delivery | None  # the re-entrant request that runs on top of its own handler
    timer: asyncio.TimerHandle | None = None

    # Whether it takes no place of its agent, but that of `outer` or its lane.
    is_reentrant: bool
    lane: Any = None  # the lane of its agent that it waits or runs in; only the mailbox uses it
    approved: bool = False
    is_shown: bool = False
    size: int = 0  # its bytes, while it waits and if it is large
    since: float = 0.0  # when it was put into a mailbox, on the loop's clock, if that is measured
    is_cancelling: bool = False
    callbacks: list[Callable[[], Any]] | None = None
    task: asyncio.Task[Any] | None = None
    outside_waits: set[Delivery] | None = None  # for which its handler waits, not on the loop
    original_id: str | None = None
    recorder: Any  # the `Recorder` that records and answers it, if it came over a broker
    key: str = ""  # its idempotency key, over a broker
    call_chain: tuple[str, ...] | None = None  # keys of other processes' handlers that wait for it
    waits_for_receiver: bool = False  # whether a request waits for an agent that is not there yet
    expires: float | None = None  # seconds in which an agent must begin it, over a broker
    span: Any = None  # of its handling, if that is traced
    replies: tuple[Any, ...] = ()  # those within which it was sent, the outermost first
    read: tuple[str, ...] = ()  # the outside sources that its handling has read
    outside: tuple[str, ...] = ()  # those that its sender, or who had it sent, had read
    # Takes what the handler of a request streams, for its sender, if that listens.
    on_event: Callable[[dict[str, Any]], None] | None = None
    caller_context: CallerContext | None = None  # what its sender gave beside it, in this process
    upward: Any = None  # the `UpwardCall` that a request is, by which its handler asks
    reservations: tuple[Any, ...]  # what its requester and those before it have of budgets

    def __init__(
        self,
        envelope: Envelope,
        kind: int,
        parent: Delivery | None = None,
        timeout: float | None = None,
        takes_context: bool = True,  # whether it notes what is around the code that sends it
    ) -> None:
        self.envelope: Envelope = envelope
        self.kind: int = kind
        self.parent = parent
        self.hops: int = 1 if parent is None else parent.hops + 1  # of the call chain, with this
        self.timeout: float | None = timeout
        self.state: int = 0
        self.wait_count: int = 0  # how many requests of its own its handler is waiting for
        self.answered: bool = False  # once it has its outcome, the action may still be running
        self.mailbox = self.worker = self.recorder = self.reentrant = None
        self.is_reentrant = False
        self.reservations = ()
        if not takes_context:
            return
        sender: Any = CURRENT.get() if parent is None else parent
        if sender is not None and (sender.outside or sender.read):
            self.outside = sender.outside + sender.read
        if replies := ENCLOSING_REPLIES.get():
            self.replies = replies
            if open_requests := [each.request for each in replies if each.open]:
                texts = getattr(getattr(open_requests[-1], "state", None), "texts_by_origin", None)
                self.outside = () if texts is None else tuple(texts.sources)

    def on_end(self, callback: Callable[[], Any]) -> None:
        """Call `callback` when it has ended: later, or now if it has already.

        The space sets `answered` before it reads `callbacks`, and this appends before it reads
        `answered`, so one of the two sees the other; a callback may be called twice.
        """
        with _LOCK:
            if self.callbacks is None:
                self.callbacks = []
            self.callbacks.append(callback)
        if self.answered:
            callback()

    def not_on_end(self, callback: Callable[[], Any]) -> None:
        """Remove a callback whose waiter gave up; this may happen very often."""
        with _LOCK:
            if self.callbacks is not None and callback in self.callbacks:
                self.callbacks.remove(callback)

    @property
    def agent(self) -> Agent | None:
        """The receiver."""
        agent: Agent | None = None if self.mailbox is None else self.mailbox.agent
        return agent

    def has_read(self, sources: Iterable[str]) -> None:
        """Note outside sources that its handling has read: its answer carries them."""
        self.read = tuple(merged_sources((*self.read, *sources)))

    @property
    def is_request(self) -> bool:
        """Whether its sender waits for its outcome."""
        return self.kind == REQUEST

    @property
    def idempotency_key(self) -> str | None:
        """Its idempotency key, if it came over a broker."""
        return None if self.recorder is None else self.key

    @property
    def answered_thread(self) -> str | None:
        """Of an answer: the thread of the receiver that it answers; empty for the agent's own."""
        return self.envelope.thread if self.kind == ANSWER else None

    @property
    def within(self) -> str | None:
        """Of a `say` sent within a reply: the thread of that reply."""
        return self.envelope.within

    def message(self) -> dict[str, Any] | None:
        """Return the message as a new dict; None for a callback of the agent."""
        return None if self.kind == CALLBACK else self.envelope.to_dict()

    def leave_lane(self) -> None:
        """Let the next message of its conversation begin: its handler only waits."""
        if self.mailbox is not None:
            self.mailbox.leave_lane(self)

    def approver_of_asker(self, agent: Agent) -> Approver | None:
        """Return the approver of who asks an agent that handles it, or of who asks that one."""
        from moothall.agents.replies.sub_agents.askers import approver_of_asker  # few need it

        return approver_of_asker(agent)

    def __str__(self) -> str:
        """Return the name of the action in errors, also in a broadcast: `Calculator.add`."""
        receiver = self.envelope.to if self.mailbox is None else self.mailbox.id
        return f"{receiver}.{self.envelope.name}"


class RouterPort(Protocol):
    """What mailboxes, handlers and requests use of a router."""

    loop: asyncio.AbstractEventLoop
    thread: LoopThread
    thread_id: int
    capacity: int
    capacity_bytes: int | None
    closed: bool
    ending: bool
    start: Callable[[Delivery, Coroutine[Any, Any, Any]], None]

    def send(
        self, envelope: Envelope, mailbox: Any, kind: int = SEND, **options: Unpack[SendOptions]
    ) -> None:
        """Send a message of the agent in `mailbox`."""

    def request(
        self,
        envelope: Envelope,
        timeout: float | None,
        wait: bool,
        mailbox: Any,
        **options: Unpack[RequestOptions],
    ) -> Pending[Any]:
        """Send a request of the agent in `mailbox`."""

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop: at once in the loop's thread, else in turn."""

    def try_now(self, delivery: Delivery) -> None:
        """Handle a request at once, if it is its turn."""

    def make_ready(self, mailbox: Any) -> None:
        """Dispatch from a mailbox in the next turn of the loop."""

    def drop(self, delivery: Delivery) -> None:
        """Cancel a request that nothing refers to any more."""

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early."""

    def refuse(self, delivery: Delivery, error: RequestError) -> None:
        """End a message with an error."""

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """Set the outcome of a request, once."""

    def stopped_error(self, id: str) -> RequestError:
        """Return the error of messages to an agent that was removed, or whose space is closing."""


class MessageLine(deque[Delivery]):
    """Messages by arrival: `append` queues one, and `appendleft` puts one back to the front.

    A message that ends, or runs, before its turn stays as a dead one until its turn, or until half
    of the line is dead, since removing it from the middle takes linear time.

    Attributes:
        dead: how many have ended, or were handled before their turn
        lane: the lane whose messages these are; None for those without one
    """

    dead: int = 0
    lane: Any = None

    def live(self) -> list[Delivery]:
        """Return the messages that still wait here."""
        return [each for each in self if each.state == QUEUED and each.lane == self.lane]

    def take(self) -> Delivery:
        """Remove and return the first message that still waits here; there must be one."""
        while (first := self.popleft()).state != QUEUED or first.lane != self.lane:
            self.dead -= 1
        return first

    def forget(self, delivery: Delivery) -> bool:
        """Count a message as dead; return whether the dead ones were removed."""
        self.dead += 1
        if self.dead <= 32 or self.dead * 2 <= len(self):
            return False
        live = [each for each in self.live() if each is not delivery]
        self.clear()
        self.extend(live)
        return True

    def clear(self) -> None:
        """Remove all."""
        super().clear()
        self.dead = 0
