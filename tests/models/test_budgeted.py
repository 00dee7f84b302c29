from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.openai_server import HANG, OpenAIServer, status, text
from moothall import (
    Budget,
    BudgetedModel,
    BudgetExceeded,
    ContextOverflow,
    DeadlineExceeded,
    DefinitionError,
    FallbackModel,
    Journal,
    LocalModel,
    MissingExtra,
    ModelError,
    OpenAIModel,
    Price,
    Prices,
    ReActAgent,
    RemoteForbidden,
    ScriptedModel,
    Spent,
    UnknownPrice,
)
from moothall.actions import Action
from moothall.models import Call, ModelReply, TextPiece, Usage
from moothall.models.protocol import StreamPart
from moothall.testing.model_suite import (
    ACTIONS,
    StreamingModelConformance,
    add,
    never,
    run,
    user_message,
)
from standing_clock import StandingClock

HI = user_message("Hi")


class Speaker:
    """A model with a limit to its answers, which says what it is told to and counts its calls."""

    name = "speaker"
    context_tokens: int | None = 5000

    def __init__(self, *answers: Any, max_tokens: int | None = 100, name: str = "speaker") -> None:
        self.inner = ScriptedModel(answers or ["Hello!"] * 50)
        self.max_tokens = max_tokens
        self.name = name
        self.asked = 0
        self.begun = asyncio.Event()
        self.cancelled = 0

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        self.asked += 1
        self.begun.set()
        try:
            return await self.inner.complete(messages, actions, schema)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Streamer(Speaker):
    """The same, word by word; an event in place of a word is waited for."""

    def __init__(self, *words: Any, max_tokens: int | None = 100) -> None:
        super().__init__(max_tokens=max_tokens)
        self.words = words
        self.closed = 0

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[StreamPart]:
        self.asked += 1
        try:
            for word in self.words:
                if isinstance(word, asyncio.Event):
                    await word.wait()
                elif isinstance(word, Exception):
                    raise word
                elif isinstance(word, ModelReply):
                    yield word
                else:
                    yield TextPiece(word)
        finally:
            self.closed += 1


class NoLimit:
    """A model of a user's own, which says nothing about how long its answers are."""

    name = "own"
    context_tokens = None

    def __init__(self, reply: ModelReply) -> None:
        self.reply = reply
        self.seen: list[Spent] = []

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        return self.reply


def said(text: str, input: Any, output: Any) -> ModelReply:
    return ModelReply(text, usage=Usage(input, output))


def bound_of(model: Any, messages: Any = HI, actions: Any = None, schema: Any = None) -> int:
    """How many tokens are reserved for a call, as a budget without limits shows it."""
    budget = Budget()
    failing = Speaker(ModelError("no"), max_tokens=model.max_tokens)
    if hasattr(model, "count_tokens"):
        failing.count_tokens = model.count_tokens  # type: ignore[attr-defined]
    with pytest.raises(ModelError):
        run(BudgetedModel(failing, budget).complete(messages, actions, schema))
    return budget.spent.tokens


async def parts_of(model: Any, messages: Any = HI) -> list[StreamPart]:
    return [part async for part in model.stream(messages)]


class TestBudgetedModel(StreamingModelConformance):
    def make(self, *answers: Any) -> BudgetedModel:
        prices = Prices({"speaker": Price(Decimal(1), 2)})
        budget = Budget(tokens=10**6, usd=10, seconds=600, prices=prices)
        answering = ScriptedModel(answers or ["Hello!"] * 50, name="speaker", max_tokens=100)
        return BudgetedModel(answering, budget)


# -- what is reserved, and what it was -------------------------------------------------------------


def test_budgeted_model_counts_a_call_by_its_usage() -> None:
    budget = Budget(tokens=1000, usd=1, model_calls=2, prices=Prices({"speaker": Price(2, 8)}))
    model = BudgetedModel(Speaker(said("Hello!", 30, 5), said("Bye!", 40, 6)), budget)
    assert run(model.complete(HI)).text == "Hello!"
    assert budget.spent.tokens == 35
    assert budget.spent.usd == (30 * 2 + 5 * 8) / 10**6
    assert budget.spent.model_calls == 1
    run(model.complete(HI))
    assert budget.spent.tokens == 81
    with pytest.raises(BudgetExceeded) as caught:
        run(model.complete(HI))
    assert caught.value.limit == "model_calls"
    assert str(caught.value) == (
        "speaker was not asked: the budget: 1 model calls are needed and 0 of 2 are left "
        "(2 spent, 0 reserved)"
    )
    assert model.model.asked == 2  # type: ignore[attr-defined]


def test_budgeted_model_counts_an_answer_of_a_class_of_ones_own() -> None:
    class Own(Speaker):
        async def complete(self, *asked: Any, **options: Any) -> Any:
            return SimpleNamespace(text="Hello!", calls=(), usage=Usage(7, 3))

    budget = Budget(tokens=10_000)
    run(BudgetedModel(Own(), budget).complete(HI))
    assert budget.spent.tokens == 10


def test_budgeted_model_reserves_the_upper_bound_while_a_call_is_under_way() -> None:
    budget = Budget(tokens=10_000)
    seen: list[Spent] = []

    def look(messages: Any, actions: Any) -> ModelReply:
        seen.append(budget.reserved)
        return said("ok", 1, 1)

    schema = {"type": "object", "description": "Ünïcode"}
    run(BudgetedModel(Speaker(look), budget).complete(HI, ACTIONS, schema))
    offered = [[each.name, each.description, each.parameters] for each in ACTIONS]
    sent = json.dumps([HI, offered, schema], ensure_ascii=False).encode()
    assert seen[0].model_calls == 1
    # All that goes out, in bytes; the answer; and a little for what a chat format adds.
    assert len(sent) + 100 < seen[0].tokens <= len(sent) + 100 + 64 + 16 * 4
    assert budget.reserved == Spent()
    assert budget.spent.tokens == 2


def test_bound_grows_with_texts_actions_and_a_schema() -> None:
    model = Speaker(max_tokens=10)
    least = bound_of(model)
    assert bound_of(model, user_message("Hi" * 50)) == least + 98
    assert bound_of(model, user_message("ж" * 50)) == least + 98
    assert bound_of(model, [*HI, *HI]) > least
    assert bound_of(model, HI, ACTIONS) > bound_of(model, HI, [ACTIONS[0]]) > least
    assert bound_of(model, HI, None, {"type": "object"}) > least
    assert bound_of(Speaker(max_tokens=500)) == least + 490


def test_budgeted_model_counts_by_the_models_own_tokenizer() -> None:
    model = Speaker(max_tokens=10)
    model.count_tokens = lambda text: len(text) // 4  # type: ignore[attr-defined]
    long = user_message("word " * 200)
    assert 250 < bound_of(model, long) < 450
    assert bound_of(Speaker(max_tokens=10), long) > 1000


def test_budgeted_model_counts_each_prompt_by_itself() -> None:
    budget = Budget(tokens=1000)
    model = Speaker(max_tokens=10)
    model.count_tokens = len  # type: ignore[attr-defined]
    budgeted = BudgetedModel(model, budget)
    run(budgeted.complete(HI))
    with pytest.raises(BudgetExceeded):
        run(budgeted.complete(user_message("word " * 200)))
    assert model.asked == 1


def test_budgeted_model_counts_anew_a_prompt_that_a_hook_made_longer(tmp_path: Path) -> None:
    def longer(agent: Any, about: dict[str, Any]) -> dict[str, Any]:
        return {**about, "messages": [*about["messages"], *user_message("more " * 2000)]}

    for hooks, reason, asked in (((), "done", 1), ((longer,), "budget", 0)):
        model = Speaker()
        model.count_tokens = len  # type: ignore[attr-defined]
        # With a journal, what a call may take is counted and noted before the hooks.
        with Journal(tmp_path / f"{reason}.db") as journal:
            agent = ReActAgent("a", model, budget=Budget(tokens=2000), journal=journal)
            for hook in hooks:
                agent.register_hook("pre_reasoning", "longer", hook)
            assert agent.reply_sync("Hi").stop_reason == reason
        assert model.asked == asked


def test_budgeted_model_refuses_a_tokenizer_that_gives_no_number_before_the_call() -> None:
    budget = Budget(tokens=10_000)
    for wrong in (-1, 2.5, None, True, "9"):
        model = Speaker()
        model.count_tokens = lambda text, wrong=wrong: wrong  # type: ignore[attr-defined]
        with pytest.raises(DefinitionError, match="speaker: count_tokens gives a number"):
            run(BudgetedModel(model, budget).complete(HI))
        assert model.asked == 0
    assert budget.spent.tokens == 0


def test_budgeted_model_does_not_begin_a_call_that_may_not_fit() -> None:
    model = Speaker(max_tokens=100)
    needed = bound_of(model)
    budget = Budget(tokens=needed - 1)
    too_much = (
        f"{needed} tokens are needed and {needed - 1} of .*no count_tokens, .* raise the limit, or"
    )
    with pytest.raises(BudgetExceeded, match=too_much):
        run(BudgetedModel(model, budget).complete(HI))
    assert model.asked == 0
    assert (budget.spent.tokens, budget.spent.model_calls) == (0, 0)
    run(BudgetedModel(model, Budget(tokens=needed)).complete(HI))
    assert model.asked == 1
    poor = Budget(usd=Decimal("0.0001"), prices=Prices({"speaker": Price(1, 1)}))
    with pytest.raises(
        BudgetExceeded, match=r"US dollars are needed .*: raise the limit, or lower"
    ) as caught:
        run(BudgetedModel(model, poor).complete(HI))
    assert caught.value.limit == "usd"


def test_usage_that_is_missing_counts_as_much_as_was_reserved() -> None:
    needed = bound_of(Speaker())
    for reply, spent in (
        ("Hello!", needed),
        (said("Hello!", 0, 7), needed - 100 + 7),
        (said("Hello!", 9, 0), 9 + 100),
        (said("", 9, 0), 9),  # nothing was said, so nothing is a number
        (said("", 0, 0), needed),
        (Call("1", "add", {"a": 1, "b": 2}), needed),
        (ModelReply(usage=None), needed),  # type: ignore[arg-type]
    ):
        budget = Budget(tokens=10_000)
        run(BudgetedModel(Speaker(reply), budget).complete(HI))
        assert budget.spent.tokens == spent
        assert budget.over == Spent()


def test_budgeted_model_records_what_a_provider_took_too_much_and_starts_nothing_further() -> None:
    needed = bound_of(Speaker())
    more = needed * 13 // 10
    budget = Budget(tokens=100_000)
    model = BudgetedModel(Speaker(said("Hello!", more - 100, 100), "never"), budget)
    assert run(model.complete(HI)).text == "Hello!"
    assert budget.spent.tokens == more
    assert budget.over == Spent(tokens=more - needed)
    with pytest.raises(BudgetExceeded, match=r"not asked: the budget: .* more were"):
        run(model.complete(HI))
    with pytest.raises(BudgetExceeded):
        budget.reserve(actions=1)
    assert model.model.asked == 1  # type: ignore[attr-defined]


def test_calls_at_once_never_pass_a_limit() -> None:
    needed = bound_of(Speaker())
    budget = Budget(tokens=needed * 10 + 5, model_calls=500)
    most = 0

    def look(messages: Any, actions: Any) -> Any:
        async def answer() -> ModelReply:
            nonlocal most
            most = max(most, budget.reserved.tokens + budget.spent.tokens)
            await asyncio.sleep(0)
            return said("ok", needed - 100, 100)

        return answer()

    models = [BudgetedModel(Speaker(look), budget) for _ in range(1000)]

    async def everyone() -> list[Any]:
        asked = (model.complete(HI) for model in models)
        return list(await asyncio.gather(*asked, return_exceptions=True))

    outcomes = run(everyone())
    assert sum(isinstance(each, ModelReply) for each in outcomes) == 10
    assert sum(isinstance(each, BudgetExceeded) for each in outcomes) == 990
    assert most == budget.spent.tokens == needed * 10


# -- models without a limit to their answers -------------------------------------------------------


@pytest.mark.parametrize("limit", ("tokens", "usd"))
def test_budgeted_model_must_state_its_limit_if_it_could(limit: str) -> None:
    budget = Budget(
        **{limit: 100},  # type: ignore[arg-type]
        name="run 1",
        prices=Prices({"speaker": Price(1, 1)}),
    )
    limits = {"tokens": "tokens", "usd": "money"}[limit]
    with pytest.raises(DefinitionError) as caught:
        BudgetedModel(Speaker(max_tokens=None), budget)
    assert str(caught.value) == (
        f"speaker: budget 'run 1' limits {limits}, and nothing limits this model's answers; "
        "make the model with max_tokens="
    )
    model = Speaker()
    wrapped = BudgetedModel(model, budget)
    model.max_tokens = None  # later, too, it is found before the call
    with pytest.raises(DefinitionError, match="max_tokens="):
        run(wrapped.complete(HI))
    assert model.asked == 0


def test_budgeted_model_needs_no_limit_where_neither_tokens_nor_money_are_limited() -> None:
    budget = Budget(model_calls=1, seconds=600)
    assert run(BudgetedModel(Speaker(max_tokens=None), budget).complete(HI)).text == "Hello!"
    assert budget.spent.model_calls == 1
    free = Budget(usd=1)
    model = BudgetedModel(Speaker(max_tokens=None, name="local:mine"), free)
    assert run(model.complete(HI)).text == "Hello!"
    assert free.spent.usd == 0


@pytest.mark.parametrize("wrong", (-1, True, 1.5, "100", 2**60))
def test_budgeted_model_limit_that_is_no_number_is_an_error(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="speaker: max_tokens must be a number of tokens"):
        BudgetedModel(Speaker(max_tokens=wrong), Budget())


def test_budgeted_model_without_a_limit_reserves_all_that_is_left() -> None:
    budget = Budget(tokens=5000, usd=2, prices=Prices({"own": Price(1, 1)}))
    model = BudgetedModel(NoLimit(said("ok", 30, 5)), budget)
    held = budget.reserve(tokens=1000)
    seen: list[Spent] = []

    class Looking(NoLimit):
        async def complete(self, *args: Any, **kwargs: Any) -> ModelReply:
            seen.append(budget.reserved)
            with pytest.raises(BudgetExceeded):
                budget.reserve(tokens=1)
            return self.reply

    looking = BudgetedModel(Looking(said("ok", 30, 5)), budget)
    run(looking.complete(HI))
    assert seen == [Spent(5000, 2.0, 1)]
    assert budget.spent.tokens == 35
    held.release()
    run(model.complete(HI))
    assert budget.spent.tokens == 70
    run(BudgetedModel(NoLimit(said("ok", 5000, 5)), budget).complete(HI))
    assert budget.over.tokens == 75
    with pytest.raises(BudgetExceeded):
        run(model.complete(HI))


def test_budgeted_model_without_limit_or_usage_counts_all_that_was_left() -> None:
    budget = Budget(tokens=5000)
    run(BudgetedModel(NoLimit(ModelReply("ok")), budget).complete(HI))
    assert budget.spent.tokens == 5000
    unlimited = Budget()
    run(BudgetedModel(NoLimit(ModelReply("ok")), unlimited).complete(HI))
    assert unlimited.spent.model_calls == 1


def test_model_without_a_limit_is_not_asked_when_not_even_the_question_fits() -> None:
    with pytest.raises(BudgetExceeded, match="own was not asked"):
        run(BudgetedModel(NoLimit(said("ok", 1, 1)), Budget(tokens=50)).complete(HI))


def test_budgeted_model_reserves_all_for_an_image() -> None:
    blocks = [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]
    seen: list[int] = []

    def look(messages: Any, actions: Any) -> ModelReply:
        seen.append(budget.reserved.tokens)
        return said("A cat", 1500, 2)

    budget = Budget(tokens=9000)
    model = BudgetedModel(Speaker(look, look), budget)
    run(model.complete([{"role": "user", "content": blocks}]))
    run(model.complete([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]))
    assert seen[0] == 9000
    assert seen[1] < 400
    assert budget.spent.tokens == 3004


# -- prices ----------------------------------------------------------------------------------------


def test_budgeted_model_of_unknown_price_is_an_error_before_the_first_call() -> None:
    model = Speaker(name="openai:brand-new")
    with pytest.raises(UnknownPrice) as caught:
        BudgetedModel(model, Budget(usd=1).child(tokens=5))
    assert "openai:brand-new" in str(caught.value)
    assert "prices=Prices({'openai:brand-new': Price(input, output)})" in str(caught.value)
    budget = Budget(usd=1, prices=Prices({"openai:brand-new": Price(1, 4)}))
    run(BudgetedModel(model, budget).complete(HI))
    assert budget.spent.usd > 0


def test_budgeted_model_without_a_limit_of_money_needs_no_price_but_counts_a_known_one() -> None:
    budget = Budget(tokens=10_000)
    run(BudgetedModel(Speaker(said("ok", 10, 10)), budget).complete(HI))
    assert budget.spent.usd == 0
    priced = Budget()
    run(BudgetedModel(Speaker(said("ok", 10, 10), name="openai:gpt-4o"), priced).complete(HI))
    assert priced.spent.usd == 10 * 2.5e-6 + 10 * 10e-6


@pytest.mark.parametrize(
    "name",
    (
        *("local", "local:qwen3-4b", "gguf:a.gguf", "scripted"),
        *("http://127.0.0.1:8080/v1#m", "http://localhost/v1#m", "http://[::1]:1/v1#m"),
    ),
)
def test_budgeted_model_of_this_machine_costs_nothing(name: str) -> None:
    budget = Budget(usd=0)
    run(BudgetedModel(Speaker(name=name), budget).complete(HI))
    assert budget.spent.usd == 0
    dear = Budget(usd=0, prices=Prices({name: Price(1, 1)}))
    with pytest.raises(BudgetExceeded):
        run(BudgetedModel(Speaker(name=name), dear).complete(HI))


@pytest.mark.parametrize(
    "name", ("https://api.example/v1#m", "localhost", "localized", "openai:gpt-4o-2099-01-01")
)
def test_price_of_a_name_is_not_guessed_from_another(name: str) -> None:
    with pytest.raises(UnknownPrice):
        Prices().price(name)


def test_local_model_of_any_name_costs_nothing(weights: Path) -> None:
    with LocalModel(weights, name="house") as model:
        assert BudgetedModel(model, Budget(usd=0)).name == "house"


def test_prices_are_what_was_stated_or_else_listed() -> None:
    prices = Prices({"openai:gpt-4o": Price(1, 2), "mine": (0.5, Decimal("1.5"))})
    assert prices.price("openai:gpt-4o") == Price(1, 2)
    assert prices.price("mine") == Price(Decimal("0.5"), 1.5)
    assert prices.price("openai:gpt-4o-mini") == Price(0.15, 0.6, 0.075)
    prices.set_price("mine", 0.15, 0.6)
    assert prices.cost("mine", 10**6, 0) == Decimal("0.15")
    assert prices.cost("mine", 1, 1) == Decimal("0.00000075")
    assert Prices().price("openai:gpt-4o").input == Decimal("2.5")


def test_price_of_a_model_that_varies_is_the_highest() -> None:
    price = Prices().price("openai:gpt-5.6")
    assert price == Prices().price("https://api.openai.com/v1#gpt-5.6")
    assert price.input < price.output
    assert price.cache_read < price.input < price.cache_write
    longest = Prices().price("anthropic:claude-sonnet-4-5")
    assert (longest.input, longest.output) == (6, Decimal("22.5"))


def test_budgeted_model_reserves_what_its_input_costs_in_the_dearest_cache() -> None:
    budget = Budget(usd=1, prices=Prices({"speaker": Price(1, 0, 0.5, 3)}))
    with pytest.raises(ModelError):
        run(BudgetedModel(Speaker(ModelError("no")), budget).complete(HI))
    assert Decimal(repr(budget.spent.usd)) == Decimal(3 * (budget.spent.tokens - 100)) / 10**6


def test_budgeted_model_costs_add_up_exactly() -> None:
    budget = Budget(usd=1, prices=Prices({"speaker": Price(0.1, 0.3)}))
    model = BudgetedModel(Speaker(*[said("ok", 1, 1)] * 30), budget)
    for _ in range(30):
        run(model.complete(HI))
    assert budget.state_dict()["usd"] == "0.000012"


# -- calls that fail, end late or are cancelled ----------------------------------------------------


@pytest.mark.parametrize(
    ("error", "tokens", "calls"),
    (
        (ModelError("broke off"), True, 1),
        (ValueError("a fault"), True, 1),
        (TimeoutError("its own"), True, 1),
        (ContextOverflow("too long"), False, 1),
        (RemoteForbidden("offline"), False, 0),
        (MissingExtra("it", "openai"), False, 0),
    ),
    ids=lambda value: type(value).__name__,
)
def test_budgeted_model_counts_what_a_failed_call_may_have_cost(
    error: Exception, tokens: bool, calls: int
) -> None:
    needed = bound_of(Speaker())
    for ask in (lambda model: model.complete(HI), parts_of):
        budget = Budget(tokens=10_000, seconds=600)
        with pytest.raises(type(error)) as caught:
            run(ask(BudgetedModel(Speaker(error), budget)))
        assert caught.value is error
        assert budget.spent.tokens == (needed if tokens else 0)
        assert budget.spent.model_calls == calls
        assert budget.reserved == Spent()


def test_budgeted_model_counts_a_plain_function_that_fails_as_it_is_called() -> None:
    class Plain:
        name, context_tokens, max_tokens = "plain", None, 10

        def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            raise ModelError("no connection")

    budget = Budget(tokens=1000)
    with pytest.raises(ModelError, match="no connection"):
        run(BudgetedModel(Plain(), budget).complete(HI))
    assert budget.spent.model_calls == 1
    assert budget.reserved == Spent()


def test_budgeted_model_invalid_request_takes_nothing() -> None:
    budget = Budget(tokens=10_000, model_calls=1)
    model = BudgetedModel(Speaker(), budget)
    looped: list[Any] = []
    looped.append(looped)
    for messages in ([], [{"role": "user", "content": object()}], user_message(looped)):  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="speaker: "):
            run(model.complete(messages))
    assert budget.spent.model_calls == 0
    run(model.complete(user_message("half \ud800 a character")))
    assert budget.spent.model_calls == 1


def test_budgeted_model_cancels_the_call_at_the_deadline() -> None:
    model, clock = Speaker(never), StandingClock()
    budget = Budget(tokens=10_000, seconds=0.05, name="run", clock=clock)
    with pytest.raises(DeadlineExceeded) as caught:
        run(BudgetedModel(model, budget).complete(HI))
    assert str(caught.value) == (
        "speaker: the seconds of budget 'run' were over before it had answered"
    )
    assert caught.value.limit == "seconds"
    assert model.cancelled == 1
    assert budget.spent.tokens == bound_of(model)
    clock.over()
    with pytest.raises(DeadlineExceeded, match=r"speaker was not asked: budget 'run': its 0\.05"):
        run(BudgetedModel(model, budget).complete(HI))
    assert model.asked == 1


async def test_budgeted_model_closes_the_connection_at_the_deadline() -> None:
    with OpenAIServer(text("ok"), HANG) as server:
        model = OpenAIModel("m", server.url, max_tokens=10, max_retries=0)
        async with model:
            await model.complete(HI)  # so that connecting takes no part of the time below
            with pytest.raises(DeadlineExceeded):
                await BudgetedModel(model, Budget(seconds=1)).complete(HI)
        server.wait_for_close()
        assert len(server.requests) == 2


def test_budgeted_model_passes_on_a_timeout_of_the_models_own() -> None:
    own = TimeoutError("mine")
    with pytest.raises(TimeoutError) as caught:
        run(BudgetedModel(Speaker(own), Budget(seconds=600)).complete(HI))
    assert caught.value is own


def test_budgeted_model_whose_model_hides_its_cancellation_is_late_all_the_same() -> None:
    class Stubborn(Speaker):
        async def complete(self, *args: Any, **kwargs: Any) -> ModelReply:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ModelError("interrupted") from None
            raise AssertionError

    with pytest.raises(DeadlineExceeded):
        run(BudgetedModel(Stubborn(), Budget(seconds=0.02)).complete(HI))


@pytest.mark.parametrize("stream", (False, True), ids=("complete", "stream"))
def test_cancelled_from_outside_it_is_cancelled_and_counts_in_full(stream: bool) -> None:
    model = Speaker(never)
    budget = Budget(tokens=10_000, seconds=600)
    wrapped = BudgetedModel(model, budget)

    async def scenario() -> None:
        task = asyncio.create_task(parts_of(wrapped) if stream else wrapped.complete(HI))
        await asyncio.wait_for(model.begun.wait(), 30)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(scenario())
    assert model.cancelled == 1
    assert budget.spent.tokens == bound_of(model)
    assert budget.reserved == Spent()


async def test_cancelled_from_outside_at_the_deadline_it_is_cancelled() -> None:
    loop = asyncio.get_running_loop()

    async def slow_to_end(messages: Any, actions: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # The deadline has come, and now the one who asked gives up as well.
            loop.call_soon(task.cancel)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            raise
        return ""

    model = BudgetedModel(
        Speaker(lambda messages, actions: slow_to_end(messages, actions)),
        Budget(seconds=0.02, clock=StandingClock()),
    )
    task = asyncio.create_task(model.complete(HI))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_budgeted_model_leaves_the_timeout_of_the_asker_to_the_asker() -> None:
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.02):
            await BudgetedModel(Speaker(never), Budget(seconds=600)).complete(HI)
    assert not isinstance(caught.value, DeadlineExceeded)


# -- streams ---------------------------------------------------------------------------------------


def test_budgeted_stream_is_passed_on_and_settled() -> None:
    budget = Budget(tokens=10_000)
    reply = said("Good day", 20, 2)
    model = Streamer("Good ", "day", reply)
    parts = run(parts_of(BudgetedModel(model, budget)))
    assert parts == [TextPiece("Good "), TextPiece("day"), reply]
    assert parts[-1] is reply
    assert budget.spent.tokens == 22
    assert budget.spent.model_calls == 1
    assert model.closed == 1


def test_budgeted_stream_with_two_whole_answers_is_settled_once() -> None:
    budget = Budget(tokens=1000)
    reply = said("Hi", 5, 2)
    parts = run(parts_of(BudgetedModel(Streamer("Hi", reply, reply), budget)))
    assert parts == [TextPiece("Hi"), reply, reply]
    assert budget.spent.tokens == 7


def test_budgeted_stream_of_a_model_that_cannot_stream_is_its_whole_answer() -> None:
    budget = Budget(tokens=10_000)
    reply = said("Good day", 20, 2)
    assert run(parts_of(BudgetedModel(Speaker(reply), budget))) == [TextPiece("Good day"), reply]
    assert budget.spent.tokens == 22


def test_budgeted_stream_that_may_not_fit_is_not_begun() -> None:
    model = Streamer("Good ")
    with pytest.raises(BudgetExceeded):
        run(parts_of(BudgetedModel(model, Budget(tokens=50))))
    assert model.asked == 0


def test_budgeted_stream_that_is_closed_early_counts_in_full() -> None:
    budget = Budget(tokens=10_000)
    model = Streamer("Good ", asyncio.Event(), "day")

    async def scenario() -> None:
        stream: Any = BudgetedModel(model, budget).stream(HI)
        async with aclosing(stream):
            assert await anext(stream) == TextPiece("Good ")
            assert budget.spent.tokens == 0
        assert model.closed == 1
        assert budget.spent.tokens == bound_of_streamer
        assert budget.reserved == Spent()

    bound_of_streamer = bound_of(model)
    run(scenario())


@pytest.mark.parametrize(
    "error", (ModelError("broke off"), RemoteForbidden("later"), ContextOverflow("later"))
)
def test_budgeted_stream_that_breaks_off_counts_in_full(error: Exception) -> None:
    budget = Budget(tokens=10_000)
    model = Streamer("Good ", error)
    with pytest.raises(type(error)):
        run(parts_of(BudgetedModel(model, budget)))
    assert budget.spent.tokens == bound_of(model)
    assert budget.spent.model_calls == 1


def test_budgeted_stream_without_an_answer_counts_in_full() -> None:
    budget = Budget(tokens=10_000)
    model = Streamer("Good ")
    assert run(parts_of(BudgetedModel(model, budget))) == [TextPiece("Good ")]
    assert budget.spent.tokens == bound_of(model)


def test_budgeted_stream_is_cancelled_at_the_deadline_unlike_its_reader() -> None:
    model = Streamer("Good ", asyncio.Event())
    budget = Budget(tokens=10_000, seconds=0.05, clock=StandingClock())

    async def scenario() -> None:
        stream = BudgetedModel(model, budget).stream(HI)
        assert await anext(stream) == TextPiece("Good ")
        with pytest.raises(DeadlineExceeded):
            await anext(stream)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    run(scenario())
    assert model.closed == 1
    assert budget.spent.tokens == bound_of(model)


async def test_budgeted_stream_does_not_disturb_a_reader_that_is_busy_at_the_deadline() -> None:
    time = SetTime()
    model = Streamer("Good ", "day")
    budget = Budget(seconds=30, clock=time)
    stream = BudgetedModel(model, budget).stream(HI)
    assert await anext(stream) == TextPiece("Good ")
    time.now_s += 31
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await anext(stream)
    assert model.closed == 1


class SetTime:
    now_s = 0.0

    def now(self) -> float:
        return self.now_s


# -- as a model ------------------------------------------------------------------------------------


def test_budgeted_model_has_the_models_name_and_limits() -> None:
    inner = Speaker(max_tokens=77)
    model = BudgetedModel(inner, Budget())
    assert (model.name, model.context_tokens, model.max_tokens) == ("speaker", 5000, 77)
    assert not hasattr(model, "count_tokens")
    inner.count_tokens = len  # type: ignore[attr-defined]
    assert model.count_tokens("four") == 4
    assert not hasattr(BudgetedModel(NoLimit(ModelReply()), Budget()), "max_tokens")
    assert not hasattr(model, "asked")


def test_budgeted_model_takes_only_a_budget() -> None:
    with pytest.raises(DefinitionError, match="budget= must be a Budget, got dict"):
        BudgetedModel(Speaker(), {"tokens": 5})  # type: ignore[arg-type]


def test_models_share_a_budget_and_draw_from_its_parent() -> None:
    whole = Budget(model_calls=3)
    one = BudgetedModel(Speaker(), whole.child(model_calls=2))
    other = BudgetedModel(Speaker(), whole.child(model_calls=2))
    for model in (one, other, one):
        run(model.complete(HI))
    for model in (one, other):
        with pytest.raises(BudgetExceeded):
            run(model.complete(HI))
    assert whole.spent.model_calls == 3


@pytest.mark.parametrize("inner", ("the same", "the parent", "the child", "another"))
def test_budgeted_model_in_another_counts_a_call_once_in_each_budget(inner: str) -> None:
    parent = Budget(tokens=10_000)
    child = parent.child(tokens=5_000)
    outer = parent if inner == "the child" else child
    budgets = {"the same": child, "the parent": parent, "the child": child, "another": Budget()}
    held = budgets[inner]
    speaker = Speaker(said("ok", 20, 2), said("ok", 20, 2))
    model = BudgetedModel(BudgetedModel(speaker, held), outer)
    run(model.complete(HI))
    run(parts_of(model))
    for each in {parent, child, held}:
        assert (each.spent.tokens, each.spent.model_calls) == (44, 2)
        assert each.reserved == Spent()
    assert (model.name, model.max_tokens) == ("speaker", 100)


def test_fallback_models_are_each_reserved_for() -> None:
    prices = Prices({"dear": Price(10, 10)})
    budget = Budget(tokens=10_000, usd=1, prices=prices)
    dear = Speaker(ModelError("busy"), said("ok", 10, 5), name="dear")
    cheap = Speaker(said("ok", 20, 3), name="local:cheap")
    model = BudgetedModel(FallbackModel([dear, cheap], name="either"), budget)
    assert model.name == "either"
    assert model.context_tokens == 5000
    assert run(model.complete(HI)).text == "ok"
    assert budget.spent.model_calls == 2
    assert budget.spent.tokens == bound_of(dear) + 23
    assert budget.spent.usd == pytest.approx(bound_of(dear) * 1e-5)
    assert run(parts_of(model))[-1].usage == Usage(10, 5)  # type: ignore[union-attr]
    assert budget.spent.model_calls == 3


def test_fallback_under_a_budget_goes_on_after_the_errors_that_when_names() -> None:
    cheap = Speaker(name="cheap")
    models = [Speaker(ModelError("busy")), cheap]
    strict = FallbackModel(models, when=lambda error: "full" in str(error))
    with pytest.raises(ModelError, match=r"^busy$"):
        run(BudgetedModel(strict, Budget()).complete(HI))
    assert cheap.asked == 0


def test_fallback_does_not_go_on_past_the_budget() -> None:
    cheap = Speaker(name="cheap")
    model = FallbackModel([Speaker(ModelError("busy")), cheap])
    busy = FallbackModel([Speaker(ModelError("busy"))], name="either")
    with pytest.raises(ModelError, match=r"^either: no model answered: 1\. busy"):
        run(BudgetedModel(busy, Budget()).complete(HI))
    with pytest.raises(BudgetExceeded, match="cheap was not asked"):
        run(BudgetedModel(model, Budget(model_calls=1)).complete(HI))
    assert cheap.asked == 0


def test_budgeted_model_over_http_sends_its_limit_and_counts_the_usage() -> None:
    with OpenAIServer(text("ok"), status(500)) as server:
        model = OpenAIModel("m", server.url, max_tokens=40, max_retries=0)
        budget = Budget(tokens=1000, usd=1)

        async def ask() -> None:
            async with model:
                wrapped = BudgetedModel(model, budget)
                await wrapped.complete(HI, [Action.of(add)])
                assert budget.spent.tokens == 10
                with pytest.raises(ModelError):
                    await wrapped.complete(HI)

        run(ask())
        assert server.requests[0].body["max_tokens"] == 40
        assert budget.spent.tokens == 10 + bound_of(Speaker(max_tokens=40))
        assert budget.spent.usd == 0


def test_budgeted_model_works_as_an_agents_model() -> None:
    budget = Budget(model_calls=1)
    agent = ReActAgent("a", BudgetedModel(Speaker("Good morning"), budget))
    assert agent.reply_sync("Hi").text == "Good morning"
    assert budget.spent.model_calls == 1
