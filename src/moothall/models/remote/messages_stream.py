"""An answer of Anthropic's Messages API: whole, or streamed as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from moothall.foundation.errors import ModelError
from moothall.foundation.jsonvalue import readable
from moothall.models.answer_reader import AnswerReader, list_or_empty, token_counts, updated_usage
from moothall.models.chat_answer import add_meta, finish_reason_of, wrong_field
from moothall.models.protocol import ModelReply, StreamPart, Usage

_DROPPED_IF_EMPTY = ("text", "thinking", "redacted_thinking")
PAUSED = "paused"
"""The name in `meta` of the content of a turn that the server goes on with."""
_PIECES = ("text", "thinking", "signature")
_PIECE_OF_DELTA = {f"{each}_delta": each for each in _PIECES}


@dataclass(slots=True)
class _ContentBlock:
    """A block of content of which pieces arrive."""

    fields: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)
    citations: list[Any] = field(default_factory=list)

    def all_citations(self) -> list[Any]:
        return [*list_or_empty(self.fields.get("citations")), *self.citations]

    def text(self, name: str) -> str:
        first = self.fields.get(name)
        return (first if isinstance(first, str) else "") + "".join(self.pieces.get(name, ()))


class MessageStream(AnswerReader):
    """Reads an answer as it arrives.

    Args:
        keeps_reasoning: whether the server wants back the reasoning of answers without calls, too
    """

    _call_label: ClassVar[str] = "tool_use[%d]"
    _withheld: ClassVar[str] = "the provider refused to answer"

    def __init__(
        self, name: str, earlier_call_count: int, server: str = "", keeps_reasoning: bool = False
    ) -> None:
        super().__init__(name, earlier_call_count, server)
        self._keeps_reasoning = keeps_reasoning
        self._blocks: dict[int, _ContentBlock] = {}
        self._usage_counts: dict[str, Any] = {}

    def _read_event(self, event: dict[str, Any], label: str) -> Iterator[StreamPart]:
        kind = event.get("type")
        if kind == "message_start":
            message = self._as_dict(event.get("message"), label, "message")
            add_meta(self._meta, message)
            self._usage_counts = updated_usage(self._usage_counts, message.get("usage"))
        elif kind == "content_block_start":
            block = self._as_dict(event.get("content_block"), label, "content_block")
            yield from self._begin(self._read_index(event, "index", label), block)
        elif kind == "content_block_delta":
            delta = self._as_dict(event.get("delta"), label, "delta")
            yield from self._take_piece(self._read_index(event, "index", label), delta, label)
        elif kind == "message_delta":
            delta = self._as_dict(event.get("delta"), label, "delta")
            self._reason = delta.get("stop_reason") or self._reason
            self.is_complete = bool(self._reason)
            self._usage_counts = updated_usage(self._usage_counts, event.get("usage"))
        elif kind == "message_stop":
            self.has_ended = self.is_complete = True
        # `ping`, `content_block_stop` and kinds of later versions say nothing of the answer.

    def _read_body(self, answer: dict[str, Any], label: str) -> Iterator[StreamPart]:
        content = answer.get("content")
        if not isinstance(content, list):
            raise wrong_field(label, "content", content, "a list")
        add_meta(self._meta, answer)
        self._usage_counts = updated_usage({}, answer.get("usage"))
        self._reason = answer.get("stop_reason")
        self.is_complete = True
        for index, block in enumerate(content):
            yield from self._begin(index, self._as_dict(block, label, f"content[{index}]"))

    def _begin(self, index: int, block: dict[str, Any]) -> Iterator[StreamPart]:
        self._blocks[index] = _ContentBlock(block)
        yield from self._parts_of(block.get("type"), block)

    def _parts_of(self, kind: Any, fields: dict[str, Any]) -> Iterator[StreamPart]:
        text = fields.get(kind) if kind in ("text", "thinking") else None
        if isinstance(text, str):
            yield from self._add_text(text) if kind == "text" else self._add_thought(text)

    def _take_piece(self, index: int, delta: dict[str, Any], label: str) -> Iterator[StreamPart]:
        block = self._blocks.get(index)
        if block is None:
            raise ModelError(f"{label} belongs to block {index}, which has not begun")
        kind = delta.get("type")
        name = "partial_json" if kind == "input_json_delta" else _PIECE_OF_DELTA.get(str(kind))
        if name is None:
            if isinstance(delta.get("citation"), dict):
                block.citations.append(delta["citation"])
            return
        piece = delta.get(name)
        if not isinstance(piece, str):
            raise wrong_field(label, f"delta.{name}", piece, "text")
        block.pieces.setdefault(name, []).append(piece)
        yield from self._parts_of(name, delta)

    def _in_order(self) -> list[_ContentBlock]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def _raw_calls(self) -> Iterable[tuple[Any, Any, Any]]:
        for block in self._in_order():
            if block.fields.get("type") == "tool_use":
                tool_input = block.fields.get("input")
                args = block.text("partial_json") or (
                    tool_input if isinstance(tool_input, dict | str) else ""
                )
                yield block.fields.get("id"), block.fields.get("name"), args

    def _finish_reason(self, has_calls: bool) -> str:
        if self._reason == "refusal":
            return "content_filter"
        return finish_reason_of(self._reason, has_calls, self._name)

    def _reasoning_to_return(self, has_calls: bool) -> tuple[dict[str, Any], ...]:
        blocks = self._in_order()
        if cited := [each for block in blocks for each in block.all_citations()]:
            self._meta["citations"] = cited
        # Only an answer with calls, or a paused one, goes back to the model within the same turn.
        paused = self._reason == "pause_turn"
        if not (has_calls or paused or self._keeps_reasoning):
            return ()
        returned_blocks = list(filter(None, map(_block_for_server, blocks)))
        self._meta |= {PAUSED: returned_blocks} if paused else {}
        has_thinking = any(each["type"] not in ("text", "tool_use") for each in returned_blocks)
        return ({"server": self._server, "content": returned_blocks},) if has_thinking else ()

    def _final_usage(self) -> Usage:
        # A server that summarises before it answers counts each pass, and in all the last one only.
        iterations = list_or_empty(self._usage_counts.get("iterations")) or [self._usage_counts]
        passes = [*map(token_counts, iterations)]

        def sum_of(name: str) -> int:
            return sum(each.get(name, 0) for each in passes)

        # The API counts cached tokens beside the input, and we within it.
        cache_reads = sum_of("cache_read_input_tokens")
        cache_writes = sum_of("cache_creation_input_tokens")
        output_tokens = sum_of("output_tokens")
        details = token_counts(self._usage_counts.get("output_tokens_details"))
        input_tokens = sum_of("input_tokens") + cache_reads + cache_writes
        return Usage(
            input_tokens,
            output_tokens,
            cache_reads,
            cache_writes,
            min(details.get("thinking_tokens", 0), output_tokens),
        )


def _block_for_server(block: _ContentBlock) -> dict[str, Any] | None:
    """Return a block as it goes back to the model: a call as its place, others whole."""
    kind = block.fields.get("type")
    if kind == "tool_use":
        return {"type": kind}
    fields = block.fields | {name: block.text(name) for name in block.pieces if name in _PIECES}
    if kind == "text":
        fields = {"type": kind, "text": readable(str(fields.get("text") or ""))}
        fields |= {"citations": cited} if (cited := block.all_citations()) else {}
    elif "partial_json" in block.pieces:  # of a tool of the server
        with suppress(ValueError, RecursionError):
            fields["input"] = json.loads(block.text("partial_json") or "{}")
    if fields.get("signature") == "":  # of a compatible server, which signs nothing
        del fields["signature"]
    if kind in _DROPPED_IF_EMPTY and not any(fields.get(name) for name in (*_PIECES, "data")):
        return None
    return fields


def continued_request(content: bytes, reply: ModelReply) -> bytes:
    """Return a request with the content of a paused turn, which the server goes on with."""
    body = json.loads(content)
    if body["messages"][-1]["role"] != "assistant":
        body["messages"].append({"role": "assistant", "content": []})
    body["messages"][-1]["content"] += reply.meta[PAUSED]
    return json.dumps(body).encode()


def joined_replies(paused: list[ModelReply], last: ModelReply, server: str) -> ModelReply:
    """Return a turn that was paused as one answer."""
    replies, meta = [*paused, last], {**last.meta}
    meta.pop(PAUSED, None)
    if cited := [note for each in replies for note in each.meta.get("citations", ())]:
        meta["citations"] = cited
    thinking = last.thinking
    if paused and last.calls:
        earlier = [block for each in paused for block in each.meta[PAUSED]]
        later = [block for each in thinking for block in each["content"]]
        later = later or [{"type": "text", "text": last.text}] * bool(last.text)
        later = later if thinking else [*later, *[{"type": "tool_use"}] * len(last.calls)]
        thinking = ({"server": server, "content": [*earlier, *later]},)
    return replace(
        last,
        text="".join(each.text for each in replies),
        reasoning="".join(each.reasoning for each in replies),
        usage=sum((each.usage for each in replies), Usage()),
        thinking=thinking,
        meta=meta,
    )
