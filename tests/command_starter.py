"""The program that forks for each command that tests run: see `commands`."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
import threading
import time
import types
from typing import Any

# The commands import it where they want it.
MODULES = (
    "aiohttp",
    "moothall.agents.ready.folder_actions",
    "moothall.serving.company.company",
    "moothall.models.names",
    "moothall.models.remote.openai",
    "moothall.research.folder.index",
    "moothall.spaces.amqp.amqp_router",
    "docstring_parser",
    "prompt_toolkit.shortcuts",
    "pydantic.type_adapter",
    "rich.console",
)

CODES: list[int] = []
"""The exit code of a program that has ended, unless by an error."""
PROGRAM = types.ModuleType("__main__")
"""What a program that is given as text is run in."""


def get_ready(names: list[str]) -> None:
    """Import what the commands and most programs do, and these modules."""
    import moothall
    import moothall.cli

    for module in pkgutil.walk_packages(moothall.cli.__path__, "moothall.cli."):
        importlib.import_module(module.name)
    for name in (*MODULES, *names):
        importlib.import_module(name)
    for name in moothall.__all__:
        getattr(moothall, name)
    assert threading.active_count() == 1  # a thread would be missing in who is forked
    gc.collect()
    gc.freeze()


def serve(orders: socket.socket) -> dict[str, Any]:
    """Fork for each order, and tell how each ended; returns in the child, with its order."""
    woken, wake = socket.socketpair()
    for each in (woken, wake):
        each.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' own affair
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            ended(running)
        if orders not in ready:
            continue
        size, handles, _, _ = socket.recv_fds(orders, 4, 4)
        if not size:
            raise SystemExit
        order = json.loads(orders.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        tell = socket.socket(fileno=handles.pop())
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for other in (orders, woken, wake, tell, *running.values()):
                other.close()
            return {**order, "handles": handles}
        for handle in handles:
            os.close(handle)
        running[child] = tell
        say(tell, child)


def ended(running: dict[int, socket.socket]) -> None:
    """Tell how those ended that have."""
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with running.pop(child) as tell:
            say(tell, os.waitstatus_to_exitcode(status))


def say(tell: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the test is over
        tell.sendall(b"%d\n" % number)


def become(order: dict[str, Any]) -> None:
    """Have this process what the command is to have."""
    for number, handle in enumerate(order["handles"]):
        os.dup2(handle, number)
        os.close(handle)
    if order["at_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that it turns Control-C into a signal
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = opened(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv[1:] = order["args"]
    sys.path[0] = os.getcwd()


def leave() -> None:
    """End a program when its threads have ended and what is to be called then was called.

    To free each object takes 0.08 s: the memory that holds it is the starter's, and is copied. The
    program's own are freed, as some complain.
    """
    if CODES:
        if threading.active_count() == 1:
            vars(PROGRAM).clear()
        gc.collect()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # the interpreter says so
        os._exit(CODES[0])


def opened(number: int, before: io.TextIOWrapper) -> io.TextIOWrapper:
    """A standard stream as an interpreter opens it."""
    raw: Any = io.FileIO(number, "w" if number else "r", closefd=False)
    at_once = number and os.environ.get("PYTHONUNBUFFERED")
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw) if number else io.BufferedReader(raw),
        encoding=before.encoding,
        errors=before.errors,
        newline="\n" if number else None,
        line_buffering=number == 2 or os.isatty(number),
        write_through=bool(at_once),
    )


if __name__ == "__main__":
    atexit.register(leave)  # the first to be registered is the last to be called
    get_ready(sys.argv[2:])
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    become(order)
    try:
        if order["script"] is not None:
            sys.argv[0], sys.path[0] = order["script"], os.path.dirname(order["script"])
            runpy.run_path(order["script"], run_name="__main__")
        elif order["code"] is None:
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        else:
            sys.argv[0], sys.path[0], sys.modules["__main__"] = "-c", "", PROGRAM
            exec(compile(order["code"], "<string>", "exec"), vars(PROGRAM))  # noqa: S102
        CODES.append(0)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            CODES.append(ended.code or 0)
        raise
