"""One message on its way to one agent: what is known of it, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from civitas.message import Envelope

if TYPE_CHECKING:
    import asyncio

    from civitas.agent import Agent
    from civitas.spaces.lanes import Lane
    from civitas.spaces.seat import Seat

__all__ = [
    "ANSWER",
    "ASKING",
    "BROADCAST",
    "CALLBACK",
    "ENDED",
    "MAX_HOPS",
    "QUEUED",
    "REQUEST",
    "RUNNING",
    "SEND",
    "Delivery",
]

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
        lane: the lane of its agent that it waits or runs in, if any
        mail: how it came over a broker, if it did: what is to be told there when it ends
        key: what it is known by to other processes
        trail: the keys of the chain that led to it over other processes
        wait: whether a request waits for an agent that is not there yet
    """

    # What each has is in slots; what few have is in a dict that these alone come to have.
    __slots__ = (
        "__dict__",
        "answered",
        "envelope",
        "hops",
        "kind",
        "parent",
        "seat",
        "state",
        "timeout",
        "value",
        "waiting",
        "worker",
    )

    seat: Seat | None
    value: Any
    parent: Delivery | None
    worker: Any

    error: BaseException | None = None
    waiter: asyncio.Future[None] | None = None
    under: Delivery | None = None
    over: Delivery | None = None
    tick: int = 0

    inner: bool = False
    lane: Lane | None = None
    approved: bool = False
    shown: bool = False
    cancelling: bool = False
    callbacks: list[Callable[[], None]] | None = None
    task: asyncio.Task[Any] | None = None
    waits: set[Delivery] | None = None
    original_id: str | None = None
    mail: Any = None
    key: str = ""
    trail: tuple[str, ...] | None = None
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
        self.seat = self.worker = None

    @property
    def agent(self) -> Agent | None:
        """The receiver."""
        return None if self.seat is None else self.seat.agent

    @property
    def came_as(self) -> str | None:
        """What it is known by to other processes, if it came over a broker."""
        return None if self.mail is None else self.key

    def message(self) -> dict[str, Any] | None:
        """The message, as a dict of the caller's own; None in a callback of the agent's own."""
        return None if self.kind == CALLBACK else self.envelope.to_dict()

    def __str__(self) -> str:
        """How an error names the action: `Calculator.add`."""
        return f"{self.envelope.to}.{self.envelope.name}"
