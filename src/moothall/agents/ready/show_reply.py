"""Show a reply at a terminal while it is produced."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, ClassVar, TextIO, TypeVar, overload

from moothall import ConfigError, Done, Event, Reply, ReplyStream
from moothall.agents.ready.terminal import terminal_text
from moothall.build import one_line
from moothall.journal import REASONS

R = TypeVar("R", bound=Reply[Any])

_WIDTH = 200
"""The most characters shown of a call's arguments or result."""


@overload
async def show(stream: ReplyStream[R], file: TextIO | None = None) -> R: ...
@overload
async def show(stream: AsyncIterator[Event], file: TextIO | None = None) -> Reply: ...
async def show(stream: AsyncIterator[Event], file: TextIO | None = None) -> Any:
    """Print at a terminal what an agent does while it replies, as it happens.

    Text is printed as the model streams it; a call, its result, a decision, a turn and a block get
    separate lines. Terminal control characters are escaped. If an approver asks at the same
    terminal, the call is printed before the question.

        reply = await show(agent.stream("…"))

    Args:
        stream: the result of an agent's `stream`; it is always closed
        file: the output; default: the process's standard output

    Returns:
        the reply
    """
    if not hasattr(stream, "aclose"):
        raise ConfigError(f"show takes a stream, such as agent.stream(text), got {stream!r:.80}")
    printer = _Printer(file)
    reply: Reply | None = None
    async with aclosing(stream) as events:  # type: ignore[type-var]
        async for event in events:
            printer.print_event(event)
            if isinstance(event, Done):  # in a conversation, each participant's reply comes, too
                reply = event.reply
    assert reply is not None
    reply.mark_printed()
    return reply


class _Printer:
    """Prints the events of one reply."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self._in_line = False
        self._agent: str | None = None
        self._heading = ""  # the speaker, until it is printed before the text
        self._text = ""  # the text so far of the current answer
        self._printed = 0  # how many characters of it were printed
        self._last_text = ""  # the last answer that was printed

    def print_event(self, event: Any) -> None:
        if (printer := self._PRINTERS.get(event.kind)) is not None:
            printer(self, event)
            return
        self._end_text()
        if event.line:
            self._print_line(event.line)

    def _print_message(self, event: Any) -> None:
        # What the model is told ends its text: such as that its answer could not be read.
        if event.agent == self._agent and event.message.get("role") != "assistant":
            self._end_text()

    def _print_decision(self, event: Any) -> None:
        if self._may_be_json:
            self._drop()  # the model's JSON, printed in words
        self._end_text()
        self._print_line(event.line)

    def _print_conclusion(self, event: Any) -> None:
        if self._may_be_json:
            self._drop()
            self._print_text(event.conclusion.summary)
        self._end_text()

    def _print_turn(self, event: Any) -> None:
        self._end_text()
        self._print_line(event.line)
        self._agent = event.speaker

    @property
    def _may_be_json(self) -> bool:
        """Whether the text may be a JSON object, which is printed only as a whole."""
        return self._text.lstrip()[:1] in ("{", "`")

    def _print_piece(self, event: Any) -> None:
        if event.agent != self._agent:
            self._end_text()
            self._heading = "" if self._agent is None else f"{event.agent}:\n"
            self._agent = event.agent
        self._text += event.text
        if not self._may_be_json:
            self._write_rest()

    def _write_rest(self) -> None:
        if rest := self._text[self._printed :]:
            self._write(self._heading + rest)
            self._heading = ""
        self._printed = len(self._text)

    def _end_text(self) -> None:
        self._write_rest()
        if self._in_line:
            self._write("\n")
        self._last_text = self._text or self._last_text
        self._drop()

    def _drop(self) -> None:
        self._text, self._printed = "", 0

    def _print_text(self, text: str) -> None:
        self._end_text()
        self._write(text + "\n")
        self._last_text = text

    def _print_end(self, event: Any) -> None:
        self._end_text()
        reply = event.reply
        if reply.text and reply.text.strip() != self._last_text.strip():
            self._print_text(reply.text)
        if reply.stop_reason not in REASONS.answered:
            self._print_line(f"({REASONS.in_words(reply.stop_reason, reply.detail)})")

    def _ignore(self, event: Any) -> None: ...

    def _print_line(self, text: str) -> None:
        self._write(one_line(text, _WIDTH) + "\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        file = self._file or sys.stdout  # looked up now: an approver may replace it while it asks
        file.write(terminal_text(text, file))
        file.flush()
        self._in_line = not text.endswith("\n")

    _PRINTERS: ClassVar[dict[str, Callable[[_Printer, Any], None]]] = {
        "text": _print_piece,
        "reasoning": _ignore,
        "message": _print_message,
        "decision": _print_decision,
        "conclusion": _print_conclusion,
        "turn_started": _print_turn,
        "done": _print_end,
    }
    """What is shown in another way than by its line."""
