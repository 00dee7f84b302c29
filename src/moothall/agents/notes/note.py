"""One note: its text, and the head that says where the text comes from."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from moothall import FileError
from moothall.build import cut, one_line, shorten

MAX_CHARS: Final = 20_000
"""The longest text of a note."""
SUFFIX: Final = ".md"
_NAME_CHARS: Final = 60
_HEAD_MARK: Final = "---"
_FIELD: Final = re.compile(r"([a-z0-9]+): (.*)")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_OUTSIDE: Final = "outside"
_SAME_KEYS: Final = ("from", "sources", "thread", "sha256")
_SOURCE_CHARS: Final = 200
_MAX_SOURCES: Final = 20
_LINE_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was read.

    Attributes:
        name: its name
        text: its text
        sources: where the text comes from, if from outside; empty if not
        thread: the conversation in which it was written; None if its head does not say it
        own: whether the agent wrote it, in any conversation, without anything from outside
    """

    name: str
    text: str
    sources: tuple[str, ...] = ()
    thread: str | None = None
    is_own: bool = True

    @property
    def line(self) -> str:
        """The first line of the text that says something, shortened."""
        lines = (each.strip(" \t#*->") for each in self.text.splitlines())
        return one_line(next(filter(None, lines), ""), _LINE_CHARS)


def checked_name(text: str) -> str:
    """Return the name of a note; FileError if a model must choose another."""
    name = unicodedata.normalize("NFC", text.strip().removesuffix(SUFFIX)).lower()
    name = re.sub(r"[\s_]+", "-", name)
    if (
        len(name) > _NAME_CHARS
        or len(name.encode()) > 200
        or not all(map(_is_word, name.split("-")))
    ):
        raise FileError(
            f"the name of a note is 1 to {_NAME_CHARS} letters, digits and single hyphens, such as "
            f"annas-address, got {shorten(text, 80)!r}"
        )
    return name


def _is_word(text: str) -> bool:
    """Return whether a text is of letters and digits, with their marks, such as vowels in Hindi."""
    marks = (each.isalnum() or unicodedata.category(each)[0] == "M" for each in text)
    return text[:1].isalnum() and all(marks)


def is_name(name: str) -> bool:
    """Return whether a file can be a note by its name."""
    try:
        return name.endswith(SUFFIX) and checked_name(name) == name.removesuffix(SUFFIX)
    except FileError:
        return False


def file_text(text: str, sources: Iterable[str], thread: str, replaces: bool = False) -> str:
    """Return the file of a note, with its head."""
    origins = [cut(each, _SOURCE_CHARS) for each in sources][:_MAX_SOURCES]
    head: dict[str, Any] = {"from": _OUTSIDE if origins else "own"}
    if origins:
        head["sources"] = origins
    head |= {"thread": thread, "written": datetime.now(UTC).isoformat(timespec="seconds")}
    head |= {"replaces": True} if replaces else {}
    head["sha256"] = _hash(text)
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
    return "\n".join((_HEAD_MARK, *lines, _HEAD_MARK, "", text.strip(), ""))


def is_same(data: str, other: str) -> bool:
    """Return whether two files of notes have the same text from the same conversation."""
    (head, text), (other_head, other_text) = _head_and_text(data), _head_and_text(other)
    return text == other_text and all(head.get(each) == other_head.get(each) for each in _SAME_KEYS)


def has_replaced(data: str) -> bool:
    """Return whether a note has replaced another one."""
    return _head_and_text(data)[0].get("replaces") is True


def read(name: str, data: str, trusted: bool, reader: str | None = None) -> Note:
    """Return the note in a file; without a head that fits its text, the text is from outside.

    So it is of another conversation than that of the `reader`, whose user said none of it.
    """
    head, text = _head_and_text(data)
    sources = head.get("sources")
    origins = (
        [each for each in sources if isinstance(each, str)] if isinstance(sources, list) else []
    )
    thread = head.get("thread")
    is_outside = head.get("from") == _OUTSIDE
    if not is_outside and not trusted:
        is_outside = head.get("from") != "own" or head.get("sha256") != _hash(text)
    is_of_another = reader not in (None, thread) and not trusted
    if not is_outside:
        label = f"note {name} of another conversation"
        from_outside: tuple[str, ...] = (label,) if is_of_another else ()
    elif origins:
        from_outside = tuple(f"{each} (note {name})" for each in origins[:_MAX_SOURCES])
    else:
        from_outside = (f"note {name}",)
    own_thread = thread if isinstance(thread, str) else None
    return Note(name, text, from_outside, own_thread, not is_outside)


def _hash(text: str) -> str:
    """Return the hash of a text, whatever an editor or git does with the ends of its lines."""
    lines = (each.rstrip() for each in text.strip().splitlines())
    return sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


def _head_and_text(data: str) -> tuple[dict[str, Any], str]:
    """Return the head and the text of a file; an empty head if it has none that can be read."""
    data = data.removeprefix("\ufeff")
    lines = _LINE_END.split(data)  # other separators may stand within a line
    if not lines or lines[0] != _HEAD_MARK or _HEAD_MARK not in lines[1:]:
        return {}, data.strip()
    end = lines.index(_HEAD_MARK, 1)
    head: dict[str, Any] = {}
    for line in lines[1:end]:
        match = _FIELD.fullmatch(line.rstrip())
        if match is None or match[1] in head:
            return {}, data.strip()
        try:
            head[match[1]] = json.loads(match[2])
        except (ValueError, RecursionError):
            return {}, data.strip()
    return head, "\n".join(lines[end + 1 :]).strip()
