"""A durable memory of a user's own, in an agent that is killed and goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import run

PROGRAM = """
import json, os, sys
from moothall import Action, Memory, ReActAgent, ScriptedModel

folder, last, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]

class FileMemory(Memory):
    def lines(self):
        path = folder + "/memory"
        return [json.loads(line) for line in open(path)] if os.path.exists(path) else []

    def write(self, line):
        with open(folder + "/memory", "a") as file:
            file.write(json.dumps(line) + "\\n")

    def add_memory(self, memory):
        self.write({"memory": memory})

    def get_memories(self, limit=None):
        return [line["memory"] for line in self.lines()][-limit if limit else 0 :]

class Numbered(FileMemory):
    def add_once(self, memory, run, sequence):
        if not any(line.get("at") == [run, sequence] for line in self.lines()):
            self.write({"memory": memory, "at": [run, sequence]})

def look(n: int) -> str:
    if n == last:
        os.kill(os.getpid(), 9)
    return "seen"

script = [*({"name": "look", "args": {"n": n}} for n in (1, 2, 3)), "end"]
agent = ReActAgent(
    "m",
    ScriptedModel(script),
    actions=[Action("look", look, idempotent=True)],
    memory={"FileMemory": FileMemory, "Numbered": Numbered}[kind](),
    journal=folder + "/runs.db",
)
print(agent.reply_sync("x", run_id="R").text)
"""


ROLES = ["user", *["assistant", "tool"] * 3, "assistant"]


@pytest.mark.parametrize("kind", ("FileMemory", "Numbered"))
@pytest.mark.parametrize("deaths", ((1,), (2, 3), (3, 3)))
def test_custom_memory_gets_messages_of_a_resumed_run_once(
    tmp_path: Path, deaths: tuple[int, ...], kind: str
) -> None:
    for last in (*deaths, 0):
        done = run(tmp_path, last, kind, code=PROGRAM)
        assert done.returncode == (-9 if last else 0), done.stderr
    assert done.stdout == "end\n"
    lines = [json.loads(line) for line in (tmp_path / "memory").read_text().splitlines()]
    assert [line["memory"]["role"] for line in lines] == ROLES
    assert kind == "FileMemory" or [line["at"][1] for line in lines] == list(range(8))
