"""The chat's input and output: a terminal, by `prompt_toolkit`, or plain streams."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import termios
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from moothall import ApprovalRequest, Approver, CallbackApprover, MissingExtra, TerminalApprover
from moothall.agents import Terminal
from moothall.build import escaped
from moothall.cli.chat.transcript import Transcript, shown_text, speaker_prefix
from moothall.cli.screen import QUICK_S, Screen

Complete = Callable[[str], Awaitable[tuple[int, list[str]]]]
"""Returns, for a line up to the cursor, how many characters to replace, and the candidates."""
# The chat has its own handler, which prompt_toolkit would not restore.
_NO_SIGINT: Final[dict[str, Any]] = {"handle_sigint": False}


class PlainConsole:
    """Reads standard input, writes standard output, and refuses what needs permission."""

    is_interactive = False

    def __init__(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")
        self._terminal = Terminal(sys.stdin or io.StringIO(), sys.stdout)
        self.screen: Screen = Screen()
        self.approver: Approver = CallbackApprover(self._refuse)

    async def line(self) -> str | None:
        """Return the next line of standard input; None at its end."""
        return await self._terminal.ask("")

    def show(self, line: str) -> None:
        """Write a text to standard output."""
        print(line, flush=True)

    def print_error(self, line: str) -> None:
        """Write a line to standard error."""
        print(f"moothall: {line}", file=sys.stderr, flush=True)

    def write_piece(self, id: str, text: str = "") -> None:
        """Do nothing: an answer is written whole, by `show_answer`."""

    end_answer = write_piece

    def write_answer(self, id: str, text: str) -> None:
        """Write an answer."""
        spoken = (shown_text(text) or "(nothing)", "")
        self.show(self.screen.lines(speaker_prefix(self.screen, id), spoken))

    def show_at_work(self, ids: list[str]) -> None:
        """Do nothing."""

    def _refuse(self, request: ApprovalRequest) -> bool:
        # Input that is not from a terminal may be anybody's: no line of it is an approval.
        self.print_error(f"refused, since there is no terminal to ask at: {request}")
        return False


class TerminalConsole:
    """A terminal with line editing, history and completion, by `prompt_toolkit`.

    Output appears above the line that is being written. A question takes the place of this line
    until it is answered.
    """

    is_interactive = True

    def __init__(
        self, complete: Complete, interrupt: Callable[[], None], history: Path | None = None
    ) -> None:
        MissingExtra.unless("moothall chat at a terminal", "cli", "prompt_toolkit")
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        class HelpCompleter(Completer):
            def get_completions(self, document: Document, complete_event: CompleteEvent) -> Any:
                return ()

            async def get_completions_async(
                self, document: Document, complete_event: CompleteEvent
            ) -> AsyncGenerator[Completion, None]:
                length, candidates = await complete(document.text_before_cursor)
                for text in candidates:
                    yield Completion(text, -length)

        self.screen: Screen = Screen()
        self._transcript = Transcript(self.screen)
        self.write_piece: Callable[[str, str], None] = self._transcript.write_piece
        self.end_answer: Callable[[str], None] = self._transcript.end_answer
        self.write_answer: Callable[[str, str], None] = self._transcript.write_answer
        self._working_ids: list[str] = []
        self._echo_settings: list[Any] | None = None  # its settings while no agent is at work
        self._session: PromptSession[str] = PromptSession(
            completer=HelpCompleter(),
            complete_while_typing=False,
            enable_open_in_editor=False,
            history=FileHistory(str(history)) if self._can_write(history) else InMemoryHistory(),
        )
        self._question_session: PromptSession[str] = PromptSession()
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self._question_lock = asyncio.Lock()  # held by a question
        self.approver: Approver = _ConsoleApprover(self)

    def _can_write(self, history: Path | None) -> bool:
        """Return whether lines can be kept in a file, which nobody else may read."""
        if history is None:
            return False
        try:
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            history.touch(0o600)
            with history.open("ab") as file:
                os.fchmod(file.fileno(), 0o600)
        except OSError as error:
            self.show(escaped(f"no history: {history}: {error.strerror}"))
            return False
        return True

    async def line(self) -> str | None:
        """Return the line that the person writes; None for Ctrl-D. Ctrl-C clears the line."""
        while True:
            async with self._question_lock:  # a question that is open comes first
                pass
            try:
                line: str = await self._session.prompt_async("> ", **_NO_SIGINT)
                return line
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    def show(self, line: str) -> None:
        """Show a text, above the line that is being written."""
        from prompt_toolkit.application import get_app_or_none, run_in_terminal

        if get_app_or_none() is None:
            self.screen.show(line)
        else:
            run_in_terminal(lambda: print(line, flush=True))

    print_error = show

    def show_at_work(self, ids: list[str]) -> None:
        """Show which agents are at work; what is typed meanwhile appears with the next prompt."""
        previous_ids, self._working_ids = self._working_ids, ids
        if bool(previous_ids) is bool(ids):
            self.screen.renew()
        else:
            self._echo(not ids)
            self.screen.wait(self._working_line if ids else None)

    def _working_line(self, seconds: float) -> str:
        if seconds < QUICK_S:
            return ""
        verb = "are" if len(self._working_ids) > 1 else "is"
        elapsed = f", {int(seconds)} s" if seconds >= 1 else ""
        return f"{', '.join(self._working_ids)} {verb} at work{elapsed}"

    def _echo(self, is_on: bool) -> None:
        with suppress(termios.error):  # the terminal has gone
            if is_on and self._echo_settings is not None:
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._echo_settings)
            elif not is_on:
                self._echo_settings = termios.tcgetattr(sys.stdin)
                settings = list(self._echo_settings)
                settings[3] &= ~termios.ECHO
                termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)

    def print_line(self, line: str) -> None:
        """Show a line, from any thread."""
        with suppress(RuntimeError):  # the chat has ended
            self._loop.call_soon_threadsafe(self.show, line)

    def ask(self, text: str) -> str:
        """Ask a question, from any thread; return the person's answer, empty for none."""
        try:
            answer = asyncio.run_coroutine_threadsafe(self._ask(text), self._loop)
            return answer.result()
        except (RuntimeError, asyncio.CancelledError):  # the chat has ended
            return ""

    async def _ask(self, text: str) -> str:
        from prompt_toolkit.application import get_app_or_none, in_terminal

        *lines, prompt = text.split("\n")
        async with self._question_lock:
            # A line that has ended still holds the terminal until its application is gone.
            while (app := get_app_or_none()) is not None and not app.is_running:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
            async with in_terminal():
                self.screen.hold()
                for above in lines:
                    print(above)
                self._forget_typed()
                try:
                    line: str = await self._question_session.prompt_async(prompt, **_NO_SIGINT)
                    return f"{line}\n"
                except KeyboardInterrupt:
                    self._interrupt()
                    return ""
                except EOFError:
                    return ""
                finally:
                    self.screen.release()
                    self._transcript.write_answers()

    def _forget_typed(self) -> None:
        """Drop what was typed before a question was shown: it is no answer."""
        from prompt_toolkit.input.typeahead import clear_typeahead

        clear_typeahead(self._question_session.input)
        with suppress(termios.error):  # it has gone
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


class _ConsoleApprover(TerminalApprover):
    """Asks in place of the line that is being written."""

    def __init__(self, console: TerminalConsole) -> None:
        super().__init__()
        self._console = console

    def ask_line(self, text: str, unanswered: str = "") -> str:
        line = self._console.ask(escaped(text, lines=True))
        if not line and unanswered:
            self._console.print_line(escaped(unanswered.strip()))
        return line


Console: TypeAlias = PlainConsole | TerminalConsole
