"""Runs are cancelled, paused and told something by another process, at any moment."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from journal.hand_program import STEPS
from moothall import Journal, RunHeld, StateError
from moothall.journal import Outline, RunView

TESTS = Path(__file__).resolve().parent.parent
WITHIN_S = 60.0
"""A second for each run, on a machine that does much else."""


@contextmanager
def working(path: Path, effects: Path, run_ids: list[str]) -> Iterator[Command]:
    """A process that works on runs, once it does."""
    pipe: Any = {"stdout": subprocess.PIPE, "text": True}
    args = (path, effects, *run_ids)
    with Command(*args, module="journal.hand_program", cwd=TESTS, **pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
            yield process
        finally:
            process.kill()


@dataclass
class Asked:
    """What is asked of a run, and when; how many effects it had when it had done so."""

    run_id: str
    verb: str
    at: float
    asked: bool = False
    was_late: bool = False  # the run had ended before it was taken up
    effect_count: int | None = None  # at the acknowledgement


class Hand:
    """An operator, in another process than the runs."""

    def __init__(self, path: Path, effects: Path) -> None:
        self.journal = Journal(path)
        self.effects = effects

    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def runs_of(self, run_id: str) -> list[Outline]:
        """The run and that of its helper."""
        runs = [each for each in self.journal.runs(agent="helper") if self.asker_of(each) == run_id]
        return [self.journal.run(run_id), *runs]

    def asker_of(self, run: Outline) -> Any:
        return RunView(self.journal, run).begun_with("asked_for")

    def count_effects(self, run_id: str) -> int:
        ids = {each.id for each in self.runs_of(run_id)}
        return sum(line.split()[0] in ids for line in self.lines())

    def ask(self, asked: Asked) -> None:
        try:
            if asked.verb == "tell":
                self.journal.tell(asked.run_id, "stop after this", by="eva")
            else:
                getattr(self.journal, asked.verb)(asked.run_id, by="eva")
        except StateError:
            asked.was_late = self.journal.run(asked.run_id).state == "done"
            assert asked.was_late
        asked.asked = True

    def decide(self) -> None:
        """Say of each call in doubt whether it took effect."""
        lines = self.lines()
        for wait in self.journal.waiting(kind="doubt"):
            took_effect = f"{wait.run} {wait.args['n']}" in lines
            decision: Any = {"done": f"booked {wait.args['n']}"} if took_effect else "repeat"
            with suppress(StateError, RunHeld):
                self.journal.answer(wait.run, wait.key, decision, by="eva")

    def has_done_so(self, asked: Asked) -> bool:
        """Whether a run is in the state that was asked for, and with it that of its helper."""
        run, *others = self.runs_of(asked.run_id)
        if run.held or asked.was_late:
            return asked.was_late
        if run.state == "done":  # perhaps within the second in which it is taken up
            asked.was_late = asked.verb != "tell"
            return True
        if asked.verb == "tell":
            return False
        states = {"cancel": ("cancelled",), "pause": ("waiting",)}[asked.verb]
        is_over = all(not each.held and each.state in (*states, "done") for each in others)
        if asked.verb == "pause" and not self.journal.waiting(run.id, kind="paused"):
            return False
        return run.state in states and is_over


async def take_part(
    path: Path, effects: Path, run_ids: list[str], draw: random.Random, kills: bool
) -> list[Asked]:
    """Have a process work on runs, and ask something of each at a random moment."""
    hand, began = Hand(path, effects), time.monotonic()
    verbs = [("cancel", "pause", "tell")[n % 3] for n in range(len(run_ids))]
    asked = [Asked(*each, draw.uniform(0.1, 1.5)) for each in zip(run_ids, verbs, strict=True)]
    kill_at = draw.uniform(0.3, 2.0) if kills else float("inf")
    with working(path, effects, run_ids) as process:
        while time.monotonic() < began + WITHIN_S:
            now = time.monotonic() - began
            for each in asked:
                if not each.asked and now >= each.at:
                    hand.ask(each)
            if now >= kill_at:
                process.kill()
                process.wait()
                break
            hand.decide()
            note_done(hand, asked)
            if all(each.effect_count is not None for each in asked):
                return asked
            await asyncio.sleep(0.02)
    with working(path, effects, []):
        while time.monotonic() < began + 2 * WITHIN_S:
            now = time.monotonic() - began
            for each in asked:
                if not each.asked and now >= each.at:
                    hand.ask(each)
            hand.decide()
            note_done(hand, asked)
            if all(each.effect_count is not None for each in asked):
                break
            await asyncio.sleep(0.02)
    return asked


def note_done(hand: Hand, asked: list[Asked]) -> None:
    for each in asked:
        if each.asked and each.effect_count is None and hand.has_done_so(each):
            each.effect_count = hand.count_effects(each.run_id)


async def measure(tmp_path: Path, groups: int, killed: int, of_group: int, seed: int) -> str:
    draw, everything = random.Random(seed), list[Asked]()
    path, effects = tmp_path / "j.db", tmp_path / "effects"
    hand = Hand(path, effects)
    for group in range(groups):
        run_ids = [f"{group}-{n}" for n in range(of_group)]
        everything += await take_part(path, effects, run_ids, draw, group < killed)
    not_done = [each for each in everything if each.effect_count is None]
    assert not_done == [], [(each, hand.runs_of(each.run_id)) for each in not_done]
    stopped = [each for each in everything if each.verb != "tell"]
    for each in stopped:
        assert each.effect_count == hand.count_effects(each.run_id), each
    for each in everything:
        if each.verb == "tell" and not each.was_late:
            assert hand.journal.replay(each.run_id).text == "done all 1"
        if each.verb == "pause" and not each.was_late:
            hand.journal.go_on(each.run_id, by="eva")
    paused = [each.run_id for each in everything if each.verb == "pause"]
    assert sum(each.was_late for each in everything) <= len(everything) / 10
    with working(path, effects, []):
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            hand.decide()
            if all(hand.journal.run(each).state == "done" for each in paused):
                break
            await asyncio.sleep(0.1)
    for run_id in paused:
        assert hand.journal.run(run_id).state == "done"
        assert hand.count_effects(run_id) == STEPS
    twice = [line for line, count in Counter(hand.lines()).items() if count > 1]
    assert twice == []
    assert hand.journal.check() == []
    late = sum(each.was_late for each in everything)
    verbs = Counter(each.verb for each in everything)
    return f"{dict(verbs)}, {late} had ended before, {len(hand.lines())} effects, none twice"


async def test_run_asked_at_a_random_moment_does_so_and_no_effect_comes_after_or_twice(
    tmp_path: Path,
) -> None:
    await measure(tmp_path, groups=2, killed=1, of_group=6, seed=7)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_run_among_two_hundred_asked_at_random_does_so_and_acts_neither_after_nor_twice(
    tmp_path: Path,
) -> None:
    print(await measure(tmp_path, groups=10, killed=3, of_group=20, seed=1))
