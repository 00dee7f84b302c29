"""What is left of the budget, told to the model, and the warning before its end."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import Budget, BudgetLow, Call, ConfigError, Journal, ReActAgent, ScriptedModel


def look(n: int) -> int:
    """Look."""
    return n


def looks(times: int) -> list[Any]:
    return [*(Call(f"c{n}", "look", {"n": n}) for n in range(times)), "Done."]


def lines_of(model: Any) -> list[str]:
    return [str(each[-1]["content"]) for each in model.received]


async def test_budget_line_says_in_the_last_message_of_each_prompt_what_is_left() -> None:
    model = ScriptedModel(looks(2))
    budget = Budget(model_calls=10, actions=3)
    agent = ReActAgent("clerk", model, actions=[look], budget=budget, budget_line=True)
    reply = await agent.reply("Go.")
    assert lines_of(model) == [
        f"What is left of the budget: {calls} model calls, {actions} actions."
        for calls, actions in ((10, 3), (9, 2), (8, 1))
    ]
    assert [each["role"] for each in model.received[1]][-2:] == ["tool", "user"]
    assert "budget" not in str(reply.messages) + str(agent.memory.get_memories())
    first, second = model.received[:2]
    assert second[: len(first) - 1] == first[:-1]  # so that a provider's cache holds


async def test_budget_line_of_a_budget_within_another_says_what_both_leave() -> None:
    whole = Budget(model_calls=5, tokens=1_000_000, usd=2, seconds=3600)
    model = ScriptedModel(["Done."])
    agent = ReActAgent("clerk", model, budget=whole, budget_line=True)
    await agent.reply("Go.", budget=whole.child(model_calls=9))
    (line,) = lines_of(model)
    assert line.startswith("What is left of the budget: 1,000,000 tokens, 2 US dollars, 5 model")
    assert line.endswith(" seconds.")


async def test_budget_line_is_absent_without_a_budget_or_a_limit() -> None:
    for budget in (None, Budget()):
        model = ScriptedModel(["Done."])
        agent = ReActAgent("clerk", model, budget=budget, budget_line=True, warn_at=0.5)
        async with agent.stream("Go.") as events:
            found = [event.kind async for event in events]
        assert (lines_of(model), "budget_low" in found) == (["Go."], False)


async def test_budget_warning_comes_once_for_each_limit_in_a_reply() -> None:
    budget = Budget(model_calls=20, actions=5)
    model = ScriptedModel([*looks(5), *looks(0)])
    agent = ReActAgent("clerk", model, actions=[look], budget=budget, warn_at=0.8)
    for expected in (
        [BudgetLow("clerk", "actions", 0.8, 1)],
        [BudgetLow("clerk", "actions", 1.0, 0)],
    ):
        async with agent.stream("Go.") as events:
            found = [event async for event in events if isinstance(event, BudgetLow)]
        assert [(each.limit, each.share, each.left) for each in found] == [
            (each.limit, each.share, each.left) for each in expected
        ]
    assert "What is left" not in str(model.received)


async def test_budget_warning_comes_for_a_parents_limit_too() -> None:
    whole = Budget(model_calls=4)
    whole.charge(model_calls=3)
    agent = ReActAgent("clerk", ScriptedModel(["Done."]), budget=whole.child(), warn_at=0.9)
    found: list[Any] = []
    agent.watch(found.append)
    await agent.reply("Go.")
    assert [(each.limit, each.share) for each in found if each.kind == "budget_low"] == [
        ("model_calls", 1.0)
    ]


async def test_budget_line_of_a_resumed_run_is_the_one_it_had(journal: Journal) -> None:
    def agent(journal: Journal, *answers: Any) -> ReActAgent:
        model = ScriptedModel(answers)
        budget = Budget(model_calls=10)
        return ReActAgent(
            "clerk", model, actions=[look], journal=journal, budget=budget, budget_line=True
        )

    first = agent(journal, *looks(1)[:1], ConnectionError("down"))
    assert (await first.reply("Go.", run_id="r")).stop_reason == "error"
    later = agent(journal, "", "", "Done.")
    assert (await later.reply("Go.", run_id="r")).text == "Done."
    assert lines_of(later.model) == ["What is left of the budget: 8 model calls."]
    assert journal.replay("r").text == "Done."


@pytest.mark.parametrize(
    "options", ({"budget_line": "yes"}, {"warn_at": 0}, {"warn_at": 1.5}, {"warn_at": "0.8"})
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="agent 'clerk'"):
        ReActAgent("clerk", ScriptedModel([]), **options)
