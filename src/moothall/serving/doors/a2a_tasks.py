"""The tasks of the A2A door: each is a run of an agent, and the journal keeps it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from moothall import Done, Event, JournalError, MoothallError, NoSuchRun, NotPermitted, Reply
from moothall.build import json_text, one_line
from moothall.journal import REASONS, Wait, Waits
from moothall.serving.a2a.task_json import artifact_of, first_message, status_json, task_json
from moothall.serving.a2a.wire import (
    CANCELED,
    COMPLETED,
    ENDED_STATES,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
    A2AFault,
    answer_text,
    data_part,
    message_of,
    part_for_others,
    text_in,
    text_part,
)
from moothall.serving.doors.asks import (
    RESTING,
    Ask,
    Caller,
    OpenAsks,
    asks_of,
    read_form,
    waiting_text,
)
from moothall.serving.doors.protocols import caller_text, ended_text
from moothall.serving.doors.served_agents import Served

Content: TypeAlias = str | list[dict[str, Any]]
"""What a caller says: a text, or blocks."""
ANSWER_WAIT_S: Final = 86_400.0
"""How long a task waits for an answer to its question."""
_MAX_UNREAD_UPDATES: Final = 10_000
"""How many updates a reader may be behind before its stream ends."""


@dataclass(eq=False)
class Task:
    """A task of this process: a `say` to an agent, sent for a caller."""

    id: str
    agent: str
    sender: str
    context: str
    content: Content
    has_threads: bool  # whether the agent keeps apart the conversations of one sender
    caller: str
    state: str = SUBMITTED
    options: dict[str, Any] | None = None  # what its message says of the reply
    parts: list[dict[str, Any]] = field(default_factory=list)  # of the message of its state
    changed_at: float = field(default_factory=time.time)
    start_time: float = field(default_factory=time.time)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    later_messages: list[dict[str, Any]] = field(default_factory=list)  # those after the first
    work: asyncio.Task[None] | None = None
    run_started: bool = False  # whether its run has begun, which a journal keeps
    is_handed_over: bool = False  # whether the next process goes on with it
    runs_elsewhere: bool = False  # whether another process works on it
    has_other_program: bool = False  # whether the program that began it has changed
    open_asks: OpenAsks = field(init=False)  # what it asks while it works
    _subscribers: set[asyncio.Queue[dict[str, Any] | None]] = field(default_factory=set)
    _reply: Reply | None = None
    _last_text: str = ""  # the last piece of text: it is told once it is known whether more comes
    _told_texts: list[str] = field(default_factory=list)  # those before it, since the last call

    def __post_init__(self) -> None:
        self.open_asks = OpenAsks(self._show_asks, ANSWER_WAIT_S)

    def to_json(self, limit: int | None = None, with_artifacts: bool = True) -> dict[str, Any]:
        """Return the task in the protocol's form, with at most `limit` messages."""
        first = first_message(self.id, self.context, self.content)
        return task_json(
            self.id,
            self.context,
            self._status(),
            self.artifacts if with_artifacts else [],
            [first, *self.later_messages],
            limit,
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether its run waits in the journal, or is in doubt: it has no part in it any more."""
        return self.state == INPUT_REQUIRED and not self.open_asks.open

    def subscribe(self) -> asyncio.Queue[dict[str, Any] | None]:
        """Return a queue that gets each update from now on, and None after the last one."""
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        if self.state in ENDED_STATES:
            queue.put_nowait(None)
        else:
            self._subscribers.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[dict[str, Any] | None]) -> None:
        """Stop sending updates to a queue."""
        self._subscribers.discard(queue)

    async def wait_until(self, is_reached: Callable[[Task], bool]) -> None:
        """Wait until the task is in a state for which `is_reached` returns True."""
        queue = self.subscribe()
        try:
            while not is_reached(self) and await queue.get() is not None:
                pass
        finally:
            self.unsubscribe(queue)

    # -- working -----------------------------------------------------------------------------------

    async def run(self, served: Served) -> None:
        """Have the agent reply, and end the task with the outcome."""
        args: dict[str, Any] = {"content": text_in(self.content)}
        if self.has_threads:
            args["thread"] = self.context
        terms = (self.id, self.caller, self.content, self.options)
        caller = Caller(asyncio.get_running_loop(), self.open_asks, self._on_event, *terms)
        try:
            value = await served.call(self.sender, self.agent, "say", args, caller)
            await asyncio.sleep(0)  # the events before it wait in this loop already
        except asyncio.CancelledError:
            if not self.is_handed_over:
                self._end(CANCELED, "the task was cancelled")
        except NotPermitted as error:
            self._end(REJECTED, str(error))
        except MoothallError as error:
            # As above: the event that has the reason waits in this loop.
            await asyncio.sleep(0)
            reason = "" if self._reply is None else self._reply.stop_reason
            kind = getattr(error, "type", "")
            self.has_other_program = kind == "RunMismatch"  # it waits for the one that began it
            if reason in RESTING or self.has_other_program:
                await self._show_waits(served)
            elif kind == "RunHeld":  # another process has resumed it
                self.runs_elsewhere = True
                self._set_state(WORKING)
            elif kind == "RequestCancelled" and reason == "cancelled":  # by a request to its run
                self._end(CANCELED, "the task was cancelled")
            else:
                is_unanswered = reason not in ("", "error", *REASONS.answered)
                self._end(
                    FAILED,
                    ended_text(self._reply, self.id)
                    if self._reply is not None and is_unanswered
                    else caller_text(error, self.id),
                )
        except BaseException:
            self._end(FAILED, "the agent failed")
            raise
        else:
            self._tell_answer(json_text(value))
            self._end(COMPLETED)

    async def _show_waits(self, served: Served) -> None:
        """Say what its run waits for; if the journal does not tell, that it waits."""
        try:
            waits = await served.waits(self.agent, self.id)
        except NoSuchRun as error:
            self._end(FAILED, caller_text(error, self.id))
        except JournalError:  # the run rests all the same
            self._end(INPUT_REQUIRED, REASONS.in_words("waiting"))
        else:
            self._end(
                INPUT_REQUIRED, parts=resting_parts(waits, served.callers.permits(self.caller))
            )

    def _on_event(self, event: Event) -> None:
        """Take an event of the agent's reply, or of a reply that it asked for."""
        is_own = Waits.began_as(event.run_id or "") == self.id and event.agent == self.agent
        # A hook that fails before the run ends it, too.
        self.run_started |= is_own and not (
            isinstance(event, Done) and event.reply.stop_reason == "error"
        )
        if self.state == SUBMITTED and is_own:
            self._set_state(WORKING)
        if (handle := self._EVENT_HANDLERS.get(event.kind)) is not None:
            handle(self, event, is_own)
        elif event.progress and not self.open_asks.open and not getattr(event, "past", False):
            self._set_state(WORKING, [text_part(one_line(event.progress, 300))])

    def _on_text(self, event: Any, is_own: bool) -> None:
        if is_own and not event.decides:
            self._tell_last_text()
            self._last_text = event.text

    def _on_call_start(self, event: Any, is_own: bool) -> None:
        if is_own:
            self._tell_last_text()
            self._told_texts.clear()
        if not event.past and not self.open_asks.open:
            self._set_state(WORKING, [text_part(one_line(event.progress, 300))])

    def _on_reply_end(self, event: Any, is_own: bool) -> None:
        if is_own:
            self._reply = event.reply

    def _ignore_event(self, event: Any, is_own: bool) -> None: ...

    _EVENT_HANDLERS: ClassVar[dict[str, Callable[[Task, Any, bool], None]]] = {
        "text": _on_text,
        "call_started": _on_call_start,
        "call_ended": _ignore_event,
        "done": _on_reply_end,
    }
    """What is told in another way than by its progress."""

    # -- asking ------------------------------------------------------------------------------------

    def _show_asks(self, _: Ask) -> None:
        if self.state not in ENDED_STATES:
            asks = [*self.open_asks.open.values()]
            self._set_state(*((INPUT_REQUIRED, ask_parts(asks)) if asks else (WORKING,)))

    def answer_question(self, message: dict[str, Any]) -> None:
        """Take a message to this task: it must answer what the task asks, to the letter.

        Raises:
            A2AFault: the task asks nothing, or the message is no answer to what it asks
        """
        if not self.open_asks.open:
            raise unexpected_message_fault(self.id, self.state)
        self.open_asks.settle(*read_answer(message["parts"], self.open_asks.open))
        self.add_to_history(message)

    def add_to_history(self, message: dict[str, Any]) -> None:
        """Add a message that answers it to its history."""
        history_message = message_of(
            "USER", message["messageId"], self.id, self.context, message["parts"]
        )
        self.later_messages.append(history_message)

    # -- telling -----------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        return status_json(self.id, self.context, self.state, self.changed_at, self.parts)

    def _set_state(self, state: str, parts: list[dict[str, Any]] | None = None) -> None:
        self._tell_last_text()
        self.state, self.parts, self.changed_at = state, parts or [], time.time()
        task_fields = {"taskId": self.id, "contextId": self.context}
        self._emit({"statusUpdate": {**task_fields, "status": self._status()}})

    def _end(self, state: str, text: str = "", parts: list[dict[str, Any]] | None = None) -> None:
        self._set_state(state, [text_part(text)] if text else parts)
        self.content = text_in(self.content)  # an ended task keeps no files
        self._told_texts.clear()

    def end_subscriptions(self) -> None:
        """Tell all readers that no more updates come: its work has ended, in whatever way."""
        readers, self._subscribers = self._subscribers, set()
        for queue in readers:
            queue.put_nowait(None)

    def _tell_last_text(self) -> None:
        """Tell the last piece of text: it is not the end of the artifact."""
        if text := self._last_text:
            self._tell_artifact(artifact_of(text), bool(self._told_texts), False)
            self._told_texts.append(text)
            self._last_text = ""

    def _tell_answer(self, text: str) -> None:
        """Tell what is not told yet of the answer, or all of it if another text was told."""
        reply_parts = () if self._reply is None else (self._reply.value, self._reply.blocks)
        artifact = rest = artifact_of(text, *reply_parts)
        told_text, self._last_text = "".join(self._told_texts), ""
        if appends := bool(told_text) and text.startswith(told_text):
            rest = artifact_of(text.removeprefix(told_text), *reply_parts)
        self.artifacts = [artifact]
        self._tell_artifact(rest, appends, True)

    def _tell_artifact(self, artifact: dict[str, Any], append: bool, last: bool) -> None:
        task_fields = {"taskId": self.id, "contextId": self.context, "artifact": artifact}
        self._emit({"artifactUpdate": {**task_fields, "append": append, "lastChunk": last}})

    def _emit(self, update: dict[str, Any]) -> None:
        for queue in list(self._subscribers):
            # Its client does not read: its connection ends, before the server's memory does.
            if queue.qsize() >= _MAX_UNREAD_UPDATES:
                self._subscribers.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(update)


def unexpected_message_fault(id: str, state: str, waits: Iterable[Wait] = ()) -> A2AFault:
    """Return the error for a message to a task that asks its caller nothing."""
    state_text = "has ended" if state in ENDED_STATES else "works and asks nothing"
    if state == CANCELED:
        state_text = "was cancelled"
    elif waits:
        state_text = f"is {waiting_text(waits)}"
    return A2AFault("UNSUPPORTED_OPERATION", f"task {id} {state_text}, so it takes no message")


def read_answer(parts: list[dict[str, Any]], asks: Mapping[str, Ask]) -> tuple[str, Any]:
    """Return which of these a message answers, and its answer.

    Raises:
        A2AFault: it answers none of them to the letter
    """
    data = [part["data"] for part in parts if "data" in part]
    if data:
        # A text beside it may be a condition.
        if len(parts) == 1 and isinstance(data[0], dict):
            return _read_data_answer(data[0], asks)
    elif len(asks) == 1:
        (ask,) = asks.values()
        if not ask.is_approval:
            return ask.key, answer_text(parts)
    raise _no_answer_fault()


def _read_data_answer(part: dict[str, Any], asks: Mapping[str, Ask]) -> tuple[str, Any]:
    fields = dict(part)
    kind = "approval" if "approval" in fields else "question"
    key = fields.pop(kind, None)
    ask = asks.get(key) if isinstance(key, str) else None
    answer: Any = fields.pop("permit" if kind == "approval" else "answer", None)
    word = fields.pop("for") if isinstance(fields.get("for"), str) else ""  # else what was asked
    if (
        ask is None
        or (word and word not in ask.details.get("for", ()))
        or ask.is_approval != (kind == "approval")
        or not isinstance(answer, bool if ask.is_approval else str)
        or any(
            key not in ask.details or json_text(ask.details[key]) != json_text(value)
            for key, value in fields.items()
        )
    ):
        raise _no_answer_fault()
    return ask.key, read_form(ask, {"permit": answer, "answer": answer, "for": word}, "permit")


def _no_answer_fault() -> A2AFault:
    return A2AFault(
        "INVALID_PARAMS",
        "this answers nothing that the task asks: an approval takes one data part "
        '{"approval": HASH, "permit": true or false} with the hash that the task states, and '
        '"for": WORD if it states words, a '
        'question {"question": HASH, "answer": TEXT} or, where it is all that is asked, a text',
    )


def ask_parts(asks: Iterable[Ask]) -> list[dict[str, Any]]:
    """Return what a task asks, as texts and data."""
    parts: list[dict[str, Any]] = []
    for ask in asks:
        kind = "approval" if ask.is_approval else "question"
        parts += [text_part(ask.text), data_part({kind: ask.key, **ask.details})]
    return parts


def resting_parts(waits: Sequence[Wait], may_permit: bool) -> list[dict[str, Any]]:
    """Return what a task that rests in the journal waits for: what its caller may answer, and else.

    Args:
        waits: what its run waits for
        may_permit: whether its caller may permit calls
    """
    asks = asks_of(waits, may_permit)
    unanswerable = [each for each in waits if each.key not in asks]
    return [
        *([part_for_others(waiting_text(unanswerable))] if unanswerable else []),
        *ask_parts(asks.values()),
    ]
