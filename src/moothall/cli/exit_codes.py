"""Exit codes of all commands, by one rule; and Ctrl-C, which stops a command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Final, TypeVar

import click

from moothall.errors import DefinitionError, InvalidId, MissingExtra, NoSuchRun

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

T = TypeVar("T")


class NotBegun(click.ClickException):
    """Something typed or configured is wrong; shown in a line, as how to type it is no help."""

    def show(self, file: Any = None) -> None:
        """Print it on standard error."""
        click.echo(f"moothall: {self.format_message()}", file or sys.stderr)


# Of what was typed or configured, whenever it shows. What else may be wrong with that, such as a
# model without its key, is checked within `options.usage`, which makes it a NotBegun.
_WRONG: Final = (*(click.UsageError, NotBegun, DefinitionError, InvalidId, MissingExtra), NoSuchRun)


def code_of(error: BaseException) -> int:
    """Return the exit code of a command that an exception ended."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    return USAGE if isinstance(error, _WRONG) else FAILED


def stop_on_signals(stop: Callable[[], bool]) -> None:
    """Call `stop` at SIGINT or SIGTERM; if it returns False, or at the second, exit at once."""
    told = False

    def handle() -> None:
        nonlocal told
        if told or not stop():
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(INTERRUPTED)
        told = True

    import asyncio  # here, as neither help nor completion needs it: a third of their time

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)


_STOPPING: Final = b"stopping; Ctrl-C again ends it at once\n"


def interruptible(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine by `asyncio.run`, and say at Ctrl-C that it stops; a second one exits."""
    import asyncio  # here, too

    return asyncio.run(_watched(main))


async def _watched(main: Coroutine[Any, Any, T]) -> T:
    if threading.current_thread() is not threading.main_thread():
        return await main  # no signal comes there
    cancel = signal.getsignal(signal.SIGINT)
    if not callable(cancel):
        return await main  # whoever started the command has SIGINT ignored
    told = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told:
            os._exit(INTERRUPTED)
        told = True
        # Not by print: the signal may come in the middle of one.
        os.write(2, (b"\r\x1b[K" if sys.stderr.isatty() else b"") + _STOPPING)
        cancel(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        return await main
    finally:
        if not told:  # else it stands, as what comes now may take long, too
            signal.signal(signal.SIGINT, cancel)
