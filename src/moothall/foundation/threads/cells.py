"""The loop of a notebook's kernel, in which cells wait."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress


def wake_at_signals() -> None:
    """Have any signal wake the loop in which a cell runs now.

    ipykernel cancels a cell in its handler of SIGINT, which alone does not wake a loop that waits:
    an interrupt would take effect at the loop's next event, such as the end of a long run.
    """
    # A loop with a handler for one signal is woken by each. A kernel has no window, whose size
    # this signal is about.
    if signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL:
        with suppress(RuntimeError, ValueError):  # no loop runs here, or not in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)
