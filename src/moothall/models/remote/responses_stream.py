"""An answer of OpenAI's Responses API: whole, or streamed as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from moothall.foundation.jsonvalue import readable
from moothall.models.answer_parts import image_block
from moothall.models.answer_reader import AnswerReader, list_or_empty, usage_of
from moothall.models.chat_answer import add_meta, error_of, finish_reason_of, wrong_field
from moothall.models.protocol import StreamPart, Usage
from moothall.models.remote.responses_format import is_commentary, text_of

_TEXT_EVENT = "response.output_text.delta"
_REFUSAL_EVENT = "response.refusal.delta"
_REASONING_EVENTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_END_EVENTS = tuple(
    f"response.{each}" for each in ("completed", "done", "incomplete", "failed", "cancelled")
)


@dataclass(eq=False, slots=True)
class _OutputMessage:
    """A message of an answer, which may have several."""

    is_commentary: bool = False


class ResponseStream(AnswerReader):
    """Reads an answer as it arrives; each of its messages is a paragraph.

    Args:
        answer_alone: whether what the model comments before its answer is no part of the text, as
            where the text is read as JSON; it is reasoning then
    """

    _call_label: ClassVar[str] = "function_call[%d]"

    def __init__(
        self, name: str, earlier_call_count: int, server: str = "", answer_alone: bool = False
    ) -> None:
        super().__init__(name, earlier_call_count, server)
        self._answer_alone = answer_alone
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}
        self._had_text = self._had_reasoning = False  # whether it came in pieces
        self._part_key: Any = None  # of the reasoning, which comes in parts
        # Those that have begun, by their number and their id; under None, the last of them.
        self._messages: dict[Any, _OutputMessage] = {}
        self._last_message: _OutputMessage | None = None  # of the text
        self._comments: list[str] = []

    def _read_event(self, event: dict[str, Any], label: str) -> Iterator[StreamPart]:
        kind, piece = event.get("type"), event.get("delta", "")
        if not isinstance(piece, str):
            if kind in (_TEXT_EVENT, _REFUSAL_EVENT, *_REASONING_EVENTS):
                raise wrong_field(label, "delta", piece, "text")
        elif kind == _TEXT_EVENT:
            self._had_text = True
            yield from self._add_message_text(self._message_of(event), piece)
        elif kind == _REFUSAL_EVENT:
            self._refusal.append(piece)
        elif kind in _REASONING_EVENTS:
            self._had_reasoning = True
            part = [event.get(each) for each in ("item_id", "summary_index", "content_index")]
            yield from self._add_reasoning(part, piece)
        if kind == "response.output_item.added":
            item = next(iter(_objects([event.get("item")])), {})
            ids = _ids(event.get("output_index"), item.get("id"))
            self._messages |= dict.fromkeys([*ids, None], _OutputMessage(is_commentary(item)))
        elif kind == "response.output_item.done":
            # llama.cpp's server does not number the items.
            numbered = {"output_index": len(self._items), **event}
            place = self._read_index(numbered, "output_index", label)
            self._items[place] = self._as_dict(event.get("item"), label, "item")
        elif kind in _END_EVENTS:
            self._finish(self._as_dict(event.get("response"), label, "response"), label)
            self.has_ended = True

    def _read_body(self, answer: dict[str, Any], label: str) -> Iterator[StreamPart]:
        if answer.get("status") != "failed" and not isinstance(answer.get("output"), list):
            raise wrong_field(label, "output", answer.get("output"), "a list")
        self._finish(answer, label)
        return iter(())

    def _finish(self, response: dict[str, Any], label: str) -> None:
        if response.get("error") or response.get("status") == "failed":
            raise error_of({"error": response.get("error") or "the response failed"}, self._name)
        self._response = response
        self.is_complete = True
        if output := list_or_empty(response.get("output")):  # some servers do not repeat the items
            items = [self._as_dict(each, label, f"output[{n}]") for n, each in enumerate(output)]
            self._items = dict(enumerate(items))
        add_meta(self._meta, response)
        parts = [part for item in self._in_order() for part in _objects(item.get("content"))]
        if cited := [each for part in parts for each in list_or_empty(part.get("annotations"))]:
            self._meta["citations"] = cited

    def _message_of(self, event: dict[str, Any]) -> _OutputMessage:
        """Return the message that a piece of text belongs to."""
        # The number first: the ids change with each event in tests/peers/recorded/copilot.jsonl.
        ids = _ids(event.get("output_index"), event.get("item_id")) or [None]
        begun_messages = (self._messages[each] for each in ids if each in self._messages)
        return next(begun_messages, None) or self._messages.setdefault(ids[0], _OutputMessage())

    def _missing_parts(self) -> Iterator[StreamPart]:
        had_refusal = bool(self._refusal)
        for item in self._in_order():
            if item.get("type") == "message" and not self._had_text:
                message = _OutputMessage(is_commentary(item))
                yield from self._add_message_text(message, text_of(item) or "")
            if item.get("type") == "message" and not had_refusal:
                refusals = [each.get("refusal") for each in _objects(item.get("content"))]
                self._refusal += [each for each in refusals if isinstance(each, str)]
            elif item.get("type") == "reasoning" and not self._had_reasoning:
                parts = _objects(item.get("summary")) or _objects(item.get("content"))
                for n, part in enumerate(parts):
                    text = part.get("text")
                    yield from self._add_reasoning([item, n], text if isinstance(text, str) else "")
        comment = "".join(self._comments)
        if self._answer_alone:
            is_all = self._last_message is None and not self._refusal
            if is_all and not list(self._raw_calls()):
                yield from self._add_text(comment)
        elif comment and not (self._last_message and self._last_message.is_commentary):
            self._meta["commentary"] = readable(comment)

    def _add_message_text(self, message: _OutputMessage, piece: str) -> Iterator[StreamPart]:
        if message.is_commentary and self._answer_alone:
            is_next = self._comments and self._part_key is not message
            self._comments.append(f"\n\n{piece}" if is_next else piece)
            yield from self._add_reasoning(message, piece)
        elif piece:
            is_next = self._last_message not in (None, message)
            self._last_message, piece = message, f"\n\n{piece}" if is_next else piece
            if message.is_commentary:
                self._comments.append(piece)
            yield from self._add_text(piece)

    def _add_reasoning(self, part_key: Any, piece: str) -> Iterator[StreamPart]:
        if piece and self._reasoning_texts and part_key != self._part_key:
            piece = f"\n\n{piece}"
        self._part_key = part_key
        yield from self._add_thought(piece)

    def _in_order(self) -> list[dict[str, Any]]:
        return [self._items[index] for index in sorted(self._items)]

    def _raw_calls(self) -> Iterable[tuple[Any, Any, Any]]:
        for item in self._in_order():
            if item.get("type") == "function_call":
                yield item.get("call_id"), item.get("name"), item.get("arguments")

    def _finish_reason(self, has_calls: bool) -> str:
        status, details = self._response.get("status"), self._response.get("incomplete_details")
        incomplete_reason = details.get("reason") if isinstance(details, dict) else None
        return finish_reason_of(
            (incomplete_reason or "length") if status == "incomplete" else status,
            has_calls,
            self._name,
        )

    def _reasoning_to_return(self, has_calls: bool) -> tuple[dict[str, Any], ...]:
        """Return the items that go back with the results, with each call as its place."""
        returned: list[dict[str, Any]] = []
        for item in self._in_order():
            if item.get("type") == "function_call":
                returned.append({"type": "function_call"})
            elif has_calls:
                returned.append({name: value for name, value in item.items() if value is not None})
            elif item.get("phase") and text_of(item):
                # Without its reasoning it goes back as another's would.
                message = {"type": "message", "role": "assistant", "content": text_of(item)}
                returned.append({**message, "phase": item["phase"]})
        plain_types = ("function_call", "message")
        if all(each.get("type") in plain_types and not each.get("phase") for each in returned):
            return ()
        return ({"server": self._server, "items": returned},)

    def _content_blocks(self) -> tuple[dict[str, Any], ...]:
        drawn = [each for each in self._in_order() if each.get("type") == "image_generation_call"]
        images = (image_block(each.get("result"), each.get("output_format")) for each in drawn)
        return tuple(filter(None, images))

    def _final_usage(self) -> Usage:
        return usage_of(self._response.get("usage"))


def _ids(*values: Any) -> list[Any]:
    return [each for each in values if isinstance(each, int | str)]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in list_or_empty(value) if isinstance(each, dict)]
