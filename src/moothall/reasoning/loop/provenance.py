"""The origins of what a run of the loop reads and of the values of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final

from moothall.action import Action
from moothall.provenance import OUTSIDE, Origin, Texts, sources_of, union
from moothall.provenance.texts import question_on
from moothall.provenance.values import fold
from moothall.reasoning.loop.answer import RequestedCall
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.thread import Thread
from moothall.text import cut

ALWAYS: Final = "always"
"""The key of a tool message with the values from outside that are permitted for the thread."""

_MARKS: Final = frozenset((OUTSIDE, ALWAYS))

READ: ContextVar[list[str] | None] = ContextVar("moothall_read", default=None)
"""Where an agent that a call asks adds what it had read from outside."""

_SHOWN: Final = 3
_SOURCE_CHARS: Final = 200
_PROGRAM: Final = Origin("program", "schema")


def look(
    thread: Thread,
    request: ReplyRequest,
    messages: Iterable[dict[str, Any]],
    find: Callable[[str], Action | None],
) -> None:
    """Take in the messages that a model is shown, if any of them comes from outside.

    What stands in a memory without a mark, such as that of an earlier version, counts as from
    outside if the action that returned it does.
    """
    texts = thread.texts
    if texts is None:
        if not thread.looked:
            thread.looked = True
            found = any(OUTSIDE in each or _of_unknown(each, find) for each in messages)
        else:
            found = any(OUTSIDE in each for each in messages)
        if not found and not request.outside:
            return
        texts = thread.texts = Texts(request.on_behalf)
        texts.note(request.outside)
    for message in messages:
        _take(texts, message, find)


def _of_unknown(message: dict[str, Any], find: Callable[[str], Action | None]) -> bool:
    if message.get("role") != "tool":
        return False
    action = find(str(message.get("name", "")))
    return action is None or action.outside


def _take(texts: Texts, message: dict[str, Any], find: Callable[[str], Action | None]) -> None:
    role, content = message.get("role"), message.get("content")
    sources = sources_of(message)
    if role == "assistant":
        texts.note(sources)
    elif sources:
        texts.read(content, sources)
    elif role == "tool":
        name = str(message.get("name", ""))
        if _of_unknown(message, find):
            texts.read(content, [name])
        else:
            texts.add(content, "program", name, result=True)
    elif role == "system":
        texts.add(content, "program", "prompt")
    else:
        texts.add(content, "user")
    if isinstance(always := message.get(ALWAYS), list):
        texts.always.update(filter(_is_text, always))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def trace(call: RequestedCall, texts: Texts) -> None:
    """Note where the values of a call come from, and which guarded ones are from outside."""
    action = call.action
    assert action is not None
    guarded = action.guarded
    call.origins, call.from_outside, call.derived = {}, [], False
    for name, value in call.args.items():
        is_guarded = guarded is None or name in guarded
        traced = texts.trace(value)
        if any(origin.kind == "outside" for _, origin in traced) and not action.outside:
            schema = action.parameters.get("properties", {}).get(name)
            if isinstance(schema, dict):
                traced = _by_schema(texts, value, schema)
        origins: dict[Origin, None] = {}
        for part, origin in traced:
            if origin.kind == "outside":
                call.derived = True
                if is_guarded:
                    call.from_outside.append((name, part))
                    origin = texts.locate(part)
            origins[origin] = None
        call.origins[name] = [*origins]
    if call.derived and not action.outside:
        texts.wrote(call.args)


def _by_schema(texts: Texts, value: Any, schema: dict[str, Any]) -> list[tuple[str, Origin]]:
    """Trace a value with what the parameter's schema says: the program has written that."""
    if "default" in schema and _same(schema["default"], value):
        return [(str(value), _PROGRAM)]
    return texts.trace(value, json.dumps(schema, ensure_ascii=False))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def questions(call: RequestedCall, texts: Texts, request: ReplyRequest) -> list[tuple[str, str]]:
    """Return what a person is asked of a call: each value's key, and the question."""
    made = []
    for parameter, part in dict.fromkeys(call.from_outside):
        key = f"{call.name}.{parameter}={fold(part)}"
        if key not in texts.always and key not in request.allowed:
            said = question_on(parameter, part, texts.locate(part), texts.sources)
            made.append((key, said))
    return made


def note_of(asked: list[tuple[str, str]]) -> str:
    """Return what is asked of the values of a call as one text."""
    said = "; ".join(each for _, each in asked[:_SHOWN])
    return said if len(asked) <= _SHOWN else f"{said}; and {len(asked) - _SHOWN} other values"


def mark_result(
    message: dict[str, Any], call: RequestedCall, thread: Thread, request: ReplyRequest
) -> None:
    """Mark a call's result, if it comes from outside, in its message."""
    sources = sources_of_result(call, thread.texts)
    if sources:
        marked(message, sources)
        if thread.texts is None:  # the next prompt fills it
            thread.texts = Texts(request.on_behalf)
            thread.texts.note(sources)
    if call.always:
        message[ALWAYS] = [*call.always]


def marked(message: dict[str, Any], sources: list[str]) -> dict[str, Any]:
    """Return a message, with the sources of what is from outside in it."""
    if sources:
        message[OUTSIDE] = [*sources]
    return message


def unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as models get them."""
    return [
        {key: value for key, value in each.items() if key not in _MARKS}
        if not _MARKS.isdisjoint(each)
        else each
        for each in messages
    ]


def sources_of_result(call: RequestedCall, texts: Texts | None) -> list[str]:
    """Return where the result of a call comes from, if from outside; empty if not."""
    found = list(call.read)
    if call.action is None or call.action.outside:
        found.append(source_of(call))
    elif call.derived and texts is not None:
        found += texts.sources
    return union(found)


def source_of(call: RequestedCall) -> str:
    """Return what a call reads, in words: the file or the address if it names one, or itself."""
    for value in call.args.values():
        if isinstance(value, str) and ("." in value or "/" in value) and " " not in value:
            return cut(value, _SOURCE_CHARS)
    return call.name
