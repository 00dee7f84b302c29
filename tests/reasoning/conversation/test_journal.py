"""A conversation that is recorded goes on where it was, whatever ended its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from civitas import Journal

PROGRAM = Path(__file__).with_name("journalled.py")
TESTS = PROGRAM.parent.parent.parent
WAIT = 30

# Of each order, the actions of the unbroken run.
ACTIONS = {
    "round": ("a1", "b1", "b2", "a2", "b3"),
    "clerk": ("a1", "a2"),
    "chosen": ("b1", "a1", "b2"),
    "hand-over": ("a1", "b1", "a2"),
    "together": ("a1", "waits", "c1", "a2", "b2"),
    "nested": ("c1", "a1", "b1", "a2", "c2"),
    "outcome": ("b1",),
    "as R": ("a1", "b1", "a2", "b2"),
    "as H": ("a1", "b1", "r1", "a2"),
}
# At the end two work at once, and which one has ended is not known: asked of one at a time.
ALONE = [
    (order, action)
    for order, actions in ACTIONS.items()
    for action in actions
    if (order, action) not in (("together", "a1"), ("together", "a2"), ("together", "b2"))
]


class Desk:
    """Where the program is run: a journal, a log and memories."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.journal = folder / "journal.db"
        self.log = folder / "log"
        self.memories = folder / "memories"
        self.memories.mkdir()

    def run(
        self, order: str, kill: str = "-", *, idempotent: bool = True, durable: bool = False
    ) -> Any:
        """What it printed, or None if it was killed."""
        env = {k: v for k, v in os.environ.items() if k != "MEMORIES"}
        env["PYTHONPATH"] = os.pathsep.join([str(TESTS), env.get("PYTHONPATH", "")])
        env["IDEMPOTENT"] = str(int(idempotent))
        if durable:
            env["MEMORIES"] = str(self.memories)
        args = [order, str(self.journal), str(self.log), kill]
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT,
            env=env,
        )
        if done.returncode == -signal.SIGKILL:
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lines(self) -> list[str]:
        """What the actions wrote."""
        return self.log.read_text().splitlines()


def whole(order: str, folder: Path) -> Any:
    """What comes of it unbroken."""
    desk = Desk(folder / "whole")
    found = desk.run(order)
    ends = [line.removeprefix("end ") for line in desk.lines() if line.startswith("end ")]
    assert sorted(ends) == sorted(ACTIONS[order])
    assert found["replay"] == found["reply"]
    assert found["reply"]["stop"][0] in ("done", "terminated")
    return found


def repeated(unbroken: Any, actions: int) -> Any:
    """The same, where so many actions were executed, and paid for, twice."""
    tokens, model_calls, executed = unbroken["spent"]
    return {**unbroken, "spent": [tokens, model_calls, executed + actions]}


@pytest.mark.parametrize("order", ACTIONS)
def test_killed_in_each_action_it_goes_on_as_if_it_had_not_been(order: str, tmp_path: Path) -> None:
    unbroken = whole(order, tmp_path)
    for action in [action for of, action in ALONE if of == order]:
        desk = Desk(tmp_path / action)
        assert desk.run(order, action) is None
        assert desk.run(order) == repeated(unbroken, 1)
        begun = Counter(line for line in desk.lines() if line.startswith(("begin ", "clerk ")))
        assert begun.pop(f"begin {action}") == 2
        assert set(begun.values()) == {1} if begun else len(ACTIONS[order]) == 1


@pytest.mark.parametrize("order", ["round", "hand-over", "nested", "as R", "as H"])
def test_a_durable_memory_holds_nothing_twice(order: str, tmp_path: Path) -> None:
    unbroken = whole(order, tmp_path)
    for action in ACTIONS[order]:
        desk = Desk(tmp_path / action)
        assert desk.run(order, action, durable=True) is None
        assert desk.run(order, durable=True) == repeated(unbroken, 1)


@pytest.mark.parametrize("order", ["chosen", "as R"])
def test_killed_in_one_process_after_the_other(order: str, tmp_path: Path) -> None:
    unbroken = whole(order, tmp_path)
    desk = Desk(tmp_path / "desk")
    for action in ACTIONS[order]:
        assert desk.run(order, action) is None
    assert desk.run(order) == repeated(unbroken, len(ACTIONS[order]))
    begun = Counter(line for line in desk.lines() if line.startswith("begin "))
    assert begun == {f"begin {action}": 2 for action in ACTIONS[order]}


# Between two turns, where nothing is in doubt: no action is executed twice.
BETWEEN = {
    "round": ("at talk 1", "at talk 2", "at talk 4", "over"),
    "clerk": ("at talk 1", "at talk 3"),
    "chosen": ("at talk 1", "at talk 2", "over"),
    "hand-over": ("at talk 1", "at talk 2", "at talk 3", "over"),
    "together": ("next 0", "next 2", "next 3", "next 5", "at talk 2", "at talk 5", "over"),
    "nested": ("at inner 1", "at inner 2", "at inner 3", "at talk 2", "at talk 3", "over"),
    "outcome": ("at talk 2", "over"),
    "as R": ("at R 1", "at R 2", "over"),
    "as H": ("at H 1", "at H 2", "over"),
}


@pytest.mark.parametrize("order", BETWEEN)
def test_killed_between_two_turns_it_does_nothing_twice(order: str, tmp_path: Path) -> None:
    unbroken = whole(order, tmp_path)
    for point in BETWEEN[order]:
        desk = Desk(tmp_path / point)
        assert desk.run(order, point, idempotent=False) is None
        assert desk.run(order, idempotent=False) == unbroken
        begun = Counter(line for line in desk.lines() if line.startswith(("begin ", "clerk ")))
        assert set(begun.values()) == {1}


@pytest.mark.parametrize("order", ACTIONS)
def test_cancelled_it_goes_on_in_the_same_process(order: str, tmp_path: Path) -> None:
    unbroken = whole(order, tmp_path)
    for action in [action for of, action in ALONE if of == order]:
        desk = Desk(tmp_path / action)
        found = desk.run(order, f"cancel:{action}")
        assert found["reply"]["stop"] == unbroken["reply"]["stop"]
        assert found["transcripts"] == unbroken["transcripts"]
        assert desk.run(order)["transcripts"] == unbroken["transcripts"]
