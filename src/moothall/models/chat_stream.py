"""An answer of OpenAI's chat interface: whole, or streamed as server-sent events.

It is untrusted data: bounded, and read through a schema. Nothing here reads from a network: bytes
go in as received, and parts come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from moothall.errors import ModelError
from moothall.jsonvalue import readable
from moothall.models.answer_parts import Audio, Said, Thoughts, images_of
from moothall.models.chat_answer import (
    CHUNK,
    WHOLE,
    add_meta,
    checked,
    end_of,
    failed,
    joined_content,
    parsed,
    reasoning_of,
    wrong_field,
)
from moothall.models.kept_fields import KeptFields, merged
from moothall.models.protocol import Call, ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from moothall.models.server_events import ServerEvents

MOST_TOKENS = 2**53
MAX_CALLS = 1024
"""More calls than any model makes in one answer."""

_REASONING = frozenset(("reasoning", "reasoning_content"))


class AnswerStream:
    """Reads an answer as it arrives."""

    def __init__(
        self,
        name: str,
        calls_before: int,
        server: str = "",
        all_turns: bool = False,
        audio: Any = None,
    ) -> None:
        self.over: bool = False  # the server said that no more data follows
        self.whole: bool = False  # the answer is complete, whether or not the server said so
        self._name = name
        self._before = calls_before
        self._kept = KeptFields(server, all_turns)
        self._read = ServerEvents(name)
        self._events = 0
        # State of the answer.
        self._said: list[str] = []
        self._thought: list[str] = []
        self._refusal: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._audio = Audio(audio)  # of this format
        self._calls: list[_Call] = []
        self._last: dict[int | None, _Call] = {}
        self._usage: Any = None
        self._reason: str | None = None
        self._choices = False
        self._meta: dict[str, Any] = {}
        self._thoughts, self._apart = Thoughts(), False
        self._came: set[str] = set()  # the fields of which pieces came

    def feed(self, data: bytes, final: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer that some bytes complete."""
        for kind, event in self._read.feed(data, final):
            if event == b"[DONE]":
                self.over = self.whole = True
            if self.over:
                return
            if event:
                where = f"{self._name}: event {self._events + 1} of the answer"
                yield from self.take(parsed(event, where), failure=kind == "error")

    def take_whole(self, body: bytes | dict[str, Any]) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        where = f"{self._name}: the answer"
        answer = parsed(body, where) if isinstance(body, bytes) else body
        if isinstance(answer, dict) and answer.get("error"):
            raise failed(answer, self._name)
        add_meta(self._meta, answer)
        answer = checked(WHOLE, answer, where)
        self.whole, self._usage = True, answer["usage"]
        choice = {"delta": None, **answer["choices"][0]}
        # Azure withholds an answer without a message.
        if choice["message"] is None and choice["finish_reason"] != "content_filter":
            raise wrong_field(where, "choices[0].message", None, "an object")
        yield from self._choice(choice, where, "choices[0]")

    def take(self, chunk: Any, failure: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer in an event; a `failure` is an event of that name."""
        self._events += 1
        where = f"{self._name}: event {self._events} of the answer"
        given = chunk if isinstance(chunk, dict) else {}
        if failure or given.get("error"):
            raise failed(chunk, self._name)
        if isinstance(given.get("usage"), dict):
            self._usage = given["usage"]
        if given and given.get("choices") is None:
            return  # such as a ping
        add_meta(self._meta, chunk)
        for n, choice in enumerate(checked(CHUNK, chunk, where)["choices"]):
            if not choice["index"]:
                yield from self._choice(choice, where, f"choices[{n}]")

    def _choice(self, choice: dict[str, Any], where: str, place: str) -> Iterator[StreamPart]:
        reason = choice["finish_reason"]
        # An error that a provider, such as OpenRouter or DeepSeek, states in an answer.
        if choice["error"] or reason in ("error", "insufficient_system_resource"):
            raise failed({"error": choice["error"] or reason}, self._name)
        # Some servers send a reason in every event, empty until the last; some send a whole answer
        # in one event. A choice with neither delta nor message is of Azure's content filter.
        kind = "delta" if choice["delta"] else "message"
        delta = choice[kind] or {}
        self._choices |= bool(delta or reason)
        if kind == "message":  # a last event may repeat what came in pieces
            delta = {name: each for name, each in delta.items() if name not in self._came}
        else:
            self._came.update(name for name, each in delta.items() if each)
            if self._came & _REASONING:
                self._came |= _REASONING
        if reason:
            self._reason, self.whole = reason, True
        self._kept.take(delta)
        if thinking := readable(reasoning_of(delta)):
            self._thought.append(thinking)
            self._apart = True
            yield ReasoningPiece(thinking)
        text = joined_content(delta.get("content"), where, f"{place}.{kind}.content")
        text += self._audio.take(delta.get("audio"))
        self._blocks += images_of(delta)
        if text := readable(text):
            yield from self._say(text)
        if isinstance(delta.get("refusal"), str):
            self._refusal.append(delta["refusal"])
        for n, piece in enumerate(delta.get("tool_calls") or ()):
            if kind == "message":
                self._last.clear()  # each call is whole
            self._call(piece, where, f"{place}.{kind}.tool_calls[{n}]")

    def _say(self, text: str, last: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of a text; reasoning in it is told apart, unless it came apart."""
        pieces = iter((Said(text, False),)) if self._apart else self._thoughts.feed(text, last)
        for piece in pieces:
            if piece.before:
                self._thought += self._said
                self._said = []
            if not piece.text:
                continue
            (self._thought if piece.thought else self._said).append(piece.text)
            yield ReasoningPiece(piece.text) if piece.thought else TextPiece(piece.text)

    def _call(self, piece: dict[str, Any], where: str, place: str) -> None:
        function = piece["function"] or {"name": None, "arguments": None}
        name, args, id = function["name"], function["arguments"], piece["id"]
        if not isinstance(id, str):
            id = ""
        call = self._which(piece.get("index"), id, name, args)
        call.id = call.id or id
        call.extra = merged(call.extra, piece["extra_content"])
        if call.name is None:
            call.name = name
        elif name and name != call.name:
            call.name += name
        if id and args and args == "".join(call.args) and call.is_complete():
            return  # the whole call again
        if isinstance(args, dict) or isinstance(call.whole, dict):
            if call.args or (args and call.whole is not None):
                raise wrong_field(
                    where, f"{place}.function.arguments", args, "what its pieces were"
                )
            call.whole = args if isinstance(args, dict) else call.whole
        elif args:
            call.args.append(args)

    def _which(self, index: int | None, id: str, name: str | None, args: Any) -> _Call:
        """Return the call that a piece belongs to: a new one, or one already begun."""
        last = self._last.get(index)
        # Some servers give all calls one index, and some give each piece of a call another id, or
        # none. A new call has a name, and an id that differs from the last call's; or, without ids,
        # arguments after the last call's are complete.
        if last and not (name and last.name):
            return last
        more = args is not None and bool(str(args).strip())
        if last and not (id != last.id if id and last.id else more and last.is_complete()):
            return last
        call = _Call(index)
        self._calls.append(call)
        self._last[index] = self._last[None] = call
        return call

    def end(self) -> list[StreamPart]:
        """Return the remaining pieces and finally the answer; called when no more data follows."""
        parts = list(self.feed(b"", final=True))
        # Only the last line of the last event may lack its end.
        if self._read.unfinished() == "[DONE]":
            self.whole = True
        if not self.whole:
            raise ModelError(
                f"{self._name}: the answer broke off after event {self._events}, before its end"
            )
        if not self._choices:
            raise ModelError(f"{self._name}: the answer's events hold no answer")
        if not self._apart:
            parts += self._say("", last=True)
        # What a provider writes instead of an answer, when it declines to give one.
        refused = "" if self._said else readable("".join(self._refusal))
        if refused:
            self._said.append(refused)
            parts.append(TextPiece(refused))
        text, calls = "".join(self._said), self._made()
        reason = end_of(self._reason, bool(calls), self._name)
        if refused and reason == "stop":
            reason = "refusal"
        if reason == "content_filter" and not text and not calls:
            raise ModelError(
                f"{self._name}: the provider's content filter withheld the answer: change the "
                "prompt"
            )
        thought, extras = "".join(self._thought), [call.extra for call in self._in_order()]
        kept = self._kept.record(extras)
        blocks = (*self._blocks, *self._audio.blocks())
        made = (text, calls, self._spent(), reason, thought, kept, self._meta, blocks)
        return [*parts, ModelReply(*made)]

    def _spent(self) -> Usage:
        """Return the usage; zero where the server states no number of tokens."""
        counted = self._usage if isinstance(self._usage, dict) else {}
        fields = ("prompt_tokens", "completion_tokens", "total_tokens")
        given, answered, total = (token_count(counted, field) for field in fields)
        # xAI and Gemini count reasoning in the total, but not among the answer's tokens.
        answered = max(answered, total - given) if given else answered
        about = counted.get("prompt_tokens_details")
        cached = min(token_count(about, "cached_tokens"), given)
        written = token_count(about, "cache_write_tokens")
        written = written or token_count(about, "cache_creation_tokens")
        thought = token_count(counted.get("completion_tokens_details"), "reasoning_tokens")
        return Usage(given, answered, cached, min(written, given - cached), min(thought, answered))

    def _in_order(self) -> list[_Call]:
        return sorted(self._calls, key=lambda call: call.index or 0)

    def _made(self) -> tuple[Call, ...]:
        """Return the calls, each with a unique id."""
        where, calls = f"{self._name}: the answer", dict[str, Call]()
        if len(self._calls) > MAX_CALLS:
            raise ModelError(f"{where} has {len(self._calls)} calls, more than {MAX_CALLS}")
        for n, call in enumerate(self._in_order()):
            if call.name is None:
                raise wrong_field(where, f"tool_calls[{n}].function.name", None, "text")
            # A number, not a random id: the same conversation produces the same calls.
            id, number = call.id, self._before + n + 1
            while not id or id in calls:
                id, number = f"call_{number}", number + 1
            args = "".join(call.args) if call.whole is None else call.whole
            calls[id] = Call(id, call.name, args)
        return tuple(calls.values())


def token_count(counted: Any, field: str) -> int:
    """Return a stated number of tokens; 0 if there is none."""
    count = counted.get(field) if isinstance(counted, dict) else None
    return count if type(count) is int and 0 <= count <= MOST_TOKENS else 0


@dataclass(slots=True)
class _Call:
    """A call of which pieces arrive."""

    index: int | None
    id: str = ""
    name: str | None = None
    args: list[str] = field(default_factory=list)
    whole: dict[str, Any] | None = None
    extra: Any = None

    def is_complete(self) -> bool:
        """Return whether its arguments are an object, which no further piece can continue."""
        args = "".join(self.args).rstrip()
        if self.whole is None and args.endswith("}"):
            with suppress(ValueError, RecursionError):
                return isinstance(json.loads(args), dict)
        return self.whole is not None
