"""The commands: `moothall` at a terminal."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def start(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave the process with its exit code."""
    # Of the interpreter itself: `signal` takes milliseconds.
    import _signal as early  # type: ignore[import-not-found]

    if early.getsignal(early.SIGINT) is early.default_int_handler:
        early.signal(early.SIGINT, early.SIG_DFL)
    from moothall.cli import interrupts

    interrupts.listen()
    from moothall.cli.main import main

    main(args)
