"""Where the chat reads lines and shows them; here what stands in the place of a terminal."""

from __future__ import annotations

import io
import sys
from typing import Protocol

from civitas.agents.terminal import Terminal
from civitas.approval import ApprovalRequest, Approver, CallbackApprover
from civitas.cli.chat.lines import said_by, shown_text, told


class Console(Protocol):
    """What the chat needs of where it takes place; all but `approver` is called on its loop."""

    interactive: bool
    approver: Approver

    async def line(self) -> str | None:
        """The next line; None at the end."""
        ...

    def show(self, line: str) -> None:
        """Show a text."""
        ...

    def complain(self, line: str) -> None:
        """Show what is wrong with a line that was written, or with what came of it."""
        ...

    def piece(self, id: str, text: str) -> None:
        """Show a piece of what an agent is answering, where there is somebody to see it come."""
        ...

    def over(self, id: str) -> None:
        """Nothing more comes of what an agent was saying."""
        ...

    def answered(self, id: str, text: str) -> None:
        """Have an agent's whole answer stand there, once."""
        ...

    def at_work(self, ids: list[str]) -> None:
        """Show who is waited for; nobody for an empty list."""
        ...


class PlainConsole:
    """Lines from standard input to standard output, with no terminal in between.

    Nobody can be asked there, so everything that asks first is refused.
    """

    interactive = False

    def __init__(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")
        self._terminal = Terminal(sys.stdin or io.StringIO(), sys.stdout)
        self.approver: Approver = CallbackApprover(self._refuse)

    async def line(self) -> str | None:
        """The next line of standard input; None at its end."""
        return await self._terminal.ask("")

    def show(self, line: str) -> None:
        """Write a text to standard output."""
        print(line, flush=True)

    def complain(self, line: str) -> None:
        """Write a line to standard error."""
        print(f"civitas: {line}", file=sys.stderr, flush=True)

    def piece(self, id: str, text: str) -> None:
        """Nothing: an answer is written whole."""

    def over(self, id: str) -> None:
        """Nothing."""

    def answered(self, id: str, text: str) -> None:
        """Write an answer."""
        self.show(told(said_by(id), shown_text(text) or "(nothing)"))

    def at_work(self, ids: list[str]) -> None:
        """Nothing."""

    def _refuse(self, request: ApprovalRequest) -> bool:
        # Input that comes from elsewhere may be anybody's: no line of it is an approval.
        self.complain(f"refused, since there is no terminal to ask at: {request}")
        return False
