"""An answer of OpenAI's chat interface: whole, or streamed as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from moothall.foundation.errors import ModelError
from moothall.models.answer_parts import Audio, images_of
from moothall.models.answer_reader import AnswerReader, updated_usage, usage_of
from moothall.models.chat_answer import (
    KEPT_FIELDS,
    REASONING,
    SIGNATURES,
    add_answer_fields,
    add_meta,
    error_of,
    finish_reason_of,
    joined_content,
    reasoning_of,
    wrong_field,
)
from moothall.models.protocol import StreamPart, Usage

_REASONING = frozenset(REASONING)
_READ_FIELDS = frozenset(("content", "refusal", "tool_calls", "images", "audio", *KEPT_FIELDS))
"""The fields of a message that are read."""
_TEXT_FIELDS = ("text", "summary", "data", "thinking")
"""Fields of a detail of reasoning of which a stream gives pieces."""


class AnswerStream(AnswerReader):
    """Reads an answer as it arrives.

    Args:
        keeps_reasoning: whether the server wants back the reasoning of answers without calls, too
        audio: the format of the answer's audio
    """

    _call_label: ClassVar[str] = "tool_calls[%d].function"
    _ends_at_done: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        earlier_call_count: int,
        server: str = "",
        keeps_reasoning: bool = False,
        audio: Any = None,
    ) -> None:
        super().__init__(name, earlier_call_count, server)
        self._keeps_reasoning = keeps_reasoning
        self._blocks: list[dict[str, Any]] = []
        self._audio = Audio(audio)
        self._open_calls: list[_CallPieces] = []
        self._last_calls: dict[int | None, _CallPieces] = {}
        self._usage: Any = None
        self._has_choices = False
        self._raw_texts: list[str] = []  # with the reasoning that is marked in it
        self._kept_fields: dict[str, Any] = {}  # that go back
        self._arrived_fields: set[str] = set()  # the fields of which pieces came

    def _read_body(self, answer: dict[str, Any], label: str) -> Iterator[StreamPart]:
        add_meta(self._meta, answer)
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise wrong_field(label, "choices", choices, "a list")
        choice = self._as_dict(choices[0], label, "choices[0]")
        self.is_complete, self._usage = True, answer.get("usage")
        # Azure withholds an answer without a message.
        if choice.get("message") is None and choice.get("finish_reason") != "content_filter":
            raise wrong_field(label, "choices[0].message", None, "an object")
        yield from self._read_choice(choice | {"delta": None, "usage": None}, label, "choices[0]")

    def _read_event(self, event: dict[str, Any], label: str) -> Iterator[StreamPart]:
        usage = event.get("usage")
        if not usage and "x_groq" in event and isinstance(event["x_groq"], dict):
            usage = event["x_groq"].get("usage")
        if usage:
            self._usage = updated_usage(self._usage, usage)
        elif text := _text_alone(event):  # as in most events
            add_answer_fields(self._meta, event)
            self._arrived_fields.add("content")
            self._has_choices = True
            self._raw_texts.append(text)
            yield from self._add_text(text)
            return
        if event.get("choices") is None:
            return  # such as a ping
        add_meta(self._meta, event)
        for n, value in enumerate(_typed_field(event, "choices", list, "a list", label)):
            path = f"choices[{n}]"
            choice = self._as_dict(value, label, path)
            _typed_field(choice, "finish_reason", str, "text", label, path)
            if not _typed_field(choice, "index", int, "an integer", label, path):
                yield from self._read_choice(choice, label, path)

    def _read_choice(self, choice: dict[str, Any], label: str, path: str) -> Iterator[StreamPart]:
        reason, error = choice.get("finish_reason"), choice.get("error")
        # An error that a provider, such as OpenRouter or DeepSeek, states in an answer.
        if error or str(reason).lower() in ("error", "insufficient_system_resource"):
            raise error_of({"error": error or reason}, self._name)
        self._usage = updated_usage(self._usage, choice.get("usage"))  # Kimi's place of it
        # Some servers send a reason in every event, empty until the last; some send a whole answer
        # in one event. A choice with neither delta nor message is of Azure's content filter.
        delta, kind = self._fields(choice, "delta", label, path), "delta"
        if not delta:  # a last event may repeat what came in pieces
            delta, kind = self._fields(choice, "message", label, path), "message"
            delta = {name: each for name, each in delta.items() if name not in self._arrived_fields}
        else:
            self._arrived_fields |= delta.keys()
            if _REASONING & delta.keys():
                self._arrived_fields |= _REASONING
        self._has_choices |= bool(choice.get("delta") or choice.get("message") or reason)
        if reason and reason != "null":
            self._reason = reason
            self.is_complete = True
        content = delta.get("content")
        if len(delta) > 1 or not isinstance(content, str):
            self._keep_fields(delta)
            if kind == "delta" or not _REASONING & self._arrived_fields:  # else it comes again
                yield from self._add_thought(reasoning_of(delta))
            self._blocks += images_of(delta)
        text = joined_content(content, label, f"{path}.{kind}.content")
        if "audio" in delta:
            text += self._audio.take(delta["audio"])
        if text:
            self._raw_texts.append(text)
            yield from self._add_text(text)
        if isinstance(delta.get("refusal"), str):
            self._refusal.append(delta["refusal"])
        pieces = delta.get("tool_calls") or ()
        # Those that pieces without a number are of, in their order.
        latest: list[_CallPieces] = self._open_calls[-len(pieces) :] if kind == "delta" else []
        for n, piece in enumerate(pieces):
            if kind == "message":
                self._last_calls.clear()  # each call is whole
            last = latest[n] if n < len(latest) else None
            self._add_call_piece(piece, last, label, f"{path}.{kind}.tool_calls[{n}]")

    def _fields(self, choice: dict[str, Any], kind: str, label: str, path: str) -> dict[str, Any]:
        """Return the fields of a message, or of a piece of one, that say something."""
        value = choice.get(kind)
        if value is None:
            return {}
        message = self._as_dict(value, label, f"{path}.{kind}")
        fields = {name: each for name, each in message.items() if each and name in _READ_FIELDS}
        if fields and not isinstance(fields.get("content"), str | None):
            _typed_field(fields, "content", list, "text", label, f"{path}.{kind}")
        if "tool_calls" in fields:
            _typed_field(fields, "tool_calls", list, "a list", label, f"{path}.{kind}")
        return fields

    def _add_call_piece(self, value: Any, last: _CallPieces | None, label: str, path: str) -> None:
        """Take a piece of a call; `last` is the one that it is of if it has no number."""
        piece = self._as_dict(value, label, path)
        function = piece.get("function")
        if function is None and ".delta." in path:
            function = {}
        function = self._as_dict(function, label, f"{path}.function")
        name = _typed_field(function, "name", str, "text", label, f"{path}.function")
        args = _typed_field(function, "arguments", (str, dict), "text", label, f"{path}.function")
        # An object: tests/peers/recorded/litellm.jsonl.
        args = json.dumps(args, ensure_ascii=False) if isinstance(args, dict) else args or ""
        index = _typed_field(piece, "index", int, "an integer from 0 on", label, path)
        if index is not None and index < 0:
            raise wrong_field(label, f"{path}.index", index, "an integer from 0 on")
        id = piece.get("id")
        if not isinstance(id, str):
            id = ""
        last = last if index is None else self._last_calls.get(index)
        if last is None or (name and last.name and last.is_before(id, args)):
            last = _CallPieces(index)
            self._open_calls.append(last)
            self._last_calls[index] = last
        last.add(piece, id, name, args)

    def _raw_calls(self) -> Iterable[tuple[Any, Any, Any]]:
        for call in self._sorted_calls():
            yield call.id, call.name, "".join(call.args)

    def _sorted_calls(self) -> list[_CallPieces]:
        return sorted(self._open_calls, key=lambda call: call.index or 0)

    def _finish_reason(self, has_calls: bool) -> str:
        if not self._has_choices:
            raise ModelError(f"{self._name}: the answer's events hold no answer")
        return finish_reason_of(self._reason, has_calls, self._name)

    def _content_blocks(self) -> tuple[dict[str, Any], ...]:
        return (*self._blocks, *self._audio.blocks())

    def _final_usage(self) -> Usage:
        return usage_of(self._usage)

    def _keep_fields(self, message: Mapping[str, Any]) -> None:
        """Take the fields of a message, or of a piece of one, that go back."""
        for name in KEPT_FIELDS if self._server else ():
            value, previous = message.get(name), self._kept_fields.get(name)
            if isinstance(value, str) and isinstance(previous, str):
                value = previous + value
            elif isinstance(value, list) and isinstance(previous, list):
                value = list(_joined_details([*previous, *value]))
            if isinstance(value, dict):
                value = {key: each for key, each in value.items() if each is not None}
            if value is not None:
                self._kept_fields[name] = _merge_piece(previous, value)

    def _reasoning_to_return(self, has_calls: bool) -> tuple[dict[str, Any], ...]:
        if not (self._kept_fields or has_calls or self._keeps_reasoning):
            return ()
        fields = {name: each for name, each in self._kept_fields.items() if each}
        if not has_calls and not self._keeps_reasoning:  # reasoning is for the calls that it led to
            fields = {name: each for name, each in fields.items() if name in SIGNATURES}
        elif self._reasoning_parser.has_reasoning:
            fields["content"] = "".join(self._raw_texts)
        if {"reasoning_content", "reasoning_details"} & fields.keys():
            fields.pop("reasoning", None)  # says the same
        if any(extras := [call.extra for call in self._sorted_calls()]):
            fields["calls"] = extras
        return ({"server": self._server, "fields": fields},) if fields and self._server else ()


def _text_alone(event: dict[str, Any]) -> str:
    """Return the text of an event whose one choice has a piece of it and nothing else, or none."""
    match event:
        case {"choices": [{"delta": {"content": str(text), **fields}, **others}]}:
            return "" if any(fields.values()) or any(others.values()) else text
    return ""


def _typed_field(
    fields: dict[str, Any], name: str, kinds: Any, expected: str, label: str, path: str = ""
) -> Any:
    """Return a field of an object, or None; raise if it is of another type."""
    value = fields.get(name)
    if value is not None and (not isinstance(value, kinds) or value is True or value is False):
        raise wrong_field(label, f"{path}.{name}".lstrip("."), value, expected)
    return value


@dataclass(slots=True)
class _CallPieces:
    """A call of which pieces arrive."""

    index: int | None
    id: str = ""
    name: str | None = None
    args: list[str] = field(default_factory=list)
    extra: Any = None

    def is_before(self, id: str, args: str) -> bool:
        """Return whether a piece with a name is of another call, which begins."""
        # One index for all: tests/peers/recorded/ollama.jsonl; no index and no id: gateways.jsonl.
        return id != self.id or (not id and bool(args.strip()) and self._is_complete())

    def _is_complete(self) -> bool:
        with suppress(ValueError, RecursionError):
            return isinstance(json.loads("".join(self.args)), dict)
        return False

    def add(self, piece: dict[str, Any], id: str, name: str | None, args: str) -> None:
        """Take a piece."""
        self.id = self.id or id
        self.extra = _merge_piece(
            self.extra, {each: piece[each] for each in SIGNATURES if piece.get(each)}
        )
        if self.name is None:
            self.name = name
        elif name and name != self.name:
            self.name += name
        if self.args == ["{}"] and args.strip():
            self.args.clear()  # an empty object may come before the pieces of the arguments
        if args:
            self.args.append(args)


def _merge_piece(earlier: Any, piece: Any) -> Any:
    """Return an object that a stream gives in pieces, with one more piece."""
    if isinstance(earlier, dict) and isinstance(piece, dict):
        return earlier | {
            name: _merge_piece(earlier.get(name), each) for name, each in piece.items()
        }
    return earlier if piece is None else piece


def _joined_details(details: list[Any]) -> Iterator[Any]:
    """Yield details of reasoning, with those that are pieces of one joined."""
    last: Any = None
    for each in details:
        if not isinstance(last, dict) or not isinstance(each, dict) or not _extends(last, each):
            if last is not None:
                yield last
            last = each
            continue
        texts = {
            name: last[name] + each[name]
            for name in _TEXT_FIELDS
            if isinstance(last.get(name), str) and isinstance(each.get(name), str)
        }
        last = _merge_piece(last, each) | texts
    yield last


def _extends(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    is_same = all(last.get(name) == piece.get(name) for name in ("type", "index"))
    return is_same and piece.get("id") in (None, last.get("id"))
