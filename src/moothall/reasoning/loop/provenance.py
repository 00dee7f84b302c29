"""The origins of what a run of the loop reads and of the values of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
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

_SHOWN: Final = 3
_SOURCE_CHARS: Final = 200
_PROGRAM: Final = Origin("program", "schema")


def look(
    thread: Thread,
    request: ReplyRequest,
    messages: list[dict[str, Any]],
    find: Callable[[str], Action | None],
    told: list[tuple[str, str]] | None = None,
) -> None:
    """Take in the messages that a model is shown, if any of them comes from outside.

    So it does with what others say of their actions, which a model reads as well: `told`.

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
        if not found and not request.outside and not told:
            return
        texts = thread.texts = Texts(request.on_behalf)
        texts.note(request.outside)
    if told and told is not texts.told:
        texts.told = told
        for source, text in told:
            texts.read(text, [source])
    known = len(texts.taken)
    # A prompt is the last one and what came since, unless its memory has dropped something.
    new = messages[known:] if messages[:known] == texts.taken else messages
    for message in new:
        _take(texts, message, find)
    texts.taken = [*messages]


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


def is_told_by_itself(call: RequestedCall, texts: Texts) -> bool:
    """Return whether all that was read from outside is what a tool's own server says of its tools.

    The server gets what the user said in any case, so there is nothing to ask.
    """
    return call.action is not None and texts.sources == [call.action._described_by]


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


def unmarked(messages: list[dict[str, Any]], texts: Texts) -> list[dict[str, Any]]:
    """Return messages as models get them."""
    marked, bare = texts.bare
    known = len(marked) if messages[: len(marked)] == marked else 0
    new = messages[known:]
    bare = bare[:known] + [each if _MARKS.isdisjoint(each) else _bare(each) for each in new]
    texts.bare = ([*messages], bare)
    return [*bare]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in _MARKS}


def sources_of_result(call: RequestedCall, texts: Texts | None) -> list[str]:
    """Return where the result of a call comes from, if from outside; empty if not."""
    found = [*call.read, *_recalled((call.result or {}).get("result"))]
    if call.action is None or call.action.outside:
        found.append(source_of(call))
    elif call.derived and texts is not None:
        found += texts.sources
    return union(found)


def _recalled(result: Any) -> list[str]:
    """Return the sources of the messages that an action recalled from a memory."""
    if not isinstance(result, list | tuple):
        return sources_of(result)
    return [source for each in result for source in sources_of(each)]


def source_of(call: RequestedCall) -> str:
    """Return what a call reads, in words: the file or the address if it names one, or itself."""
    for value in call.args.values():
        if isinstance(value, str) and ("." in value or "/" in value) and " " not in value:
            return cut(value, _SOURCE_CHARS)
    return call.name
