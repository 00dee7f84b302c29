"""What an agent needs of the space that it is in: a mailbox, and the outcomes of its requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, TypeVar

from moothall.approval import Approver
from moothall.message import Envelope

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """The result of `request`: await it on any loop, or wait for it in any thread."""

    def __await__(self) -> Generator[Any, None, T_co]: ...

    def result(self, timeout: float | None = None) -> T_co:
        """Wait in a thread; return the value, or raise the error that ended the request."""

    def cancel(self) -> None:
        """End the request as `RequestCancelled`; the receiver's action is cancelled too."""

    def done(self) -> bool:
        """Return whether the request has ended."""


class TypedPending(Generic[T]):
    """A request under way whose value is read as the type that the asked action returns."""

    __slots__ = ("_pending", "_read")

    def __init__(self, pending: Pending[Any], read: Callable[[Any], T]) -> None:
        self._pending = pending
        self._read = read

    def __await__(self) -> Generator[Any, None, T]:
        value = yield from self._pending.__await__()
        return self._read(value)

    def result(self, timeout: float | None = None) -> T:
        """Wait in a thread; return the value, or raise the error that ended the request."""
        return self._read(self._pending.result(timeout))

    def cancel(self) -> None:
        """End the request as `RequestCancelled`; the receiver's action is cancelled too."""
        self._pending.cancel()

    def done(self) -> bool:
        """Return whether the request has ended."""
        return self._pending.done()

    def __repr__(self) -> str:
        return repr(self._pending)


class Mailbox(Protocol):
    """What a space offers to an agent in it. Every method may be called in any thread."""

    id: str
    space: Any

    @property
    def approver(self) -> Approver | None:
        """The space's approver."""

    def send(self, envelope: Envelope, answers: bool = False, delay: float = 0.0) -> None:
        """Send a message without waiting; one that `answers` is itself not answered."""

    def request(
        self, envelope: Envelope, timeout: float | None, wait: bool = False
    ) -> Pending[Any]:
        """Send a message and return its pending value."""

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the space's loop, from whichever loop this is awaited."""
