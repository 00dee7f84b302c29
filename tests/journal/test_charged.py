"""What a run has spent counts where it goes on: as much as its budget was charged."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from journal.crash import Crashing
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Call,
    ChosenBy,
    Context,
    Conversation,
    FallbackModel,
    Journal,
    Later,
    MaxTurns,
    ModelError,
    ModelReply,
    Price,
    Prices,
    ReActAgent,
    Reply,
    ScriptedModel,
    Usage,
    Waiting,
)
from standing_clock import StandingClock

PRICES = Prices({"mine:x": Price(input=1, output=100)})
LAST = ModelReply("fin", usage=Usage(1, 1))
LAST_USD = 0.000101


class Mine:
    """A model that states a limit, and what its answers say."""

    name = "mine:x"
    context_tokens = None
    max_tokens = 1000

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        answer = self.answers.pop(0)
        if callable(answer):
            answer = await answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Boundless(Mine):
    """One of which nobody knows what it may take."""

    max_tokens = property()  # type: ignore[assignment]


def look(i: int) -> str:
    """Look."""
    return f"r{i}"


def calls(i: int, usage: Usage | None = None) -> ModelReply:
    return ModelReply("", (Call(str(i), "look", {"i": i}),), usage or Usage())


def budget(**limits: Any) -> Budget:
    return Budget(**{"tokens": 100_000, "usd": 5, "prices": PRICES} | limits)


def agent(journal: Journal, spends: Budget | None, *answers: Any, **options: Any) -> ReActAgent:
    model = options.pop("model", Mine)(*answers)
    return ReActAgent("a", model, actions=[look], budget=spends, journal=journal, **options)


def spent(of: Budget) -> tuple[int, float, int]:
    return of.spent.tokens, of.spent.usd, of.spent.model_calls


def with_last(before: tuple[int, float, int]) -> tuple[int, Any, int]:
    """The same, with one more call that states its tokens."""
    tokens, usd, model_calls = before
    return tokens + 2, pytest.approx(usd + LAST_USD), model_calls + 1


def test_answers_that_state_no_usage_and_calls_that_fail_count_as_reserved(
    journal: Journal,
) -> None:
    first = budget()
    script = (calls(1), calls(2, Usage(7, 3)), OSError("down"))
    assert agent(journal, first, *script).reply_sync("q", run_id="r").stop_reason == "error"
    assert first.spent.tokens > 2000
    second = budget()
    assert agent(journal, second, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(second) == with_last(spent(first))
    third = budget()
    assert agent(journal, third).reply_sync("q", run_id="r").text == "fin"
    assert spent(third) == spent(second)


def test_charge_of_a_period_that_is_over_counts_nothing(journal: Journal) -> None:
    script = (calls(1, Usage(7, 3)), OSError("down"))
    agent(journal, budget(), *script).reply_sync("q", run_id="r")
    in_two_days = SimpleNamespace(now=lambda: time.time() + 172_800)
    later = budget(per="day", clock=in_two_days)
    assert agent(journal, later, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(later) == with_last((0, 0, 0))


def test_charge_in_the_same_budget_counts_nothing_twice(journal: Journal) -> None:
    both = budget()
    for script in ((calls(1), OSError("down")), (OSError("down"),)):
        before = spent(both)
        agent(journal, both, *script).reply_sync("q", run_id="r")
    assert before[2] == 2
    before = spent(both)
    assert agent(journal, both, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(both) == with_last(before)


def test_runs_own_limit_holds_under_a_budget_that_processes_share(journal: Journal) -> None:
    asked = 0
    for limit in (1, 3, 3, 5, 5):
        team = Budget(model_calls=1000, journal=journal, name="team")
        script = [calls(n) for n in range(asked + 1, 10)]
        one = agent(journal, team.child(model_calls=limit), *script)
        assert one.reply_sync("q", run_id="r").stop_reason == "budget"
        asked = team.spent.model_calls
        assert asked == limit
    assert team.reserved.model_calls == 0


@pytest.mark.parametrize("model", (Mine, Boundless))
def test_call_under_way_when_the_process_ended_counts_as_reserved(
    tmp_path: Path, model: Any
) -> None:
    with Journal(tmp_path / "j") as journal:
        first = budget()
        crashing = Crashing(journal, tmp_path / "after")
        taken: list[tuple[int, float, int]] = []

        async def killed() -> ModelReply:
            so_far, reserved = first.spent, first.reserved
            taken.append(
                (
                    so_far.tokens + reserved.tokens,
                    so_far.usd + reserved.usd,
                    so_far.model_calls + reserved.model_calls,
                )
            )
            crashing("answer")
            return LAST

        script = (calls(1, Usage(7, 3)), killed)
        assert agent(journal, first, *script, model=model).reply_sync("q", run_id="r").text == "fin"
    with Journal(tmp_path / "after") as journal:
        second = budget(tokens=200_000, usd=10)
        assert agent(journal, second, LAST, model=model).reply_sync("q", run_id="r").text == "fin"
        assert spent(second) == with_last(taken[0])


def test_charge_of_calls_before_a_failed_hook_counts(journal: Journal) -> None:
    for kind, asked in (("pre_reasoning", 0), ("post_reasoning", 1)):
        first = budget()
        one = agent(journal, first, calls(1))
        one.register_hook(kind, "h", lambda agent, about: 1 / 0)  # type: ignore[arg-type]
        assert one.reply_sync("q", run_id=kind).stop_reason == "error"
        assert first.spent.model_calls == asked
        second = budget()
        assert agent(journal, second, LAST).reply_sync("q", run_id=kind).text == "fin"
        assert spent(second) == with_last(spent(first))


@pytest.mark.parametrize("how", ("cancelled", "deadline"))
def test_call_that_was_cancelled_counts_as_reserved(journal: Journal, how: str) -> None:
    async def main(journal: Journal) -> Budget:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        first = budget(seconds=0.05 if how == "deadline" else None, clock=StandingClock())
        reply = asyncio.ensure_future(agent(journal, first, hang).reply("q", run_id="r"))
        await begun.wait()
        if how == "cancelled":
            reply.cancel()
        await asyncio.wait((reply,))
        return first

    first = asyncio.run(main(journal))
    assert first.spent.tokens > 1000
    (charged,) = (entry for entry in journal.entries("r") if "charged" in entry.data)
    assert journal.run("r").tokens == first.spent.tokens
    line = charged.line
    assert line.startswith("model call 1 ")
    assert line.endswith(f"; charged {first.spent.tokens:,} tokens, 0.100255 US dollars")
    second = budget()
    assert agent(journal, second, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(second) == with_last(spent(first))


def test_charge_of_a_refused_call_is_nothing(journal: Journal) -> None:
    first = budget(tokens=900)
    assert agent(journal, first).reply_sync("q", run_id="r").stop_reason == "budget"
    second = budget()
    assert agent(journal, second, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(second) == with_last((0, 0, 0))


def test_models_count_at_their_own_prices(journal: Journal) -> None:
    def several(*answers: Any) -> FallbackModel:
        dear = Mine(*[ModelError("down")] * len(answers))
        dear.name = "mine:dear"
        return FallbackModel([dear, Mine(*answers)])

    prices = Prices({"mine:x": Price(1, 100), "mine:dear": Price(1000, 1000)})
    first = budget(prices=prices)
    agent(journal, first, calls(1), OSError("down"), model=several).reply_sync("q", run_id="r")
    assert first.spent.model_calls == 4
    second = budget(prices=prices, model_calls=4)
    reply = agent(journal, second, model=several).reply_sync("q", run_id="r")
    assert reply.stop_reason == "budget"
    assert spent(second) == spent(first)


def test_charge_recorded_without_a_price_gets_todays_price(journal: Journal) -> None:
    first = Budget(tokens=100_000)
    script = (calls(1, Usage(7, 3)), calls(2), OSError("down"))
    agent(journal, first, *script).reply_sync("q", run_id="r")
    second = budget()
    assert agent(journal, second, LAST).reply_sync("q", run_id="r").text == "fin"
    assert second.spent.tokens == first.spent.tokens + 2
    most = (first.spent.tokens - 7) * 0.0001 + 0.000007 + LAST_USD
    assert second.spent.usd == pytest.approx(most)


def test_stated_usage_counts_without_a_budget(journal: Journal) -> None:
    script = (calls(1, Usage(7, 3)), OSError("down"))
    agent(journal, None, *script).reply_sync("q", run_id="r")
    second = budget()
    assert agent(journal, second, LAST).reply_sync("q", run_id="r").text == "fin"
    assert spent(second) == (12, pytest.approx(0.000307 + LAST_USD), 3)


@pytest.mark.parametrize("whose", ("conversation", "reply"))
def test_choice_of_the_speaker_counts_too(whose: str, journal: Journal) -> None:
    def replied(journal: Journal, spends: Budget, *answers: Any) -> Reply:
        pair = [ReActAgent(id, ScriptedModel(["one", "two"])) for id in "AB"]
        chooser: Any = Mine(*answers)
        own, given = (spends, None) if whose == "conversation" else (None, spends)
        order = ChosenBy(chooser, repeat=True)
        talk = Conversation(pair, order, MaxTurns(2), budget=own, journal=journal)
        return talk.reply_sync("q", run_id="r", budget=given)

    prices = Prices({"mine:x": Price(1, 100), "scripted": Price(0, 0)})
    chosen = ModelReply(json.dumps({"next": "A"}))
    first = budget(prices=prices)
    reply = replied(journal, first, chosen, OSError("down"))
    assert reply.stop_reason == "error"
    assert first.spent.tokens > 2000
    before = first.spent.tokens
    replied(journal, first, OSError("down"))
    assert first.spent.tokens < before + 3000  # of one call; two would be over 4000
    second = budget(prices=prices, model_calls=4)
    reply = replied(journal, second, chosen)
    assert reply.stop_reason == "budget"
    assert spent(second) == spent(first)


def test_prompt_is_counted_once(tmp_path: Path) -> None:
    counted: list[str] = []

    class Counting(Mine):
        def count_tokens(self, text: str) -> int:
            counted.append(text)
            return len(text)

    with Journal(tmp_path / "j") as journal:
        agent(journal, budget(), calls(1), LAST, model=Counting).reply_sync("q", run_id="r")
    prompts = [text for text in counted if text.startswith("[[{")]
    assert len(prompts) == 2
    assert len(set(prompts)) == 2


@pytest.mark.parametrize("restarts", (False, True))
@pytest.mark.parametrize("waits", ("clerk", "helper", "expert"))
def test_calls_of_asked_agents_count_in_the_process_that_goes_on(
    journal: Journal, waits: str, restarts: bool
) -> None:
    asked: list[str] = []
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)

    def one(id: str, journal: Journal, spends: Budget | None, *actions: Action) -> ReActAgent:
        def answer(messages: Any, offered: Any) -> Any:
            asked.append(id)
            done = sum(len(each.get("tool_calls", ())) for each in messages)
            names = [each.name for each in actions] + ["pay"] * (id == waits)
            if done == len(names):
                return "Done."
            return Call(f"{id}{done}", names[done], {} if names[done] == "pay" else {"text": "Go."})

        model = ScriptedModel(answer)
        options: Any = {"journal": journal, "approver": Waiting(), "budget": spends}
        return ReActAgent(id, model, actions=[*actions, pay], **options)

    def make(journal: Journal) -> tuple[ReActAgent, Budget]:
        spends = Budget(model_calls=50)
        expert = one("expert", journal, None)
        helper = one("helper", journal, None, expert.as_action())
        return one("clerk", journal, spends, helper.as_action()), spends

    clerk, spends = make(journal)
    assert clerk.reply_sync("Go.", run_id="R").stop_reason == "waiting"
    assert spends.spent.model_calls == len(asked)
    for wait in journal.waiting(kind="approval"):
        journal.answer(wait.run, wait.key, True)
    for _ in range(2):  # what has ended counts once, too
        clerk, spends = make(journal) if restarts else (clerk, spends)
        assert clerk.reply_sync("Go.", run_id="R").stop_reason == "done"
    assert sorted(asked) == sorted(["clerk", "helper"] * 2 + ["expert"] + [waits])
    assert spends.spent.model_calls == len(asked)


@pytest.mark.parametrize("how", ("no journal", "another journal", "asks", "asks and waits"))
@pytest.mark.parametrize("process", ("another", "the same"))
def test_calls_of_asked_agents_that_the_journal_lacks_count_in_the_process_that_goes_on(
    tmp_path: Path, how: str, process: str
) -> None:
    own = str(tmp_path / "own.db") if how == "another journal" else None
    asked: list[str] = []

    def one(id: str, *answers: Any, **options: Any) -> ReActAgent:
        def answer(messages: Any, offered: Any) -> Any:
            asked.append(id)
            return answers[sum(each["role"] == "tool" for each in messages)]

        return ReActAgent(id, ScriptedModel(answer), **options)

    def make(journal: Journal) -> tuple[ReActAgent, list[Budget]]:
        parent = Budget(actions=50)
        child = parent if how.startswith("asks") else parent.child(model_calls=5)
        options: Any = {"journal": own, "budget": child}
        helper = one("helper", calls(1), calls(2), LAST, actions=[look], **options)

        async def ask(text: str, context: Context) -> Any:
            """Ask the helper."""
            text = (await helper.reply(text, budget=context.budget)).text
            return Later("bank") if how.endswith("waits") else text

        pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
        action = Action("helper", ask) if how.startswith("asks") else helper.as_action()
        answers = Call("1", "helper", {"text": "Go."}), Call("2", "pay", {}), LAST
        options = {"journal": journal, "approver": Waiting(), "budget": parent}
        return one("clerk", *answers, actions=[action, pay], **options), [parent, child]

    with Journal(tmp_path / "runs.db") as journal:
        for place in range(4):
            if not place or process == "another":
                clerk, (spends, child) = make(journal)
            reply = clerk.reply_sync("Go.", run_id="R")
            assert spends.spent.model_calls == len(asked)
            assert child is spends or child.spent.model_calls == asked.count("helper")
            for wait in journal.waiting():
                journal.answer(wait.run, wait.key, True)
        assert (reply.stop_reason, spends.spent.actions) == ("done", 4)
        assert sorted(asked) == ["clerk"] * 3 + ["helper"] * 3
