"""An answer of OpenAI's Responses API: whole, or streamed as server-sent events.

It is untrusted data: each field's type is checked, and an error names the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moothall.errors import ModelError
from moothall.jsonvalue import readable
from moothall.models.answer_parts import image_block
from moothall.models.chat_answer import add_meta, failed, parsed, wrong_field
from moothall.models.chat_stream import MAX_CALLS, token_count
from moothall.models.protocol import Call, ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from moothall.models.remote.responses_format import text_of
from moothall.models.server_events import ServerEvents

_TEXT = "response.output_text.delta"
_REFUSAL = "response.refusal.delta"
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponseStream:
    """Reads an answer as it arrives."""

    def __init__(self, name: str, calls_before: int, server: str) -> None:
        self.over: bool = False
        self.whole: bool = False
        self._name = name
        self._before = calls_before
        self._server = server
        self._read = ServerEvents(name)
        self._events = 0
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}
        self._said: list[str] = []
        self._thought: list[str] = []
        self._refused: list[str] = []
        self._part: Any = None  # of the reasoning, which comes in parts

    def feed(self, data: bytes, final: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer that some bytes complete."""
        for _, event in self._read.feed(data, final):
            if event == b"[DONE]" or self.over:
                self.over = True
                return
            if event:
                self._events += 1
                where = f"{self._name}: event {self._events} of the answer"
                yield from self._event(_object(parsed(event, where), where), where)

    def _event(self, event: dict[str, Any], where: str) -> Iterator[StreamPart]:
        kind, piece = event.get("type"), event.get("delta", "")
        if kind == "error" or event.get("error"):
            raise failed(event, self._name)
        if not isinstance(piece, str):
            if kind in (_TEXT, _REFUSAL, *_REASONING):
                raise wrong_field(where, "delta", piece, "text")
        elif kind == _TEXT:
            yield from self._say(piece)
        elif kind == _REFUSAL:
            self._refused.append(piece)
        elif kind in _REASONING:
            place = [event.get(each) for each in ("item_id", "summary_index", "content_index")]
            yield from self._think(piece, place)
        if kind == "response.output_item.done":
            index = event.get("output_index")
            if type(index) is not int or not 0 <= index < MAX_CALLS * 4:
                raise wrong_field(where, "output_index", index, f"an integer to {MAX_CALLS * 4}")
            self._items[index] = _object(event.get("item"), where, "item")
        elif kind in _ENDS:
            self._end(_object(event.get("response"), where, "response"), where)
            self.over = True

    def take_whole(self, body: bytes) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        where = f"{self._name}: the answer"
        response = _object(parsed(body, where), where)
        if not response.get("error") and not isinstance(response.get("output"), list):
            raise wrong_field(where, "output", response.get("output"), "a list")
        self._end(response, where)
        for item in self._items.values():
            if item.get("type") == "message":
                yield from self._say(text_of(item) or "")
                self._refused += [
                    each["refusal"]
                    for each in _list(item.get("content"))
                    if isinstance(each, dict) and isinstance(each.get("refusal"), str)
                ]
            elif item.get("type") == "reasoning":
                for n, part in enumerate(_list(item.get("summary")) or _list(item.get("content"))):
                    text = part.get("text") if isinstance(part, dict) else None
                    yield from self._think(text if isinstance(text, str) else "", [item, n])

    def _end(self, response: dict[str, Any], where: str) -> None:
        if response.get("error") or response.get("status") == "failed":
            raise failed({"error": response.get("error") or "the response failed"}, self._name)
        self._response, self.whole = response, True
        # Some servers repeat no items at the end of a stream.
        if output := _list(response.get("output")):
            items = (_object(each, where, f"output[{n}]") for n, each in enumerate(output))
            self._items = dict(enumerate(items))

    def _say(self, piece: str) -> Iterator[StreamPart]:
        if text := readable(piece):
            self._said.append(text)
            yield TextPiece(text)

    def _think(self, piece: str, part: Any) -> Iterator[StreamPart]:
        if text := readable(piece):
            if self._thought and part != self._part:
                text = f"\n\n{text}"
            self._part = part
            self._thought.append(text)
            yield ReasoningPiece(text)

    def end(self) -> list[StreamPart]:
        """Return the remaining pieces and finally the answer; called when no more data follows."""
        parts = list(self.feed(b"", final=True))
        if not self.whole:
            raise ModelError(
                f"{self._name}: the answer broke off after event {self._events}, before its end"
            )
        calls = self._calls()
        refused = bool(not self._said and not calls and self._refused)
        if refused:
            parts += self._say("".join(self._refused))
        about = self._response.get("incomplete_details")
        cut = about.get("reason") if isinstance(about, dict) else None
        reason = "calls" if calls else "refusal" if refused else "stop"
        if self._response.get("status") == "incomplete":
            reason = "content_filter" if cut == "content_filter" else "length"
        if reason == "content_filter" and not self._said and not calls:
            raise ModelError(
                f"{self._name}: the provider's content filter withheld the answer: change the "
                "prompt"
            )
        said, thought = "".join(self._said), "".join(self._thought)
        kept = self._kept() if calls else ()
        meta: dict[str, Any] = {}
        add_meta(meta, self._response)
        contents = [part for item in self._in_order() for part in _list(item.get("content"))]
        notes = [_list(part.get("annotations")) for part in contents if isinstance(part, dict)]
        if cited := [each for listed in notes for each in listed]:
            meta["citations"] = cited
        made = (said, calls, self._spent(), reason, thought, kept, meta, self._images())
        return [*parts, ModelReply(*made)]

    def _images(self) -> tuple[dict[str, Any], ...]:
        drawn = [each for each in self._in_order() if each.get("type") == "image_generation_call"]
        images = (image_block(each.get("result"), each.get("output_format")) for each in drawn)
        return tuple(filter(None, images))

    def _in_order(self) -> list[dict[str, Any]]:
        return [self._items[index] for index in sorted(self._items)]

    def _calls(self) -> tuple[Call, ...]:
        """Return the calls, each with a unique id."""
        where, calls = f"{self._name}: the answer", dict[str, Call]()
        made = [each for each in self._in_order() if each.get("type") == "function_call"]
        if len(made) > MAX_CALLS:
            raise ModelError(f"{where} has {len(made)} calls, more than {MAX_CALLS}")
        for n, item in enumerate(made):
            name, args, given = item.get("name"), item.get("arguments"), item.get("call_id")
            if not isinstance(name, str) or not name:
                raise wrong_field(where, f"function_call[{n}].name", name, "text")
            if args is not None and not isinstance(args, str | dict):
                raise wrong_field(where, f"function_call[{n}].arguments", args, "text")
            # A number, not a random id: the same conversation produces the same calls.
            id, number = given if isinstance(given, str) else "", self._before + n + 1
            while not id or id in calls:
                id, number = f"call_{number}", number + 1
            calls[id] = Call(id, name, args or "")
        return tuple(calls.values())

    def _kept(self) -> tuple[dict[str, Any], ...]:
        """Return the items that go back with the results, with each call as its place."""
        items = self._in_order()
        if all(each.get("type") in ("function_call", "message") for each in items):
            return ()
        kept = [
            {"type": "function_call"}
            if each.get("type") == "function_call"
            else {name: value for name, value in each.items() if value is not None}
            for each in items
        ]
        return ({"server": self._server, "items": kept},)

    def _spent(self) -> Usage:
        usage = self._response.get("usage")
        given, answered = token_count(usage, "input_tokens"), token_count(usage, "output_tokens")
        about = usage if isinstance(usage, dict) else {}
        cached = token_count(about.get("input_tokens_details"), "cached_tokens")
        written = token_count(about.get("input_tokens_details"), "cache_write_tokens")
        thought = token_count(about.get("output_tokens_details"), "reasoning_tokens")
        thought, cached, written = min(thought, answered), min(cached, given), min(written, given)
        return Usage(given, answered, cached, written, thought)


def _object(value: Any, where: str, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_field(where, name, value, "an object")
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
