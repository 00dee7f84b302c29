"""Kill -9 before and after every commit: nothing is lost, and nothing that ended is done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal.process import KILLED, Processes, Traces
from journal.program import THREADS

BOTH = ("journal", "memory")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as processes:
        yield processes


class Unbroken:
    """A run that nobody killed: what the others must come to."""

    def __init__(self, processes: Processes, folder: Path, program: str, **job: Any) -> None:
        folder.mkdir()
        assert processes.run(folder, program, **job) == 0
        traces = Traces(folder, program)
        self.reply = traces.reply()
        self.remembered = traces.remembered()
        self.effects = traces.effects()
        self.commits = traces.commits()
        assert self.reply["stop_reason"] in ("done", "terminated")
        assert set(self.effects.values()) == {1}


def killed_at(
    processes: Processes,
    folder: Path,
    unbroken: Unbroken,
    program: str,
    repeat: bool,
    **job: Any,
) -> bool:
    """Kill a run there, go on with it, and see what came of it; whether anything was in doubt."""
    folder.mkdir()
    ended = processes.run(folder, program, **job)
    if ended == 0 and job.get("durability") == "power":
        return False  # commits of several at once are one, if it comes about so
    assert ended == KILLED
    traces = Traces(folder, program)
    before = traces.effects()
    doubted = traces.doubted()
    under_way = {
        what.removeprefix("begin ")
        for what in before
        if what.startswith("begin ") and not before[what.replace("begin", "end")]
    }
    assert {what for what in under_way if not what.startswith("look")} <= set(doubted)
    assert not any(what.startswith("look") for what in doubted)

    going_on = {key: value for key, value in job.items() if key not in ("commit", "effect")}
    assert processes.run(folder, program, **going_on) == 0
    if doubted:
        reply = traces.reply()
        assert reply["stop_reason"] == "in_doubt"
        assert traces.doubted() == doubted
        for what in doubted:
            assert traces.effects()[f"begin {what}"] == before[f"begin {what}"]
        traces.decide(repeat)
        assert traces.doubted() == []
        assert processes.run(folder, program, **going_on) == 0

    after = traces.effects()
    for what in unbroken.effects:
        name = what.split(" ", 1)[1]
        if name.startswith("look"):
            assert 1 <= after[what] <= 2
        elif name in doubted and repeat:
            assert after[what] == before[what] + 1
        elif name in doubted:
            assert after[what] == before[what]
        else:
            assert after[what] == 1
    reply = traces.reply()
    assert reply["stop_reason"] == unbroken.reply["stop_reason"]
    remembered = traces.remembered()
    if not doubted or repeat:
        assert reply == unbroken.reply
        assert remembered == unbroken.remembered
    else:
        assert {id: len(each) for id, each in remembered.items()} == {
            id: len(each) for id, each in unbroken.remembered.items()
        }
    if THREADS[program] == ("default",):
        assert remembered["default"] == reply["messages"]
    assert traces.replayed() == reply
    return bool(doubted)


def some_or_every(step: int) -> pytest.MarkDecorator:
    """Some of the places where a process may be killed; all of them take longer."""
    every = pytest.param(1, marks=pytest.mark.long)
    return pytest.mark.parametrize("step", (every, step))


@some_or_every(5)
@pytest.mark.parametrize("program", ("react", "dual"))
@pytest.mark.parametrize("when", ("before", "after"))
def test_commits(processes: Processes, tmp_path: Path, program: str, when: str, step: int) -> None:
    unbroken = Unbroken(processes, tmp_path / "unbroken", program, files=BOTH)
    assert unbroken.commits > 20
    first = 1 if when == "before" else step
    doubts = [
        killed_at(
            processes,
            tmp_path / str(number),
            unbroken,
            program,
            repeat=number % 2 == 0,
            files=BOTH,
            commit=(number, when),
        )
        for number in range(first, unbroken.commits + 1, step)
    ]
    assert any(doubts)
    assert not all(doubts)


@some_or_every(5)
@pytest.mark.parametrize("program", ("react", "dual"))
@pytest.mark.parametrize("repeat", (True, False))
def test_effects(
    processes: Processes, tmp_path: Path, program: str, repeat: bool, step: int
) -> None:
    unbroken = Unbroken(processes, tmp_path / "unbroken", program)
    for number, effect in enumerate(sorted(unbroken.effects)[::step]):
        folder = tmp_path / str(number)
        doubted = killed_at(processes, folder, unbroken, program, repeat, effect=effect)
        assert doubted or "look" in effect


@some_or_every(8)
@pytest.mark.parametrize("program", ("react", "dual"))
@pytest.mark.parametrize("when", ("before", "after"))
def test_commits_that_wait_for_the_disk(
    processes: Processes, tmp_path: Path, program: str, when: str, step: int
) -> None:
    job = {"files": BOTH, "durability": "power"}
    unbroken = Unbroken(processes, tmp_path / "unbroken", program, **job)
    for number in range(min(step, 3), unbroken.commits + 1, step):
        folder = tmp_path / str(number)
        killed_at(processes, folder, unbroken, program, True, commit=(number, when), **job)
