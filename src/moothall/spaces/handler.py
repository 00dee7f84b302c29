"""How an action is called: approval, before_action, the context, time limit, after_action."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any

from moothall.actions import ACCESS_PERMITTED, Action
from moothall.actions.approval import Later, Refused
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.approval.paused_clocks import clocks_paused
from moothall.actions.message import Envelope
from moothall.actions.retry import retries_in_thread
from moothall.agents.agent import CURRENT
from moothall.agents.caller_context import CallerContext
from moothall.agents.context import CallChannel, Context, with_injected
from moothall.foundation import tracing
from moothall.foundation.arguments import is_async
from moothall.foundation.errors import ActionError, RequestError
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.foundation.text import error_message, log_failure, printable
from moothall.foundation.threads import DATA_TYPES, WORKERS, awaited, call_user
from moothall.spaces.delivery import (
    ANSWER,
    ASKING,
    CALLBACK,
    FINISHED,
    REQUEST,
    RUNNING,
    Delivery,
    RouterPort,
)
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.spaces")

_MAX_ERROR_CHARS = 10_000
"""How much of an exception's text is passed on, in characters."""
_NO_WAIT_TEXT = (
    "its result comes later: only a reply of an agent with a journal= can wait for it, in the same "
    "process"
)
_IN_THE_MIDDLE = (
    "and nothing waits in the middle of another action, which would begin anew: let the model of "
    "an agent with a journal= call it, by discover="
)


class Offer:
    """An action prepared for handling messages: looked up once for each agent in a space."""

    __slots__ = ("action", "check", "function", "injected", "is_plain", "label", "outside_sources")

    @classmethod
    def all_of(cls, mailbox: Any) -> dict[str, Offer]:
        """Return the actions of the agent in a mailbox, by name."""
        return {
            name: cls(mailbox, f"{mailbox.id}.{name}", action)
            for name, action in mailbox.agent.all_offers().items()
        }

    def __init__(self, mailbox: Any, label: str, action: Action) -> None:
        self.label: str = label  # its name in errors: `Calculator.add`
        self.action: Action = action
        self.function: Callable[..., Any] = action.with_retries
        self.check: Callable[[dict[str, Any], str], dict[str, Any]] = action.signature.check
        self.injected: Mapping[str, type] = action.injected
        # Where its result is from, if from outside: `say` of an agent whose reading nobody knows.
        unknown = mailbox.agent.is_untracked and action.name == "say"
        self.outside_sources: tuple[str, ...] = (
            (f"agent {mailbox.id}",) if action.outside or unknown else ()
        )
        # Whether handling it is no more than calling it.
        self.is_plain: bool = (
            is_async(action.function)
            and action.access_policy == ACCESS_PERMITTED
            and action.timeout is None
            and not self.injected
            and not mailbox.has_before_action
            and not mailbox.has_after_action
        )


async def handle(mailbox: Any, delivery: Delivery, offer: Offer, kwargs: dict[str, Any]) -> Any:
    """Call an action that is not `is_plain`: with its callbacks, context and time limit."""
    agent = mailbox.agent
    if mailbox.has_before_action:
        await call_callback(mailbox, agent.before_action, delivery.message())
    channel: CallChannel | None = None
    if offer.injected:
        budget, caller_context = agent.budget, delivery.caller_context
        if budget is None:
            budget = CallerContext.nearest(delivery, "pays")
        channel = CallChannel()
        if (upward := delivery.upward) is not None:
            channel.from_journal, channel.on_answer = upward.answer_of, upward.call.add_statement
        hears = caller_context.hears if caller_context is not None and caller_context.open else None
        if hears is not None:
            channel.on_event = lambda kind, text: hears(text)
        message = delivery.message()
        context = Context(
            agent,
            message=message,
            run_id=None if upward is None else upward.run_id,
            budget=budget,
            deps=agent.deps,
            _channel=channel,
            _find_sources=_sources_here,
        )
        kwargs = with_injected(offer.injected, kwargs, context)
    value: Any = None
    failure: BaseException | None = None
    limit: asyncio.TimerHandle | None = None
    if (timeout := offer.action.timeout) is not None:
        timeout_error = ActionError("TimeoutError", f'"{offer.label}" took longer than {timeout} s')
        # Like any early end: the sender gets the error, whatever the action does about it.
        limit = mailbox.router.loop.call_later(
            timeout, mailbox.router.abort, delivery, timeout_error
        )
    try:
        if offer.action.is_async:
            value = await offer.function(**kwargs)
        elif not offer.action.may_wait_in_thread:
            value = await _run_in_thread(mailbox.router, partial(offer.function, **kwargs), channel)
        else:
            with retries_in_thread() as retry_end:
                call = partial(offer.function, **kwargs)
                value = await _run_in_thread(mailbox.router, call, channel, retry_end)
        if value.__class__ not in DATA_TYPES:
            value = await awaited(value)  # an `await` that was forgotten, perhaps
    except BaseException as error:  # raised again after after_action, which runs in any case
        failure = error
    if limit is not None:
        limit.cancel()
    if mailbox.has_after_action:
        reported_error = failure
        if isinstance(failure, asyncio.CancelledError) and delivery.error is not None:
            reported_error = delivery.error  # why it was cancelled: the deadline, the sender, …
        try:
            await call_callback(
                mailbox, agent.after_action, delivery.message(), value, reported_error
            )
        except Exception as error:
            log_failure(logger, f"after_action of agent {agent.id!r} failed on {delivery}", error)
    if failure is not None:
        raise failure
    return value


async def handle_in_span(delivery: Delivery, work: Coroutine[Any, Any, Any]) -> Any:
    """Handle a message in a span of its own."""

    async def finish() -> Any:
        return await awaited(await work)

    return await tracing.in_span(finish, "handling", delivery)


def callback_delivery(mailbox: Any, name: str) -> Delivery:
    """Return the delivery that a callback of an agent, such as `after_add`, runs as."""
    delivery = Delivery(Envelope(mailbox.id, mailbox.id, name, {}), CALLBACK)
    delivery.mailbox, delivery.state = mailbox, RUNNING
    return delivery


async def call_callback(mailbox: Any, callback: Callable[..., Any], *args: Any) -> Any:
    """Call an action or a callback of an agent: `async def` here, `def` in a worker thread."""
    return await call_user(callback, *args, in_thread=partial(_run_in_thread, mailbox.router))


async def run_callback(
    mailbox: Any, delivery: Delivery, leave: Callable[[], Awaitable[None]], is_reported: bool
) -> None:
    """Run an agent's `after_add` or `before_remove` as a delivery of its own.

    It leaves, by `leave`, if its `after_add` fails, and after its `before_remove` in any case. The
    callback's error is logged; only at DEBUG level if it `is_reported` to a caller.
    """
    name = delivery.envelope.name
    has_left = name == "before_remove"
    try:
        await call_callback(mailbox, getattr(mailbox.agent, name))
    except BaseException as error:
        has_left = True
        failure = f"{name} of agent {mailbox.id!r} failed"
        if is_reported or delivery.answered:
            logger.debug("%s", failure, exc_info=error)
        else:
            log_failure(logger, failure, error)
        if name == "after_add":
            mailbox.space.expected.fail(mailbox.id)
        if name == "after_add" or not isinstance(error, Exception):
            raise
    finally:
        if has_left:
            await leave()


async def _run_in_thread(
    router: RouterPort,
    call: Callable[[], Any],
    channel: CallChannel | None = None,
    retry_end: threading.Event | None = None,
) -> Any:
    """Call a plain function in a worker thread.

    A thread cannot be stopped. When cancelled, this still waits until the thread has ended, because
    its agent handles one message at a time and stays busy; only then it raises. A person whom the
    thread has asked something is asked no longer, and what failed is called no more.
    """
    # An exception is part of the result: some, such as `GeneratorExit`, have another meaning when a
    # future raises them.
    future: asyncio.Future[tuple[Any, BaseException | None]] = router.loop.create_future()

    def on_done(value: Any, error: BaseException | None) -> None:
        # Through `enter`, so that what the thread sent arrives before its end.
        router.thread.call_soon(settle, future, (value, error))

    WORKERS.submit(call, context=copy_context(), done=on_done)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
            if channel is not None:
                channel.withdraw()
            if retry_end is not None:
                retry_end.set()
            if router.closed:
                break
    if cancelled is not None:
        raise cancelled
    value, raised = future.result()
    if raised is not None:
        raise raised
    return value


def ask_permission(mailbox: Any, delivery: Delivery, offer: Offer) -> None:
    """Set a message aside until it is approved; refuse it if it is not."""
    delivery.state = ASKING
    mailbox.asking.add(delivery)
    mailbox.limit = 0  # from now on the box does not hold all waiting messages

    async def ask() -> None:
        decision: object = False
        CURRENT.set(delivery)
        try:
            decision = await _decision(mailbox, delivery, offer)
        except BaseException as error:  # the agent's own code: an error is not a permission
            if not delivery.answered:
                failure = f"request_permission of agent {mailbox.id!r} failed on {delivery}"
                log_failure(logger, failure, error)
        finally:
            mailbox.asking.discard(delivery)
        if delivery.answered:
            return
        if decision is True:
            delivery.approved = True
            if delivery.recorder is not None:
                delivery.recorder.note_permitted(delivery)
            try:
                mailbox.accept(delivery)
            except Exception as error:  # a class of one's own
                mailbox.router.refuse_broken(delivery, mailbox, error)
            mailbox.router.make_ready(mailbox)
        else:
            delivery.state = FINISHED
            mailbox.router.refuse(delivery, DECISION_KINDS.refusal_of(offer.label, decision))

    delivery.task = mailbox.router.thread.spawn(ask())


async def _decision(mailbox: Any, delivery: Delivery, offer: Offer) -> Any:
    """Return what its agent decides about a message, which gets the permitted arguments."""

    async def ask(message: dict[str, Any]) -> Any:
        with clocks_paused():  # an override may ask by itself
            return await call_callback(mailbox, mailbox.agent.request_permission, message)

    message: Any = delivery.message()
    if delivery.upward is None:
        decision = await ask(message)
        if isinstance(decision, Later) and _is_in_the_middle(delivery):
            return Refused(f"it would wait for its approval, {_IN_THE_MIDDLE}")
        return decision
    decision = await delivery.upward.decision(mailbox.agent, offer.action, message, ask)
    if message["action"]["args"] != delivery.envelope.args:  # a person has changed them
        delivery.envelope = delivery.envelope._replace(args=message["action"]["args"])
    return decision


def outcome_of(delivery: Delivery, error: BaseException) -> RequestError:
    """Return the outcome of a request whose action raised `error`."""
    if isinstance(error, ActionError):
        # Raised by an action that this one called: passed on unchanged along the call chain.
        place = error.where
        outcome = ActionError(
            printable(str(error.type)), printable(str(error.text)), place and printable(str(place))
        )
        outcome.run_id = error.run_id
    else:
        place = str(delivery) if delivery.mailbox else None
        text = _no_wait_text(delivery, error) if isinstance(error, Later) else error_text(error)
        outcome = ActionError(printable(type(error).__name__), text, place)
    outcome.__cause__ = error
    return outcome


def error_text(error: BaseException) -> str:
    """Return an exception's text, shortened and valid as UTF-8."""
    text = error_message(error)
    if len(text) > _MAX_ERROR_CHARS:
        text = f"{text[:_MAX_ERROR_CHARS]}… ({len(text)} characters)"
    return printable(text)


def _no_wait_text(delivery: Delivery, later: Later) -> str:
    """Return why a message has no result yet; the call that it is waits for it."""
    if delivery.upward is not None:
        delivery.upward.cause = later
    if _is_in_the_middle(delivery):
        return f"its result comes later, {_IN_THE_MIDDLE}"
    return _NO_WAIT_TEXT


def _is_in_the_middle(delivery: Delivery) -> bool:
    """Return whether an action requests it while it is called, and is not this request itself."""
    is_requested = delivery.kind == REQUEST and delivery.upward is None
    return is_requested and bool(delivery.replies or delivery.parent is not None)


def returned_json(delivery: Delivery, value: Any) -> Any:
    """Return an action's value as JSON data."""
    try:
        return to_json(value, with_bytes=True)
    except NotJSON as error:
        if isinstance(value, Later):
            raise ActionError("Later", _no_wait_text(delivery, value)) from None
        text = f'"{delivery}" returned what is not a JSON value: {error}'
        raise ActionError("TypeError", text) from None


def answer_to(
    delivery: Delivery, value: Any, error: BaseException | None
) -> tuple[Envelope, str | None] | None:
    """Return the answer to a message, if it gets one, and the id of the message answered."""
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
    meta = tracing.answer_meta(delivery)
    if name == "say" and id is not None:  # its arguments have no place for it
        meta = {**(meta or {}), "original_message_id": id}
    return Envelope(sender, to, name, args, None, meta, envelope.thread), id


def _sources_here(agent: Any) -> list[str]:
    from moothall.agents.replies.reply_context import sources_here  # most agents never reply

    return sources_here(agent)
