"""Kill -9 before and after every commit: nothing is lost, and nothing that ended is done again.

What docs/reliability.md says of killed runs is counted by this, with every place:

    .venv/bin/python -m pytest -n 2 -m "" -v tests/journal/test_kill.py
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from journal.process import KILLED, Processes, Traces
from journal.program import PROGRAMS, REPEATED, THREADS

BOTH = ("journal", "memory")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as processes:
        yield processes


Store = Callable[[Path], None]


def _in_it(folder: Path) -> None:
    """The folder itself has them."""


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> Store:
    """Has a folder's journal and memory be in it, or in a schema of a server."""
    if getattr(request, "param", "file") == "file":
        return _in_it
    server = request.getfixturevalue("postgresql")

    def name(folder: Path) -> None:
        (folder / "url").write_text(server.url(f"k{secrets.token_hex(6)}"))

    return name


class Unbroken:
    """A run that nobody killed: what the others must come to."""

    def __init__(
        self, processes: Processes, folder: Path, program: str, store: Store = _in_it, **job: Any
    ) -> None:
        folder.mkdir()
        store(folder)
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
    store: Store = _in_it,
    **job: Any,
) -> bool:
    """Kill a run there, go on with it, and see what came of it; whether anything was in doubt."""
    folder.mkdir()
    store(folder)
    ended = processes.run(folder, program, **job)
    traces = Traces(folder, program)
    fewer = ended == 0 and "commit" in job and traces.commits() < job["commit"][0]
    if fewer or (ended == 0 and job.get("durability") == "power"):
        return False  # commits of several at once are one, if it comes about so
    assert ended == KILLED
    before = traces.effects()
    doubted = traces.doubted()
    under_way = {
        what.removeprefix("begin ")
        for what in before
        if what.startswith("begin ") and not before[what.replace("begin", "end")]
    }
    assert {what for what in under_way if not what.startswith(REPEATED)} <= set(doubted)
    assert not any(what.startswith(REPEATED) for what in doubted)

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
        if name.startswith(REPEATED):
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
        # A memory also has where each message comes from, in a field of its own.
        said = [{k: v for k, v in m.items() if k != "provenance"} for m in remembered["default"]]
        assert said == reply["messages"]
    assert traces.replayed() == reply
    return bool(doubted)


Count = Callable[..., None]


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Count:
    """Keep the counts of a program's deaths for the table."""

    def keep(program: str, **counts: int) -> None:
        record_property("deaths", (NAMES[program], counts))

    return keep


NAMES = {
    "react": "an agent: parallel calls, an answer that cannot be used",
    "dual": "a dual act with two R side by side",
    "asked": "an agent: a person approves, actions fail",
    "steered": "an agent: the user interrupts it",
    "spent": "an agent: its budget is spent, it goes on with a larger one",
    "talk": "a conversation of two agents",
    "tree": "an agent that asks another twice at once, each in a fresh conversation",
}


SOME = {
    ("react", "before"): 9,
    ("react", "after"): 7,
    ("dual", "before"): 19,
    ("dual", "after"): 19,
    ("asked", "before"): 11,
    ("steered", "after"): 11,
    ("spent", "before"): 17,
    ("talk", "after"): 17,
    ("tree", "before"): 19,
}


@pytest.mark.parametrize(
    ("stored", "program", "when", "step"),
    (
        *(("file", *of, step) for of, step in SOME.items()),
        ("server", "react", "before", 9),
        ("server", "dual", "after", 23),
        *(
            pytest.param(*of, 1, marks=(pytest.mark.long, pytest.mark.timeout(600)))
            for of in product(("file", "server"), PROGRAMS, ("before", "after"))
        ),
    ),
    indirect=("stored",),
)
def test_commits(
    processes: Processes,
    tmp_path: Path,
    stored: Store,
    program: str,
    when: str,
    step: int,
    count: Count,
) -> None:
    unbroken = Unbroken(processes, tmp_path / "unbroken", program, stored, files=BOTH)
    assert unbroken.commits > 10
    first = 1 if when == "before" else step
    doubts = [
        killed_at(
            processes,
            tmp_path / str(number),
            unbroken,
            program,
            repeat=number % 2 == 0,
            store=stored,
            files=BOTH,
            commit=(number, when),
        )
        for number in range(first, unbroken.commits + 1, step)
    ]
    assert not all(doubts)
    assert any(doubts) or step > 1
    count(program, runs=len(doubts), deaths=len(doubts), in_doubt=sum(doubts))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("deaths", "step"), ((2, 5), (3, 9)))
@pytest.mark.parametrize("program", PROGRAMS)
def test_deaths_one_after_the_other(
    processes: Processes, tmp_path: Path, program: str, deaths: int, step: int, count: Count
) -> None:
    unbroken = Unbroken(processes, tmp_path / "unbroken", program, files=BOTH)
    kills = [(n, ("before", "after")[n % 2]) for n in range(1, unbroken.commits + 1, step)]
    died = doubted = 0
    for number, places in enumerate(product(kills, repeat=deaths)):
        folder = tmp_path / str(number)
        folder.mkdir()
        traces = Traces(folder, program)
        decided: Counter[str] = Counter()
        for place in places:
            if processes.run(folder, program, files=BOTH, commit=place) == 0:
                break  # it had fewer commits left
            died += 1
            doubts = traces.doubted()
            decided.update(doubts)
            if doubts:
                traces.decide(repeat=True)
        assert processes.run(folder, program, files=BOTH) == 0
        assert (traces.reply(), traces.remembered()) == (unbroken.reply, unbroken.remembered)
        assert traces.replayed() == unbroken.reply
        after = traces.effects()
        assert after.keys() == unbroken.effects.keys()
        for what, times in after.items():
            name = what.split(" ", 1)[1]
            assert times <= 1 + (deaths if name.startswith(REPEATED) else decided[name])
        doubted += decided.total()
    runs = len(kills) ** deaths
    count(program, runs=runs, deaths=died, in_doubt=doubted)


@pytest.mark.parametrize(
    ("program", "repeat", "step"),
    (
        ("react", True, 9),
        ("dual", False, 9),
        ("asked", True, 9),
        *(
            pytest.param(*of, 1, marks=pytest.mark.long)
            for of in product(("react", "dual", "asked"), (True, False))
        ),
    ),
)
def test_effects(
    processes: Processes, tmp_path: Path, program: str, repeat: bool, step: int
) -> None:
    unbroken = Unbroken(processes, tmp_path / "unbroken", program)
    for number, effect in enumerate(sorted(unbroken.effects)[::step]):
        folder = tmp_path / str(number)
        doubted = killed_at(processes, folder, unbroken, program, repeat, effect=effect)
        assert doubted or any(each in effect for each in REPEATED)


@pytest.mark.long
@pytest.mark.parametrize("step", (1, 8))
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
