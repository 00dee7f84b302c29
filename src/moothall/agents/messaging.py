"""What an agent sends: messages, and requests whose outcome it gets; what it needs of a space."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from datetime import datetime
from functools import partial
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from moothall.actions import Action
from moothall.actions.approval import Approver
from moothall.actions.message import (
    ENVELOPE_DEFAULTS,
    Envelope,
    Message,
    check_args,
    seconds_until,
    typed_args,
    with_reply_thread,
)
from moothall.agents.workflow import Workflow
from moothall.foundation.errors import DefinitionError, NotInSpace

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Async = Callable[..., Coroutine[Any, Any, T]]


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


class SendOptions(TypedDict, total=False):
    """What is said of a message beside it: mailboxes hand it to their router."""

    delay: float
    on_end: Callable[[], None] | None


class RequestOptions(TypedDict, total=False):
    """What is said of a request beside it, likewise."""

    expires: float | None
    caller_context: Any
    upward: Any  # the call of a reply that the request is, which its handler asks by


class AgentMailbox(Protocol):
    """What a space offers to an agent in it. Every method may be called in any thread."""

    id: str
    space: Any

    @property
    def approver(self) -> Approver | None:
        """The space's approver."""

    def send(
        self, envelope: Envelope, answers: bool = False, **options: Unpack[SendOptions]
    ) -> None:
        """Send a message without waiting; one that `answers` is itself not answered.

        `on_end` is called once it cannot be lost with this process any more, or will not arrive.
        An answer of the same id is the same message: over a broker, its receiver takes it once.
        """

    def request(
        self,
        envelope: Envelope,
        timeout: float | None,
        wait: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Pending[Any]:
        """Send a message and return its pending value."""

    async def carry(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the space's loop, from whichever loop this is awaited."""


class Messaging(Workflow):
    """The messages of an agent that is in a space."""

    id: str | int
    space_mailbox: AgentMailbox | None = None

    def send(
        self,
        message: Message | dict[str, Any],
        *,
        delay: float | None = None,
        at: datetime | None = None,
    ) -> None:
        """Send a message without waiting. Its result or error comes back as a message.

        Args:
            message: to an agent, to a group (`#NAME`), or to all agents (`*`)
            delay: seconds until it is delivered, up to 300 days; over RabbitMQ it waits there
            at: when it is delivered, in place of `delay`; a datetime without a zone is local time

        Raises:
            InvalidMessage: the message does not conform to the schema
            ConfigError: `delay` or `at` is not valid
            NotInSpace: the agent is in no space
        """
        mailbox = self.space_mailbox
        if mailbox is None:
            raise self._not_in_space("send")
        envelope = self._outgoing(message, mailbox.id)
        is_delayed = delay is not None or at is not None
        mailbox.send(envelope, delay=seconds_until(delay, at) if is_delayed else 0.0)

    def _outgoing(self, message: Message | dict[str, Any], id: str) -> Envelope:
        """Return a message to send, with what travels beside it."""
        return with_reply_thread(self, Envelope.from_message(message, id))

    def request(
        self, message: Message | dict[str, Any], timeout: float | None = 300, wait: bool = False
    ) -> Pending[Any]:
        """Send a message and return its pending value.

        Args:
            message: to one agent; not to `*`
            timeout: seconds until the request ends as `RequestTimeout`; None for no limit
            wait: whether to wait, until the deadline, for an agent that is not there, rather than
                end as `AgentNotFound`

        Returns:
            An object to await, or to wait for in a thread with `.result()`. Dropping it cancels.

        Raises:
            InvalidMessage: the message does not conform to the schema
            NotInSpace: the agent is in no space
        """
        return self.send_request(message, timeout, wait)

    def send_request(
        self,
        message: Message | dict[str, Any],
        timeout: float | None,
        wait: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Pending[Any]:
        """Send a request that, over a broker, an agent begins within `expires` seconds, if ever."""
        mailbox = self.space_mailbox
        if mailbox is None:
            raise self._not_in_space("request")
        envelope = with_reply_thread(self, Envelope.from_message(message, mailbox.id))
        return mailbox.request(envelope, timeout, wait, **options)

    @overload
    def ask(
        self, to: str | int, action: str, /, *, timeout: float | None = 300, **args: Any
    ) -> Pending[Any]: ...
    @overload
    def ask(
        self, to: str | int, action: Async[T], /, *, timeout: float | None, **args: Any
    ) -> Pending[T]: ...
    @overload
    def ask(
        self, to: str | int, action: Callable[..., T], /, *, timeout: float | None, **args: Any
    ) -> Pending[T]: ...
    @overload
    def ask(
        self,
        to: str | int,
        action: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
        /,
        *unnamed: P.args,
        **args: P.kwargs,
    ) -> Pending[T]: ...
    @overload
    def ask(
        self,
        to: str | int,
        action: Callable[Concatenate[Any, P], T],
        /,
        *unnamed: P.args,
        **args: P.kwargs,
    ) -> Pending[T]: ...
    def ask(
        self, to: str | int, action: Any, /, *unnamed: Any, timeout: Any = 300, **args: Any
    ) -> Pending[Any]:
        """Call an action of another agent with these arguments, by name: a short `request`.

        Args:
            to: the id of the agent
            action: the action's name; or the method of its class, such as `Robot.move`: then the
                value is of the type that the method returns, and arguments may be of its types
            timeout: the request's; `request` calls an action with a parameter of that name
        """
        if unnamed:
            text = f"ask({to!r}, {action!r:.80}, …) takes the action's arguments by name: a=1"
            raise DefinitionError(text)
        mailbox = self.space_mailbox
        if mailbox is None:
            raise self._not_in_space("ask")
        if (
            type(to) is type(action) is str
            and 0 < len(to) < 256 > len(action) > 0
            and to.isascii()
            and action.isascii()
        ):
            parts = (mailbox.id, to, action, check_args(args))
            envelope: Envelope = tuple.__new__(Envelope, parts + ENVELOPE_DEFAULTS)
            return mailbox.request(with_reply_thread(self, envelope), timeout)
        if not isinstance(action, str):
            return self._ask_method(to, Action.of(action), timeout, args)
        return self.request({"to": to, "action": {"name": action, "args": args}}, timeout)

    def _ask_method(
        self, to: str | int, action: Action, timeout: float | None, args: dict[str, Any]
    ) -> Pending[Any]:
        read = action.signature.read_returned
        pending = self.ask(to, action.name, timeout=timeout, **typed_args(args))
        return (
            pending if read is None else TypedPending(pending, partial(read, f"{to}.{action.name}"))
        )

    def _not_in_space(self, verb: str) -> NotInSpace:
        return NotInSpace(f"agent {self.id!r} cannot {verb}: it is in no space (or has left it)")
