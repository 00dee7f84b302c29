"""The approver at a terminal: it asks the person there, one question at a time."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import ClassVar, TextIO

from moothall.actions.approval.decision import DECISION_KINDS, Decision
from moothall.actions.approval.request import ApprovalRequest, Question
from moothall.foundation.errors import NobodyToAsk
from moothall.foundation.text import escaped
from moothall.foundation.threads import ProcessBound, guard


class TerminalApprover(ProcessBound, remedy="make one where the terminal is"):
    """Asks the person at the terminal, one question at a time; `y` or `yes` permits.

    `a` and `always` also permit, and exactly this call (the same agent, action and arguments in the
    same thread) is not asked about again while the approver lives. Values from outside that were
    asked about are permitted for the thread. What else the question offers, by its word or the
    first letter, are decisions that hold longer. A line answers a question of an action.

    A question at the process's own terminal begins on a new line, and what the program prints to
    `sys.stdout` meanwhile, such as a streamed answer, is printed after the person's
    answer.

    Args:
        stdin: the input for answers; default: the process's
        stdout: the output for questions; default: the process's
    """

    title: ClassVar[str] = "the person at the terminal"

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._lock = guard(threading.Lock())
        self._permitted_calls: set[tuple[str | None, str]] = set()

    def approve(self, request: ApprovalRequest) -> Decision:
        """Return what the person said. A closed terminal refuses."""
        with self._lock:
            call_key = (request.thread, request.fingerprint)
            if call_key in self._permitted_calls:
                return True
            verb = "propose" if request.sender == "You" else "proposes"
            decisions: dict[str, Decision] = {"yes": True, "no": False, "always": True}
            decisions |= {
                word: kind.type() for word, kind in DECISION_KINDS.choices_for(request).items()
            }
            words = "/".join(("y/N", *[*decisions][2:]))
            text = f"{escaped(request.sender)} {verb}: {request}\nPermit this? [{words}] "
            reply = self.ask_line(text, "\n(no answer: refused)\n").strip().lower()
            chosen_word = next((word for word in decisions if reply in (word, word[0])), "")
            if chosen_word == "always":
                self._permitted_calls.add(call_key)
            return decisions.get(chosen_word, False)

    def answer(self, question: Question) -> str:
        """Return the line that the person writes.

        Raises:
            NobodyToAsk: the terminal is closed
        """
        with self._lock:
            line = self.ask_line(f"{question}\n> ")
        if not line:
            raise NobodyToAsk(f"agent {question.agent!r} asked at the terminal, which is closed")
        return line.strip()

    def ask_line(self, text: str, no_answer_text: str = "") -> str:
        """Write a question, and read the person's line; empty if the terminal is closed."""
        with _redirected_output(self._stdout) as stdout:
            print(text, end="", file=stdout, flush=True)
            line = self.read_line(self._stdin)
            if not line and no_answer_text:
                print(no_answer_text, end="", file=stdout, flush=True)
        return line

    @staticmethod
    def read_line(stream: TextIO | None) -> str:
        """Return a line of the input, by default the process's; empty if that is closed."""
        stdin = stream or sys.stdin
        try:
            return stdin.readline() if stdin is not None else ""
        except (OSError, ValueError):
            return ""


@contextlib.contextmanager
def _redirected_output(stream: TextIO | None) -> Iterator[TextIO]:
    """Yield the output for a question; other output to `sys.stdout` waits for its end."""
    stdout = stream or sys.stdout
    if stream is not None or not stdout.isatty():
        yield stdout
        return
    print(file=stdout)  # the program may have written a partial line
    later_output = io.StringIO()
    try:
        with contextlib.redirect_stdout(later_output):
            yield stdout
    finally:
        stdout.write(later_output.getvalue())
        stdout.flush()
