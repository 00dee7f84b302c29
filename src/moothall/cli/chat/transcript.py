"""What the chat shows: messages, help, and answers as they come, without control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from moothall import InvalidMessage, SlashError, format_slash
from moothall.build import escaped, json_line
from moothall.cli.screen import INDENT, Screen, fold_text, width_of

MAX_SHOWN: Final = 4000
"""How many characters of a message are shown."""

_WORD_END: Final = re.compile(r"(?<=[^ \t\n])(?=[ \t\n])|(?<=[\u2e80-\uffff])")
_MIN_DESCRIPTION_COLUMNS: Final = 26
"""How many columns the description of an action needs to be beside it."""

# By action: the argument that is the message's content, shown as it is if it is a text.
_CONTENT_ARGS = {"say": "content", "response": "data", "error": "error"}
_HIDDEN_FIELDS = {"original_message_id"}


def shown_message(screen: Screen, message: dict[str, Any], own_id: str) -> str:
    """Return a message as it is shown: its sender and text, or sender, receiver and call."""
    sender, to, action = message["from"], message["to"], message["action"]
    name, args = action["name"], action.get("args", {})
    shown_args = {key: value for key, value in args.items() if key not in _HIDDEN_FIELDS}
    is_spoken = shown_args.keys() == {_CONTENT_ARGS.get(name)}
    value = shown_args[_CONTENT_ARGS[name]] if is_spoken else None
    text = value if isinstance(value, str) else _arguments_text(shown_args)
    if not (is_spoken and to == own_id):
        head = speaker_prefix(screen, f"{sender} → {to}")
        return screen.lines(f"{head}{escaped(name)} ", (shown_text(text), ""))
    head = speaker_prefix(screen, sender)
    if name == "error":
        head += screen.styled("error:", "red") + " "
    if not isinstance(value, str):
        text = "(nothing)" if value is None else json_line(value, escapes=True)
    return screen.lines(head, (shown_text(text), ""))


def speaker_prefix(screen: Screen, speaker: object) -> str:
    """Return the prefix of an agent's text."""
    return screen.styled(f"{escaped(str(speaker))}:", "bold") + " "


def shown_text(text: str) -> str:
    """Return the text of a message, cut to what is shown."""
    text = text.strip().replace("\r\n", "\n")
    remaining = len(text) - MAX_SHOWN
    return text[:MAX_SHOWN] + (cut_mark(remaining) if remaining > 0 else "")


def cut_mark(characters: int) -> str:
    """Return the mark for the cut rest of a text."""
    return f"… ({characters:,} more characters)"


def help_table(offers: Mapping[str, Any], columns: int | None = None) -> str:
    """Return a table of what agents offer, by their ids: what to type, and what it does."""
    rows = [
        (_typed_form(id, name, offer), _description(offer))
        for id, actions in offers.items()
        for name, offer in (actions.items() if isinstance(actions, Mapping) else ())
    ]
    if not rows:
        return ""
    table = click.HelpFormatter(len(INDENT), columns or 100)
    longest = max(len(call) for call, _ in rows)
    fits_beside = longest + _MIN_DESCRIPTION_COLUMNS <= table.width  # else descriptions go below
    with table.indentation():
        table.write_dl(rows, longest if fits_beside else len(INDENT))
    return table.getvalue().rstrip()


def _typed_form(id: str, name: str, offer: Any) -> str:
    """Return how an action is typed, without values; optional arguments are in brackets."""
    args = offer.get("args") if isinstance(offer, Mapping) else None
    names = []
    for arg, schema in args.items() if isinstance(args, Mapping) else ():
        label = escaped(str(arg))
        names.append(f"[{label}]" if isinstance(schema, Mapping) and "default" in schema else label)
    try:
        line = format_slash({"to": id, "action": {"name": name}})
    except InvalidMessage:  # another program may offer any name
        line = f"/{json_line(id, escapes=True)}.{json_line(name, escapes=True)}"
    return escaped(" ".join((line, *names)))[:MAX_SHOWN]


def _description(offer: Any) -> str:
    """Return the first line of an action's description."""
    text = offer.get("description") if isinstance(offer, Mapping) else offer
    line = str(text or "").strip().partition("\n")[0]
    return escaped(line[:MAX_SHOWN])


def _arguments_text(args: dict[str, Any]) -> str:
    parts = []
    for name, value in args.items():
        # Escaping the whole of a long text takes long, and only a few characters are shown.
        if isinstance(value, str) and len(value) > 2 * MAX_SHOWN:
            value = value[: 2 * MAX_SHOWN]
        try:
            line = format_slash({"to": "*", "action": {"name": "x", "args": {name: value}}})
        except SlashError:
            line = "/*.x (an argument too long to show)"
        parts.append(line[5:])
    return " ".join(parts)


# -- answers as they come --------------------------------------------------------------------------


@dataclass
class _ArrivingAnswer:
    """An answer that arrives in pieces."""

    agent_id: str
    text: str = ""
    shown_chars: int = 0  # how many characters of it are on the screen
    column: int = 0  # the cursor's column after them
    is_complete: bool = False  # whether it is complete

    def take_unshown(self) -> str:
        """Return what to write next: whole words, without trailing space."""
        end = min(len(self.text.rstrip()), MAX_SHOWN)
        if not self.is_complete:  # a part of a word waits for its rest
            ends = [match.start() for match in _WORD_END.finditer(self.text, self.shown_chars)]
            end = min(end, ends[-1]) if ends else 0
        new_text, self.shown_chars = self.text[self.shown_chars : end], max(self.shown_chars, end)
        return new_text


class Transcript:
    """Writes lines, and one answer at a time, as its pieces come.

    If the terminal cannot erase, answers are written when they are complete. If a line comes
    between two pieces of an answer, the answer continues below it.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._answers: list[_ArrivingAnswer] = []  # the first is being written
        self._incomplete: dict[str, _ArrivingAnswer] = {}  # incomplete ones, by agent

    def write_piece(self, id: str, text: str) -> None:
        """Write a piece of an answer, when the answer has its turn."""
        if self._screen.can_erase:
            answer = self._incomplete.get(id) or self._begin_answer(id)
            answer.text = answer.text + text if answer.text else text.lstrip()
            self.write_answers()

    def end_answer(self, id: str) -> None:
        """Mark the answer of an agent as complete."""
        if (answer := self._incomplete.pop(id, None)) is not None:
            answer.is_complete = True
            self.write_answers()

    def write_answer(self, id: str, text: str) -> None:
        """Write a whole answer, once; pieces of it may be written already."""
        answer = self._incomplete.get(id)
        stripped = text.strip()
        if answer is not None and not stripped.startswith(answer.text[: answer.shown_chars]):
            self.end_answer(id)  # the answer does not begin with what was shown
            answer = None
        answer = answer or self._begin_answer(id)
        answer.text = stripped or "(nothing)"
        self.end_answer(id)

    def write_answers(self) -> None:
        """Write complete answers, and what there is of the first incomplete one."""
        screen = self._screen
        while self._answers and not screen.open_questions:
            answer = self._answers[0]
            shown_before = answer.shown_chars
            if new_text := answer.take_unshown():
                if not screen.is_open:
                    screen.write(speaker_prefix(screen, answer.agent_id))
                    answer.column = width_of(f"{escaped(answer.agent_id)}: ")
                    new_text = f"…{new_text.lstrip()}" if shown_before else new_text
                text, answer.column = fold_text(new_text, answer.column, screen.columns)
                screen.write(text)
            if not answer.is_complete:
                break
            if (remaining := len(answer.text.rstrip()) - MAX_SHOWN) > 0:
                screen.write(cut_mark(remaining))
            self._answers.pop(0)
            screen.end()
        screen.show_status()

    def _begin_answer(self, id: str) -> _ArrivingAnswer:
        answer = self._incomplete[id] = _ArrivingAnswer(id)
        self._answers.append(answer)
        return answer
