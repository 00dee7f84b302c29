"""A run as a task of A2A: its form, its updates, and what a message answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moothall.build import json_line, json_text
from moothall.serving.a2a.task_json import artifact_of, status_json, task_json
from moothall.serving.a2a.wire import (
    CANCELED,
    COMPLETED,
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
    text_part,
)
from moothall.serving.doors.asks import Ask, read_form, waiting_text
from moothall.serving.doors.served.served_run import RunEvent, RunQuestions, RunState, ServedRun
from moothall.serving.doors.served.served_runs import Item

STATES: Final = {
    "new": SUBMITTED,
    "working": WORKING,
    "asking": INPUT_REQUIRED,
    "at_rest": INPUT_REQUIRED,
    "done": COMPLETED,
    "failed": FAILED,
    "refused": REJECTED,
    "cancelled": CANCELED,
}
"""What the protocol calls the states of a run."""


def task_of(
    run: ServedRun, limit: int | None = None, with_artifacts: bool = True
) -> dict[str, Any]:
    """Return a run in the protocol's form, with at most `limit` messages."""
    ids = run.id, run.request.context
    # Another version of moothall may have recorded it: then its value is not known.
    has_value = run.state.name == "done" and (run.view is None or run.reply is not None)
    artifacts = [_artifact(run, json_text(run.value))] if has_value and with_artifacts else []
    return task_json(*ids, _status(run, run.state), artifacts, run.door_data, limit)


def _artifact(run: ServedRun, text: str) -> dict[str, Any]:
    reply = run.reply
    return artifact_of(text, *(() if reply is None else (reply.value, reply.blocks)))


def _status(run: ServedRun, state: RunState) -> dict[str, Any]:
    text = "the task was cancelled" if state.name == "cancelled" else state.text
    if text:
        parts = [text_part(text)]
    else:
        for_others = [each for each in state.waits if each.key not in state.asks]
        parts = [part_for_others(waiting_text(for_others))] if for_others else []
        parts += _ask_parts(state.asks.values())
    return status_json(run.id, run.request.context, STATES[state.name], state.at, parts)


class TaskUpdates:
    """Makes the updates of a stream of what happens to a run.

    Args:
        run: the run
        limit: how many messages a task that is told whole has at most
    """

    def __init__(self, run: ServedRun, limit: int | None) -> None:
        self._run, self._limit = run, limit
        self._last_text = ""  # the last piece of text: it is told once it is known if more comes
        self._told_texts: list[str] = []  # those before it, since the last call

    def updates(self, item: Item) -> Iterator[dict[str, Any]]:
        """Return the updates for one of `ServedRuns.follow`."""
        if isinstance(item, RunState):
            yield from self._answer() if item.name == "done" else self._told_text()
            yield self._update("statusUpdate", status=_status(self._run, item))
        elif isinstance(item, ServedRun):
            self._run = item
            yield {"task": task_of(item, self._limit)}
        elif item.is_own:
            yield from self._event(item)

    def _event(self, item: RunEvent) -> Iterator[dict[str, Any]]:
        event: Any = item.event
        if event.kind == "text" and not event.decides:
            yield from self._told_text()
            self._last_text = event.text
        elif event.kind == "call_started":
            yield from self._told_text()
            self._told_texts.clear()
        elif event.kind == "message" and event.message["role"] == "user":  # its answer goes on
            yield from self._told_text()
            self._last_text = "\n\n" if self._told_texts else ""

    def _told_text(self) -> Iterator[dict[str, Any]]:
        """Tell the last piece of text: it is not the end of the artifact."""
        if text := self._last_text:
            yield self._artifact_update(artifact_of(text), bool(self._told_texts), False)
            self._told_texts.append(text)
            self._last_text = ""

    def _answer(self) -> Iterator[dict[str, Any]]:
        """Tell what is not told yet of the answer, or all of it if another text was told."""
        text, told_text = json_text(self._run.value), "".join(self._told_texts)
        appends = bool(told_text) and text.startswith(told_text)
        rest = text.removeprefix(told_text) if appends else text
        yield self._artifact_update(_artifact(self._run, rest), appends, True)

    def _artifact_update(
        self, artifact: dict[str, Any], append: bool, last: bool
    ) -> dict[str, Any]:
        return self._update("artifactUpdate", artifact=artifact, append=append, lastChunk=last)

    def _update(self, kind: str, **fields: Any) -> dict[str, Any]:
        ids = {"taskId": self._run.id, "contextId": self._run.request.context}
        return {kind: {**ids, **fields}}


# -- answers ---------------------------------------------------------------------------------------


def answers_in(message: dict[str, Any], run: ServedRun, questions: RunQuestions) -> dict[str, Any]:
    """Return what a message answers of what a task asks, or has asked.

    Raises:
        A2AFault: the task asks nothing, or the message is no answer to what it asks
    """
    try:
        return dict([_read_answer(message["parts"], questions.open_asks)])
    except A2AFault as fault:
        try:
            return dict([_read_answer(message["parts"], questions.answered_asks)])
        except A2AFault:
            if questions.open_asks or (run.state.waits and not run.is_in_doubt):
                raise fault from None
            raise _unexpected_message_fault(run) from None


def add_message(run: ServedRun, message: dict[str, Any]) -> None:
    """Add a message that answers a task to its history."""
    ids = message["messageId"], run.id, run.request.context
    run.door_data.append(message_of("USER", *ids, message["parts"]))


def _unexpected_message_fault(run: ServedRun) -> A2AFault:
    """Return the error for a message to a task that asks its caller nothing."""
    state_text = "has ended" if run.state.is_over else "works and asks nothing"
    if run.state.name == "cancelled":
        state_text = "was cancelled"
    elif run.state.waits:
        state_text = f"is {waiting_text(run.state.waits)}"
    return A2AFault("UNSUPPORTED_OPERATION", f"task {run.id} {state_text}, so it takes no message")


def _read_answer(parts: list[dict[str, Any]], asks: Mapping[str, Ask]) -> tuple[str, Any]:
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
            key not in ask.details or json_line(ask.details[key]) != json_line(value)
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


def _ask_parts(asks: Iterable[Ask]) -> list[dict[str, Any]]:
    """Return what a task asks, as texts and data."""
    parts: list[dict[str, Any]] = []
    for ask in asks:
        kind = "approval" if ask.is_approval else "question"
        parts += [text_part(ask.text), data_part({kind: ask.key, **ask.details})]
    return parts
