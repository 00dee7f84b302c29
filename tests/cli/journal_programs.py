"""Commands about a journal as a script runs them, and runs that were killed in their midst."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from commands import run
from models.openai_server import OpenAIServer, call, streamed
from pseudo_terminal import Terminal

JOURNAL = "../runs.db"
"""Beside the folder: what works in there could change it."""
MOMENT_S = "3"
"""Seconds, for an option, in which a model answers and is asked again; it hangs until they end."""
ENVIRONMENT = {
    "MOOTHALL_MODEL": "",
    "MOOTHALL_ROOT": "",
    "MOOTHALL_KEY": "",
    "MOOTHALL_JOURNAL": JOURNAL,
    "COLUMNS": "300",
}
SEARCH = ("search_in_file", {"file_name": "notes.txt", "search_term": "milk"})
WRITE = ("write_file", {"file_name": "new.txt", "content": "hello\n"})
# The first time, it says that it has begun and never ends.
COMMAND = (
    "run_command",
    {
        "command": "echo ran >>log.txt; "
        "[ -e begun ] || { touch begun; exec 3>alive; echo begun >&3; sleep 300; }; echo over"
    },
)

PROGRAM = '''
import os, signal
from moothall import ReActAgent, ScriptedModel

def look_up(item: str) -> str:
    """Look up the price of an item."""
    with open("looked", "a") as file:
        file.write(item)
    return "3 coins"

def pay(coins: int) -> str:
    """Pay."""
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    with open("paid", "a") as file:
        file.write(str(coins))
    return "paid"

def please(agent, asked):
    return {"text": asked["text"] + " Please."}

def buyer():
    model = ScriptedModel([
        {"name": "look_up", "args": {"item": "bread"}},
        {"name": "pay", "args": {"coins": 3}},
        \'{"bread": 1}\',
    ])
    agent = ReActAgent("buyer", model, actions=[look_up, pay], system_prompt=os.environ.get("SAYS"))
    agent.register_hook("pre_reply", "polite", please)
    return agent

if __name__ == "__main__":
    agent = buyer()
    agent.journal = "../runs.db"
    schema = {"type": "object", "properties": {"bread": {"type": "integer"}}}
    agent.reply_sync("Buy bread.", schema=schema, thread="shop", run_id="bread-1")
'''

THREE = '''
import asyncio, os, signal
from moothall import ReActAgent, ScriptedModel

begun = []

async def send(to: str) -> str:
    """Send a letter."""
    begun.append(to)
    while os.environ.get("DIES") and len(begun) < 3:
        await asyncio.sleep(0)
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    with open("sent", "a") as file:
        file.write(to)
    return "sent"

def clerk():
    letters = [{"name": "send", "args": {"to": to}} for to in "ABC"]
    return ReActAgent("clerk", ScriptedModel([letters, "Well."]), actions=[send])

if __name__ == "__main__":
    agent = clerk()
    agent.journal = "../runs.db"
    agent.reply_sync("Send them.", run_id="letters")
'''


def does(*listed: tuple[str, dict[str, Any]]) -> Any:
    """An answer of the server that calls actions."""
    return streamed(
        [call(name, json.dumps(args), f"call_{n}") for n, (name, args) in enumerate(listed)]
    )


def moothall(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of ours, with nobody at a terminal."""
    return run(*args, cwd=cwd, env={**os.environ, **ENVIRONMENT, **environment})


def at_terminal(*args: str, cwd: Path, **environment: str) -> Terminal:
    """A command of ours, with a person at a terminal."""
    return Terminal(
        "-m", "moothall", *args, cwd=cwd, columns=200, environment={**ENVIRONMENT, **environment}
    )


def killed_in_a_command(server: OpenAIServer, folder: Path, *options: str) -> None:
    """Have `moothall act` be killed in the midst of COMMAND, which the model is to call."""
    os.mkfifo(folder / "alive")
    args = ("act", "Do it", "--model", f"{server.url}#m", "--run-id", "r", *options)
    with at_terminal(*args, cwd=folder) as terminal:
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("y\n")
        with (folder / "alive").open() as alive:
            assert alive.readline() == "begun\n"
            terminal.process.kill()
            terminal.process.wait()


def killed_program(folder: Path, text: str = PROGRAM) -> None:
    """Have a program of the user's own be killed in the midst of its actions, such as paying."""
    (folder / "my_agents.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "my_agents.py"],
        cwd=folder,
        capture_output=True,
        env={**os.environ, "DIES": "1"},
        timeout=50,
    )
    assert done.returncode == -9, done.stderr
