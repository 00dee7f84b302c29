from __future__ import annotations

import asyncio
import copy
import functools
import gc
import json
import logging
import random
import subprocess
import sys
import threading
import time
from decimal import Decimal
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Budget,
    BudgetExceeded,
    CallbackApprover,
    DeadlineExceeded,
    ReActAgent,
    ScriptedModel,
    Spent,
    action,
)
from moothall.budget import Left
from moothall.budget.period import Per
from moothall.foundation.errors import DefinitionError
from moothall.models import Price, Prices


class SetClock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


# -- reserving and settling ------------------------------------------------------------------------


def test_budget_reserve_holds_amounts_until_settle() -> None:
    budget = Budget(tokens=100, usd=1, model_calls=3, actions=3)
    held = budget.reserve(tokens=60, usd=0.5, model_calls=1)
    assert (held.tokens, held.usd, held.model_calls, held.actions) == (60, 0.5, 1, 0)
    assert held.open
    assert budget.reserved == Spent(60, 0.5, 1, 0)
    assert (budget.left.tokens, budget.left.usd, budget.left.model_calls) == (40, 0.5, 2)
    held.settle(tokens=25, usd=0.125)
    assert not held.open
    assert budget.reserved == Spent()
    spent = budget.spent
    assert (spent.tokens, spent.usd, spent.model_calls, spent.actions) == (25, 0.125, 1, 0)
    assert budget.left == Left(75, 0.875, 2, 3, None)


def test_reservation_settle_without_amount_spends_the_reserved_amount() -> None:
    budget = Budget(tokens=100)
    budget.reserve(tokens=60, usd=0.5, model_calls=1, actions=2).settle()
    budget.reserve(tokens=10).settle(usd=0.25)
    budget.reserve(tokens=20, usd=0.5).settle(tokens=None, usd=0.25)
    spent = budget.spent
    assert (spent.tokens, spent.usd, spent.model_calls, spent.actions) == (90, 1.0, 1, 2)


def test_reservation_release_spends_nothing() -> None:
    budget = Budget(tokens=100, usd=1, model_calls=1, actions=1)
    budget.reserve(tokens=100, usd=1, model_calls=1, actions=1).release()
    assert budget.left == Left(100, 1.0, 1, 1, None)
    assert (budget.spent.tokens, budget.spent.model_calls, budget.spent.actions) == (0, 0, 0)
    budget.reserve(tokens=100, usd=1, model_calls=1, actions=1).release()


def test_leaving_the_block_settles_in_full() -> None:
    budget = Budget(actions=3)
    with budget.reserve(actions=1):
        assert budget.spent.actions == 0
    assert budget.spent.actions == 1
    with pytest.raises(ZeroDivisionError), budget.reserve(actions=1):
        raise ZeroDivisionError
    assert budget.spent.actions == 2
    with budget.reserve(actions=1) as held:
        held.release()
    assert budget.spent.actions == 2
    assert budget.reserved == Spent()


@pytest.mark.parametrize(
    ("limit", "unit"),
    (
        ("tokens", "tokens"),
        ("usd", "US dollars"),
        ("model_calls", "model calls"),
        ("actions", "actions"),
    ),
)
def test_budget_reserve_over_the_limit_raises_and_takes_nothing(limit: str, unit: str) -> None:
    amounts: dict[str, Any] = {limit: 7}
    budget = Budget(name="run 1", **{limit: 10})  # type: ignore[arg-type]
    budget.reserve(**amounts).settle()
    open = budget.reserve(**{limit: 1})
    with pytest.raises(BudgetExceeded) as caught:
        budget.reserve(**{limit: 3})
    assert caught.value.limit == limit
    assert str(caught.value) == (
        f"budget 'run 1': 3 {unit} are needed and 2 of 10 are left (7 spent, 1 reserved)"
    )
    assert getattr(budget.left, limit) == 2
    budget.reserve(**{limit: 2}).settle()
    open.settle()
    assert getattr(budget.left, limit) == 0
    with pytest.raises(BudgetExceeded):
        budget.reserve(**{limit: 1})


def test_budget_reserve_takes_all_amounts_or_none() -> None:
    budget = Budget(tokens=100, model_calls=0)
    with pytest.raises(BudgetExceeded) as caught:
        budget.reserve(tokens=50, model_calls=1)
    assert caught.value.limit == "model_calls"
    assert budget.left.tokens == 100
    assert budget.reserved == Spent()


def test_budget_without_limits_counts_and_refuses_nothing() -> None:
    budget = Budget()
    with budget.reserve(tokens=10**12, usd=10**6, model_calls=10**6, actions=10**6):
        assert budget.left == Left()
    spent = budget.spent
    assert (spent.tokens, spent.usd) == (10**12, 10.0**6)
    budget.check()
    assert budget.deadline is None
    assert budget.remaining_seconds() is None


def test_budget_used_up_limit_refuses_only_its_own_kind() -> None:
    budget = Budget(tokens=5, actions=5)
    budget.reserve(tokens=5).settle()
    budget.check()
    budget.reserve(actions=5).settle()
    with pytest.raises(BudgetExceeded, match="0 of 5 are left"):
        budget.reserve(tokens=1)
    assert budget.left.used_up() == ["tokens", "actions"]
    assert budget.left.used_up(to_ask=True) == ["tokens"]


# -- more than was reserved ------------------------------------------------------------------------


def test_budget_overrun_is_recorded_and_closes_the_budget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = Budget(tokens=1000, name="run 1")
    under_way = budget.reserve(tokens=100)
    budget.reserve(tokens=100).settle(tokens=130)
    assert budget.over == Spent(tokens=30)
    assert budget.spent.tokens == 130
    for start in (lambda: budget.reserve(tokens=1), lambda: budget.reserve(), budget.check):
        with pytest.raises(BudgetExceeded) as caught:
            start()
        assert caught.value.limit == "tokens"
        assert str(caught.value) == (
            "budget 'run 1': 30 tokens more were spent than had been reserved, "
            "so no further calls start"
        )
    under_way.settle(tokens=90)  # what had begun ends as ever
    assert budget.spent.tokens == 220
    assert [record.getMessage() for record in caplog.records] == [
        "budget 'run 1': 130 tokens were spent where 100 had been reserved; no further calls start"
    ]


def test_budget_error_reports_the_first_of_two_overruns() -> None:
    budget = Budget(tokens=1000, usd=1)
    tokens, usd = budget.reserve(tokens=100), budget.reserve(usd=0.1)
    usd.settle(usd=0.2)
    tokens.settle(tokens=130)
    with pytest.raises(BudgetExceeded, match=r"0\.1 US dollars more were spent") as caught:
        budget.check()
    assert caught.value.limit == "usd"


def test_budget_overrun_of_an_unlimited_kind_is_only_recorded() -> None:
    parent = Budget(usd=1)
    child = parent.child(tokens=1000)
    child.reserve(tokens=100).settle(tokens=130)
    assert parent.over == child.over == Spent(tokens=30)
    with pytest.raises(BudgetExceeded):
        child.check()
    parent.check()
    parent.child().reserve(tokens=10).settle(tokens=20)
    parent.child().reserve(usd=0.5).settle(usd=0.75)
    with pytest.raises(BudgetExceeded) as caught:
        parent.child().reserve(actions=1)
    assert caught.value.limit == "usd"


# -- what was spent in another process -------------------------------------------------------------


def test_budget_charge_counts_in_the_budget_and_its_parents() -> None:
    parent = Budget(tokens=100, usd=1)
    child = parent.child(model_calls=3)
    child.charge(tokens=40, usd=0.5, model_calls=2, actions=1)
    for each in (parent, child):
        spent = each.spent
        assert (spent.tokens, spent.usd, spent.model_calls, spent.actions) == (40, 0.5, 2, 1)
    assert child.left == Left(60, 0.5, 1, None, None)
    assert parent.over == Spent()
    child.charge(tokens=60)  # all that is left is not too much
    assert parent.left.tokens == 0


def test_budget_charge_starts_the_seconds(clock: SetClock) -> None:
    budget = Budget(seconds=10, clock=clock)
    budget.charge(tokens=1)
    clock.time += 4
    assert budget.spent.seconds == 4


def test_budget_charge_over_the_limit_is_counted_and_raises(clock: SetClock) -> None:
    budget = Budget(tokens=100, seconds=10, name="run", clock=clock)
    with pytest.raises(BudgetExceeded, match="budget 'run': 130 tokens of 100 are spent") as caught:
        budget.charge(tokens=130, actions=1)
    assert caught.value.limit == "tokens"
    assert (budget.spent.tokens, budget.spent.actions, budget.left.tokens) == (130, 1, 0)
    with pytest.raises(BudgetExceeded, match="1 tokens are needed and 0 of 100 are left"):
        budget.reserve(tokens=1)
    budget.charge(actions=1)
    clock.time += 10
    with pytest.raises(DeadlineExceeded):
        budget.charge(actions=1)
    assert budget.spent.actions == 3


# -- children --------------------------------------------------------------------------------------


def test_child_spends_in_both_and_is_held_to_both() -> None:
    parent = Budget(tokens=100, name="whole")
    child, other = parent.child(tokens=60, name="part"), parent.child(tokens=500)
    child.reserve(tokens=50).settle(tokens=40)
    assert child.spent.tokens == parent.spent.tokens == 40
    assert other.spent.tokens == 0
    with pytest.raises(BudgetExceeded, match="budget 'part': 30 tokens are needed and 20 of 60"):
        child.reserve(tokens=30)
    # A limit above the parent's is allowed; the parent's is reached first.
    assert other.left.tokens == 60
    with pytest.raises(BudgetExceeded, match="budget 'whole': 61 tokens are needed and 60 of 100"):
        other.reserve(tokens=61)
    assert parent.reserved == child.reserved == other.reserved == Spent()
    with other.reserve(tokens=60):
        assert parent.left.tokens == child.left.tokens == 0
    assert parent.spent.tokens == 100


def test_budget_is_part_of_knows_its_parents() -> None:
    parent = Budget()
    child, other = parent.child(), parent.child()
    assert parent.is_part_of(parent)
    assert child.child().is_part_of(parent)
    assert not parent.is_part_of(child)
    assert not child.is_part_of(other)
    assert not Budget().is_part_of(parent)


def test_budget_child_limits_do_not_bind_the_parent() -> None:
    parent = Budget(tokens=100)
    child = parent.child(tokens=0, model_calls=0)
    with pytest.raises(BudgetExceeded, match="a part of the budget: 1 tokens are needed"):
        child.reserve(tokens=1)
    parent.reserve(tokens=100, model_calls=5).settle()


def test_budget_deep_child_is_bound_by_every_parent() -> None:
    line = [Budget(tokens=1000, name="root")]
    for depth in range(1, 50):
        line.append(line[-1].child(tokens=1000 - depth))
    line[-1].reserve(tokens=900).settle()
    assert {each.spent.tokens for each in line} == {900}
    with pytest.raises(BudgetExceeded, match=r"^a part of budget 'root': 52 tokens are needed"):
        line[-1].reserve(tokens=52)
    line[25].reserve(tokens=60).settle()
    assert line[-1].left.tokens == 15
    assert line[-1].spent.tokens == 900


def test_budget_shares_are_the_most_of_its_own_and_its_parents_limits() -> None:
    part = Budget(tokens=100, actions=0).child(tokens=50, model_calls=4)
    part.reserve(tokens=30, model_calls=1).settle()
    assert part.shares() == {"tokens": 0.6, "model_calls": 0.25, "actions": 1.0}
    wide = Budget(tokens=100).child(tokens=1000)
    wide.reserve(tokens=50).settle()
    assert wide.shares() == {"tokens": 0.5}


def test_budget_children_leak_nothing() -> None:
    parent = Budget(tokens=10**9)

    def live() -> int:
        gc.collect()
        return len(gc.get_objects())

    def spend(times: int) -> None:
        for _ in range(times):
            with parent.child(tokens=5).reserve(tokens=5, model_calls=1) as held:
                held.settle(tokens=1)

    spend(10)
    before = live()
    spend(2000)
    assert live() - before < 100
    assert parent.spent.tokens == 2010


# -- time ------------------------------------------------------------------------------------------


def test_budget_pause_stops_the_seconds_of_a_parent_too(clock: SetClock) -> None:
    child = Budget(seconds=30, clock=clock).child(tokens=100)
    child.charge(tokens=1)
    child.pause()
    clock.time += 500
    child.charge(tokens=1)


def test_budget_period_is_its_own_and_not_that_of_its_parent() -> None:
    assert Budget(tokens=100).child(tokens=10, per="day").period_began() > 0
    assert Budget(tokens=100, per="day").child(tokens=10).period_began() == 0


def test_seconds_count_from_the_first_reservation(clock: SetClock) -> None:
    budget = Budget(seconds=30, name="run", clock=clock)
    clock.time += 500
    assert budget.remaining_seconds() == 30
    assert budget.deadline == clock.time + 30
    budget.reserve().release()
    assert budget.deadline == 1530
    clock.time += 20
    assert budget.deadline == 1530
    assert budget.remaining_seconds() == 10
    assert budget.left.seconds == 10
    assert budget.spent.seconds == 20
    budget.check()
    clock.time += 10
    for start in (budget.check, lambda: budget.reserve(), lambda: budget.child().reserve()):
        with pytest.raises(DeadlineExceeded) as caught:
            start()
        assert caught.value.limit == "seconds"
        assert str(caught.value) == "budget 'run': its 30 seconds are over"
    clock.time += 5
    assert budget.remaining_seconds() == 0
    assert budget.deadline == 1530


def test_start_has_the_seconds_begin_once(clock: SetClock) -> None:
    budget = Budget(seconds=30, clock=clock)
    budget.check()
    assert budget.spent.seconds == 0
    budget.start()
    clock.time += 10
    budget.start()
    assert budget.spent.seconds == 10


def test_budget_seconds_stay_spent_when_the_clock_goes_back(clock: SetClock) -> None:
    budget = Budget(seconds=30, clock=clock)
    budget.start()
    clock.time -= 50
    assert budget.spent.seconds == 0
    assert budget.remaining_seconds() == 30


def test_reservation_settles_after_the_deadline(clock: SetClock) -> None:
    budget = Budget(seconds=30, tokens=10, clock=clock)
    held = budget.reserve(tokens=10)
    clock.time += 100
    held.settle(tokens=5)
    assert budget.spent.tokens == 5


def test_earliest_deadline_holds(clock: SetClock) -> None:
    parent = Budget(seconds=100, clock=clock)
    parent.start()
    clock.time += 50
    child, hasty = parent.child(seconds=80), parent.child(seconds=5)
    for each in (child, hasty):
        each.start()
    assert child.remaining_seconds() == 50
    assert child.deadline == parent.deadline == 1100
    assert hasty.deadline == 1055
    assert parent.remaining_seconds() == 50
    clock.time += 5
    with pytest.raises(DeadlineExceeded, match="its 5 seconds"):
        hasty.check()
    child.check()
    clock.time += 45
    with pytest.raises(DeadlineExceeded, match="its 100 seconds"):
        child.check()


def test_budget_default_clock_is_time_monotonic() -> None:
    budget = Budget(seconds=3600)
    before = time.monotonic()
    budget.start()
    assert budget.deadline is not None
    assert before + 3600 <= budget.deadline <= time.monotonic() + 3600
    assert Budget(seconds=0).left.seconds == 0
    with pytest.raises(DeadlineExceeded, match="its 0 seconds"):
        Budget(seconds=0).reserve()


# -- money -----------------------------------------------------------------------------------------


def test_sums_of_money_are_exact() -> None:
    budget = Budget(usd=1.0)
    for _ in range(10):
        budget.reserve(usd=0.1).settle()
    assert budget.spent.usd == 1.0
    assert budget.left.usd == 0.0
    budget = Budget(usd=Decimal("0.3"))
    budget.reserve(usd=0.1).settle()
    budget.reserve(usd=0.2).settle()
    assert budget.spent.usd == 0.3
    with pytest.raises(
        BudgetExceeded, match=r"0\.000000000001 US dollars are needed and 0 of 0\.3"
    ):
        budget.reserve(usd=1e-12)


def test_money_below_a_picodollar_is_rounded_up_and_limits_down() -> None:
    budget = Budget()
    budget.reserve(usd=Decimal("1e-999999")).settle()
    assert budget.spent.usd == 1e-12
    budget.reserve(usd=Decimal("0.0000000000011")).settle()
    assert budget.spent.usd == 3e-12
    budget.reserve(usd=1.1e-12).settle()
    assert budget.spent.usd == 5e-12
    assert Budget(usd=Decimal("0.0000000000019")).left.usd == 1e-12
    assert Budget(usd=5e-324).left.usd == 0.0


# -- everything that is left -----------------------------------------------------------------------


def test_budget_reserve_rest_takes_all_that_is_left() -> None:
    parent = Budget(tokens=100, usd=2, model_calls=5)
    child = parent.child(tokens=80)
    child.reserve(tokens=10, usd=0.5).settle()
    with child.reserve_rest(tokens=20, model_calls=1) as held:
        assert (held.tokens, held.usd, held.model_calls) == (70, 1.5, 1)
        for asked in ({"tokens": 1}, {"usd": 0.01}):
            with pytest.raises(BudgetExceeded):
                child.reserve(**asked)  # type: ignore[arg-type]
        child.reserve(actions=1).settle()
        held.settle(tokens=30, usd=0.25)
    assert child.left.tokens == 40
    assert parent.left.tokens == 60
    assert parent.over == Spent()


def test_budget_reserve_rest_refuses_less_than_the_minimum() -> None:
    budget = Budget(tokens=10)
    with pytest.raises(BudgetExceeded, match="11 tokens are needed and 10 of 10"):
        budget.reserve_rest(tokens=11)
    held = budget.reserve_rest(tokens=10)
    with pytest.raises(BudgetExceeded, match="1 tokens are needed and 0 of 10"):
        budget.reserve_rest()
    held.release()
    assert budget.reserved == Spent()
    held = budget.reserve_rest(tokens=None, model_calls=1)
    assert (held.tokens, held.usd) == (0, 0.0)
    with Budget().reserve_rest(tokens=7, usd=0.5) as held:
        assert (held.tokens, held.usd) == (7, 0.5)


# -- dropped, paused, shown ------------------------------------------------------------------------


def test_reservation_dropped_stays_reserved_and_is_logged_with_the_budget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = Budget(tokens=100, name="run")
    budget.child().reserve(tokens=60, model_calls=1)
    gc.collect()
    with pytest.raises(BudgetExceeded):  # nobody waits for it
        asyncio.run(budget.in_turn(functools.partial(budget.reserve, tokens=50)))
    budget.reserve(tokens=10).settle()
    gc.collect()
    assert budget.reserved.tokens == 60
    with pytest.raises(BudgetExceeded):
        budget.reserve(tokens=50)
    assert not caplog.records
    del budget
    gc.collect()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "budget 'run': 1 reservations were neither settled nor released")
    ]


def test_collector_may_end_reservations_at_any_moment() -> None:
    budget = Budget(tokens=10**9)
    made = 300

    def held() -> Any:
        with budget.reserve(tokens=1):
            yield

    def spend() -> None:
        for _ in range(made):
            generator = held()
            next(generator)
            cycle: list[Any] = [generator]
            cycle.append(cycle)
            del generator, cycle
            budget.reserve(tokens=1).settle()

    before = gc.get_threshold()
    gc.set_threshold(1)  # so that it runs inside reserving and settling, too
    try:
        thread = threading.Thread(target=spend, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert budget.spent.tokens == 2 * made
    assert budget.reserved == Spent()


def test_budget_state_carries_spending_to_another_process(clock: SetClock) -> None:
    budget = Budget(tokens=100, usd=1, model_calls=10, actions=10, seconds=60, clock=clock)
    budget.reserve(tokens=30, usd=0.3, model_calls=1).settle(tokens=20, usd=0.1)
    clock.time += 15
    under_way = budget.reserve(tokens=50, usd=0.25, model_calls=1, actions=1)
    state = json.dumps(budget.state_dict())
    under_way.release()

    program = f"""
import json
from moothall import Budget
budget = Budget(tokens=100, usd=1, model_calls=10, actions=10, seconds=60)
budget.load_state_dict(json.loads({state!r}))
print(json.dumps([budget.left.tokens, budget.left.usd, budget.left.model_calls,
                  budget.left.actions, budget.left.seconds]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [30, 0.65, 8, 9, 45.0]


def test_seconds_stand_still_while_a_run_is_paused(clock: SetClock) -> None:
    first = Budget(seconds=60, clock=clock)
    first.start()
    clock.time += 40
    state = first.state_dict()
    second = Budget(seconds=60, clock=clock)
    second.start()
    clock.time += 7
    second.load_state_dict(state)
    clock.time += 1000
    assert second.remaining_seconds() == 20
    second.start()
    clock.time += 19
    second.check()
    clock.time += 1
    with pytest.raises(DeadlineExceeded):
        second.check()


def test_budget_state_carries_an_overrun_to_another_process() -> None:
    first = Budget(tokens=1000)
    first.reserve(tokens=10).settle(tokens=13)
    second = Budget(tokens=1000)
    second.load_state_dict(first.state_dict())
    assert second.over == Spent(tokens=3)
    with pytest.raises(BudgetExceeded):
        second.check()
    unlimited = Budget()
    unlimited.load_state_dict(first.state_dict())
    unlimited.check()
    assert unlimited.state_dict() | {"seconds": 0} == first.state_dict() | {"seconds": 0}


def test_budget_repr_shows_limits_and_spending() -> None:
    budget = Budget(tokens=100, usd=0.5, name="run 1")
    held = budget.reserve(tokens=40, usd=0.125)
    assert repr(held) == "<Reservation of 40 tokens, 0.125 US dollars>"
    held.settle()
    assert str(budget) == "budget 'run 1'"
    assert repr(budget) == "<Budget 'run 1': 40 of 100 tokens, 0.125 of 0.5 US dollars>"
    assert repr(held) == "<Reservation of 40 tokens, 0.125 US dollars, ended>"
    assert repr(Budget()) == "<Budget '': no limits>"
    assert repr(budget.child(name="half")) == "<Budget 'half': no limits>"


def test_budget_child_inherits_prices() -> None:
    prices = Prices({"openai:x": Price(1, 2)})
    assert Budget(prices=prices).child().child(usd=1).prices is prices


# -- many at once ----------------------------------------------------------------------------------


class Meter:
    """What is really spent or on its way, as one outside sees it."""

    def __init__(self, **limits: int) -> None:
        self.limits = limits
        self.now = dict.fromkeys(limits, 0)
        self.most = dict.fromkeys(limits, 0)
        self.guard = threading.Lock()

    def add(self, **amounts: int) -> None:
        with self.guard:
            for what, amount in amounts.items():
                self.now[what] += amount
                self.most[what] = max(self.most[what], self.now[what])


LIMITS = {"tokens": 40_000, "model_calls": 700, "actions": 500, "cents": 2_000}


def spend(budget: Budget, meter: Meter, seed: int) -> Any:
    """One spender: reserves, spends less or as much, and says so; whether it was let."""
    draw = random.Random(seed)
    tokens, cents = draw.randint(0, 200), draw.randint(0, 9)
    calls, actions = draw.randint(0, 1), draw.randint(0, 1)
    try:
        held = budget.reserve(tokens=tokens, usd=cents / 100, model_calls=calls, actions=actions)
    except BudgetExceeded:
        return False
    meter.add(tokens=tokens, cents=cents, model_calls=calls, actions=actions)
    yield
    end = draw.randint(0, 9)
    # The meter first: what it shows is then at most what the budget has taken.
    if end == 0:
        meter.add(tokens=-tokens, cents=-cents, model_calls=-calls, actions=-actions)
        held.release()
    else:
        used, paid = draw.randint(0, tokens), draw.randint(0, cents)
        meter.add(tokens=used - tokens, cents=paid - cents)
        held.settle(tokens=used, usd=paid / 100)
    return True


def check_never_passed(budget: Budget, meter: Meter, let: int, asked: int) -> None:
    for what, limit in LIMITS.items():
        assert meter.most[what] <= limit, what
    assert 0 < let < asked  # some were let, and some were not
    spent = budget.spent
    assert {
        "tokens": spent.tokens,
        "model_calls": spent.model_calls,
        "actions": spent.actions,
        "cents": round(spent.usd * 100),
    } == meter.now
    assert budget.reserved == Spent()
    assert budget.over == Spent()


def test_thousand_spenders_in_threads_never_pass_a_limit() -> None:
    meter = Meter(**LIMITS)
    parent = Budget(tokens=LIMITS["tokens"], model_calls=LIMITS["model_calls"])
    budget = parent.child(actions=LIMITS["actions"], usd=LIMITS["cents"] / 100)
    asked, threads = 1000, 16
    together = threading.Barrier(threads)
    let = [0] * threads

    def work(number: int) -> None:
        together.wait()
        # Several at once in each thread, so that hundreds are open at any time.
        running = [spend(budget, meter, seed) for seed in range(number, asked, threads)]
        running = [each for each in running if next(each, "refused") != "refused"]
        let[number] = len(running)
        for each in running:
            next(each, None)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads take turns inside reserving and settling, too
    try:
        for each in workers:
            each.start()
        for each in workers:
            each.join(50)
            assert not each.is_alive()
    finally:
        sys.setswitchinterval(interval)
    check_never_passed(budget, meter, sum(let), asked)
    assert parent.spent.tokens == budget.spent.tokens


def test_budget_figures_are_consistent_under_threads() -> None:
    budget = Budget(tokens=10**9).child(model_calls=10**9)
    together, done = threading.Barrier(5), threading.Event()
    torn: list[Spent] = []

    def look() -> None:
        together.wait()
        while not done.is_set():
            torn.extend(
                shown
                for shown in (budget.spent, budget.reserved)
                if shown.tokens != 7 * shown.model_calls or shown.tokens < 0
            )

    def spend() -> None:
        together.wait()
        for _ in range(2000):
            budget.reserve(tokens=7, model_calls=1).settle()

    spenders = [threading.Thread(target=spend) for _ in range(4)]
    watcher = threading.Thread(target=look)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for each in (watcher, *spenders):
            each.start()
        for each in spenders:
            each.join(50)
    finally:
        done.set()
        sys.setswitchinterval(interval)
    watcher.join(50)
    assert not torn
    assert budget.spent.tokens == 7 * 8000


def test_thousand_tasks_never_pass_a_limit() -> None:
    meter = Meter(**LIMITS)
    budget = Budget(
        tokens=LIMITS["tokens"],
        model_calls=LIMITS["model_calls"],
        actions=LIMITS["actions"],
        usd=LIMITS["cents"] / 100,
    )

    async def one(seed: int) -> bool:
        running = spend(budget, meter, seed)
        if next(running, "refused") == "refused":
            return False
        for _ in range(seed % 7):
            await asyncio.sleep(0)
        next(running, None)
        return True

    async def everyone() -> list[bool]:
        return list(await asyncio.gather(*(one(seed) for seed in range(1000))))

    check_never_passed(budget, meter, sum(asyncio.run(everyone())), 1000)


# -- periods ---------------------------------------------------------------------------------------

HOUR, DAY = 3600.0, 86_400.0
LAST_OF_JUNE = 1_782_864_000.0 - HOUR  # 2026-06-30 23:00 UTC


@pytest.mark.parametrize(("per", "again"), (("day", DAY), ("month", 31 * DAY)))
def test_budget_per_renews_limits_each_period(clock: SetClock, per: Per, again: float) -> None:
    clock.time = LAST_OF_JUNE
    whole = Budget(tokens=100, seconds=10**9, clock=clock)
    part = whole.child(tokens=10, seconds=7200, per=per)
    part.reserve(tokens=10).settle()
    clock.time += HOUR - 1
    with pytest.raises(BudgetExceeded, match="it is renewed on 2026-07-01 at 00:00 UTC"):
        part.reserve(tokens=1)
    clock.time += 1
    assert (part.left.tokens, part.remaining_seconds(), whole.left.tokens) == (10, 7200, 90)
    part.reserve(tokens=10).settle()
    clock.time += 7200
    with pytest.raises(DeadlineExceeded):
        part.check()
    clock.time += again - 7200
    part.reserve(tokens=1).settle()
    assert (part.spent.tokens, part.spent.seconds, whole.spent.tokens) == (1, 0, 21)


def test_budget_per_overrun_closes_the_period_of_its_reservation(clock: SetClock) -> None:
    clock.time = LAST_OF_JUNE
    budget = Budget(tokens=10, clock=clock, per="day")
    held = budget.reserve(tokens=5)
    budget.reserve(tokens=5).settle(tokens=6)
    with pytest.raises(BudgetExceeded, match="more were spent than had been reserved"):
        budget.check()
    clock.time += DAY
    held.settle(tokens=9)
    budget.check()
    assert (budget.left.tokens, budget.over.tokens) == (10, 0)


def test_budget_per_clock_set_back_renews_nothing(clock: SetClock) -> None:
    clock.time = LAST_OF_JUNE
    budget = Budget(actions=2, clock=clock, per="day")
    budget.reserve(actions=2).settle()
    clock.time -= DAY
    assert budget.left.actions == 0
    clock.time += DAY
    assert budget.left.actions == 0


def test_budget_per_state_counts_only_in_its_period(clock: SetClock) -> None:
    clock.time = LAST_OF_JUNE
    budget = Budget(actions=2, clock=clock, per="month")
    budget.reserve(actions=2).settle()
    state = json.loads(json.dumps(budget.state_dict()))
    for left in (0, 2):
        later = Budget(actions=2, clock=clock, per="month")
        later.load_state_dict(state)
        assert later.left.actions == left
        clock.time += HOUR
    with pytest.raises(DefinitionError, match="is not as state_dict"):
        later.load_state_dict(state | {"period": "June"})


@pytest.mark.parametrize("per", ("week", "", 1, ["day"]))
def test_period_is_a_day_or_a_month(per: Any) -> None:
    for budget in (Budget, Budget().child):
        with pytest.raises(DefinitionError, match="per= must be 'day' or 'month', got"):
            budget(per=per)


def test_reservation_that_has_ended_says_which_it_was() -> None:
    budget = Budget(tokens=100)
    held = budget.reserve(tokens=10)
    with pytest.raises(DefinitionError, match=r"<Reservation of 10 tokens> cannot be copied"):
        copy.copy(held)
    saved = budget.state_dict()
    with pytest.raises(DefinitionError, match=r"is reserved: load it before its first use"):
        budget.load_state_dict(saved)
    held.settle(tokens=4)
    with pytest.raises(DefinitionError, match=r"10 tokens, ended> was settled or released before"):
        held.settle()


def test_time_for_which_a_call_waits_for_a_person_does_not_count_in_the_seconds() -> None:
    async def person(request: Any) -> bool:
        await asyncio.sleep(0.7)
        return True

    @action(access_policy=ACCESS_REQUESTED)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([{"name": "pay"}, "Paid."])
    agent = ReActAgent("Clerk", model, actions=[pay], approver=CallbackApprover(person))
    budget = Budget(seconds=0.6)
    assert agent.reply_sync("Pay.", budget=budget).text == "Paid."
    assert budget.spent.seconds < 0.6


def test_budget_gives_no_warning_once_its_reservations_have_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = Budget(tokens=10)
    budget.reserve(tokens=5).settle()
    del budget
    gc.collect()
    assert caplog.text == ""


def test_budget_seconds_stand_still_until_the_last_of_two_people_has_answered(
    clock: SetClock,
) -> None:
    budget = Budget(seconds=60, clock=clock)
    budget.charge(tokens=1)
    for is_still in (True, True, False, False):
        budget.stand_still(is_still)
        clock.time += 2
    assert budget.remaining_seconds() == 58
    budget.stand_still(True)
    clock.time -= 1  # a clock that is set back meanwhile takes nothing more
    budget.stand_still(False)
    clock.time += 1
    assert budget.remaining_seconds() == 58


def test_budget_settled_below_its_reservation_by_a_clock_ahead_has_nothing_over(
    clock: SetClock,
) -> None:
    budget = Budget(tokens=10, per="day", clock=clock)
    held = budget.reserve(tokens=5)
    clock.time += 3650 * DAY
    budget.charge(tokens=1)
    held.settle(tokens=2)
    clock.time -= 3650 * DAY
    assert (budget.spent.tokens, budget.over.tokens) == (3, 0)


def test_budget_that_a_clock_years_ahead_has_renewed_is_open_by_the_right_one(
    clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(actions=2, per="day", clock=clock, name="Clerk")
    clock.time += 3650 * DAY
    budget.charge(actions=1)
    clock.time -= 3650 * DAY
    budget.charge(actions=1)  # what was spent counts today: no clock gives anything away
    assert budget.left.actions == 0
    assert "which lies ahead of the clock" in caplog.text
    clock.time += DAY
    assert budget.left.actions == 2


@pytest.mark.parametrize("days", (1, 3650))
def test_budget_by_a_clock_that_was_ahead_for_a_while_has_what_was_spent_before(
    clock: SetClock, days: int
) -> None:
    budget = Budget(actions=9, per="day", clock=clock, name="Clerk")
    held = budget.reserve(actions=2)
    budget.charge(actions=3)
    clock.time += days * DAY
    budget.charge(actions=1)
    clock.time -= days * DAY
    held.settle()
    assert (budget.spent.actions, budget.left.actions) == (6, 3)


def test_budget_by_a_clock_that_was_behind_for_a_while_has_what_was_spent_before(
    clock: SetClock,
) -> None:
    budget = Budget(actions=9, per="day", clock=clock, name="Clerk")
    budget.charge(actions=3)
    clock.time -= 2 * DAY
    budget.charge(actions=1)
    clock.time += 2 * DAY
    assert budget.spent.actions == 3


def test_call_that_began_by_a_clock_ahead_is_no_longer_reserved_once_it_has_ended(
    clock: SetClock,
) -> None:
    budget = Budget(actions=9, per="day", clock=clock, name="Clerk")
    early = budget.reserve(actions=1)
    clock.time += DAY
    held = budget.reserve(actions=4)
    early.release()
    clock.time -= DAY
    assert (budget.reserved.actions, budget.left.actions) == (4, 5)
    held.settle()
    assert (budget.spent.actions, budget.left.actions) == (4, 5)
    clock.time += DAY
    assert (budget.reserved.actions, budget.spent.actions) == (0, 4)


@pytest.mark.parametrize("name", ("", "two\nlines", "del\x7f", 5))
def test_budget_name_is_a_text_of_one_line(name: Any) -> None:
    for make in (Budget, Budget(tokens=1).child):
        with pytest.raises(DefinitionError, match="Budget: name= must be a text of one line, got"):
            make(tokens=1, name=name)
