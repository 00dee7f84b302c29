"""How an action is called: approval, before_action, the context, time limit, after_action."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from civitas.action import ACCESS_PERMITTED, ActionOptions, is_async
from civitas.agent import CURRENT
from civitas.approval.approval import not_permitted
from civitas.context import Context, filled
from civitas.errors import ActionError, RequestError
from civitas.jsonvalue import NotJSON, to_json
from civitas.message import Envelope
from civitas.signature import Signature
from civitas.spaces.delivery import ANSWER, ASKING, ENDED, REQUEST, Delivery, RouterPort
from civitas.text import error_message, log_failure
from civitas.threads import WORKERS

logger = logging.getLogger("civitas.space")

_LONGEST = 10_000
"""How much is told of what an exception says, in characters."""


class Offer:
    """An action as the handler of messages uses it: looked up once for each agent in a space.

    Attributes:
        where: how errors name it: `Calculator.add`
        plain: whether it is `async` and nothing else is to be done than to call it
    """

    __slots__ = (
        "check",
        "detached",
        "function",
        "idempotent",
        "injected",
        "is_async",
        "plain",
        "policy",
        "timeout",
        "where",
    )

    @classmethod
    def all_of(cls, mailbox: Any) -> dict[str, Offer]:
        """The actions of the agent in a mailbox, by name."""
        return {
            name: cls(mailbox, f"{mailbox.id}.{name}", function, options)
            for name, (function, options) in mailbox.agent._offered().items()
        }

    def __init__(
        self, mailbox: Any, where: str, function: Callable[..., Any], options: ActionOptions
    ) -> None:
        signature = Signature.of(getattr(function, "__func__", function), bound_to_self=True)
        self.where = where
        self.function = function
        self.check = signature.check
        self.policy = options.access_policy
        self.timeout = options.timeout
        self.idempotent = options.idempotent
        self.detached = options.detached
        self.injected = signature.injected
        self.is_async = is_async(function)
        self.plain = (
            self.is_async
            and self.policy == ACCESS_PERMITTED
            and self.timeout is None
            and not self.injected
            and not mailbox.before
            and not mailbox.after
        )


class Outcome(Exception):
    """Carries out of `handle` an error that is the outcome itself rather than the action's."""

    def __init__(self, error: RequestError) -> None:
        self.error = error


async def handle(mailbox: Any, delivery: Delivery, offer: Offer, kwargs: dict[str, Any]) -> Any:
    """The whole of it, for actions and agents that are not plain."""
    agent = mailbox.agent
    if mailbox.before:
        await call_callback(mailbox, agent.before_action, delivery.message())
    if offer.injected:
        context: Context[Any] = Context(
            agent, message=delivery.message(), budget=agent.budget, deps=agent.deps
        )
        kwargs = {**kwargs, **filled(offer.injected, context)}
    value: Any = None
    failure: BaseException | None = None
    limit: asyncio.TimerHandle | None = None
    if offer.timeout is not None:
        late = ActionError("TimeoutError", f'"{offer.where}" took longer than {offer.timeout} s')
        # As any other end that comes early: the sender is told, whatever the action does about it.
        limit = mailbox.router.loop.call_later(offer.timeout, mailbox.router.abort, delivery, late)
    try:
        if offer.is_async:
            value = await offer.function(**kwargs)
        else:
            value = await _in_thread(mailbox.router, offer.function, (), kwargs)
    except BaseException as error:  # after_action runs whatever happened; then it is raised again
        failure = error
    if limit is not None:
        limit.cancel()
    if mailbox.after:
        shown = failure
        if isinstance(failure, asyncio.CancelledError) and delivery.error is not None:
            shown = delivery.error  # why it was cancelled: the deadline, the sender, …
        try:
            await call_callback(mailbox, agent.after_action, delivery.message(), value, shown)
        except Exception as error:
            log_failure(logger, f"after_action of agent {agent.id!r} failed on {delivery}", error)
    if failure is not None:
        raise failure
    return value


async def call_callback(mailbox: Any, callback: Callable[..., Any], *args: Any) -> Any:
    """Call a callback of an agent: `async def` here, `def` in a worker thread."""
    if is_async(callback):
        return await callback(*args)
    return await _in_thread(mailbox.router, callback, args, {})


async def _in_thread(
    router: RouterPort, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a plain function in a worker thread.

    Nothing stops a thread. Cancelled, this waits on until it has ended, and only then is cancelled:
    its agent handles one message at a time, and stays busy.
    """
    # What it raises is in the result: some exceptions, such as `GeneratorExit`, mean something else
    # to the one who awaits a future.
    future: asyncio.Future[tuple[Any, BaseException | None]] = router.loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((value, error))

    def done(value: Any, error: BaseException | None) -> None:
        # Through the one way in, so that what the thread sent is there before it has ended.
        router.thread.enter(settle, value, error)

    WORKERS.submit(partial(function, *args, **kwargs), context=copy_context(), done=done)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
            if router.closed:
                break
    if cancelled is not None:
        raise cancelled
    value, raised = future.result()
    if raised is not None:
        raise raised
    return await value if inspect.isawaitable(value) else value


def ask_permission(mailbox: Any, delivery: Delivery, offer: Offer) -> None:
    """Take a message out of the order until it is approved, or end it."""
    delivery.state = ASKING
    mailbox.asking.add(delivery)
    mailbox.limit = 0  # from now on not all that wait are in the box

    async def ask() -> None:
        decision: object = False
        CURRENT.set(delivery)
        try:
            decision = await call_callback(
                mailbox, mailbox.agent.request_permission, delivery.message()
            )
        except BaseException as error:  # the agent's own code: whatever it raises is no permission
            if not delivery.answered:
                about = f"request_permission of agent {mailbox.id!r} failed on {delivery}"
                log_failure(logger, about, error)
        finally:
            mailbox.asking.discard(delivery)
            delivery.task = None
        if delivery.answered:
            return
        if decision is True:
            delivery.approved = True
            if delivery.recorder is not None:
                delivery.recorder.permitted(delivery)
            mailbox.accept(delivery)
            mailbox.router.make_ready(mailbox)
        else:
            delivery.state = ENDED
            mailbox.router.refuse(delivery, not_permitted(offer.where, decision))

    delivery.task = mailbox.router.thread.spawn(ask())


def outcome_of(delivery: Delivery, error: BaseException) -> RequestError:
    """What a request ends as, whose action raised this."""
    if isinstance(error, Outcome):
        return error.error
    if isinstance(error, ActionError):
        # What an action that this one asked had raised: told as it was, however long the chain.
        where = error.where
        outcome = ActionError(_carried(error.type), _carried(error.text), where and _carried(where))
    else:
        where = f"{delivery.mailbox.id}.{delivery.envelope.name}" if delivery.mailbox else None
        outcome = ActionError(_carried(type(error).__name__), text_of(error), where)
    outcome.__cause__ = error
    return outcome


def text_of(error: BaseException) -> str:
    """What an exception says, as text that can travel, even if its own `__str__` fails."""
    return _text(lambda: error_message(error))


def traceback_of(error: BaseException) -> str:
    """Its traceback, as text that any log can take."""
    return _text(lambda: "".join(traceback.format_exception(error)).rstrip())


def _text(make: Callable[[], str]) -> str:
    try:
        text = make()
    except BaseException as failed:  # it is the action's code that runs here
        return f"(unprintable exception: {type(failed).__name__})"
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return _carried(text)


def _carried(text: object) -> str:
    """A text as one that UTF-8 can carry."""
    return str(text).encode(errors="backslashreplace").decode()


def returned(delivery: Delivery, value: Any) -> Any:
    """A returned value as JSON data."""
    try:
        return to_json(value)
    except NotJSON as error:
        text = f'"{delivery}" returned what is no JSON value: {error}'
        raise Outcome(ActionError("TypeError", text)) from None


def answers(
    delivery: Delivery, value: Any, error: BaseException | None
) -> tuple[Envelope, str | None] | None:
    """The message that tells a sender how its message ended, if any; and the id of that message."""
    envelope = delivery.envelope
    id = envelope.id
    to = envelope.sender
    sender = envelope.to if delivery.mailbox is None else delivery.mailbox.id
    if error is not None:
        name, args = "error", {"error": str(error), "original_message_id": id}
    elif value is None and delivery.kind != REQUEST:
        return None
    elif (
        envelope.name == "say" and isinstance(value, str) and delivery.kind not in (ANSWER, REQUEST)
    ):
        name, args = "say", {"content": value}
    else:
        name, args = "response", {"data": value, "original_message_id": id}
    return Envelope(sender, to, name, args, thread=envelope.thread), id
