"""What a provider of OpenAI's chat interface wants back with its answer, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moothall.models.chat_answer import KEPT_FIELDS

_TEXTS = ("text", "summary", "data", "thinking")
"""Fields of a detail of reasoning of which a stream gives pieces."""


class KeptFields:
    """Collects the fields of one answer that go back, unchanged, to the server that gave them."""

    def __init__(self, server: str, all_turns: bool) -> None:
        self._server = server
        self._all_turns = all_turns
        self._fields: dict[str, Any] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Take the fields of a message, or of a piece of one."""
        for field in KEPT_FIELDS if self._server else ():
            given, known = message.get(field), self._fields.get(field)
            if isinstance(given, str) and isinstance(known, str):
                given = known + given
            elif isinstance(given, list) and isinstance(known, list):
                given = list(_joined([*known, *given]))
            if given is not None:
                self._fields[field] = merged(known, given)

    def record(self, of_calls: list[Any]) -> tuple[dict[str, Any], ...]:
        """Return the answer's `thinking`; `of_calls` has the `extra_content` of each call."""
        fields = {name: each for name, each in self._fields.items() if each}
        if not of_calls and not self._all_turns:  # reasoning is for the calls that it led to
            fields = {name: each for name, each in fields.items() if name == "extra_content"}
        if any(of_calls):
            fields["calls"] = of_calls
        return ({"server": self._server, "fields": fields},) if fields and self._server else ()


def merged(known: Any, piece: Any) -> Any:
    """Return an object that a stream gives in pieces, with one more piece."""
    if isinstance(known, dict) and isinstance(piece, dict):
        return known | {name: merged(known.get(name), each) for name, each in piece.items()}
    return known if piece is None else piece


def _joined(details: list[Any]) -> Iterator[Any]:
    """Yield details of reasoning, with those that are pieces of one joined."""
    last: Any = None
    for each in details:
        if not isinstance(last, dict) or not isinstance(each, dict) or not _continues(last, each):
            if last is not None:
                yield last
            last = each
            continue
        texts = {
            name: last[name] + each[name]
            for name in _TEXTS
            if isinstance(last.get(name), str) and isinstance(each.get(name), str)
        }
        last = merged(last, each) | texts
    yield last


def _continues(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = all(last.get(name) == piece.get(name) for name in ("type", "index"))
    return same and piece.get("id") in (None, last.get("id"))
