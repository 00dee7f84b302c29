"""Reading an answer as it arrives: what the readers of all forms of answers share.

An answer is untrusted data: bounded, its fields' types are checked, and an error names the wrong
one. Nothing here reads from a network: bytes go in as received, and parts come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from moothall.foundation.errors import ModelError
from moothall.foundation.http.event_stream import EventStreamParser
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import one_line
from moothall.models.answer_parts import ReasoningParser
from moothall.models.chat_answer import (
    TransientError,
    error_of,
    failure_in,
    parse_json,
    wrong_field,
)
from moothall.models.protocol import Call, ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage

MAX_TOKENS = 2**53
MAX_CALLS = 1024
"""More calls than any model makes in one answer."""
_CACHE_READS = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_CACHE_WRITES = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")


class AnswerReader:
    """Reads an answer; a subclass says what its events, or the whole of it, hold.

    Args:
        name: the model's, for errors
        earlier_call_count: how many calls the conversation has
        server: the one that gets back what it gave

    Attributes:
        has_ended: the server said that no more data follows
        is_complete: the answer is complete, whether or not the server said so
    """

    _call_label: ClassVar[str]
    """Where a call is, in errors: a format of its number."""
    _withheld: ClassVar[str] = "the provider's content filter withheld the answer"
    """What is said of an answer of which there is nothing."""
    _ends_at_done: ClassVar[bool] = False
    """Whether `[DONE]` says that the answer is complete."""

    def __init__(self, name: str, earlier_call_count: int, server: str = "") -> None:
        self.has_ended: bool = False
        self.is_complete: bool = False
        self._name = name
        self._earlier_call_count = earlier_call_count
        self._server = server
        self._parser = EventStreamParser(name)
        self._events = 0
        self._is_whole = False
        self._texts: list[str] = []
        self._reasoning_texts: list[str] = []
        self._refusal: list[str] = []  # what a provider writes where it declines to answer
        self._reason: Any = None
        self._meta: dict[str, Any] = {}
        self._reasoning_parser = ReasoningParser(self._texts)
        self._text_half = self._thought_half = ""  # of a character, whose other half comes next

    def _read_event(self, event: dict[str, Any], label: str) -> Iterator[StreamPart]:
        """Yield the pieces in an event."""
        raise NotImplementedError

    def _read_body(self, answer: dict[str, Any], label: str) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        raise NotImplementedError

    def _raw_calls(self) -> Iterable[tuple[Any, Any, Any]]:
        """Return the id, the name and the arguments of each call, as they came."""
        raise NotImplementedError

    def _finish_reason(self, has_calls: bool) -> str:
        """Return our word for the end of the answer; raise if it is not whole."""
        raise NotImplementedError

    def _reasoning_to_return(self, has_calls: bool) -> tuple[dict[str, Any], ...]:
        """Return what goes back to the server with the answer."""
        raise NotImplementedError

    def _final_usage(self) -> Usage:
        """Return the usage; zero where the server states no number of tokens."""
        raise NotImplementedError

    def _missing_parts(self) -> Iterator[StreamPart]:
        """Yield what did not come in pieces."""
        return iter(())

    def _content_blocks(self) -> tuple[dict[str, Any], ...]:
        """Return the images and audio of the answer."""
        return ()

    def feed(self, data: bytes, final: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer that some bytes complete."""
        for kind, event in self._parser.feed(data, final):
            if event.upper() == b"[DONE]":
                self.has_ended = True
                self.is_complete |= self._ends_at_done
            if self.has_ended:
                return
            if event:
                label = f"{self._name}: event {self._events + 1} of the answer"
                is_failure, is_json = kind == "error", event.startswith((b"{", b"["))
                if is_failure and not is_json:
                    value = {"error": event.decode("utf-8", "replace")}
                elif kind not in ("", "message") and not is_json:
                    continue  # such as a ping
                else:
                    value = parse_json(event, label)
                yield from self.take(value, is_failure=is_failure)

    def take(self, event: Any, is_failure: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of the answer in an event; `is_failure` if its name is `error`."""
        self._events += 1
        where = f"{self._name}: event {self._events} of the answer"
        if event is None or event == {}:  # it says nothing
            return
        if type(event) is not dict:
            event = self._object_in(event, where)
        if (fault := event if is_failure else failure_in(event)) is not None:
            raise error_of(fault, self._name)
        yield from self._read_event(event, where)

    def take_whole(self, body: bytes) -> Iterator[StreamPart]:
        """Yield the pieces of an answer that came whole."""
        where = f"{self._name}: the answer"
        answer = parse_json(body, where)
        if type(answer) is not dict:
            answer = self._object_in(answer, where)
        if (fault := failure_in(answer)) is not None:
            raise error_of(fault, self._name)
        self._is_whole = True
        yield from self._read_body(answer, where)

    def _add_text(self, text: str, is_last: bool = False) -> Iterator[StreamPart]:
        """Yield the pieces of a text; reasoning that is marked in it is told apart."""
        if self._text_half or not text.isascii():
            text, self._text_half = _whole_characters(self._text_half + text, is_last)
        if text and self._reasoning_parser.is_plain(text):
            self._texts.append(text)
            yield TextPiece(text)
            return
        for piece in self._reasoning_parser.feed(text, is_last):
            if piece.only_reasoning_before:
                # The blanks before the mark may have come with earlier pieces.
                thought = "".join((*self._reasoning_texts, *self._texts, piece.text)).rstrip()
                self._reasoning_texts, self._texts = [thought], []
                if piece.text:
                    yield ReasoningPiece(piece.text)
                continue
            if not piece.text:
                continue
            if not piece.is_reasoning:
                self._texts.append(piece.text)
                yield TextPiece(piece.text)
            elif not self._reasoning_parser.has_reasoning_field:  # else it came already
                self._reasoning_texts.append(piece.text)
                yield ReasoningPiece(piece.text)

    def _add_thought(self, text: str, is_last: bool = False) -> Iterator[StreamPart]:
        """Yield a piece of reasoning that came apart from the text."""
        if self._thought_half or not text.isascii():
            text, self._thought_half = _whole_characters(self._thought_half + text, is_last)
        if text:
            self._reasoning_parser.has_reasoning_field = True
            self._reasoning_texts.append(text)
            yield ReasoningPiece(text)

    def end(self) -> list[StreamPart]:
        """Return the remaining pieces and finally the answer; called when no more data follows."""
        parts: list[StreamPart] = []
        if not self._is_whole:
            parts += self.feed(b"", final=True)
            # Only the last line of the last event may lack its end.
            if self._ends_at_done and self._parser.unfinished_data().upper() == "[DONE]":
                self.is_complete = True
        if not self.is_complete:
            after = f"after event {self._events}"
            if not self._events and (unread := self._parser.unfinished_data()):
                after = f"after {one_line(unread, 60)!r}"
            raise TransientError(f"{self._name}: the answer broke off {after}, before its end")
        parts += self._missing_parts()
        if self._thought_half:
            parts += self._add_thought("", is_last=True)
        parts += self._add_text("", is_last=True)
        calls = self._calls()
        refusal = "" if calls else readable("".join(self._refusal))
        if refusal:
            refusal = "\n\n" * bool(self._texts) + refusal  # in the midst of an answer
            self._texts.append(refusal)
            parts.append(TextPiece(refusal))
        text, thought, reason = (
            "".join(self._texts),
            "".join(self._reasoning_texts),
            self._finish_reason(bool(calls)),
        )
        if refusal and reason == "stop":
            reason = "refusal"
        usage = self._final_usage()
        if reason in ("content_filter", "refusal") and not text and not calls:
            error = ModelError(
                f"{self._name}: {self._withheld}: change the prompt", of_content=True
            )
            error.usage = usage  # of a withheld answer, too
            raise error
        thinking = self._reasoning_to_return(bool(calls))
        fields = (text, calls, usage, reason, thought, thinking, self._meta, self._content_blocks())
        return [*parts, ModelReply(*fields)]

    def _calls(self) -> tuple[Call, ...]:
        """Return the calls, each with a unique id."""
        label, calls = f"{self._name}: the answer", dict[str, Call]()
        raw_calls = list(self._raw_calls())
        if len(raw_calls) > MAX_CALLS:
            raise ModelError(f"{label} has {len(raw_calls)} calls, more than {MAX_CALLS}")
        for n, (id, name, args) in enumerate(raw_calls):
            if not isinstance(name, str):
                raise wrong_field(label, f"{self._call_label % n}.name", name, "text")
            if args is not None and not isinstance(args, str | dict):
                raise wrong_field(label, f"{self._call_label % n}.arguments", args, "text")
            # A number, not a random id: the same conversation produces the same calls.
            id, number = id if isinstance(id, str) else "", self._earlier_call_count + n + 1
            while not id or id in calls:
                id, number = f"call_{number}", number + 1
            if isinstance(args, str) and not args.isascii():
                args = readable(args)
            calls[id] = Call(id, name, "" if args is None else args)
        return tuple(calls.values())

    def _object_in(self, value: Any, label: str) -> dict[str, Any]:
        """Return an event or an answer; of a list with an error alone, as Gemini sends it, that."""
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            value = value[0] if "error" in value[0] else value
        return self._as_dict(value, label)

    def _as_dict(self, value: Any, label: str, name: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong_field(label, name, value, "an object")
        return value

    def _read_index(self, event: dict[str, Any], field: str, label: str) -> int:
        """Return the place of a part of the answer."""
        index, limit = event.get(field), MAX_CALLS * 4
        if type(index) is not int or not 0 <= index < limit:
            raise wrong_field(label, field, index, f"an integer from 0 to {limit}")
        return index


def token_counts(value: Any) -> dict[str, int]:
    """Return the numbers of tokens that an object states; zeros say no more than gaps."""
    fields = value.items() if isinstance(value, dict) else ()
    return {
        name: count if type(count) is int else int(count)
        for name, count in fields
        if (type(count) is int or (type(count) is float and count.is_integer()))
        and 0 < count <= MAX_TOKENS
    }


def _first_count(counts: dict[str, int], names: Iterable[str]) -> int:
    for name in names:
        if name in counts:
            return counts[name]
    return 0


def _counts_in(value: dict[str, Any], names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of tokens in the first of these fields that says something."""
    for name in names:
        if value.get(name):
            return token_counts(value[name])
    return {}


def usage_of(value: Any) -> Usage:
    """Return the usage that a server states in OpenAI's forms; zero for what is not stated."""
    counts = token_counts(value)
    if not counts:
        return Usage()
    input_tokens = _first_count(counts, ("prompt_tokens", "input_tokens"))
    output_tokens = _first_count(counts, ("completion_tokens", "output_tokens"))
    if input_tokens and "total_tokens" in counts:
        # xAI and Gemini count reasoning in the total, but not among the answer's tokens.
        output_tokens = max(output_tokens, counts["total_tokens"] - input_tokens)
    details = _counts_in(value, ("prompt_tokens_details", "input_tokens_details"))
    # OpenAI's names; Kimi's, DeepSeek's and those of Anthropic's models elsewhere.
    cache_reads = details.get("cached_tokens") or _first_count(counts, _CACHE_READS)
    cache_writes = _first_count(details, _CACHE_WRITES) or _first_count(counts, _CACHE_WRITES)
    details = _counts_in(value, ("completion_tokens_details", "output_tokens_details"))
    reasoning_tokens = _first_count({**counts, **details}, ("reasoning_tokens",))
    cache_reads = min(cache_reads, input_tokens)
    cache_writes = min(cache_writes, input_tokens - cache_reads)
    reasoning_tokens = min(reasoning_tokens, output_tokens)
    return Usage(input_tokens, output_tokens, cache_reads, cache_writes, reasoning_tokens)


def updated_usage(previous: Any, usage: Any) -> Any:
    """Return the usage after one more statement of it, whose zeros and gaps count nothing anew."""
    if not isinstance(usage, dict):
        return previous
    return (previous or {}) | {name: count for name, count in usage.items() if count}


def _whole_characters(text: str, is_last: bool) -> tuple[str, str]:
    """Return a piece of a text, and the half of a character that it ends with.

    The other half begins the next piece: tests/peers/recorded/gateways.jsonl.
    """
    half = text[-1:] if not is_last and "\ud800" <= text[-1:] < "\udc00" else ""
    return readable(text[: len(text) - len(half)]), half


def list_or_empty(value: Any) -> list[Any]:
    """Return a list; empty for other data."""
    return value if isinstance(value, list) else []
