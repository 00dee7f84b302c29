"""Numbers that are none, reservations that are ended twice, and usage that lies."""

from __future__ import annotations

import asyncio
import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import Budget, BudgetedModel, BudgetExceeded, DefinitionError, Price, Prices, Spent
from moothall.actions import Action
from moothall.budget import Left
from moothall.models import ModelReply, Usage

NAN, INF = float("nan"), float("inf")
NO_COUNTS = (
    *(-1, -(10**400), 2**70, 10**400, True, False, 1.0, NAN, INF, "5", "", b"5", Decimal(5)),
    *([], {}, object(), int),
)
NO_MONEY = (
    *(-1, -0.01, -5e-324, NAN, INF, -INF, 10**400, 1e308, True, "5", "0.1", b"1", [], object()),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), Decimal("1e999999"), Decimal(-1)),
)
COUNTS = ("tokens", "model_calls", "actions")


def untouched(budget: Budget) -> bool:
    spent = budget.spent
    return budget.reserved == budget.over == Spent() and (
        spent.tokens,
        spent.usd,
        spent.model_calls,
        spent.actions,
    ) == (0, 0.0, 0, 0)


@pytest.mark.parametrize("limit", COUNTS)
@pytest.mark.parametrize("wrong", NO_COUNTS, ids=lambda value: f"{value!r:.20}"[:20])
def test_budget_limit_that_is_no_whole_number_is_refused(limit: str, wrong: Any) -> None:
    budget = Budget(tokens=10, model_calls=10, actions=10)
    for call in (Budget, budget.child, budget.reserve, budget.reserve_rest):
        with pytest.raises(
            DefinitionError, match=f"{limit}= must be a whole number from 0"
        ) as caught:
            call(**{limit: wrong})
        assert len(str(caught.value)) < 200
    assert untouched(budget)


def test_budget_limit_may_be_the_largest_count() -> None:
    most = dict.fromkeys(COUNTS, 2**53)
    budget = Budget(**most)  # type: ignore[arg-type]
    budget.reserve(**most).settle(tokens=2**53)
    assert budget.left == Left(0, None, 0, 0)


@pytest.mark.parametrize("wrong", NO_MONEY, ids=lambda value: f"{value!r:.20}"[:20])
def test_budget_usd_that_is_no_number_is_refused(wrong: Any) -> None:
    budget = Budget(usd=10)
    for call in (Budget, budget.child, budget.reserve, budget.reserve_rest):
        with pytest.raises(DefinitionError, match="usd= must be a number of US dollars") as caught:
            call(usd=wrong)
        assert len(str(caught.value)) < 200
    assert untouched(budget)
    for pair in ((wrong, 1), (1, wrong)):
        with pytest.raises(DefinitionError, match=r"put= must be a number of US dollars"):
            Price(*pair)


@pytest.mark.parametrize(
    "wrong", (-1, -0.001, NAN, INF, -INF, 10**400, True, "30", Decimal(3), [], object())
)
def test_budget_seconds_that_are_no_number_are_refused(wrong: Any) -> None:
    for call in (Budget, Budget().child):
        with pytest.raises(DefinitionError, match="seconds= must be a number of seconds from 0 to"):
            call(seconds=wrong)


def test_budget_limit_of_an_unknown_name_is_an_error() -> None:
    for call in (Budget, Budget().child, Budget().reserve):
        with pytest.raises(TypeError, match="token"):
            call(token=5)  # type: ignore[operator]
    with pytest.raises(TypeError):
        Budget(1000)  # type: ignore[misc]


@pytest.mark.parametrize("wrong", ("", "two\nlines", "\x1b[2J", 5, b"name", ["name"]))
def test_budget_name_must_be_one_line(wrong: Any) -> None:
    for call in (Budget, Budget().child):
        with pytest.raises(DefinitionError, match="name= must be a text of one line"):
            call(name=wrong)


def test_budget_long_name_does_not_make_long_errors() -> None:
    budget = Budget(tokens=1, name="x" * 10**6)
    with pytest.raises(BudgetExceeded) as caught:
        budget.child().reserve(tokens=2)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("field", ("prices", "clock"))
def test_budget_wrong_prices_or_clock_are_refused(field: str) -> None:
    for wrong in (5, "x", {"openai:x": (1, 2)}, object()):
        with pytest.raises(DefinitionError, match=f"{field}="):
            Budget(**{field: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("first", ("settle", "release"))
@pytest.mark.parametrize("second", ("settle", "release"))
def test_reservation_ends_once(first: str, second: str) -> None:
    budget = Budget(tokens=100, model_calls=1)
    held = budget.reserve(tokens=60, model_calls=1)
    getattr(held, first)()
    after = budget.left
    with pytest.raises(DefinitionError, match="settled or released before"):
        getattr(held, second)()
    with pytest.raises(DefinitionError, match="settled or released before"):
        held.settle(tokens=10**9)
    assert budget.left == after
    assert budget.over == Spent()


@pytest.mark.parametrize("wrong", NO_COUNTS, ids=lambda value: f"{value!r:.20}"[:20])
def test_settling_for_what_is_no_amount_leaves_it_open(wrong: Any) -> None:
    budget = Budget(tokens=100)
    held = budget.reserve(tokens=60)
    with pytest.raises(DefinitionError, match="settle: tokens="):
        held.settle(tokens=wrong)
    with pytest.raises(DefinitionError, match="settle: usd="):
        held.settle(usd=NAN)
    assert budget.reserved.tokens == 60
    held.settle(tokens=1)
    assert budget.spent.tokens == 1


def test_reservation_cannot_be_copied() -> None:
    budget = Budget(tokens=100)
    with budget.reserve(tokens=60) as held:
        for make in (copy.copy, copy.deepcopy):
            with pytest.raises(DefinitionError, match="cannot be copied"):
                make(held)
    assert budget.spent.tokens == 60


# -- states that are none --------------------------------------------------------------------------

STATE = {
    "tokens": 5,
    "usd": "0.5",
    "model_calls": 1,
    "actions": 2,
    "seconds": 3.5,
    "over": {"tokens": 0, "usd": "0"},
}


@pytest.mark.parametrize(
    "change",
    (
        *({field: wrong} for field in COUNTS for wrong in (-1, True, 1.5, "5", None, [], 10**400)),
        *({"usd": wrong} for wrong in (-1, "-1", "", ".", "0x1", "NaN", "9" * 5000, None)),
        *({"seconds": wrong} for wrong in (-1, NAN, INF, "three", None, 10**400)),
        *(
            {"over": wrong}
            for wrong in (None, [], {}, {"tokens": 0}, {"tokens": -1, "usd": "0"}, {"usd": 0})
        ),
    ),
    ids=lambda change: f"{change}"[:30],
)
def test_budget_malformed_state_changes_nothing(change: dict[str, Any]) -> None:
    budget = Budget(tokens=100)
    budget.load_state_dict(json.loads(json.dumps(STATE)))
    before = budget.state_dict()
    assert before == STATE
    with pytest.raises(DefinitionError, match="the state of a budget") as caught:
        budget.load_state_dict(STATE | change)
    assert len(str(caught.value)) < 300
    assert budget.state_dict() == before


@pytest.mark.parametrize("wrong", (None, 5, "{}", [], {}, {"tokens": 5}))
def test_budget_wrong_state_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="the state of a budget is not as state_dict"):
        Budget().load_state_dict(wrong)


def test_budget_state_is_not_loaded_while_something_is_reserved() -> None:
    budget = Budget(tokens=100)
    with budget.reserve(tokens=60), pytest.raises(DefinitionError, match="while something is"):
        budget.load_state_dict(STATE)
    assert budget.spent.tokens == 60
    budget.load_state_dict(STATE)
    assert budget.left.tokens == 95


# -- usage that lies -------------------------------------------------------------------------------


class Liar:
    """A model that states whatever usage it is told to."""

    name = "liar"
    context_tokens = None
    max_tokens = 100

    def __init__(self, usage: Any) -> None:
        self.usage = usage

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        return ModelReply("ok", usage=self.usage)


def ask(budget: Budget, usage: Any) -> ModelReply:
    model = BudgetedModel(Liar(usage), budget)
    return asyncio.run(model.complete([{"role": "user", "content": "Hi"}]))


def limited() -> Budget:
    return Budget(tokens=10_000, usd=1, prices=Prices({"liar": Price(1, 2)}))


@pytest.mark.parametrize(
    "lie", (-5, -(2**70), 2**70, 10**400, True, 1.5, NAN, INF, "7", None, [], {}, object())
)
def test_usage_that_is_no_number_of_tokens_counts_as_much_as_was_reserved(lie: Any) -> None:
    honest = limited()
    ask(honest, Usage())
    for usage in (Usage(lie, lie), Usage(lie, 0), Usage(0, lie), lie):
        budget = limited()
        assert ask(budget, usage).text == "ok"
        assert budget.spent.tokens == honest.spent.tokens > 100
        assert budget.spent.usd == honest.spent.usd > 0
        assert budget.over == Spent()


def test_usage_beyond_belief_but_possible_closes_the_budget() -> None:
    budget = limited()
    ask(budget, Usage(2**52, 2**52))
    assert budget.spent.tokens == 2**53
    assert budget.spent.usd == pytest.approx(3 * 2**52 / 10**6)
    with pytest.raises(BudgetExceeded):
        ask(budget, Usage(1, 1))


def test_budget_reply_without_usage_counts_the_reservation() -> None:
    class Odd(Liar):
        async def complete(self, *args: Any, **kwargs: Any) -> Any:
            return self.usage

    for odd in (None, "text", 5, {"usage": 5}):
        budget = limited()
        model = BudgetedModel(Odd(odd), budget)
        reply = asyncio.run(model.complete([{"role": "user", "content": "Hi"}]))
        assert reply is odd
        assert budget.spent.tokens > 100
        assert budget.reserved == Spent()


@given(st.integers(-(2**80), 2**80), st.integers(-(2**80), 2**80))
def test_budget_spent_is_a_growing_number_whatever_usage_says(input: int, output: int) -> None:
    budget = limited()
    ask(budget, Usage(input, output))
    assert budget.spent.tokens > 0
    assert budget.spent.usd > 0
    assert budget.reserved == Spent()
    json.dumps(budget.state_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "stated",
    (
        *(5, "openai:x", [("openai:x", Price(1, 2))], {5: Price(1, 2)}, {"": Price(1, 2)}),
        *({"openai:x": wrong} for wrong in (5, "1", (1,), (1, 2, 3), [1, 2], None, (True, 1))),
    ),
    ids=repr,
)
def test_prices_of_a_wrong_form_are_refused(stated: Any) -> None:
    with pytest.raises(DefinitionError):
        Prices(stated)


def test_price_is_exact_whatever_its_places() -> None:
    assert Price(Decimal("0.0000001"), 1).cost(10, 0) == Decimal("1E-12")
    assert Price(Decimal("0.10000000"), 1) == Price(0.1, 1)
