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
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    if surrogate := _SURROGATE.search(line):
        raise SlashError(
            surrogate.start() + 1, "expected text, not a character that no text can carry"
        )
    if not line.lstrip().startswith("/"):
        text = line.removesuffix("\n").removesuffix("\r")
        return _message(BROADCAST, "say", {"content": text})
    return _Line(line).read_message()


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
    envelope = Envelope.from_message(message, "")
    action = envelope.name
    if not _is_plain(action) or action.startswith(".") or action.endswith("."):
        action = escaped_json(action)
    to = (
        envelope.to
        if _is_plain(envelope.to) and "." not in envelope.to
        else escaped_json(envelope.to)
    )
    parts = [f"/{to}.{action}"]
    for name, value in envelope.args.items():
        # \w lacks a few characters that Python has in names: such a name is quoted.
        is_plain = name.isidentifier() and _WORD.fullmatch(name) and name.isprintable()
        parts.append(f"{name if is_plain else escaped_json(name)}:{escaped_json(value)}")
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
    """A line being read; `position` is from 0."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.position = 0

    def read_message(self) -> dict[str, Any]:
        self.position = len(self.line) - len(self.line.lstrip()) + 1
        to = self.read_name(_UNQUOTED_ID, "an agent's id or *, such as /*.help")
        self.expect(".", '"." and an action, such as /Host.help')
        name = self.read_name(_UNQUOTED_ACTION, "an action's name")
        return _message(to, name, self.read_arguments())

    def read_arguments(self) -> dict[str, Any]:
        args: dict[str, Any] = {}
        while True:
            start = self.position
            self.skip_blank()
            if self.position == len(self.line):
                return args
            if self.position == start:
                raise self.error("a space or the end of the line")
            begin = self.position
            name = self.read_argument_name()
            if name in args:
                self.position = begin
                raise self.error(
                    f"an argument other than {_excerpt(name)}, which is there already", ""
                )
            self.expect(":", f'":" and the value of {_excerpt(name)}')
            self.skip_blank()
            args[name] = self.read_json()

    def read_name(self, unquoted: re.Pattern[str], expected: str) -> str:
        """Read an agent's id or an action's name."""
        begin = self.position
        if self.peek() == '"':
            text = str(self.read_json())
        else:
            match = unquoted.match(self.line, begin)
            if match is None:
                raise self.error(expected)
            text = match[0]
            if not text.isprintable():
                self.position += next(n for n, c in enumerate(text) if not c.isprintable())
                raise self.error("printable characters; write anything else as a JSON string")
            self.position = match.end()
        if not 0 < len(text) <= MAX_ID:
            self.position = begin
            raise self.error(f"1 to {MAX_ID} characters", f"{len(text)}")
        return text

    def read_argument_name(self) -> str:
        if self.peek() == '"':
            return str(self.read_json())
        match = _WORD.match(self.line, self.position)
        if match is None or not match[0].isidentifier():
            raise self.error("an argument as NAME:VALUE; other names are quoted")
        self.position = match.end()
        return match[0]

    def read_json(self) -> Any:
        """Read the JSON value here."""
        begin = self.position
        try:
            value, self.position = DECODER.raw_decode(self.line, begin)
            return copy_json([value])[0]  # as deep as in the arguments of a message
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                self.position = len(self.line)
                raise self.error('the string to end with "') from None
            self.position = error.pos
            if error.pos != begin:
                raise self.error(f"JSON ({error.msg})") from None
            bare = _BARE.match(self.line, begin)
            example = escaped_json(bare[0]) if bare else '"text"'
            raise self.error(f"a JSON value, such as 2, true or {example}") from None
        except NotJSON as error:
            reason = error.reason
        except RecursionError:
            reason = "nested too deep"
        except ValueError as error:  # NaN, a key that appears twice, an integer without an end
            reason = str(error)
        self.position = begin
        raise self.error(f"a JSON value that a message may have ({reason})", "")

    def peek(self) -> str:
        """Return the character here; empty at the end."""
        return self.line[self.position : self.position + 1]

    def skip_blank(self) -> None:
        match = _BLANK.match(self.line, self.position)
        assert match is not None
        self.position = match.end()

    def expect(self, char: str, expected: str) -> None:
        if self.peek() != char:
            raise self.error(expected)
        self.position += 1

    def error(self, expected: str, got: str | None = None) -> SlashError:
        """Return the error for what is here, which `got` names; an empty `got` is left out."""
        if got is None:
            got = escaped_json(self.peek()) if self.peek() else "the end of the line"
        got_text = f", not {got}" if got else ""
        return SlashError(self.position + 1, f"expected {expected}{got_text}")
