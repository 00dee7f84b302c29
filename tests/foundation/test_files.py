"""What is written whole: a process killed meanwhile leaves nothing that stays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import commands
from commands import Command
from moothall import Journal

# What the system is asked for between the bytes and their name is where a process dies, or waits.
KEEPS = """
import asyncio, os, signal, sys
from dataclasses import dataclass
from moothall import Journal
from moothall.build import recorded

at, value = sys.argv[2:]
if at == "killed":
    os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
elif at == "waits":
    def wait(file):
        print("writing", flush=True)
        sys.stdin.readline()
    os.fsync = wait

@dataclass
class State:
    pass

async def main(journal):
    async with recorded(journal, value, "keeps", "a", State) as record:
        record.keep(value.encode() * 2**20)

with Journal(sys.argv[1] + "/journal") as journal:
    asyncio.run(main(journal))
"""
LIVES = (
    KEEPS[: KEEPS.index("@dataclass")].replace(
        "from moothall.build import recorded\n",
        "from moothall.society import Society\n",
    )
    + """
town = Society(3, seed=int(value))
with town:
    asyncio.run(town.run(steps=2, step="6h", out=f"{sys.argv[1]}/{value}"))
"""
)
FOLDERS = {KEEPS: "journal-kept", LIVES: "1"}


def run(program: str, folder: Path, at: str, value: str = "1") -> int:
    return commands.run(folder, at, value, code=program).returncode


def hidden(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("program", FOLDERS, ids=("a journal's value", "a society's tables"))
def test_files_left_by_a_killed_process_go_with_the_next_write(
    tmp_path: Path, program: str
) -> None:
    folder = tmp_path / FOLDERS[program]
    Journal(tmp_path / "journal").close()
    assert run(program, tmp_path, "killed") == -9
    assert len(hidden(folder)) == 1
    names = {each.name for each in folder.iterdir()} - {*hidden(folder)}
    assert run(program, tmp_path, "lives", "2" if program == KEEPS else "1") == 0
    assert hidden(folder) == []
    assert {each.name for each in folder.iterdir()} > names


def test_files_that_a_living_process_writes_stay(tmp_path: Path) -> None:
    Journal(tmp_path / "journal").close()
    pipe = subprocess.PIPE
    arguments = (tmp_path, "waits", "1")
    with Command(*arguments, code=KEEPS, stdin=pipe, stdout=pipe, text=True) as writing:
        assert writing.stdout
        assert writing.stdin
        assert writing.stdout.readline() == "writing\n"
        assert run(KEEPS, tmp_path, "lives", "2") == 0
        assert len(hidden(tmp_path / "journal-kept")) == 1
        writing.stdin.write("\n")
    assert writing.returncode == 0
    kept = [each.read_bytes()[:1] for each in (tmp_path / "journal-kept").iterdir()]
    assert sorted(kept) == [b"1", b"2"]
