"""A small program that runs a server, and lets nothing of it outlive the process that asked.

    python keeper.py SETUP      SETUP: JSON with parent, command, environment, folder, log, user

It takes orders from its standard input, a byte each: 0 starts the node, any other number is the
signal that the node gets. It answers on its standard output, a line each: `started PID`, `told`
and, once for each start, `ended CODE`, when neither the node nor a helper of the node is left.
When its input ends, as it does however the process at the other end dies, or when that process is
no longer its parent, the node is killed and the folder removed.

The node and its helpers are sessions of their own, which no signal from a terminal reaches. On
Linux the keeper is their "subreaper", so that helpers whose parent was killed become its children,
and the node is killed when its keeper is.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# How often it looks whether its parent is there: where that has forked, the input does not end.
PARENT_S = 1.0

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def prctl(option: int, value: int) -> None:
    if LIBC is not None:
        LIBC.prctl(option, value, 0, 0, 0)


def start(setup: dict[str, Any]) -> subprocess.Popen[bytes]:
    user = setup["user"]
    with Path(setup["log"]).open("ab") as log:
        return subprocess.Popen(
            setup["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=setup["folder"],
            env=setup["environment"],
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            # After the change of user, which would undo it.
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def sweep() -> None:
    """Kill and reap what the node left, which ends by itself if it is given the time."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        for pid in children.read_text().split() if children.exists() else ():
            os.kill(int(pid), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def serve(setup: dict[str, Any]) -> None:
    """Do as told until nobody is there to tell."""
    node: subprocess.Popen[bytes] | None = None
    parent = setup["parent"]
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        while True:
            ready, _, _ = select.select((0, awake), (), (), PARENT_S)
            if os.getppid() != parent:
                return
            if awake in ready:
                os.read(awake, 4096)
            if node is not None and node.poll() is not None:
                sweep()
                print("ended", node.returncode, flush=True)
                node = None
            if 0 in ready:
                order = os.read(0, 1)
                if not order:
                    return
                if not order[0]:
                    node = start(setup)
                    print("started", node.pid, flush=True)
                else:
                    if node is not None:
                        node.send_signal(order[0])
                    print("told", flush=True)
    finally:
        if node is not None:
            node.kill()
            node.wait()
        sweep()
        shutil.rmtree(setup["folder"], ignore_errors=True)


if __name__ == "__main__":
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        serve(json.loads(sys.argv[1]))
    except BrokenPipeError:
        # Who asked died before the answer; all is done that is to be done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
