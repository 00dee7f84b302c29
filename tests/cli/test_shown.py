"""What commands about a journal and a machine print, whole: each column, sum, line and remedy."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.test_waiting import clerk
from moothall import (
    Budget,
    Call,
    Journal,
    ModelError,
    ModelReply,
    Price,
    Prices,
    ReActAgent,
    ScriptedModel,
    Usage,
)
from moothall.cli.main import command as program


def shown(*args: str) -> list[str]:
    """The lines that a command prints, without times; a process of its own would print the same."""
    env = {"COLUMNS": "96", "MOOTHALL_JOURNAL": "runs.db", "USER": "eva", "LOGNAME": "eva"}
    done = CliRunner().invoke(program, args, prog_name="moothall", env=env)
    text = done.stdout
    if done.exit_code:
        said = done.stderr or done.stdout or str(done.exception)  # which `main` tells
        text = f"{done.exit_code}: {said.splitlines()[-1]}"
    text = re.sub(r"/\S*/runs\.db-before-\S+", "FORMER", text)
    text = re.sub(r"[\d.]+ of 60 seconds", "N of 60 seconds", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "DATE", text)
    return re.sub(r"  \d\d:\d\d:\d\d  ", "  TIME  ", text).splitlines()


@pytest.fixture
def hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A journal in the current folder, with a run that is done, one that failed, one that waits."""
    monkeypatch.chdir(tmp_path)
    with Journal("runs.db") as journal:

        def look(x: int) -> str:
            """Look."""
            raise ValueError("it is dark")

        call = ModelReply("", (Call("1", "look", {"x": 1}),), Usage(1000, 500))
        answers = [call, ModelReply("Seen.", usage=Usage(20_000, 1000))]
        model = ScriptedModel(answers, name="mine:x", max_tokens=2000)
        budget = Budget(usd=5, prices=Prices({"mine:x": Price(1, 2)}))
        guide = ReActAgent("guide", model, actions=[look], journal=journal, budget=budget)
        guide.reply_sync("Look\nround", run_id="first", thread="t", tags={"customer": "acme"})
        failing = ScriptedModel([ModelError("no network")])
        ReActAgent("guide", failing, journal=journal).reply_sync("Go", run_id="second")
        while True:  # calls of one answer are asked at once, so in any order
            clerk(journal).reply_sync("Pay.", run_id="third")
            waits = journal.waiting(kind="approval")
            if [each.args["coins"] for each in waits] == [3, 4]:
                break
            journal.delete("third")
        hashes = [each.key for each in waits]
        service = Budget(tokens=10_000, seconds=60, journal=journal, name="service")
        service.reserve(tokens=7, usd=1).settle(tokens=5, usd=0.5)
        service.child(name="anna", actions=3).reserve(tokens=2000, actions=1)
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.executemany(
            "UPDATE runs SET seconds = ? WHERE id = ?",
            ((119.94, "first"), (7200, "second"), (172_799, "third")),
        )
    return hashes


def test_commands_about_a_journal_print_what_the_transcript_has(hashes: list[str]) -> None:
    transcript = Path(__file__).with_name("transcript.txt").read_text()
    words = {"ONE": hashes[0][:12], "TWO": hashes[1][:12]}
    printed: list[str] = []
    for line in transcript.splitlines():
        if line.startswith("$ moothall "):
            command = re.sub("ONE|TWO", lambda match: words[match[0]], line)
            printed += [line, *shown(*shlex.split(command)[2:])]
    text = "\n".join(printed) + "\n"
    for word, value in words.items():
        text = text.replace(value, word)
    assert text == transcript
