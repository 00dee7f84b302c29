"""The slash syntax: a message as the line that a person writes and reads.

    /Calculator.add a:1 b:2                 to one agent
    /"Ann Lee".say content:"Good morning"   an id that is not a plain name
    /*.help                                 to every agent
    Good morning                            say this to every agent

After the agent's id, which ends at the first dot unless it is quoted, comes the action's name, and
then `name:value` for each argument. Values are strict JSON: everything quoted is a JSON string,
and NaN, Infinity and repeated keys are refused. A message's `from`,
`id` and `meta` are not part of a line.
"""

from __future__ import annotations

import json
import re
from typing import Any

from moothall.actions.message import BROADCAST, MAX_ID, Envelope, Message
from moothall.foundation.errors import ConfigError, SlashError
from moothall.foundation.jsonvalue import DECODER, NotJSON, copy_json
from moothall.foundation.text import escaped_json, shorten

MAX_LINE = 1_000_000
"""The longest line, in characters."""

_BLANK = re.compile(r"[ \t\r\n]*+")
_WORD = re.compile(r"[^\W\d]\w*+")
_UNQUOTED_ID = re.compile(r'[^\s".:\\]++')
_UNQUOTED_ACTION = re.compile(r'[^\s":\\]++')
_BARE = re.compile(r'[^\s,"\]}]{1,40}(?![^\s,"\]}])')
_LONE = re.compile("[\ud800-\udfff]")


def parse_slash(line: str) -> dict[str, Any] | None:
    r"""Return the message that a line means, without a `from`; None for a blank line.

    A line that does not begin with a slash, after any blanks, is a text, said to every agent
    unchanged, except for the line break at its end. The message conforms to the message schema
    and always has `args`.

    Args:
        line: at most 1,000,000 characters

    Raises:
        ConfigError: the line is not a text
        SlashError: the line is not a message; `column` and the text say where and what was expected

    Example:
        >>> from moothall import parse_slash
        >>> parse_slash("/Calculator.add a:1 b:2")
        {'to': 'Calculator', 'action': {'name': 'add', 'args': {'a': 1, 'b': 2}}}
        >>> parse_slash("Hello")
        {'to': '*', 'action': {'name': 'say', 'args': {'content': 'Hello'}}}
        >>> parse_slash("/Calculator.add")["action"]
        {'name': 'add', 'args': {}}
        >>> parse_slash("/Calculator.add a")
        Traceback (most recent call last):
        ...
        moothall.SlashError: column 18: expected ":" and the value of "a", not ...
    """
    if not isinstance(line, str):
        raise ConfigError(f"parse_slash takes a line of text, got {type(line).__name__}")
    if len(line) > MAX_LINE:
        raise _too_long()
    if not line.strip():
        return None
    if lone := _LONE.search(line):
        raise SlashError(lone.start() + 1, "expected text, not a character that no text can carry")
    if not line.lstrip().startswith("/"):
        text = line.removesuffix("\n").removesuffix("\r")
        return _message(BROADCAST, "say", {"content": text})
    return _Line(line).message()


def format_slash(message: Message | dict[str, Any]) -> str:
    """Return a message as one printable line, without `from`, `id` and `meta`.

    `parse_slash` reads it as the message that is sent: with `args`, and an int `to` as its
    decimal string.

    Raises:
        InvalidMessage: the message does not conform to the schema
        SlashError: the line has more than 1,000,000 characters

    Example:
        >>> from moothall import format_slash
        >>> format_slash({"to": "Ann Lee", "action": {"name": "say", "args": {"content": "Hi"}}})
        '/"Ann Lee".say content:"Hi"'
    """
    if type(message) is dict and "from" in message:
        message = {key: value for key, value in message.items() if key != "from"}
    checked = Envelope.from_message(message, "")
    action = checked.name
    if not _is_plain(action) or action.startswith(".") or action.endswith("."):
        action = escaped_json(action)
    to = checked.to if _is_plain(checked.to) and "." not in checked.to else escaped_json(checked.to)
    parts = [f"/{to}.{action}"]
    for name, value in checked.args.items():
        # \w lacks a few characters that Python has in names: such a name is quoted.
        plain = name.isidentifier() and _WORD.fullmatch(name) and name.isprintable()
        parts.append(f"{name if plain else escaped_json(name)}:{escaped_json(value)}")
    line = " ".join(parts)
    if len(line) > MAX_LINE:
        raise _too_long()
    return line


def _message(to: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"to": to, "action": {"name": name, "args": args}}


def _too_long() -> SlashError:
    return SlashError(MAX_LINE + 1, f"expected the end of the line, which has at most {MAX_LINE:,}")


def _is_plain(text: str) -> bool:
    """Return whether an id or an action's name needs no quotes."""
    return text.isascii() and text.isprintable() and not any(c in ' ":\\' for c in text)


def _excerpt(text: str) -> str:
    return escaped_json(shorten(text, 40))


class _Line:
    """A line being read; `at` is the position."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0

    def message(self) -> dict[str, Any]:
        self.at = len(self.line) - len(self.line.lstrip()) + 1
        to = self.name(_UNQUOTED_ID, "an agent's id or *, such as /*.help")
        self.take(".", '"." and an action, such as /Host.help')
        name = self.name(_UNQUOTED_ACTION, "an action's name")
        return _message(to, name, self.arguments())

    def arguments(self) -> dict[str, Any]:
        args: dict[str, Any] = {}
        while True:
            before = self.at
            self.skip_blank()
            if self.at == len(self.line):
                return args
            if self.at == before:
                raise self.wrong("a space or the end of the line")
            begin = self.at
            name = self.argument_name()
            if name in args:
                self.at = begin
                raise self.wrong(
                    f"an argument other than {_excerpt(name)}, which is there already", ""
                )
            self.take(":", f'":" and the value of {_excerpt(name)}')
            self.skip_blank()
            args[name] = self.json()

    def name(self, unquoted: re.Pattern[str], expected: str) -> str:
        """Read an agent's id or an action's name."""
        begin = self.at
        if self.next() == '"':
            text = str(self.json())
        else:
            match = unquoted.match(self.line, begin)
            if match is None:
                raise self.wrong(expected)
            text = match[0]
            if not text.isprintable():
                self.at += next(n for n, c in enumerate(text) if not c.isprintable())
                raise self.wrong("printable characters; write anything else as a JSON string")
            self.at = match.end()
        if not 0 < len(text) <= MAX_ID:
            self.at = begin
            raise self.wrong(f"1 to {MAX_ID} characters", f"{len(text)}")
        return text

    def argument_name(self) -> str:
        if self.next() == '"':
            return str(self.json())
        match = _WORD.match(self.line, self.at)
        if match is None or not match[0].isidentifier():
            raise self.wrong("an argument as NAME:VALUE; other names are quoted")
        self.at = match.end()
        return match[0]

    def json(self) -> Any:
        """Read the JSON value here."""
        begin = self.at
        try:
            value, self.at = DECODER.raw_decode(self.line, begin)
            return copy_json([value])[0]  # as deep as in the arguments of a message
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                self.at = len(self.line)
                raise self.wrong('the string to end with "') from None
            self.at = error.pos
            if error.pos != begin:
                raise self.wrong(f"JSON ({error.msg})") from None
            bare = _BARE.match(self.line, begin)
            example = escaped_json(bare[0]) if bare else '"text"'
            raise self.wrong(f"a JSON value, such as 2, true or {example}") from None
        except NotJSON as error:
            reason = error.reason
        except RecursionError:
            reason = "nested too deep"
        except ValueError as error:  # NaN, a key that appears twice, an integer without an end
            reason = str(error)
        self.at = begin
        raise self.wrong(f"a JSON value that a message may have ({reason})", "")

    def next(self) -> str:
        """Return the character here; empty at the end."""
        return self.line[self.at : self.at + 1]

    def skip_blank(self) -> None:
        match = _BLANK.match(self.line, self.at)
        assert match is not None
        self.at = match.end()

    def take(self, char: str, expected: str) -> None:
        if self.next() != char:
            raise self.wrong(expected)
        self.at += 1

    def wrong(self, expected: str, got: str | None = None) -> SlashError:
        """Return the error for what is here, which `got` names; an empty `got` is left out."""
        if got is None:
            got = escaped_json(self.next()) if self.next() else "the end of the line"
        but = f", not {got}" if got else ""
        return SlashError(self.at + 1, f"expected {expected}{but}")
