"""Where a value stands in a text: as a whole, in another spelling, within an address or a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

_OPENING_CHARS: Final = frozenset(" \n\"'“”„‘’«»([{<>|,;:=*`—–…¿¡")
_CLOSING_CHARS: Final = frozenset(' \n"“”‘»«)]}><|*`—–…=')
_ENDING: Final = re.compile("[.!?,;:'’]+(?=[\\s\"'”’»)\\]}>*`]|$)")
MAX_MATCHES: Final = 64
"""In how many places of a text one value is looked for."""
MAX_DEPTH: Final = 50
"""How deep a value is looked into."""
_MAX_ACCOUNT_CHARS: Final = 64
"""The most characters of an account."""
_MAX_LIST_CHARS: Final = 4000
"""The most characters of a list of values."""

_DATE_AND_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[t ](\d{2}:\d{2}(?::\d{2})?)(?:\.0+)?z?")
_FINAL_STOPS: Final = re.compile(r"(?<=\w)[.!?]+$")
_SEPARATOR: Final = re.compile("[,;\n]")
_COMMAND_SEPARATOR: Final = re.compile("[;\n]")  # commands are no list of values
_NAME_AND_ADDRESS: Final = re.compile("([^<>]*)<([^<>]+)>")
_SPACED_NUMBER: Final = re.compile(r"[a-z]{0,4}[\d ./()+-]*\d[a-z\d ./()+-]*")
_HOST: Final = re.compile(r"https?://([^/?#@\s]+)/?$")
_LINK: Final = re.compile(
    r"(?:://|(?<![\w@.-])www\.|(?<=\S)\?(?=[\w.%-]{1,64}=))(?:(?![,;]\w{2,15}://)[^\s<>\"'`|\\^{}\[\]“”«»])+"
)


def texts_in(value: Any, depth: int = 0) -> list[str]:
    """Return the texts, numbers and keys within a value; what lies too deep is one text."""
    if depth > MAX_DEPTH:
        return [repr(value)]
    if isinstance(value, dict):
        parts: Iterable[Any] = chain.from_iterable(value.items())
    elif isinstance(value, list | tuple):
        parts = value
    else:
        return [] if value is None else [str(value)]
    return [text for each in parts for text in texts_in(each, depth + 1)]


def links_in(text: str) -> list[tuple[int, int]]:
    """Return where the web addresses of a text are, each from after its scheme on.

    What stands within one comes from its author, not from those who passed it on.
    """
    return [match.span() for match in _LINK.finditer(text)] if _may_have_links(text) else []


def without_links(text: str) -> str:
    """Return a text with nothing within its web addresses."""
    return _LINK.sub(" ", text) if _may_have_links(text) else text


def _may_have_links(text: str) -> bool:
    return "://" in text or "www." in text or "?" in text


def find_separate(text: str, value: str, start: int = 0) -> int:
    """Return where a folded text has a folded value as a whole, not within a word; or -1."""
    at = text.find(value, start)
    for _ in range(MAX_MATCHES):
        if at < 0:
            return -1
        if _may_open_at(text, at) and _may_close_at(text, at + len(value)):
            return at
        at = text.find(value, at + 1)
    return -1


def find_whole(text: str, value: str) -> int:
    """Return where a text has a value that is no part of a longer word or number; or -1."""
    at = text.find(value)
    for _ in range(MAX_MATCHES):
        if at < 0 or not (
            _runs_on(text[max(at - 2, 0) : at][::-1], value[:1])
            or _runs_on(text[at + len(value) :][:2], value[-1:])
        ):
            return at
        at = text.find(value, at + 1)
    return -1


def _runs_on(neighbor: str, edge: str) -> bool:
    """Whether a word or a number goes on beyond its edge."""
    if not edge.isalnum() or not neighbor:
        return False
    return neighbor[0].isalnum() or (
        edge.isdigit() and neighbor[0] in ".,:-/" and neighbor[1:].isdigit()
    )


def _may_open_at(text: str, at: int) -> bool:
    if not at or text[at - 1] in _OPENING_CHARS:
        return at < 2 or text[at - 1] not in "'’" or not text[at - 2].isalnum()
    return text[at - 1] in "#@" and (at == 1 or text[at - 2] in _OPENING_CHARS)


def _may_close_at(text: str, end: int) -> bool:
    if end == len(text) or (char := text[end]) in _CLOSING_CHARS:
        return True
    if char in "'’":  # it closes a quotation, or a genitive follows
        if text[end + 1 : end + 2] == "s":
            return _may_close_at(text, end + 2)
        return not text[end + 1 : end + 2].isalnum()
    if char in ",;":
        return not text[end + 1 : end + 2].isdigit()
    return _ENDING.match(text, end) is not None


def spellings(value: str) -> list[str]:
    """Return the ways to write a folded value, besides the value itself."""
    forms = []
    bare = value.removeprefix("mailto:").strip("\"'“”„‘’")  # what "`" holds, a shell executes
    bare = _FINAL_STOPS.sub("", bare) if " " in bare else bare
    if "\\" in bare:
        bare = bare.replace("\\", "/")
    while bare.startswith("./"):
        bare = bare[2:]
    if bare:
        forms.append(bare)
        if bare[0] in "#@":
            forms.append(bare[1:])
        if "/" in bare or "." in bare:
            forms += [f"./{bare}", bare.replace("/", "\\"), bare.rstrip("/"), f"{bare}/"]
        if (host := _HOST.match(bare)) is not None:
            forms += [host[1], f"{host[1]}/"]
    return [each for each in dict.fromkeys(forms) if each.strip() == each not in ("", value)]


def grouped_pattern(value: str) -> re.Pattern[str] | None:
    """Return a pattern of an account number however it is grouped; None for other texts."""
    if len(value) > _MAX_ACCOUNT_CHARS or not _SPACED_NUMBER.fullmatch(value):
        return None
    characters = [each for each in value if each.isalnum() or each == "+"]
    if sum(map(str.isdigit, characters)) < 6:
        return None
    return re.compile(
        r"(?<![\w.,])" + r"[ ./()-]{0,2}".join(map(re.escape, characters)) + r"(?!\w)"
    )


def parts_of(value: str) -> list[str]:
    """Return the parts of a text that lists several values; empty if it is one."""
    if len(value) > _MAX_LIST_CHARS:
        return []
    if (date_and_time := _DATE_AND_TIME.fullmatch(value.strip().lower())) is not None:
        return [date_and_time[1], date_and_time[2]]
    if (
        "<" in value
        and (name_and_address := _NAME_AND_ADDRESS.fullmatch(value.strip())) is not None
    ):
        return [each.strip() for each in name_and_address.groups() if each.strip()]
    parts = [each.strip() for each in _SEPARATOR.split(value) if each.strip()]
    max_spaces = 0 if _COMMAND_SEPARATOR.search(value.strip()) else 4
    if len(parts) < 2 or any(each.count(" ") > max_spaces for each in parts):
        return []
    return parts
