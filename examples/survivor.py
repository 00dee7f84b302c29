"""A run that survives kill -9: an agent copies files, is killed midway, and goes on.

    python examples/survivor.py

The agent's model is a script, so that the same happens each time; with a real one, name it instead.
The program starts itself twice as a worker. The first is killed in the midst of an action that may
be repeated, the second finds the journal, does not do again what had ended, and comes to the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from moothall import Action, Journal, ReActAgent, ScriptedModel

NAMES = ("a.txt", "b.txt", "c.txt")


def worker(folder: Path, dies_at: str) -> None:
    """Copy the files by an agent, and die at one of them."""

    def copy(name: str) -> str:
        """Copy a file.

        Args:
            name: its name
        """
        print(f"  copies {name}", flush=True)
        if name == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        shutil.copy(folder / name, folder / f"copy of {name}")
        return f"copied {name}"

    script = [*({"name": "copy", "args": {"name": name}} for name in NAMES), "All are copied."]
    # To copy a file twice does no harm: the action may be repeated.
    actions = [Action("copy", copy, idempotent=True)]
    agent = ReActAgent("copier", ScriptedModel(script), actions=actions, journal=folder / "runs.db")
    reply = agent.reply_sync("Copy the files.", run_id="copies")
    print(f"  {reply.stop_reason}: {reply.text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in NAMES:
            (folder / each).write_text(each)
        for dies_at in ("b.txt", ""):
            print("a worker starts")
            command = [sys.executable, __file__, name, dies_at]
            done = subprocess.run(command, check=False)
            print(f"it ended with exit code {done.returncode}")
        with Journal(folder / "runs.db") as journal:
            reply = journal.replay("copies")
        print(f"the record says: {reply.text} {[step.args['name'] for step in reply.steps]}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        worker(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
