"""Budgets agree with accounts on paper, whatever is done with them, in memory and in a journal."""

from __future__ import annotations

import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from moothall import Budget, BudgetExceeded, Journal
from moothall.budget.period import Per

KINDS = ("tokens", "usd", "model_calls", "actions")
DAY_S = 86_400.0
counts = st.integers(0, 20)
money = st.decimals(0, 2, places=12) | st.integers(0, 2) | st.sampled_from((0.1, 0.25, 1e-12))
limits = st.fixed_dictionaries(
    {kind: st.none() | (money if kind == "usd" else st.integers(0, 40)) for kind in KINDS}
)
amounts = st.fixed_dictionaries({kind: money if kind == "usd" else counts for kind in KINDS})
periods = st.sampled_from((None, "day"))

Sums: TypeAlias = dict[str, Fraction]


def fraction(value: Any) -> Fraction | None:
    return None if value is None else Fraction(str(value))


def zeros() -> Sums:
    return dict.fromkeys(KINDS, Fraction(0))


class SetClock:
    """Time that stands still until the machine moves it."""

    time = 20_000 * DAY_S

    def now(self) -> float:
        return self.time


class Paper:
    """An account as one would keep it on paper."""

    def __init__(self, limits: dict[str, Any], per: Per | None) -> None:
        self.stated = {kind: fraction(limits[kind]) for kind in KINDS}
        self.as_stated, self.per = limits, per
        self.version = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Count nothing, as a new period does, or a budget of that name once it is deleted."""
        self.version += 1
        self.limits = dict(self.stated)
        self.spent, self.held, self.over = zeros(), zeros(), zeros()
        self.is_closed = self.is_stored = False

    def renew(self) -> None:
        limits, is_stored = self.limits, self.is_stored
        self.begin_anew()
        self.limits, self.is_stored = limits, is_stored

    def fits(self, asked: Sums) -> bool:
        return not self.is_closed and all(
            limit is None
            or not asked[kind]
            or self.spent[kind] + self.held[kind] + asked[kind] <= limit
            for kind, limit in self.limits.items()
        )

    def settle(self, asked: Sums, spent: Sums) -> None:
        for kind in KINDS:
            self.held[kind] -= asked[kind]
            self.spent[kind] += spent[kind]
            more = max(spent[kind] - asked[kind], Fraction(0))
            self.over[kind] += more
            self.is_closed |= bool(more) and self.limits[kind] is not None


class Pair:
    """A budget, and its account on paper with those of its parents, its own first."""

    def __init__(self, budget: Budget, papers: list[Paper]) -> None:
        self.budget, self.papers = budget, papers


class Hold:
    """A reservation, and on paper what it took of which accounts."""

    def __init__(self, reservation: Any, papers: list[Paper], asked: Sums) -> None:
        self.reservation, self.asked = reservation, asked
        self.papers = [(paper, paper.version) for paper in papers]

    def end(self, spent: Sums) -> None:
        for paper, version in self.papers:
            if paper.version == version:  # else the account has begun anew
                paper.settle(self.asked, spent)


class BudgetMachine(RuleBasedStateMachine):
    """Budgets of one process."""

    budgets = Bundle("budgets")
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        self.pairs: list[Pair] = []

    def open(self, limits: dict[str, Any], per: Per | None, of: Budget | None) -> Budget:
        """Return a budget, or a part of one."""
        if of is not None:
            return of.child(per=per, **limits)
        return Budget(clock=self.clock, per=per, **limits)

    def added(self, budget: Budget, papers: list[Paper]) -> Pair:
        self.pairs.append(pair := Pair(budget, papers))
        return pair

    @rule(target=budgets, limits=limits, per=periods)
    def make(self, limits: dict[str, Any], per: Per | None) -> Pair:
        return self.added(self.open(limits, per, None), [Paper(limits, per)])

    @rule(target=budgets, of=budgets, limits=limits, per=periods)
    def part(self, of: Pair, limits: dict[str, Any], per: Per | None) -> Pair:
        budget = self.open(limits, per, of.budget)
        return self.added(budget, [Paper(limits, per), *of.papers])

    @rule(target=holds, of=budgets, amounts=amounts)
    def reserve(self, of: Pair, amounts: dict[str, Any]) -> Hold | None:
        asked = {kind: fraction(amounts[kind]) or Fraction(0) for kind in KINDS}
        fits = all(paper.fits(asked) for paper in of.papers)
        try:
            reservation = of.budget.reserve(**amounts)
        except BudgetExceeded:
            assert not fits
            return None
        assert fits
        for paper in of.papers:
            paper.is_stored = True
            for kind in KINDS:
                paper.held[kind] += asked[kind]
        return Hold(reservation, of.papers, asked)

    @rule(of=holds, tokens=st.none() | st.integers(0, 25), usd=st.none() | money)
    def settle(self, of: Hold | None, tokens: int | None, usd: Any) -> None:
        if of is None or not of.reservation.open:
            return
        of.reservation.settle(tokens=tokens, usd=usd)
        spent = of.asked | ({} if tokens is None else {"tokens": Fraction(tokens)})
        of.end(spent | ({} if usd is None else {"usd": Fraction(str(usd))}))

    @rule(of=holds)
    def release(self, of: Hold | None) -> None:
        if of is None or not of.reservation.open:
            return
        of.reservation.release()
        of.end(zeros())

    @rule(days=st.sampled_from((0.3, 1, 40)))
    def wait(self, days: float) -> None:
        before = self.clock.time // DAY_S
        self.clock.time += days * DAY_S
        if self.clock.time // DAY_S > before:
            for paper in {paper for pair in self.pairs for paper in pair.papers if paper.per}:
                paper.renew()

    @invariant()
    def agrees(self) -> None:
        for pair in self.pairs:
            budget, paper = pair.budget, pair.papers[0]
            for shown, kept in (
                (budget.spent, paper.spent),
                (budget.reserved, paper.held),
                (budget.over, paper.over),
            ):
                assert {kind: getattr(shown, kind) for kind in KINDS} == {
                    kind: float(kept[kind]) if kind == "usd" else kept[kind] for kind in KINDS
                }
            for kind in KINDS:
                rests = [
                    max(limit - each.spent[kind] - each.held[kind], Fraction(0))
                    for each in pair.papers
                    if (limit := each.limits[kind]) is not None
                ]
                assert getattr(budget.left, kind) == (float(min(rests)) if rests else None)


class SavedBudgetMachine(BudgetMachine):
    """Budgets of one process that are saved and loaded."""

    @rule(of=BudgetMachine.budgets)
    def reload(self, of: Pair) -> None:
        if not any(of.papers[0].held.values()):
            of.budget.load_state_dict(json.loads(json.dumps(of.budget.state_dict())))


class SharedBudgetMachine(BudgetMachine):
    """Budgets of a journal, by several of its users, and a person who changes them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "runs.db"
        self.journals = [Journal(path) for _ in range(2)]

    def teardown(self) -> None:
        for journal in self.journals:
            journal.close()
        self.folder.cleanup()

    def open(self, limits: dict[str, Any], per: Per | None, of: Budget | None) -> Budget:
        name = str(len(self.pairs))
        if of is not None:
            return of.child(name=name, per=per, **limits)
        return Budget(name=name, journal=self.journals[0], clock=self.clock, per=per, **limits)

    @rule(target=BudgetMachine.budgets, of=BudgetMachine.budgets)
    def share(self, of: Pair) -> Pair:
        paper = of.papers[0]
        if len(of.papers) > 1:
            return of
        limits: Any = paper.as_stated
        other = Budget(
            name=of.budget.name, journal=self.journals[1], clock=self.clock, per=paper.per, **limits
        )
        return self.added(other, of.papers)

    @rule(of=BudgetMachine.budgets, tokens=st.none() | st.integers(0, 60))
    def limit(self, of: Pair, tokens: int | None) -> None:
        if len(of.papers) > 1 or not of.papers[0].is_stored:
            return
        self.journals[1].budgets.limit(str(of.budget.name), tokens=tokens)
        paper = of.papers[0]
        paper.limits["tokens"] = paper.stated["tokens"] if tokens is None else Fraction(tokens)

    @rule(of=BudgetMachine.budgets)
    def reset(self, of: Pair) -> None:
        if len(of.papers) > 1 or not of.papers[0].is_stored:
            return
        self.journals[1].budgets.reset(str(of.budget.name))
        paper = of.papers[0]
        paper.spent, paper.over, paper.is_closed = zeros(), zeros(), False

    @rule(of=BudgetMachine.budgets)
    def delete(self, of: Pair) -> None:
        if len(of.papers) > 1 or not of.papers[0].is_stored:
            return
        self.journals[1].budgets.delete(str(of.budget.name))
        of.papers[0].begin_anew()


TestSavedBudgets = SavedBudgetMachine.TestCase
TestSavedBudgets.settings = settings(max_examples=40, stateful_step_count=30)
TestSharedBudgets = SharedBudgetMachine.TestCase
TestSharedBudgets.settings = settings(max_examples=15, stateful_step_count=30)
