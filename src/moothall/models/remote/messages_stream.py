"""An answer of Anthropic's Messages API: whole, or streamed as server-sent events.

It is untrusted data: each field's type is checked, and an error names the wrong one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from moothall.errors import ModelError
from moothall.jsonvalue import readable
from moothall.models.chat_answer import add_meta, end_of, failed, parsed, wrong_field
from moothall.models.chat_stream import MAX_CALLS, token_count
from moothall.models.protocol import Call, ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from moothall.models.server_events import ServerEvents

_MAYBE_EMPTY = ("text", "thinking", "redacted_thinking")
PAUSED = "paused"
"""The name in `meta` of the content of a turn that the server goes on with."""
_PIECES = ("text", "thinking", "signature")
_TEXTS = {f"{each}_delta": each for each in _PIECES}


@dataclass(slots=True)
class _Block:
    """A block of content of which pieces arrive."""

    given: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)
    citations: list[Any] = field(default_factory=list)

    def cited(self) -> list[Any]:
        given = self.given.get("citations")
        return [*(given if isinstance(given, list) else ()), *self.citations]

    def text(self, name: str) -> str:
        first = self.given.get(name)
        return (first if isinstance(first, str) else "") + "".join(self.pieces.get(name, ()))


class MessageStream:
    """Reads an answer as it arrives."""

    def __init__(self, name: str, calls_before: int, server: str = "") -> None:
        self.over: bool = False
        self.whole: bool = False
        self._name = name
        self._server = server
        self._before = calls_before
        self._read = ServerEvents(name)
        self._events = 0
        self._blocks: dict[int, _Block] = {}
        self._counted: dict[str, Any] = {}
        self._reason: str | None = None
        self._meta: dict[str, Any] = {}

    def feed(self, data: bytes, final: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer that some bytes complete."""
        for _, event in self._read.feed(data, final):
            if self.over:
                return
            if event:
                self._events += 1
                where = f"{self._name}: event {self._events} of the answer"
                yield from self._event(self._object(parsed(event, where), where), where)

    def _event(self, event: dict[str, Any], where: str) -> Iterator[StreamPart]:
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise failed(event, self._name)
        if kind == "message_start":
            message = self._object(event.get("message"), where, "message")
            add_meta(self._meta, message)
            self._count(message.get("usage"))
        elif kind == "content_block_start":
            block = self._object(event.get("content_block"), where, "content_block")
            yield from self._begin(self._index(event, where), block)
        elif kind == "content_block_delta":
            delta = self._object(event.get("delta"), where, "delta")
            yield from self._piece(self._index(event, where), delta, where)
        elif kind == "message_delta":
            delta = self._object(event.get("delta"), where, "delta")
            self._reason = _text(delta.get("stop_reason")) or self._reason
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.over = self.whole = True
        # `ping`, `content_block_stop` and kinds of later versions say nothing of the answer.

    def take_whole(self, body: bytes) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        where = f"{self._name}: the answer"
        message = self._object(parsed(body, where), where)
        if message.get("type") == "error" or message.get("error"):
            raise failed(message, self._name)
        content = message.get("content")
        if not isinstance(content, list):
            raise wrong_field(where, "content", content, "a list")
        add_meta(self._meta, message)
        self._count(message.get("usage"))
        self._reason = _text(message.get("stop_reason"))
        self.whole = True
        for index, block in enumerate(content):
            yield from self._begin(index, self._object(block, where, f"content[{index}]"))

    def _begin(self, index: int, block: dict[str, Any]) -> Iterator[StreamPart]:
        self._blocks[index] = _Block(block)
        yield from _said(block.get("type"), block.get("text"), block.get("thinking"))

    def _piece(self, index: int, delta: dict[str, Any], where: str) -> Iterator[StreamPart]:
        block = self._blocks.get(index)
        if block is None:
            raise ModelError(f"{where} belongs to block {index}, which has not begun")
        kind = delta.get("type")
        name = "partial_json" if kind == "input_json_delta" else _TEXTS.get(str(kind))
        if name is None:
            if isinstance(delta.get("citation"), dict):
                block.citations.append(delta["citation"])
            return
        piece = delta.get(name)
        if not isinstance(piece, str):
            raise wrong_field(where, f"delta.{name}", piece, "text")
        block.pieces.setdefault(name, []).append(piece)
        if name in ("text", "thinking"):
            yield from _said(name, piece, piece)

    def end(self) -> list[StreamPart]:
        """Return the remaining pieces and finally the answer; called when no more data follows."""
        parts = list(self.feed(b"", final=True))
        if not self.whole:
            raise ModelError(
                f"{self._name}: the answer broke off after event {self._events}, before its end"
            )
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(_joined(block, "text") for block in blocks)
        reasoning = "".join(_joined(block, "thinking") for block in blocks)
        calls = self._calls([block for block in blocks if block.given.get("type") == "tool_use"])
        if self._reason == "refusal":
            if not text and not calls:
                raise ModelError(f"{self._name}: the provider refused to answer: change the prompt")
            reason = "content_filter"
        else:
            reason = end_of(self._reason, bool(calls), self._name)
        # Only an answer with calls, or a paused one, goes back to the model within the same turn.
        paused = self._reason == "pause_turn"
        kept = list(filter(None, map(_kept, blocks))) if calls or paused else []
        thought = any(each["type"] not in ("text", "tool_use") for each in kept)
        thinking = ({"server": self._server, "content": kept},) if thought else ()
        cited = [each for block in blocks for each in block.cited()]
        meta = self._meta | ({"citations": cited} if cited else {})
        meta |= {PAUSED: kept} if paused else {}
        made = (text, calls, self._spent(), reason, reasoning, thinking, meta)
        return [*parts, ModelReply(*made)]

    def _calls(self, blocks: list[_Block]) -> tuple[Call, ...]:
        where, calls = f"{self._name}: the answer", dict[str, Call]()
        if len(blocks) > MAX_CALLS:
            raise ModelError(f"{where} has {len(blocks)} calls, more than {MAX_CALLS}")
        for n, block in enumerate(blocks):
            name, input = block.given.get("name"), block.given.get("input")
            if not isinstance(name, str) or not name:
                raise wrong_field(where, f"tool_use[{n}].name", name, "text")
            args = block.text("partial_json") or (input if isinstance(input, dict) else "")
            # A number, not a random id: the same conversation produces the same calls.
            id, number = _text(block.given.get("id")) or "", self._before + n + 1
            while not id or id in calls:
                id, number = f"call_{number}", number + 1
            calls[id] = Call(id, name, args)
        return tuple(calls.values())

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):  # later counts replace earlier ones
            self._counted |= {key: value for key, value in usage.items() if value is not None}

    def _spent(self) -> Usage:
        """Return the usage: the API counts cached tokens beside the input, and we within it."""
        read = token_count(self._counted, "cache_read_input_tokens")
        written = token_count(self._counted, "cache_creation_input_tokens")
        answered = token_count(self._counted, "output_tokens")
        thought = token_count(self._counted.get("output_tokens_details"), "thinking_tokens")
        given = token_count(self._counted, "input_tokens") + read + written
        return Usage(given, answered, read, written, min(thought, answered))

    def _object(self, value: Any, where: str, name: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong_field(where, name, value, "an object")
        return value

    def _index(self, event: dict[str, Any], where: str) -> int:
        index = event.get("index")
        if type(index) is not int or not 0 <= index < MAX_CALLS * 4:
            raise wrong_field(where, "index", index, f"an integer from 0 to {MAX_CALLS * 4}")
        return index


def _said(kind: Any, text: Any, thinking: Any) -> Iterator[StreamPart]:
    if kind == "text" and isinstance(text, str) and (shown := readable(text)):
        yield TextPiece(shown)
    elif kind == "thinking" and isinstance(thinking, str) and (shown := readable(thinking)):
        yield ReasoningPiece(shown)


def _joined(block: _Block, kind: str) -> str:
    return readable(block.text(kind)) if block.given.get("type") == kind else ""


def _kept(block: _Block) -> dict[str, Any] | None:
    """Return a block as it goes back to the model: a call as its place, others whole."""
    kind = block.given.get("type")
    if kind == "tool_use":
        return {"type": kind}
    whole = block.given | {name: block.text(name) for name in block.pieces if name in _PIECES}
    if kind == "text":
        whole = {"type": kind, "text": readable(str(whole.get("text") or ""))}
        whole |= {"citations": cited} if (cited := block.cited()) else {}
    elif "partial_json" in block.pieces:  # of a tool of the server
        with suppress(ValueError, RecursionError):
            whole["input"] = json.loads(block.text("partial_json") or "{}")
    if whole.get("signature") == "":  # of a compatible server, which signs nothing
        del whole["signature"]
    if kind in _MAYBE_EMPTY and not any(whole.get(name) for name in (*_PIECES, "data")):
        return None
    return whole


def gone_on(content: bytes, reply: ModelReply) -> bytes:
    """Return a request with the content of a paused turn, which the server goes on with."""
    body = json.loads(content)
    if body["messages"][-1]["role"] != "assistant":
        body["messages"].append({"role": "assistant", "content": []})
    body["messages"][-1]["content"] += reply.meta[PAUSED]
    return json.dumps(body).encode()


def joined(paused: list[ModelReply], last: ModelReply, server: str) -> ModelReply:
    """Return a turn that was paused as one answer."""
    replies, meta = [*paused, last], {**last.meta}
    meta.pop(PAUSED, None)
    if cited := [note for each in replies for note in each.meta.get("citations", ())]:
        meta["citations"] = cited
    thinking = last.thinking
    if paused and last.calls:
        before = [block for each in paused for block in each.meta[PAUSED]]
        after = [block for each in thinking for block in each["content"]]
        after = after or [{"type": "text", "text": last.text}] * bool(last.text)
        after = after if thinking else [*after, *[{"type": "tool_use"}] * len(last.calls)]
        thinking = ({"server": server, "content": [*before, *after]},)
    return replace(
        last,
        text="".join(each.text for each in replies),
        reasoning="".join(each.reasoning for each in replies),
        usage=sum((each.usage for each in replies), Usage()),
        thinking=thinking,
        meta=meta,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
