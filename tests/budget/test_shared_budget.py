"""Budgets that processes share, over a journal."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import commands
from commands import Command
from moothall import Budget, BudgetExceeded, DeadlineExceeded, Journal, JournalError
from moothall.foundation.errors import DefinitionError

SPENDER = """
import random, sys
from moothall import Budget, BudgetExceeded, Journal

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


def spender(path: Path, seed: int, kept: str = "") -> Command:
    return Command(
        *(path, seed, kept),
        code=SPENDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_shared_budget_bounds_several_processes_together(path: Path, journal: Journal) -> None:
    processes = [spender(path, seed) for seed in range(4)]
    spent = sum(int(process.communicate()[0]) for process in processes)
    budget = Budget(tokens=20_000, actions=300, journal=journal, name="team")
    assert budget.spent.actions == 300
    assert budget.spent.tokens == spent
    assert budget.left.actions == 0
    with pytest.raises(BudgetExceeded, match=r"0 of 300 are left.*by `moothall budgets limit`"):
        budget.reserve(actions=1)


def test_shared_budget_keeps_reservations_of_a_killed_process(path: Path, journal: Journal) -> None:
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


@pytest.mark.parametrize("seconds", (None, 3600))
async def test_shared_budget_call_in_turn_begins_once_a_person_raises_the_limit(
    path: Path, journal: Journal, seconds: int | None
) -> None:
    budget = Budget(actions=1, seconds=seconds, journal=journal, name="team")
    with budget.reserve(actions=1):
        waiting = asyncio.get_running_loop().create_task(
            budget.in_turn(lambda: budget.reserve(actions=1)), context=contextvars.Context()
        )
        await asyncio.sleep(0)
        assert not waiting.done()
        with Journal(path) as other:
            other.budgets.limit("team", actions=2)
        (await asyncio.wait_for(waiting, 30)).settle()
    assert budget.spent.actions == 2


def test_shared_budget_does_not_grow_with_each_process_that_dies(
    path: Path, journal: Journal
) -> None:
    sizes = []
    for _ in range(250):
        with Journal(path) as dying:
            Budget(actions=300, journal=dying, name="team").reserve(actions=1)
        with closing(sqlite3.connect(path)) as db:
            sizes.append(len(db.execute("SELECT account FROM budgets").fetchone()[0]))
    assert max(sizes) < 2 * sizes[50]
    (stored,) = journal.budgets.list()
    assert (stored.reserved.actions, stored.of_dead.actions) == (250, 250)
    assert journal.budgets.release("team").reserved.actions == 0


def test_shared_budget_bounds_threads_with_two_journals(path: Path, journal: Journal) -> None:
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


def test_shared_budget_objects_may_have_different_limits(journal: Journal) -> None:
    strict = Budget(actions=1, journal=journal, name="a")
    generous = Budget(actions=3, journal=journal, name="a")
    generous.reserve(actions=1).settle()
    with pytest.raises(BudgetExceeded):
        strict.reserve(actions=1)
    generous.reserve(actions=2).settle()


def test_shared_budget_children_draw_from_the_total(path: Path, journal: Journal) -> None:
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


def test_shared_budget_overrun_closes_every_object(journal: Journal) -> None:
    mine = Budget(tokens=100, journal=journal, name="a")
    yours = Budget(tokens=100, journal=journal, name="a")
    mine.reserve(tokens=10).settle(tokens=13)
    assert yours.over.tokens == 3
    with pytest.raises(BudgetExceeded, match="3 tokens more were spent than had been reserved"):
        yours.reserve(tokens=1)


def test_shared_budget_reserve_rest_is_granted_once(journal: Journal) -> None:
    mine = Budget(tokens=100, journal=journal, name="a")
    yours = Budget(tokens=100, journal=journal, name="a")
    held = mine.reserve_rest()
    assert held.tokens == 100
    with pytest.raises(BudgetExceeded):
        yours.reserve_rest()
    held.settle(tokens=40)
    assert yours.left.tokens == 60


# -- children with a name --------------------------------------------------------------------------


def test_shared_budget_named_child_keeps_spending_after_restart(path: Path) -> None:
    with Journal(path) as before:
        whole = Budget(tokens=100, journal=before, name="whole")
        whole.child(tokens=30, name="ada").reserve(tokens=20).settle()
        whole.child(tokens=30).reserve(tokens=5).settle()
    with Journal(path) as after:
        whole = Budget(tokens=100, journal=after, name="whole")
        ada = whole.child(tokens=30, name="ada")
        assert (ada.spent.tokens, ada.left.tokens, whole.spent.tokens) == (20, 10, 25)
        with pytest.raises(BudgetExceeded, match=r"budget 'ada': 11 tokens .* 10 of 30 are left"):
            ada.reserve(tokens=11)
        assert whole.child(tokens=30, name="bo").left.tokens == 30
        assert whole.child(tokens=30).left.tokens == 30


def test_shared_budget_named_child_is_one_per_name_and_parent(path: Path, journal: Journal) -> None:
    a, b = (Budget(journal=journal, name=name) for name in "ab")
    first, second = a.child(actions=3, name="ada"), a.child(actions=2, name="ada")
    below = first.child(actions=9, name="ada")
    for budget in (first, second, below):
        budget.reserve(actions=1).settle()
    assert (first.left.actions, second.left.actions) == (0, 0)
    assert (below.spent.actions, a.spent.actions) == (1, 3)
    assert b.child(actions=3, name="ada").left.actions == 3
    assert below.is_part_of(second)
    assert not below.is_part_of(b.child(name="ada"))
    with Journal(path) as other:
        again = Budget(journal=other, name="a").child(name="ada").child(name="ada")
        assert again.spent.actions == 1


def test_child_of_a_shared_budget_is_shared_only_by_a_name(path: Path, journal: Journal) -> None:
    """What an unnamed one is, nobody could find again; its children are this process's too."""
    for _ in range(2):
        whole = Budget(journal=journal, name="whole")
        child = whole.child().child(actions=1, name="ada")
        child.reserve(actions=1).settle()
    assert Budget(actions=5, journal=journal, name="whole").left.actions == 3


USER = """
import sys
from moothall import Budget, BudgetExceeded, Journal

ada = Budget(journal=Journal(sys.argv[1]), name="whole").child(actions=200, name="ada")
spent = 0
try:
    while True:
        ada.reserve(actions=1).settle()
        spent += 1
except BudgetExceeded:
    print(spent)
"""


def test_processes_share_a_named_child(path: Path, journal: Journal) -> None:
    pipe = subprocess.PIPE
    processes = [Command(path, code=USER, stdout=pipe, text=True) for _ in range(3)]
    assert sum(int(process.communicate()[0]) for process in processes) == 200
    whole = Budget(journal=journal, name="whole")
    assert whole.spent.actions == whole.child(name="ada").spent.actions == 200


DIES = """
import os, signal, sys
from moothall import Budget, Journal

ada = Budget(tokens=100, journal=Journal(sys.argv[1]), name="whole").child(tokens=50, name="ada")
held = ada.reserve(tokens=40)
if sys.argv[2] == "settled":
    held.settle(tokens=4)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("when", "spent"), (("reserved", 40), ("settled", 4)))
def test_shared_budget_child_reservation_of_a_killed_process_counts_until_it_is_released(
    path: Path, journal: Journal, when: str, spent: int
) -> None:
    killed = commands.run(path, when, code=DIES)
    assert killed.returncode == -signal.SIGKILL
    whole = Budget(tokens=100, journal=journal, name="whole")
    ada = whole.child(tokens=50, name="ada")
    assert (ada.left.tokens, whole.left.tokens) == (50 - spent, 100 - spent)
    settled = 4 if when == "settled" else 0
    freed = Budget(tokens=100, journal=journal, name="whole", release_dead=True)
    assert freed.left.tokens == 100 - settled
    assert freed.child(tokens=50, name="ada").left.tokens == 50 - settled


def test_shared_budget_named_child_waits_for_reservations_of_its_other_object(
    journal: Journal,
) -> None:
    whole = Budget(journal=journal, name="whole")

    async def use() -> None:
        held = whole.child(actions=1, name="ada").reserve(actions=1)
        again = whole.child(actions=1, name="ada")
        waiting = contextvars.Context().run(
            asyncio.create_task, again.in_turn(lambda: again.reserve(actions=1))
        )
        await asyncio.sleep(0)
        assert not waiting.done()
        held.release()
        (await waiting).settle()
        assert again.left.actions == 0

    asyncio.run(use())


def test_shared_budget_child_unwritable_journal_reserves_nothing(journal: Journal) -> None:
    disk = FullDisk(journal)
    ada = Budget(actions=3, journal=disk, name="whole").child(actions=2, name="ada")
    disk.full = True
    with pytest.raises(JournalError, match="the disk is full"):
        ada.reserve(actions=1)
    disk.full = False
    assert (ada.left.actions, ada.reserved.actions) == (2, 0)


def test_state_of_a_named_child_is_not_taken_from_elsewhere(journal: Journal) -> None:
    ada = Budget(journal=journal, name="whole").child(actions=3, name="ada")
    with pytest.raises(DefinitionError, match=r"'ada' is shared, so .* and it takes no state"):
        ada.load_state_dict(Budget(actions=3).state_dict())


# -- periods ---------------------------------------------------------------------------------------

DAY = 86_400
NOON = 1_782_993_600.0  # 2026-07-02 12:00 UTC


def test_restart_after_midnight_finds_the_limit_renewed(path: Path) -> None:
    clock = SetClock(NOON)

    def ada(journal: Journal) -> Budget:
        whole = Budget(tokens=100, journal=journal, name="whole", clock=clock)
        return whole.child(tokens=30, name="ada", per="day")

    with Journal(path) as journal:
        ada(journal).reserve(tokens=20).settle()
    with Journal(path) as journal:
        assert ada(journal).left.tokens == 10
        held = ada(journal).reserve(tokens=10)
        with pytest.raises(BudgetExceeded, match="renewed on 2026-07-03 at 00:00 UTC"):
            ada(journal).reserve(tokens=1)
    del held  # as if killed: what it had reserved is gone with its day
    clock.time += DAY
    with Journal(path) as journal:
        child = ada(journal)
        assert (child.left.tokens, child.spent.tokens) == (30, 0)
        assert Budget(journal=journal, name="whole").spent.tokens == 20
        child.reserve(tokens=30).settle()
        assert (ada(journal).left.tokens, child.left.tokens) == (0, 0)


def test_shared_budget_child_per_day_settles_in_the_day_of_reservation(journal: Journal) -> None:
    clock = SetClock(NOON)
    whole = Budget(tokens=100, journal=journal, name="whole", clock=clock)
    ada = whole.child(tokens=30, name="ada", per="day")
    held, other = ada.reserve(tokens=20), ada.reserve(tokens=10)
    clock.time += DAY
    assert ada.left.tokens == 30
    today = ada.reserve(tokens=25)
    held.settle(tokens=35)  # more than was reserved: that closed yesterday's
    other.release()
    assert (ada.reserved.tokens, ada.spent.tokens, ada.over.tokens) == (25, 0, 0)
    today.settle(tokens=5)
    assert (ada.left.tokens, whole.spent.tokens) == (25, 40)


def test_shared_budget_object_without_period_keeps_the_period(journal: Journal) -> None:
    clock = SetClock(NOON)

    def team(**more: Any) -> Budget:
        return Budget(actions=5, journal=journal, name="team", clock=clock, **more)

    team().reserve(actions=1).settle()
    daily, plain = team(per="day"), team()
    daily.reserve(actions=1).settle()
    assert (daily.left.actions, plain.left.actions) == (3, 3)  # what was spent before counts
    clock.time += DAY
    held = plain.reserve(actions=1)
    assert daily.left.actions == 5
    daily.reserve(actions=1).settle()
    held.settle()
    assert (daily.left.actions, plain.left.actions) == (4, 4)


def test_full_shared_budget_of_a_clock_years_ahead_is_open_on_the_next_day(
    journal: Journal,
) -> None:
    clock = SetClock(NOON + 3650 * DAY)
    team = Budget(actions=2, journal=journal, name="team", clock=clock, per="day")
    team.reserve(actions=2).settle()
    clock.time = NOON
    with pytest.raises(BudgetExceeded):
        team.reserve(actions=1)
    clock.time += DAY
    assert team.left.actions == 2


def test_shared_budget_of_hosts_in_two_days_is_renewed_once(journal: Journal) -> None:
    late, early = SetClock(NOON), SetClock(NOON + DAY)
    at = [
        Budget(actions=5, journal=journal, name="team", clock=clock, per="day")
        for clock in (late, early)
    ]
    for _ in range(5):
        at[0].reserve(actions=1).release()
        at[1].reserve(actions=1).settle()
    for each in at:
        with pytest.raises(BudgetExceeded):
            each.reserve(actions=1)


# -- seconds ---------------------------------------------------------------------------------------


def begun(path: Path, **change: Any) -> dict[str, Any]:
    """When the one budget of a journal began, as it is kept there, after a change."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        state = json.loads(db.execute("SELECT account FROM budgets").fetchone()[0])
        kept = state["begun"]
        for name, value in change.items():
            kept[name] = value(kept[name]) if callable(value) else value
        db.execute("UPDATE budgets SET account = ?", (json.dumps(state),))
    assert isinstance(kept, dict)
    return kept


def ago(seconds: float) -> dict[str, Any]:
    """What makes it so many seconds older."""
    return dict.fromkeys(("at", "since"), lambda value: value - seconds)


class SetClock:
    """Time that stands still until a test moves it."""

    def __init__(self, time: float = 1000.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time


def test_seconds_count_from_the_first_of_all(path: Path, journal: Journal) -> None:
    first = Budget(seconds=60, journal=journal, name="a")
    second = Budget(seconds=60, journal=journal, name="a")
    second.check()
    assert first.spent.seconds == 0
    first.start()
    began = begun(path, **ago(100))
    with pytest.raises(DeadlineExceeded, match="its 60 seconds are over"):
        second.check()
    # They run on, whatever is reserved meanwhile.
    longer = Budget(seconds=1000, journal=journal, name="a")
    for _ in range(3):
        longer.reserve(actions=1).settle()
    kept = begun(path)
    assert (kept["at"], kept["since"]) == (began["at"], began["since"])
    assert 100 <= longer.spent.seconds < 1000
    with pytest.raises(DeadlineExceeded):
        Budget(seconds=60, journal=journal, name="a").reserve(actions=1)


def test_systems_clock_may_be_set(path: Path, journal: Journal) -> None:
    """Processes of one boot tell the time by a clock that nobody sets."""
    Budget(seconds=1000, journal=journal, name="a").start()
    for hours in (1, -1):
        kept = begun(path, **ago(100)) | begun(path, at=lambda at, h=hours: at + h * 3600)
        assert kept["boot"]
        passed = Budget(seconds=1000, journal=journal, name="a").spent.seconds
        assert 100 <= passed < 400


def test_shared_budget_gives_no_seconds_back_after_another_boot(
    path: Path, journal: Journal
) -> None:
    """Nor to another host: what is common there is the system's clock, which may be set."""
    Budget(seconds=1000, journal=journal, name="a").start()
    begun(path, boot="another", **ago(100))
    budget = Budget(seconds=1000, journal=journal, name="a")
    budget.reserve(actions=1).settle()
    begun(path, at=lambda at: at + 3600)
    for each in (budget, Budget(seconds=1000, journal=journal, name="a")):
        each.reserve(actions=1).settle()
        assert 100 <= each.spent.seconds < 400


def test_shared_budget_start_in_the_future_of_another_host_begins_now(
    path: Path, journal: Journal
) -> None:
    Budget(seconds=60, journal=journal, name="a").start()
    begun(path, boot="another", at=lambda at: at + 3600)
    clock = SetClock()
    budget = Budget(seconds=60, journal=journal, name="a", clock=clock)
    assert (budget.spent.seconds, budget.remaining_seconds()) == (0, 60)
    clock.time += 60  # it does not stand still until the system's clock is there
    with pytest.raises(DeadlineExceeded):
        budget.check()


def test_shared_budget_that_is_reset_after_midnight_holds_nothing_of_the_day_before(
    journal: Journal,
) -> None:
    clock = SetClock()
    budget = Budget(tokens=100, per="day", journal=journal, name="team", clock=clock)
    held = budget.reserve(tokens=40)
    clock.time += 86_400
    journal.budgets.reset("team")
    assert (budget.reserved.tokens, budget.left.tokens) == (0, 100)
    held.release()
    assert budget.left.tokens == 100


def test_shared_budget_that_stood_still_has_all_its_seconds_once_reset(journal: Journal) -> None:
    clock = SetClock()
    budget = Budget(seconds=60, journal=journal, name="team", clock=clock)
    budget.start()
    clock.time += 60
    budget.pause()
    journal.budgets.reset("team")
    again = Budget(seconds=60, journal=journal, name="team", clock=clock)
    assert (again.spent.seconds, again.remaining_seconds()) == (0, 60)
    budget.reserve(actions=1).settle()
    assert budget.remaining_seconds() > 59


# -- what cannot be written ------------------------------------------------------------------------


def test_shared_budget_dropped_reservation_stays_reserved(journal: Journal) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    budget.reserve(actions=2)  # and nothing keeps it
    assert budget.reserved.actions == 2
    assert Budget(actions=3, journal=journal, name="a").left.actions == 1


def test_shared_budget_warns_at_four_fifths_once_for_each_limit_and_period(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str, float]] = []

    def made() -> Budget:
        return Budget(
            tokens=10,
            per="day",
            journal=journal,
            name="a",
            on_low=lambda *about: told.append(about),
        )

    first, second = made(), made()  # as of two processes
    first.reserve(tokens=7).settle()
    assert told == []
    second.reserve(tokens=1).settle()
    assert told == [("budget 'a'", "tokens", 0.8)]
    assert "budget 'a': 80 % of its 10 tokens are spent" in caplog.text
    first.reserve(tokens=1).settle()
    made().reserve(tokens=1).settle()
    assert len(told) == 1
    journal.budgets.limit("a", tokens=100)
    made().reserve(tokens=70).settle()
    assert told[1:] == [("budget 'a'", "tokens", 0.8)]
    journal.budgets.reset("a")
    made().reserve(tokens=90).settle()
    assert len(told) == 3


def test_shared_budget_goes_on_after_its_warning_hook_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(budget: str, limit: str, share: float) -> None:
        raise ValueError("nobody hears it")

    budget = Budget(actions=2, name="a", on_low=fails)
    budget.child(name="b").reserve(actions=2).settle()
    assert budget.spent.actions == 2
    assert "on_low= failed" in caplog.text
    with pytest.raises(DefinitionError, match="on_low= must be a function of"):
        Budget(on_low=lambda: None)  # type: ignore[arg-type, misc]


class FullDisk:
    """A journal that does what it is told, and then cannot write it down."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.full = False

    def accounts(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        return self._journal.budgets.accounts(names)

    def change_accounts(self, names: Sequence[str], change: Callable[[Any], Any]) -> None:
        def changed(states: Any) -> Any:
            after = change(states)
            if self.full:
                raise JournalError(self._journal.path, "the disk is full")
            return after

        self._journal.budgets.change_accounts(names, changed)

    def holder(self) -> str:
        return self._journal.budgets.holder()

    def give_back(self, key: str) -> None:
        self._journal.budgets.give_back(key)


def test_shared_budget_unwritable_journal_reserves_nothing(path: Path, journal: Journal) -> None:
    disk = FullDisk(journal)
    budget = Budget(tokens=10, actions=3, journal=disk, name="a")
    child = budget.child(tokens=5, actions=3)
    child.reserve(tokens=1, actions=1).settle()
    disk.full = True
    reserves: tuple[Callable[[], object], ...] = (
        lambda: child.reserve(actions=1),
        lambda: child.reserve_rest(tokens=1, actions=1),
        lambda: budget.reserve(actions=1),
    )
    for reserve in reserves:
        with pytest.raises(JournalError, match="the disk is full"):
            reserve()
        assert (child.left.tokens, child.left.actions) == (4, 2)
        assert (budget.left.tokens, budget.left.actions) == (9, 2)
        assert child.reserved.actions == budget.reserved.actions == 0
    disk.full = False
    child.reserve(tokens=4, actions=2).settle()
    journal.close()
    with pytest.raises(JournalError, match="it was closed"):
        child.reserve(tokens=0)


def test_shared_budget_settle_that_fails_stays_reserved_and_is_logged(
    path: Path, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    held = Budget(tokens=30, journal=journal, name="a").reserve(tokens=20)
    journal.close()
    with caplog.at_level(logging.ERROR, "moothall.budget"):
        held.settle(tokens=1)
    (said,) = caplog.messages
    assert said.startswith(f"budget 'a': what was spent cannot be written: journal {str(path)!r}")
    assert not held.open
    with Journal(path) as again:
        assert Budget(tokens=30, journal=again, name="a").left.tokens == 10


def test_shared_budget_needs_journal_and_name(journal: Journal) -> None:
    with pytest.raises(DefinitionError, match="it needs a name="):
        Budget(actions=1, journal=journal)
    with pytest.raises(DefinitionError, match="journal= must be a Journal, such as Journal"):
        Budget(actions=1, journal="runs.db", name="a")  # type: ignore[arg-type]


def test_shared_budget_refuses_load_state_dict(journal: Journal) -> None:
    budget = Budget(actions=3, journal=journal, name="a")
    with pytest.raises(DefinitionError, match="stands in its journal"):
        budget.load_state_dict(Budget(actions=3).state_dict())


def test_damaged_account_is_named(path: Path, journal: Journal) -> None:
    Budget(actions=3, journal=journal, name="a").reserve(actions=1).settle()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        whole = json.loads(db.execute("SELECT account FROM budgets").fetchone()[0])
        wrong: list[dict[str, Any]] = [
            *({"taken": [1]}, {"spent": [0, 0, 0, "1"]}, {"over": None}),
            *({"fault": 7}, {"begun": {}}, {"begun": "today"}),
            *({"period": 7}, {"period": "today"}),
        ]
        parts = [json.dumps(whole | each) for each in wrong]
        for account in ("[]", "{", "{}", *parts):
            db.execute("UPDATE budgets SET account = ?", (account,))
            with pytest.raises((JournalError, DefinitionError), match="budget 'a'"):
                Budget(actions=3, journal=journal, name="a")


def test_shared_budget_reopened_in_a_forked_child_is_shared(path: Path, journal: Journal) -> None:
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


class Announcing:
    """A journal that says when somebody is about to change an account of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.changing = threading.Event()

    def accounts(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        return self._journal.budgets.accounts(names)

    def change_accounts(self, names: Sequence[str], change: Callable[[Any], Any]) -> None:
        self.changing.set()
        self._journal.budgets.change_accounts(names, change)

    def holder(self) -> str:
        return self._journal.budgets.holder()

    def give_back(self, key: str) -> None:
        self._journal.budgets.give_back(key)


def test_shared_budget_settle_during_a_write_does_not_deadlock(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """The garbage collector may end a generator with an open reservation during a write."""
    books = Announcing(journal)
    budget = Budget(tokens=30, actions=3, journal=books, name="a")
    held = budget.reserve(tokens=20)
    books.changing.clear()
    other = threading.Thread(target=lambda: budget.child().reserve(actions=1).settle(), daemon=True)

    def settles(states: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
        other.start()
        assert books.changing.wait(30)  # and now it waits for the journal
        held.settle(tokens=1)
        return [{}]

    caplog.set_level(logging.ERROR, "moothall.budget")
    writing = threading.Thread(
        target=journal.budgets.change_accounts, args=(["another"], settles), daemon=True
    )
    writing.start()
    for thread in (writing, other):
        thread.join(30)
        assert not thread.is_alive()
    assert "what was spent cannot be written" in caplog.text
    assert not held.open
    assert Budget(tokens=30, actions=3, journal=journal, name="a").left == budget.left
    assert (budget.left.tokens, budget.left.actions) == (10, 2)


def test_shared_budget_check_sees_an_overrun_of_another_object(journal: Journal) -> None:
    mine = Budget(tokens=100, journal=journal, name="a")
    yours = Budget(tokens=100, journal=journal, name="a")
    yours.check()
    mine.reserve(tokens=10).settle(tokens=13)
    with pytest.raises(BudgetExceeded, match="3 tokens more were spent"):
        yours.check()


def test_shared_budget_child_charge_counts_in_children_only(journal: Journal) -> None:
    """The journal already has what the shared budget itself was charged."""
    team = Budget(tokens=100, journal=journal, name="a")
    child = team.child(tokens=50)
    child.child().charge(tokens=40)
    assert (child.spent.tokens, team.spent.tokens) == (40, 0)
    assert child.left.tokens == 10
    team.charge(tokens=10)
    assert team.spent.tokens == 0
