"""What servers write where they refuse a request: texts, codes, and the fields that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from moothall.foundation.text import one_line
from moothall.models.blocks import BLOCKS

# Of what a request says or shows, whatever the status: a filter's codes. Codes and types of
# OpenAI's, Google's and Anthropic's servers where an error has no status.
_FILTERED = re.compile("content.?(?:filter|policy)|responsible.?ai", re.I)
_INVALID = re.compile("invalid.(?:request|argument|prompt)|image", re.I)
# What servers say with any status of a medium that they do not take.
_MEDIA = "|".join(
    ("vision", "multimodal", *(b.label.rpartition(" ")[2] for b in BLOCKS.values() if b.data))
)
_MEDIA_FAULT = re.compile(
    rf"(?:{_MEDIA})\S*.{{0,60}}(?:not (?:supported|allowed|accept)|unsupported)"
    rf"|(?:not|n't) (?:support|accept|have|take).{{0,40}}(?:{_MEDIA})"
    rf"|no endpoints.{{0,40}}(?:{_MEDIA})",
    re.I | re.S,
)
_CONTENT_STATUSES = frozenset((400, 403, 413, 422))
_NOT_OF_THE_REQUEST: Final = frozenset((401, 402, 407, 408, 409, 429, 502, 503, 504))
"""Statuses of keys, accounts, and servers that are busy."""
_PARTS: Final = ("error", "message", "detail", "details", "errors")
"""The fields of a refusal that state faults; another one may repeat the request."""
ERROR_FIELDS = ("error", "message", "detail", "errors")
"""The fields in which servers write what failed."""
_PAGE_START = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b", re.I)
_PAGE_TITLE = re.compile(r"<(?:title|h1)\b[^>]*>([^<]*)<", re.I)
_PAGE_LABEL = "a web page"


def display_text(text: str) -> str:
    """Return a text; for a web page, what it is called."""
    if _PAGE_START.match(text) is None:
        return text.strip()
    title = _PAGE_TITLE.search(text)
    return f"{_PAGE_LABEL}, {one_line(title[1], 100)!r}" if title else _PAGE_LABEL


def is_page(text: str) -> bool:
    """Return whether what is shown of an answer is that it was a web page."""
    return text.startswith(_PAGE_LABEL)


class RefusedField(NamedTuple):
    """A field of the request, such as `messages.1.user.name`, and what is said of it."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class Refusal(NamedTuple):
    """What a server says of a request that it refuses.

    Attributes:
        text: its text, in one line
        kinds: its codes and types
        faults: the fields of the request that it names
        status: its status; 0 if it is stated in an answer
    """

    text: str
    kinds: tuple[str, ...] = ()
    faults: tuple[RefusedField, ...] = ()
    status: int = 0

    @classmethod
    def read(cls, body: Any, status: int = 0) -> Refusal:
        """Read the body of a refusal, as it came."""
        faults = dict.fromkeys(_faults([body, *error_objects(body)]))
        return cls(server_text(body), (*map(str, error_kinds(body)),), (*faults,), status)

    @property
    def is_of_form(self) -> bool:
        """Whether it may be of the request's form, not of a key, a busy server, or a filter."""
        is_filtered = any(map(_FILTERED.search, self.kinds))
        return self.status not in _NOT_OF_THE_REQUEST and not is_filtered


def _faults(body: Any, depth: int = 0) -> Iterator[RefusedField]:
    """Yield what a refusal says of fields, as OpenAI, FastAPI and Google state it."""
    for each in body if isinstance(body, list) else [body]:
        if not isinstance(each, Mapping) or depth > 4:
            continue
        if isinstance(each.get("param"), str):
            yield RefusedField(each["param"], f"{each.get('code')}: {each.get('message')}")
        if isinstance(place := each.get("loc"), list):
            text = f"{each.get('type')}: {each.get('msg')}"
            yield RefusedField(".".join(map(str, place)).removeprefix("body."), text)
        violations = each.get("fieldViolations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping) and isinstance(violation.get("field"), str):
                yield RefusedField(violation["field"], str(violation.get("description")))
        for name in _PARTS:
            yield from _faults(each.get(name), depth + 1)


def refuses_content(body: Any, status: int = 0) -> bool:
    """Return whether an error may be of what the request says or shows."""
    kinds = [*map(str, error_kinds(body))]
    if any(map(_FILTERED.search, kinds)) or _MEDIA_FAULT.search(server_text(body)):
        return True
    statuses = [each for each in (status, *map(http_status, kinds)) if each][:1]
    if statuses:
        return statuses[0] in _CONTENT_STATUSES
    return any(map(_INVALID.search, kinds))


def http_status(kind: Any) -> int:
    """Return a code that is a status; 0 for another one."""
    return int(kind) if str(kind).isdecimal() and len(str(kind)) == 3 else 0


def error_objects(body: Any) -> list[dict[str, Any]]:
    """Return the objects in which an error states what it is, also that of a server behind."""
    objects: list[Any] = [body, body.get("error")] if isinstance(body, dict) else []
    metadata = objects[1].get("metadata") if objects and isinstance(objects[1], dict) else None
    with suppress(ValueError, RecursionError, KeyError, TypeError):
        provider_body = json.loads(metadata["raw"])  # type: ignore[index]
        objects += (
            [provider_body, provider_body.get("error")] if isinstance(provider_body, dict) else []
        )
    return [each for each in objects if isinstance(each, dict)]


def error_kinds(body: Any) -> list[Any]:
    """Return the codes and types that an error states."""
    names = ("code", "type", "status")
    return [each[name] for each in error_objects(body) for name in names if each.get(name)]


def server_text(body: Any) -> str:
    """Return the text of a server's error, in one line."""
    raw = ""
    for _ in range(2):
        if isinstance(body, dict):
            metadata = body.get("metadata")  # OpenRouter's: what the provider behind it answered
            raw = (
                f": {metadata['raw']}" if isinstance(metadata, dict) and "raw" in metadata else raw
            )
            body = next((body[each] for each in ERROR_FIELDS if body.get(each)), "")
        if isinstance(body, list) and body and isinstance(body[0], dict) and "message" in body[0]:
            body = body[0]["message"]
    text = display_text(body) if isinstance(body, str) else json.dumps(body)
    return one_line(text + raw, 300) or "no reason"
