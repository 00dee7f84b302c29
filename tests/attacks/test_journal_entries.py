"""Journals whose entries no moothall wrote: a key is missing, a value is of another type.

The checksums of such entries are right, as whoever makes them up can compute them; the tests of
damage have those whose checksums are wrong.
"""

from __future__ import annotations

import asyncio
import copy
import io
import os
import random
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from commands import run
from models.openai_server import OpenAIServer, call, calls, text
from moothall import Journal
from moothall.cli.main import main
from moothall.journal import Entry, Outline

PROGRAM = """
from moothall import Conversation, ReActAgent, ScriptedModel

def team():
    talkers = [ReActAgent(id, ScriptedModel([f"{id} says this", f"{id} says that"])) for id in "ab"]
    return Conversation(talkers, max_turns=3, id="team")

if __name__ == "__main__":
    made = team()
    made.journal = "../runs.db"
    made.reply_sync("Discuss.", run_id="team")
"""
LIST = calls(call("list_files", "{}", "call_1"))
ACCEPT = text('{"action": "TERMINATE", "new_instruction": "", "reasoning": "fine"}')
TOWN = ("simulate", "--citizens", "10", "--days", "0.125", "--step", "3h")
COMMANDS = {
    "act": ("act", "List them", "--model", "{url}#m"),
    "dual": ("act", "List them", "--model", "{url}#m", "--review", "{url}#m"),
    "research": ("research", "Which milk?", "--folder", "."),
    "town": TOWN,
    "asked": (*TOWN, "--model", "{url}#m", "--max-calls", "9"),
}
ANSWERS = {"act": [LIST, text("milk")], "dual": [LIST, text("milk"), ACCEPT]}
AGENT = {"team": ("--agent", "teams:team")}
KINDS = (*COMMANDS, *AGENT)

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/v1")
GONE = object()
VALUES = (GONE, None, True, 7, -1, 1e300, "x", "9" * 5000, [], [None], {}, {"x": 1})
READ = (
    ("runs",),
    ("runs", "m"),
    ("runs", "m", "--json"),
    ("replay", "m"),
    ("replay", "m", "--json"),
)


@dataclass
class Recorded:
    """A run of each kind, and the address of a server whose model answers when one is resumed."""

    folder: Path
    url: str
    runs: dict[str, tuple[Outline, list[Entry]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("entries") / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("The milk is oat milk.\n")
    (folder / "teams.py").write_text(PROGRAM)
    env = {**os.environ, "MOOTHALL_JOURNAL": "../runs.db"}
    for kind, words in COMMANDS.items():
        with OpenAIServer(*ANSWERS.get(kind, [text("x")])) as server:
            args = [each.format(url=server.url) for each in words]
            done = run(*args, "--run-id", kind, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr
    done = run(module="teams", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    with OpenAIServer(text("milk")) as server, Journal(folder.parent / "runs.db") as journal:
        runs = {kind: (journal.run(kind), journal.entries(kind)) for kind in KINDS}
        yield Recorded(folder, server.url, runs)


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value within JSON data; of a list's items, the first two."""
    if at:
        yield at
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(min(2, len(data))):
            yield from places(data[key], (*at, key))


Change = tuple[int, tuple[Any, ...], Any]
"""The number of an entry, a path in its data, and the value that is put there."""


def changes(entries: list[Entry]) -> list[Change]:
    """The changes to a run's entries; to those that are alike, to the first."""
    found: dict[Any, Change] = {}
    for number, entry in enumerate(entries):
        for at in places(entry.data):
            named = tuple(each for each in at if isinstance(each, str))
            about = tuple(entry.data.get("about", ()))
            for value in VALUES:
                alike = (entry.kind, about, named, id(value))
                found.setdefault(alike, (number, at, value))
    return list(found.values())


def changed(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    made = holder = copy.deepcopy(data)
    for key in at[:-1]:
        holder = holder[key]
    if value is GONE:
        del holder[at[-1]]
    else:
        holder[at[-1]] = value
    return made


def at_server(data: Any, url: str) -> Any:
    """Data in which a model's address, also in a fingerprint, is of the server that still runs."""
    if isinstance(data, dict):
        return {key: at_server(value, url) for key, value in data.items()}
    if isinstance(data, list):
        return [at_server(value, url) for value in data]
    return ADDRESS.sub(url, data) if isinstance(data, str) else data


async def write(path: Path, outline: Outline, entries: list[Entry], ended: bool) -> None:
    """Write a journal with one run, `m`, of these entries."""
    with Journal(path) as journal:
        part = await journal.begin("m", outline.kind, outline.agent, outline.task)
        try:
            for entry in entries:
                part.run.note(entry.path, entry.kind, entry.data)
            if ended:
                part.end(outline.state)
            await part.commit()
        finally:
            part.close()


def moothall(*args: str) -> tuple[int, str]:
    """Run a command in this process; gives its exit code and what it says on standard error."""
    shown, said = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main(args)
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.getvalue()


def read_and_resume(recorded: Recorded, path: Path, kind: str, change: Change, ended: bool) -> None:
    """Change an entry, and run each command that reads it."""
    outline, entries = recorded.runs[kind]
    number, at, value = change
    if not ended:
        entries = [each for each in entries if each.kind != "over"][: max(number + 1, 3)]
    made = []
    for each in entries:
        data = at_server(each.data, recorded.url)
        if each.sequence == number + 1:
            data = changed(data, at, value)
        made.append(Entry(each.sequence, each.path, each.kind, each.at, data))
    asyncio.run(write(path, outline, made, ended))
    for words in (*READ, ("resume", "m", *AGENT.get(kind, ()))):
        code, said = moothall(*words, "--journal", str(path))
        assert code in (0, 1, 2), (words, said)
        assert "Traceback" not in said, words


def try_out(recorded: Recorded, folder: Path, kind: str, chosen: list[Change]) -> None:
    for n, change in enumerate(chosen):
        for ended in (True, False):
            try:
                read_and_resume(recorded, folder / f"{n}{ended}.db", kind, change, ended)
            except BaseException as error:
                raise AssertionError(
                    f"{kind}, ended={ended}, {change!r:.300}: {error!r}"
                ) from error


@pytest.mark.parametrize("kind", KINDS)
def test_journal_entry_made_up_ends_in_a_sentence(
    recorded: Recorded, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    found = changes(recorded.runs[kind][1])
    try_out(recorded, tmp_path, kind, random.Random(kind).sample(found, 5))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_journal_entries_made_up_every_second_end_in_a_sentence(
    recorded: Recorded, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    try_out(recorded, tmp_path, kind, changes(recorded.runs[kind][1])[::2])


CALLED = ("appended", "messages", 0, "tool_calls")
"""Where the state after the first answer has its call."""


def first(entries: list[Entry], kind: str, says: str) -> int:
    """The number of the first entry of this kind whose data say this."""
    return next(n for n, e in enumerate(entries) if e.kind == kind and says in str(e.data))


@pytest.mark.parametrize(
    ("kind", "says", "at", "value"),
    (
        ("started", "'action'", ("args",), "x"),
        ("started", "'action'", ("about", "id"), GONE),
        ("state", "'tool_calls'", CALLED, 7),
        ("state", "'tool_calls'", (*CALLED, 0), "x"),
        ("state", "'tool_calls'", (*CALLED, 0, "id"), GONE),
        ("state", "'tool_calls'", (*CALLED, 0, "id"), []),
    ),
)
def test_journal_call_with_a_made_up_part_is_resumed_or_ends_in_a_sentence(
    recorded: Recorded,
    tmp_path: Path,
    kind: str,
    says: str,
    at: tuple[Any, ...],
    value: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(recorded.folder)
    number = first(recorded.runs["act"][1], kind, says)
    read_and_resume(recorded, tmp_path / "j", "act", (number, at, value), ended=False)


def test_journal_turn_without_its_agent_ends_in_a_sentence(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    for kind in ("dual", "team"):
        number = first(recorded.runs[kind][1], "started", "'part'")
        read_and_resume(recorded, tmp_path / kind, kind, (number, ("agent",), GONE), ended=False)


def test_dual_act_values_without_their_conclusions_end_in_a_sentence(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    number = first(recorded.runs["dual"][1], "state", "'conclusions': [{")
    change = (number, ("appended", "conclusions"), GONE)
    read_and_resume(recorded, tmp_path / "j", "dual", change, ended=False)


@pytest.mark.parametrize("kind", ("state", "started"))
def test_journal_entry_of_an_unknown_kind_is_named_when_its_run_is_resumed(
    recorded: Recorded, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    outline, entries = recorded.runs["act"]
    number = first(entries, kind, {"state": "'messages'", "started": "'model'"}[kind])
    made = [replace(e, data=at_server(e.data, recorded.url)) for e in entries[: number + 1]]
    made[number] = replace(made[number], kind="sung")
    asyncio.run(write(tmp_path / "j", outline, made, ended=False))
    code, said = moothall("resume", "m", "--journal", str(tmp_path / "j"))
    assert code == 1
    assert f"entry {number + 1} of run 'm' is of the kind 'sung', which this moothall" in said


def test_journal_state_that_is_damaged_is_named_in_one_line_with_its_place(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.folder)
    outline, entries = recorded.runs["act"]
    number = first(entries, "state", "'messages'")
    made = [replace(e, data=at_server(e.data, recorded.url)) for e in entries[: number + 1]]
    made[number] = replace(
        made[number], data=changed(made[number].data, ("state", "iteration"), "x")
    )
    asyncio.run(write(tmp_path / "j", outline, made, ended=False))
    code, said = moothall("resume", "m", "--journal", str(tmp_path / "j"))
    assert code == 1
    assert "run 'm': the state of a LoopState is damaged: iteration: " in said
    assert said.count("\n") == 1
    assert "pydantic" not in said


def test_journal_error_names_the_entry_and_its_fault(recorded: Recorded, tmp_path: Path) -> None:
    outline, entries = recorded.runs["act"]
    begun = next(each for each in entries if each.kind == "begun")
    data = changed(begun.data, ("agent",), 7)
    made = [Entry(1, "", "begun", begun.at, data)]
    asyncio.run(write(tmp_path / "j", outline, made, ended=False))
    code, said = moothall("runs", "m", "--journal", str(tmp_path / "j"))
    assert code == 1
    assert said.count("\n") == 1
    assert "entry 1 (begun) of run 'm' is not one that this moothall writes: agent must be " in said


def test_journal_error_names_facts_of_a_wait_that_are_none(
    recorded: Recorded, tmp_path: Path
) -> None:
    outline, entries = recorded.runs["act"]
    begun = next(each for each in entries if each.kind == "begun")
    wait = {"key": "1.0", "wait": "a" * 64, "kind": "approval", "facts": {"danger": ["high"]}}
    made = [Entry(1, "", "begun", begun.at, begun.data), Entry(2, "", "waits", begun.at, wait)]
    asyncio.run(write(tmp_path / "j", outline, made, ended=False))
    code, said = moothall("runs", "m", "--journal", str(tmp_path / "j"))
    assert (code, said.count("\n")) == (1, 1)
    assert "entry 2 (waits) of run 'm' is not one that this moothall writes: facts " in said


async def test_journal_entries_of_a_users_own_kind_are_kept_as_they_are(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        part = await journal.begin("m", "Auction", "auctioneer", "Sell it.")
        part.note("begun", {"kind": "Auction", "agent": "auctioneer", "fingerprint": None})
        part.note("bid", {"by": ["ann", 3]})
        part.note("ended", {"key": "sold", "about": {"action": "sell"}, "result": 3})
        part.note("over", {"reason": "done", "text": 5, "usage": "none"})
        part.end("done")
        await part.commit()
        part.close()
    for words in (("runs", "m"), ("replay", "m")):
        assert moothall(*words, "--journal", str(tmp_path / "j")) == (0, "")
