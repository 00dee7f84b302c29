"""Exit codes of all commands, by one rule."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from moothall import DefinitionError, InvalidId, MissingExtra, NoSuchRun
from moothall.cli.interrupts import INTERRUPTED

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2


class NotBegun(click.ClickException):
    """Something typed or configured is wrong; shown in a line, as how to type it is no help."""

    def show(self, file: Any = None) -> None:
        """Print it on standard error."""
        click.echo(f"moothall: {self.format_message()}", file or sys.stderr)


# Of what was typed or configured, whenever it shows. What else may be wrong with that, such as a
# model without its key, is checked within `options.usage`, which makes it a NotBegun.
_USAGE: Final = (*(click.UsageError, NotBegun, DefinitionError, InvalidId, MissingExtra), NoSuchRun)


def code_of(error: BaseException) -> int:
    """Return the exit code of a command that an exception ended."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    return USAGE if isinstance(error, _USAGE) else FAILED
