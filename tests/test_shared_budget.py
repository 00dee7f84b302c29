"""Budgets that processes share, over a journal."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from civitas import Budget, BudgetExceeded, DeadlineExceeded, Journal, JournalError
from civitas.errors import DefinitionError

SPENDER = """
import random, sys
from civitas import Budget, BudgetExceeded, Journal

path, seed, kept = sys.argv[1:]
rng = random.Random(int(seed))
budget = Budget(tokens=20_000, actions=300, journal=Journal(path), name="team")
held, spent = [], 0
try:
    while True:
        reservation = budget.reserve(tokens=rng.randint(1, 100), actions=1)
        if kept == "kept":
            held.append(reservation)
            print("held", flush=True)
            if len(held) == 5:
                sys.stdin.read()
        else:
            tokens = rng.randint(0, reservation.tokens)
            reservation.settle(tokens=tokens)
            spent += tokens
except BudgetExceeded:
    print(spent, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal(path) as journal:
        yield journal


def spender(path: Path, seed: int, kept: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SPENDER, str(path), str(seed), kept],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_together_stay_within_it(path: Path, journal: Journal) -> None:
    processes = [spender(path, seed) for seed in range(4)]
    spent = sum(int(process.communicate()[0]) for process in processes)
    budget = Budget(tokens=20_000, actions=300, journal=journal, name="team")
    assert budget.spent.actions == 300
    assert budget.spent.tokens == spent
    assert budget.left.actions == 0
    with pytest.raises(BudgetExceeded, match="0 of 300 are left"):
        budget.reserve(actions=1)


def test_what_a_killed_process_had_reserved_stays_reserved(path: Path, journal: Journal) -> None:
    budget = Budget(actions=7, journal=journal, name="team")
    with spender(path, 1, "kept") as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGKILL)
    assert budget.reserved.actions == 5
    assert budget.left.actions == 2
    budget.reserve(actions=2).settle()
    with pytest.raises(BudgetExceeded):
        budget.reserve(actions=1)


def test_threads_and_two_journals_of_one_process(path: Path, journal: Journal) -> None:
    with Journal(path) as other:
        budgets = [Budget(actions=200, journal=each, name="b") for each in (journal, other)]
        done = []

        def spend(budget: Budget) -> None:
            try:
                while True:
                    budget.reserve(actions=1).settle()
                    done.append(1)
            except BudgetExceeded:
                pass

        threads = [threading.Thread(target=spend, args=(budgets[n % 2],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 200
        assert [budget.spent.actions for budget in budgets] == [200, 200]


def test_budgets_of_other_names_and_other_journals_are_others(
    tmp_path: Path, journal: Journal
) -> None:
    Budget(actions=1, journal=journal, name="a").reserve(actions=1).settle()
    assert Budget(actions=1, journal=journal, name="b").left.actions == 1
    with Journal(tmp_path / "other.db") as other:
        assert Budget(actions=1, journal=other, name="a").left.actions == 1


def test_each_may_state_limits_of_its_own(journal: Journal) -> None:
    strict = Budget(actions=1, journal=journal, name="a")
    generous = Budget(actions=3, journal=journal, name="a")
    generous.reserve(actions=1).settle()
    with pytest.raises(BudgetExceeded):
        strict.reserve(actions=1)
    generous.reserve(actions=2).settle()


def test_children_draw_from_it(path: Path, journal: Journal) -> None:
    child = Budget(actions=10, journal=journal, name="a").child(actions=2)
    child.reserve(actions=2).settle()
    with pytest.raises(BudgetExceeded, match="a part of budget 'a'"):
        child.reserve(actions=1)
    with Journal(path) as other:
        elsewhere = Budget(actions=10, journal=other, name="a")
        assert elsewhere.left.actions == 8
        elsewhere.reserve(actions=8).settle()
    sibling = Budget(actions=10, journal=journal, name="a").child()
    with pytest.raises(BudgetExceeded, match="budget 'a': 1 actions are needed"):
        sibling.reserve(actions=1)
    assert sibling.spent.actions == 0


def test_more_than_was_reserved_closes_it_for_all(journal: Journal) -> None:
    mine = Budget(tokens=100, journal=journal, name="a")
    yours = Budget(tokens=100, journal=journal, name="a")
    mine.reserve(tokens=10).settle(tokens=13)
    assert yours.over.tokens == 3
    with pytest.raises(BudgetExceeded, match="3 tokens more were spent than had been reserved"):
        yours.reserve(tokens=1)


def test_all_that_is_left_is_reserved_once(journal: Journal) -> None:
    mine = Budget(tokens=100, journal=journal, name="a")
    yours = Budget(tokens=100, journal=journal, name="a")
    held = mine.reserve_rest()
    assert held.tokens == 100
    with pytest.raises(BudgetExceeded):
        yours.reserve_rest()
    held.settle(tokens=40)
    assert yours.left.tokens == 60


def test_seconds_count_from_the_first_of_all(journal: Journal) -> None:
    first = Budget(seconds=60, journal=journal, name="a")
    second = Budget(seconds=0, journal=journal, name="a")
    assert first.spent.seconds == 0
    first.start()
    with pytest.raises(DeadlineExceeded, match="its 0 seconds are over"):
        second.check()
    left = Budget(seconds=60, journal=journal, name="a").remaining_seconds()
    assert left is not None
    assert 0 < left < 60


def test_one_that_is_dropped_counts_as_spent(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    with caplog.at_level(logging.WARNING, "civitas.budget"):
        budget.reserve(actions=2)  # and nothing keeps it
        assert budget.spent.actions == 2
    assert "a reservation was dropped" in caplog.text
    assert Budget(actions=3, journal=journal, name="a").spent.actions == 2


def test_what_cannot_be_written_was_not_reserved(path: Path, journal: Journal) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    child = budget.child(actions=3)
    journal.close()
    with pytest.raises(JournalError, match="it was closed"):
        child.reserve(actions=1)
    with Journal(path) as again:
        assert Budget(actions=3, journal=again, name="a").left.actions == 3


def test_what_cannot_be_settled_stays_reserved_and_is_logged(
    path: Path, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    held = Budget(tokens=30, journal=journal, name="a").reserve(tokens=20)
    journal.close()
    with caplog.at_level(logging.ERROR, "civitas.budget"):
        held.settle(tokens=1)
    assert "what was spent cannot be written" in caplog.text
    assert not held.open
    with Journal(path) as again:
        assert Budget(tokens=30, journal=again, name="a").left.tokens == 10


def test_it_needs_a_journal_and_a_name(journal: Journal) -> None:
    with pytest.raises(DefinitionError, match="it needs a name="):
        Budget(actions=1, journal=journal)
    with pytest.raises(DefinitionError, match="journal= is a Journal, not"):
        Budget(actions=1, journal="runs.db", name="a")  # type: ignore[arg-type]


def test_its_state_is_not_taken_from_elsewhere(journal: Journal) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    with pytest.raises(DefinitionError, match="stands in its journal"):
        budget.load_state_dict(Budget(actions=3).state_dict())


@pytest.mark.parametrize("account", ("[]", "{", '{"taken": [1]}', '{"taken": [1, 2, 3, "4"]}'))
def test_a_damaged_account_is_named(path: Path, journal: Journal, account: str) -> None:
    Budget(actions=3, journal=journal, name="a").reserve(actions=1).settle()
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE budgets SET account = ?", (account,))
    db.close()
    with pytest.raises((JournalError, DefinitionError), match="budget 'a'"):
        Budget(actions=3, journal=journal, name="a")


def test_a_forked_child_that_opens_it_again_shares_it(path: Path, journal: Journal) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    budget.reserve(actions=1).settle()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Budget(actions=3, journal=Journal(path), name="a").reserve(actions=1).settle()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert budget.spent.actions == 2


def test_the_collector_may_settle_in_the_midst_of_writing(journal: Journal) -> None:
    """Generators that are dropped in cycles settle wherever the collector happens to run."""
    budget = Budget(tokens=10**9, actions=10**6, journal=journal, name="a")
    left = 3000

    def spends() -> Iterator[None]:
        with budget.reserve(tokens=1, actions=1) as held:
            cycle = [held]
            cycle.append(cycle)  # type: ignore[arg-type]
            yield

    def dropped() -> None:
        generator = spends()
        next(generator)
        frame: list[object] = [generator]
        frame.append(frame)

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        threads = [
            threading.Thread(target=lambda: [dropped() for _ in range(left // 3)]) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert budget.spent.actions == left
    assert Budget(actions=1, journal=journal, name="a").spent.tokens == left
