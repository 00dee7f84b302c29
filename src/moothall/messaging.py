"""What an agent sends: messages, and requests whose outcome it gets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from moothall.action import Action
from moothall.errors import DefinitionError, NotInSpace
from moothall.message import (
    Envelope,
    Message,
    check_args,
    check_message,
    in_reply,
    seconds_until,
    typed_args,
)
from moothall.posting import Mailbox, Pending, TypedPending
from moothall.workflow import Workflow

P = ParamSpec("P")
T = TypeVar("T")
Async = Callable[..., Coroutine[Any, Any, T]]


class Messaging(Workflow):
    """The messages of an agent that is in a space."""

    id: str | int
    _mailbox: Mailbox | None = None

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
        mailbox = self._mailbox
        if mailbox is None:
            raise self._not_in_space("send")
        envelope = self._outgoing(message, mailbox.id)
        later = delay is not None or at is not None
        mailbox.send(envelope, delay=seconds_until(delay, at) if later else 0.0)

    def _outgoing(self, message: Message | dict[str, Any], id: str) -> Envelope:
        """Return a message to send, with what travels beside it."""
        return in_reply(self, check_message(message, id))

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
        mailbox = self._mailbox
        if mailbox is None:
            raise self._not_in_space("request")
        return mailbox.request(in_reply(self, check_message(message, mailbox.id)), timeout, wait)

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
        if not isinstance(action, str):
            return self._ask_method(to, Action.of(action), timeout, args)
        mailbox = self._mailbox
        if mailbox is None:
            raise self._not_in_space("ask")
        plain = type(to) is str and 0 < len(to) < 256 and to.isascii()
        if plain and type(action) is str and 0 < len(action) < 256 and action.isascii():
            parts = (mailbox.id, to, action, check_args(args), None, None, None, None)
            return mailbox.request(in_reply(self, tuple.__new__(Envelope, parts)), timeout)
        return self.request({"to": to, "action": {"name": action, "args": args}}, timeout)

    def _ask_method(
        self, to: str | int, action: Action, timeout: float | None, args: dict[str, Any]
    ) -> Pending[Any]:
        read = action.signature.read_returned
        asked = self.ask(to, action.name, timeout=timeout, **typed_args(args))
        return asked if read is None else TypedPending(asked, partial(read, f"{to}.{action.name}"))

    def _not_in_space(self, what: str) -> NotInSpace:
        return NotInSpace(f"agent {self.id!r} cannot {what}: it is in no space (or has left it)")
