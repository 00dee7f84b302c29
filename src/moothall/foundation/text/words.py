"""Text for people: shortened, escaped; texts of exceptions, paths of values, misspelt names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import Logger

_MAX_LOGGED_CHARS = 2000
"""How much of an error's text is logged, in characters."""
_MIN_LIKENESS = 0.65
"""How like a known name a slip is, by difflib; `nope` is like `openai` by 0.6."""


def shorten(text: str, width: int = 80) -> str:
    """Return `text` cut to `width` characters, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning and a note that it was cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: the first {limit} of {len(text)} characters]"


def marked(text: str) -> str:
    """Return another's text with each line marked, so that none looks like a line of ours."""
    return "\n".join(f"| {line}" for line in text.splitlines()) or "| (nothing)"


def one_line(text: str, width: int) -> str:
    """Return `text` on one line of at most `width` characters, without what does not print."""
    text = text[: 8 * width]  # for one line, do not process megabytes
    printable = "".join(c if c.isprintable() else " " for c in text)
    return shorten(" ".join(printable.split()), width)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 step`, `2 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def printable(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot carry, escaped."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def escaped(text: str, *, lines: bool = False) -> str:
    """Return `text` on one line, or in its `lines`, with terminal control characters escaped."""
    if lines:
        return "\n".join(map(escaped, text.split("\n")))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escaped_json(value: Any) -> str:
    """Return a value as JSON on one line with unprintable characters escaped; else as a text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if text.isprintable():
        return text
    # Unprintable characters can only be in a string.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def error_text(error: BaseException, width: int = 200) -> str:
    """Return an exception's class and message on one line."""
    kind, message = type(error).__name__, error_message(error)
    if message.startswith(f"{kind}: "):  # an ActionError begins so itself
        return one_line(message, width)
    return one_line(f"{kind}: {message}" if message else kind, width)


def error_message(error: BaseException) -> str:
    """Return an exception's message; for a group, also the messages of its first members."""
    try:
        text = str(error)
    except BaseException as failed:  # the exception's own code runs here
        return f"(its text cannot be read: {type(failed).__name__})"
    if not isinstance(error, BaseExceptionGroup):
        return text
    return f"{text}: {'; '.join(error_text(each) for each in error.exceptions[:5])}"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the known names like an unknown one, as the end of an error's text."""
    from difflib import get_close_matches

    candidates = list(names)
    matches = get_close_matches(name, candidates, 1, _MIN_LIKENESS)
    if not matches:  # such as `access_policy` for `policy`, if no other name has the word
        matches = [each for each in candidates if name in each.split("_")]
    return f" (did you mean {matches[0]!r}?)" if len(matches) == 1 else ""


def log_failure(logger: Logger, subject: str, error: BaseException) -> None:
    """Log what failed in one line, and its traceback at DEBUG."""
    logger.error("%s: %s", subject, error_text(error, _MAX_LOGGED_CHARS))
    logger.debug("%s", subject, exc_info=error)


def json_type(value: object) -> str:
    """Return the JSON-schema name of a value's type, or its class's name if it is not JSON."""
    for kind, name in _JSON_TYPES.items():
        if isinstance(value, kind):
            return name
    return type(value).__name__


_JSON_TYPES: dict[type, str] = {  # bool before int, its base class
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def excerpt(value: object) -> str:
    """Return a scalar as short JSON text for an error; for anything larger only its type."""
    if isinstance(value, str):
        # Cut first: do not escape megabytes of text to show 80 characters.
        return printable(json.dumps(shorten(value, 78), ensure_ascii=False))
    if value is None or isinstance(value, (bool, float)):
        return json.dumps(value)
    if type(value) is int and abs(value) < 10**80:
        return str(value)
    return json_type(value)


def render_path(steps: list[str | int], start: str = "") -> str:
    """Return a path into a value as text: `["a", 2]` is `a[2]`; a long one is cut in the middle."""
    if len(steps) > 16:
        return render_path(steps[:8], start) + "…" + render_path(steps[-8:])
    text = start
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not step.isidentifier():
            text += f"[{excerpt(step)}]"
        else:
            text += f".{shorten(step)}" if text else shorten(step)
    return text
