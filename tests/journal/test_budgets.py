"""Budgets that processes share, as a person sees and changes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import commands
from journal.conftest import Place
from moothall import Budget, BudgetExceeded, DeadlineExceeded, Journal
from moothall.budget import StoredBudget
from moothall.foundation.errors import ConfigError, DefinitionError, JournalError
from standing_clock import StandingClock


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    with Journal(place("j")) as journal:
        yield journal


def only(journal: Journal) -> StoredBudget:
    (budget,) = journal.budgets.list()
    return budget


DIES = """
import os, signal, sys
from moothall import Budget, Journal
budget = Budget(tokens=1000, journal=Journal(sys.argv[1]), name="team")
kept = budget.reserve(tokens=300, model_calls=1)
budget.reserve(tokens=40).settle(tokens=30)
os.kill(os.getpid(), signal.SIGKILL)
"""


def after_death(journal: Journal, tokens: int) -> list[StoredBudget]:
    """Return the budgets once so many tokens are held by the dead, which a server notices late."""
    while (shown := journal.budgets.list())[-1].of_dead.tokens != tokens:
        pass
    return shown


def die(path: str, of: str = "") -> None:
    """Have a process die that has spent and reserved of the budget, or of a part of it."""
    program = DIES.replace('name="team")', f'name="team"){of}')
    commands.run(path, code=program)


def test_budget_is_shown_with_what_is_spent_and_reserved(journal: Journal) -> None:
    team = Budget(tokens=1000, usd=2.5, seconds=60, journal=journal, name="team", per="month")
    anna = team.child(name="anna", tokens=100)
    held = anna.reserve(tokens=60, usd=0.5)
    anna.reserve(tokens=30, actions=1).settle(tokens=20)
    shown = {each.name: each for each in journal.budgets.list()}
    assert list(shown) == ["team", "team/anna"]
    assert (shown["team"].limits.tokens, shown["team"].limits.usd) == (1000, 2.5)
    assert shown["team"].limits.seconds == 60
    assert len(shown["team"].period) == len("2026-11")
    assert shown["team/anna"].limits.tokens == 100
    for each in shown.values():
        assert (each.spent.tokens, each.spent.actions) == (20, 1)
        assert (each.reserved.tokens, each.reserved.usd) == (60, 0.5)
        assert each.of_dead.tokens == 0
    held.settle(tokens=70)
    assert journal.budgets.list()[1].over.tokens == 10


def test_budget_reservations_of_a_killed_process_are_given_back(
    journal: Journal, place: Place
) -> None:
    budget = Budget(tokens=1000, journal=journal, name="team")
    mine = budget.reserve(tokens=100)
    for number in range(1, 3):
        die(place("j"))
        (shown,) = after_death(journal, 300 * number)
        assert shown.spent.tokens == 30 * number
        assert shown.reserved.tokens == 300 * number + 100
        assert (shown.of_dead.tokens, shown.of_dead.model_calls) == (300 * number, number)
    with pytest.raises(BudgetExceeded):
        budget.reserve(tokens=300)
    shown = journal.budgets.release("team")
    assert (shown.reserved.tokens, shown.of_dead.tokens) == (100, 0)
    budget.reserve(tokens=300).settle(tokens=300)
    mine.settle(tokens=90)
    assert (budget.spent.tokens, budget.reserved.tokens) == (60 + 300 + 90, 0)


def test_budget_release_gives_back_what_dead_processes_had_reserved_of_its_parts(
    journal: Journal, place: Place
) -> None:
    team = Budget(tokens=1000, journal=journal, name="team")
    anna, other = team.child(tokens=500, name="anna"), Budget(tokens=9, journal=journal, name="a")
    mine, held = anna.reserve(tokens=100), other.reserve(tokens=9)
    die(place("j"), '.child(tokens=500, name="anna")')
    after_death(journal, 300)
    assert anna.left.tokens == 500 - 100 - 300 - 30
    journal.budgets.release("team")
    assert (team.left.tokens, anna.left.tokens, other.left.tokens) == (870, 370, 0)
    mine.settle()
    held.settle()


def test_budget_that_releases_dead_gives_back_what_killed_processes_had_reserved_when_it_is_made(
    journal: Journal, place: Place
) -> None:
    mine = Budget(tokens=1000, journal=journal, name="team").reserve(tokens=100)
    for number in range(1, 3):
        die(place("j"))
        after_death(journal, 300 * number)
    team = Budget(tokens=1000, journal=journal, name="team", release_dead=True)
    assert (team.spent.tokens, team.reserved.tokens) == (60, 100)
    assert only(journal).of_dead.tokens == 0
    mine.settle()
    assert (team.spent.tokens, team.reserved.tokens) == (160, 0)
    new = Budget(tokens=10, journal=journal, name="another", release_dead=True)
    assert new.child(name="child", tokens=5).left.tokens == 5
    with pytest.raises(DefinitionError, match="release_dead= needs a journal="):
        Budget(tokens=1, release_dead=True)
    with pytest.raises(ConfigError, match="release_dead= must be True or False, got"):
        Budget(journal=journal, name="team", release_dead="no")  # type: ignore[arg-type]


def test_budget_is_reset_while_somebody_holds_some_of_it(journal: Journal, place: Place) -> None:
    budget = Budget(tokens=1000, journal=journal, name="team")
    budget.reserve(tokens=500).settle(tokens=900)
    with pytest.raises(BudgetExceeded):  # closed: more was spent than reserved
        budget.reserve(tokens=1)
    die(place("j"))
    shown = journal.budgets.reset("team")
    assert (shown.spent.tokens, shown.reserved.tokens, shown.over.tokens) == (0, 0, 0)
    mine = budget.reserve(tokens=700)
    assert journal.budgets.reset("team").reserved.tokens == 700
    mine.settle(tokens=600)
    assert (budget.spent.tokens, budget.reserved.tokens) == (600, 0)


def test_limit_that_a_person_sets_holds_in_every_process(journal: Journal, place: Place) -> None:
    with Journal(place("j")) as other:
        budget = Budget(tokens=100, usd=1, journal=other, name="team")
        budget.reserve(tokens=80).settle()
        with pytest.raises(BudgetExceeded):
            budget.reserve(tokens=80)
        shown = journal.budgets.limit("team", tokens=200, seconds=3600, actions=0)
        assert (shown.limits.tokens, shown.limits.usd, shown.limits.actions) == (200, 1, 0)
        assert shown.set == ("actions", "seconds", "tokens")
        budget.reserve(tokens=80).settle()
        assert budget.left.tokens == 40
        with pytest.raises(BudgetExceeded):
            budget.reserve(actions=1)
        shown = journal.budgets.limit("team", tokens=None)
        assert (shown.limits.tokens, shown.set) == (100, ("actions", "seconds"))
        assert budget.left.tokens == 0
    assert Budget(tokens=500, journal=journal, name="team").left.actions == 0


def test_budget_is_deleted(journal: Journal) -> None:
    Budget(tokens=100, journal=journal, name="team").child(name="anna").reserve(tokens=1).settle()
    journal.budgets.delete("team/anna")
    assert only(journal).name == "team"
    for use in (journal.budgets.delete, journal.budgets.reset, journal.budgets.release):
        with pytest.raises(DefinitionError, match="has no budget 'team/anna'; it has 'team'"):
            use("team/anna")
    with pytest.raises(DefinitionError, match="there is no limit 'money'; there are tokens"):
        journal.budgets.limit("team", money=3)
    with pytest.raises(DefinitionError, match="tokens= must be a whole number"):
        journal.budgets.limit("team", tokens=-1)
    assert only(journal).set == ()


def test_budget_that_is_deleted_is_gone_from_every_byte(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        Budget(tokens=100, journal=journal, name="anna-mayer").reserve(tokens=1).settle()
        journal.budgets.delete("anna-mayer")
        for each in tmp_path.iterdir():
            assert b"anna-mayer" not in each.read_bytes(), each


def test_journal_that_is_opened_again_shows_its_budgets(journal: Journal, place: Place) -> None:
    Budget(tokens=100, journal=journal, name="team").reserve(tokens=1).settle()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.budgets.list()
    with Journal(place("j")) as again:
        assert only(again).spent.tokens == 1


def test_deleted_budget_begins_anew_in_a_process_that_uses_it(
    journal: Journal, place: Place
) -> None:
    team = Budget(tokens=100, journal=journal, name="team")
    team.reserve(tokens=60).settle()
    held, given_back = team.reserve(tokens=10), team.reserve(tokens=10)
    journal.budgets.limit("team", tokens=90)
    journal.budgets.delete("team")
    assert (team.left.tokens, team.spent.tokens) == (100, 0)
    with Journal(place("j")) as another:
        Budget(tokens=100, journal=another, name="team").reserve(tokens=1).settle()
    held.settle(tokens=12)  # what was reserved before counts in the budget that is gone
    given_back.release()
    team.reserve(tokens=2).settle()
    assert team.left.tokens == 97
    shown = only(journal)
    assert (shown.spent.tokens, shown.reserved.tokens, shown.over.tokens) == (3, 0, 0)
    assert shown.limits.tokens == 100


def test_budget_that_is_reset_begins_its_seconds_anew_in_a_process_that_uses_it(
    journal: Journal,
) -> None:
    clock = StandingClock()
    team = Budget(seconds=60, journal=journal, name="team", clock=clock)
    team.reserve(actions=1).settle()
    clock.over()
    with pytest.raises(DeadlineExceeded):
        team.reserve(actions=1)
    journal.budgets.reset("team")
    team.reserve(actions=1).settle()
    assert team.spent.seconds < 60


def test_budget_shows_all_that_was_spent_beyond_its_reservations(journal: Journal) -> None:
    budget = Budget(usd=1, journal=journal, name="team")
    for spent in (3, 4):
        budget.reserve(tokens=1).settle(tokens=spent)
    assert only(journal).over.tokens == 2 + 3


def test_budget_release_gives_back_nothing_of_a_period_that_has_passed(journal: Journal) -> None:
    clock = StandingClock()
    budget = Budget(tokens=1000, journal=journal, name="team", per="day", clock=clock)
    held = budget.reserve(tokens=300)
    clock.over()
    budget.reserve(tokens=10).settle()
    shown = journal.budgets.release("team")
    assert (shown.spent.tokens, shown.reserved.tokens) == (10, 0)
    held.settle()
