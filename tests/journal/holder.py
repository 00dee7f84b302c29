"""A process that works on a run until it is killed: `python -m journal.holder JOURNAL [fork]`."""

from __future__ import annotations

import os
import signal
import sys

from moothall import Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call


def hold() -> None:
    """Hold it."""
    if "fork" not in sys.argv or os.fork() == 0:
        print(os.getpid(), flush=True)  # of a child, when it has let go of what it inherited
    while True:
        signal.pause()


if __name__ == "__main__":
    model = ScriptedModel([Call("c", "hold", {})])
    agent = ReActAgent("a", model, actions=[hold], journal=Journal(sys.argv[1]))
    agent.reply_sync("go", run_id="R")
