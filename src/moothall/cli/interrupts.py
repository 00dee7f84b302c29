"""Ctrl-C, SIGTERM and SIGHUP: one handler, set before anything is imported that takes time.

A KeyboardInterrupt may be raised anywhere, and what is imported or destroyed just then drops it. So
nothing raises one here, but where a command waits for it. Until a command has something to end
well, Ctrl-C ends the process at once. What a service manager sends, and a terminal that closes, do
what Ctrl-C does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

if TYPE_CHECKING:
    import asyncio

INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")
_STOPPING: Final = b"stopping; Ctrl-C again ends it at once\n"
_END_LINE: Final = b"moothall: interrupted\n"

_hooks: list[tuple[Callable[[], object], bool]] = []
"""What Ctrl-C does now: the last one; and whether it does so at the next one, too."""


def listen() -> None:
    """Have each signal end this process, unless its parent process ignores it, as nohup does."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(number: int, frame: FrameType | None) -> None:
    # Only Ctrl-C is also for a line that a person is writing: all else ends the command.
    usable = [
        n for n, (_, every_time) in enumerate(_hooks) if number == signal.SIGINT or not every_time
    ]
    if not usable:
        _write_error(_END_LINE)
        _exit()
    hook, every_time = _hooks[usable[-1]]
    if not every_time:
        _hooks[usable[-1]] = _EXIT_AT_ONCE
    hook()


def _exit() -> NoReturn:
    os._exit(INTERRUPTED)


_EXIT_AT_ONCE: Final = (_exit, False)


def _write_error(line: bytes) -> None:
    # Not by print: the signal may come in the middle of one.
    with suppress(OSError):
        os.write(2, (b"\r\x1b[K" if os.isatty(2) else b"") + line)


@contextmanager
def on_interrupt(hook: Callable[[], object], *, every_time: bool = False) -> Iterator[None]:
    """Have Ctrl-C call `hook` meanwhile; a second one ends the process, unless `every_time`."""
    if threading.current_thread() is not threading.main_thread():  # no signal comes there
        yield
        return
    _hooks.append((hook, every_time))
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # else it is ignored, as in the background of a shell
        signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        # Once it has come it stays so: what is done now may take long, too.
        if _hooks.pop() is _EXIT_AT_ONCE:
            _hooks.insert(0, _EXIT_AT_ONCE)
        elif callable(handler):
            signal.signal(signal.SIGINT, handler)


def raise_on_interrupt() -> Any:
    """Have Ctrl-C raise KeyboardInterrupt meanwhile, where a command waits and imports nothing."""

    def raise_interrupt() -> None:
        raise KeyboardInterrupt

    return on_interrupt(raise_interrupt)


def interruptible(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine by `asyncio.run`, and say at Ctrl-C that it stops; a second one exits.

    Raises:
        KeyboardInterrupt: it was cancelled by Ctrl-C
    """
    import asyncio  # here, as neither help nor completion needs it: a third of their time

    is_interrupted = False

    async def main_until_stopped() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal is_interrupted
            is_interrupted = True
            _write_error(_STOPPING)
            loop.call_soon_threadsafe(task.cancel)

        with waking_on_signal(loop), on_interrupt(stop):
            return await main

    try:
        return asyncio.run(main_until_stopped())
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise


@contextmanager
def waking_on_signal(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have a signal wake the loop: one that comes just before it sleeps would wait with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import socket

    read_socket, write_socket = socket.socketpair()
    with read_socket, write_socket:
        read_socket.setblocking(False)
        write_socket.setblocking(False)
        loop.add_reader(read_socket, read_socket.recv, 4096)
        previous_fd = signal.set_wakeup_fd(write_socket.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous_fd)
            loop.remove_reader(read_socket)


def stop_on_signals(stop: Callable[[], bool]) -> None:
    """Call `stop` at SIGINT, SIGTERM or SIGHUP; if it returns False, or at the second, exit."""
    is_stopping = False

    def handle() -> None:
        nonlocal is_stopping
        if is_stopping or not stop():
            with suppress(OSError):
                sys.stdout.flush()
            _exit()
        is_stopping = True

    import asyncio  # here, too

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, handle)
