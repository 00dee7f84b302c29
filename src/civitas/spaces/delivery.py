"""One message on its way to one agent: what is known of it, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

from civitas.errors import RequestError
from civitas.message import Envelope

if TYPE_CHECKING:
    import asyncio

    from civitas.agent import Agent, Pending
    from civitas.spaces.loop import LoopThread

# What kind of message it is decides what its end sends to whom.
REQUEST: Final = 0  # one outcome, to whoever holds the request
SEND: Final = 1  # `response`, `error` or `say` messages
BROADCAST: Final = 2  # as SEND, but an unknown action is ignored
ANSWER: Final = 3  # itself an answer: never answered
CALLBACK: Final = 4  # no message: `after_add` or `before_remove`, in the order of messages

# Where it is.
QUEUED: Final = 0
ASKING: Final = 1
RUNNING: Final = 2
ENDED: Final = 3

MAX_HOPS: Final = 32
"""How many requests a chain may have, each made while handling the one before."""


class Delivery:
    """The state of one message to one agent. Only the loop of the receiver's space changes it.

    Attributes:
        parent: what was being handled when this request was made; what was being handled when that
            one was, is the parent's, and so on: the chain of requests that led to it
        hops: how many requests that chain has, this one included
        answered: whether its outcome is there; the action may still be running then
        waiting: how many requests of its own its handler is waiting for
        waits: the requests that its handler, in a thread, waits for
        under: the handler, waiting in the same agent, that it was let in on top of
        over: what was let in on top of its own
        inner: whether it takes none of its agent's places: it has its under's, or its lane's
        lane: the lane of its agent that it waits or runs in, if any, for the mailbox alone
        recorder: what records and answers it, if it came over a broker
        key: its idempotency key, over a broker
        call_chain: the keys of the handlers of other processes that wait for it
        wait: whether a request waits for an agent that is not there yet
    """

    # What each has is in slots; what few have is in a dict that these alone come to have.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "answered",
        "envelope",
        "hops",
        "kind",
        "mailbox",
        "parent",
        "state",
        "timeout",
        "value",
        "waiting",
        "worker",
    )

    # Whose files import this one: the receiver's `Mailbox`, if it is known; what handles it.
    mailbox: Any
    worker: Any
    value: Any
    parent: Delivery | None

    error: BaseException | None = None
    waiter: asyncio.Future[None] | None = None
    under: Delivery | None = None
    over: Delivery | None = None
    timer: asyncio.TimerHandle | None = None

    inner: bool = False
    lane: Any = None
    approved: bool = False
    shown: bool = False
    cancelling: bool = False
    callbacks: list[Callable[[], None]] | None = None
    task: asyncio.Task[Any] | None = None
    waits: set[Delivery] | None = None
    original_id: str | None = None
    recorder: Any = None
    key: str = ""
    call_chain: tuple[str, ...] | None = None
    wait: bool = False

    def __init__(
        self,
        envelope: Envelope,
        kind: int,
        parent: Delivery | None = None,
        timeout: float | None = None,
    ) -> None:
        self.envelope = envelope
        self.kind = kind
        self.parent = parent
        self.hops: int = 1 if parent is None else parent.hops + 1
        self.timeout = timeout
        self.state = 0
        self.waiting = 0
        self.answered = False
        self.mailbox = self.worker = None

    @property
    def agent(self) -> Agent | None:
        """The receiver."""
        agent: Agent | None = None if self.mailbox is None else self.mailbox.agent
        return agent

    @property
    def came_as(self) -> str | None:
        """Its idempotency key, if it came over a broker."""
        return None if self.recorder is None else self.key

    @property
    def answered_thread(self) -> str | None:
        """Of an answer: which thread of the receiver sent what it answers; empty for its own."""
        return self.envelope.thread if self.kind == ANSWER else None

    def message(self) -> dict[str, Any] | None:
        """The message, as a dict of the caller's own; None in a callback of the agent's own."""
        return None if self.kind == CALLBACK else self.envelope.to_dict()

    def __str__(self) -> str:
        """How an error names the action: `Calculator.add`."""
        return f"{self.envelope.to}.{self.envelope.name}"


class RouterPort(Protocol):
    """What carries messages, as mailboxes, handlers and requests know it."""

    loop: asyncio.AbstractEventLoop
    thread: LoopThread
    thread_id: int
    capacity: int
    closed: bool
    ending: bool
    mailboxes: dict[str, Any]
    start: Callable[[Delivery, Coroutine[Any, Any, Any]], None]

    def send(self, envelope: Envelope, mailbox: Any) -> None:
        """Send a message of the agent in `mailbox`."""

    def request(
        self, envelope: Envelope, timeout: float | None, wait: bool, mailbox: Any
    ) -> Pending[Any]:
        """Send a message of the agent in `mailbox` whose value is wanted."""
        ...

    def enter(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop: here if this is its thread, else in turn."""

    def try_now(self, delivery: Delivery) -> None:
        """Handle a request on the spot, if it is its turn."""

    def make_ready(self, mailbox: Any) -> None:
        """Have an agent look at its mailbox in the next turn of the loop."""

    def drop(self, delivery: Delivery) -> None:
        """Nobody holds the request any more."""

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early."""

    def refuse(self, delivery: Delivery, error: RequestError) -> None:
        """End a message with an error."""

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """The outcome of a request, once."""
