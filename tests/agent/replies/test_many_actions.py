"""More actions than a model should be shown at once: it finds them by words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_DENIED,
    ACCESS_REQUESTED,
    Action,
    Agent,
    Call,
    CallbackApprover,
    ConfigError,
    DefinitionError,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.memory.bounded import estimate_tokens

FRUIT = ("apple", "pear", "plum", "fig", "lemon", "quince", "cherry", "peach")


def deferred(name: str, about: str, **options: Any) -> Action:
    def done(item: str = "") -> str:
        return f"{name} {item}".strip()

    return Action(name, done, about, deferred=True, **options)


def shop() -> list[Action]:
    return [deferred(f"buy_{each}", f"Buy a {each} at the market.") for each in FRUIT]


def find(words: str, id: str = "f1") -> Call:
    return Call(id, "find_actions", {"words": words})


def names(actions: Any) -> list[str]:
    return [each.name for each in actions or ()]


class Shown(ScriptedModel):
    """Keeps the names of the actions that each prompt came with."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(answers)
        self.shown: list[list[str]] = []

    async def complete(self, messages: Any, actions: Any = None, **options: Any) -> Any:
        self.shown.append(names(actions))
        return await super().complete(messages, actions, **options)


def test_deferred_action_is_found_by_words_and_then_called_as_any() -> None:
    model = Shown([find("cherries"), Call("c", "buy_cherry", {"item": "red"}), "done"])
    agent = ReActAgent("a", model, actions=[*shop(), deferred("sing", "Sing a song.")])

    reply = agent.reply_sync("Get me red cherries")

    assert reply.stop_reason == "done"
    assert reply.steps[1].result["result"] == "buy_cherry red"
    assert model.shown[0] == ["find_actions"]
    assert model.shown[1] == ["find_actions", "buy_cherry"]


def test_found_actions_come_after_all_others_in_the_order_of_their_finding() -> None:
    def look() -> str:
        """Look around."""
        return "nothing"

    model = Shown([find("quince", "1"), find("apple plum", "2"), find("quince", "3"), "done"])
    ReActAgent("a", model, actions=[*shop(), look]).reply_sync("go")

    before: list[str] = []
    for shown in model.shown:
        assert shown[: len(before)] == before
        before = shown
    assert before == ["look", "find_actions", "buy_quince", "buy_apple", "buy_plum"]


def test_find_actions_finds_five_at_most_the_best_first() -> None:
    model = ScriptedModel([find("buy a fig at the market"), "done"])
    reply = ReActAgent("a", model, actions=shop()).reply_sync("go")

    found = reply.steps[0].result["result"]
    assert len(found) == 5
    assert found[0] == {"name": "buy_fig", "description": "Buy a fig at the market."}


def test_find_actions_by_a_whole_name_finds_that_action_first() -> None:
    others = [deferred(f"pay_{each}", "Pay, pay and pay.") for each in ("bill", "rent")]
    model = ScriptedModel([find(" pay "), "done"])
    actions = [*others, deferred("pay", "Settle an invoice, by its number, in any currency.")]
    reply = ReActAgent("a", model, actions=actions).reply_sync("go")

    names = [each["name"] for each in reply.steps[0].result["result"]]
    assert names == ["pay", "pay_bill", "pay_rent"]


def test_find_actions_finds_an_action_by_its_description_of_now() -> None:
    actions = shop()
    for words in ("market", "zeppelin"):
        agent = ReActAgent("a", ScriptedModel([find(words), "done"]), actions=actions)
        found = agent.reply_sync("go").steps[0].result["result"]
        assert found[-1]["name"].startswith("buy_")
        actions[0].description = "Order a zeppelin."


@pytest.mark.parametrize("words", ("", "the of and", "xylophone", "(?:[", "\0"))
def test_find_actions_that_finds_nothing_says_so(words: str) -> None:
    model = ScriptedModel([find(words), "done"])
    reply = ReActAgent("a", model, actions=shop()).reply_sync("go")

    assert reply.text == "done"
    assert "No action matches" in reply.steps[0].result["result"]


def test_parameters_and_their_values_are_searched_too() -> None:
    schema = {
        "type": "object",
        "properties": {
            "currency_code": {"enum": ["EUR", "USD"], "description": "of the account"},
            "rounding": {"anyOf": [{"enum": ["half_even"]}, {"type": "integer"}]},
        },
    }
    convert = Action("convert", lambda **_: 1, "Convert.", schema, deferred=True)
    for words in ("currency", "usd", "account", "half even"):
        model = ScriptedModel([find(words), "done"])
        reply = ReActAgent("a", model, actions=[*shop(), convert]).reply_sync("go")
        assert reply.steps[0].result["result"][0]["name"] == "convert", words


def test_deferred_action_called_by_its_exact_name_is_executed_as_any() -> None:
    model = ScriptedModel([Call("c", "buy_fig", {"item": "ripe"}), "done"])
    reply = ReActAgent("a", model, actions=shop()).reply_sync("go")

    assert reply.steps[0].result["result"] == "buy_fig ripe"


def test_found_actions_keep_their_policies() -> None:
    asked: list[str] = []

    def refuse(request: Any) -> bool:
        asked.append(request.action)
        return False

    tools = [
        deferred("pay_bill", "Pay a bill.", access_policy=ACCESS_REQUESTED),
        deferred("pay_bribe", "Pay a bribe.", access_policy=ACCESS_DENIED),
    ]
    model = Shown([find("pay"), Call("c", "pay_bill", {}), "done"])
    agent = ReActAgent("a", model, actions=tools, approver=CallbackApprover(refuse))
    reply = agent.reply_sync("go")

    assert asked == ["pay_bill"]
    assert "not permitted" in str(reply.steps[1].error)
    assert model.shown[1] == ["find_actions", "pay_bill"]


def test_found_actions_stay_in_the_next_reply_of_the_thread_and_in_no_other() -> None:
    model = Shown([find("fig"), "one", "two", "three"])
    agent = ReActAgent("a", model, actions=shop())
    agent.reply_sync("go", thread="ada")
    agent.reply_sync("go on", thread="ada")
    agent.reply_sync("hello", thread="bob")

    assert model.shown[2] == ["find_actions", "buy_fig"]
    assert model.shown[3] == ["find_actions"]


def test_deferred_actions_of_a_resumed_run_are_shown_in_the_same_order(tmp_path: Path) -> None:
    def agent(answers: list[Any]) -> tuple[ReActAgent, Shown]:
        model = Shown(answers)
        journal = str(tmp_path / "runs.db")
        return ReActAgent("a", model, actions=shop(), journal=journal), model

    searches = [find("quince", "1"), find("apple", "2")]
    answers = [*searches, ConnectionError("the cable"), "done"]
    first, known = agent(answers)
    assert first.reply_sync("go", run_id="r", thread="t").stop_reason == "error"
    again, model = agent(answers)
    reply = again.reply_sync("go", run_id="r", thread="t")

    assert reply.text == "done"
    assert known.shown[-1] == ["find_actions", "buy_quince", "buy_apple"]
    assert model.shown == [known.shown[-1]]


def test_deferred_actions_refuse_an_action_of_the_name_of_the_search() -> None:
    def find_actions() -> str:
        """Find."""
        return ""

    agent = ReActAgent("a", ScriptedModel(["x"]), actions=[find_actions, *shop()])
    reply = agent.reply_sync("go")

    assert reply.stop_reason == "error"
    assert isinstance(reply.error, DefinitionError)
    assert "give it another name" in reply.detail


def test_deferred_that_is_no_boolean_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="deferred= must be True or False, got 1"):
        Action("x", lambda: None, deferred=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="agent 'a': deferred= must be True or False"):
        ReActAgent("a", ScriptedModel([]), deferred="yes")  # type: ignore[arg-type]


def test_deferred_actions_by_the_thousand_add_less_than_600_tokens() -> None:
    model = ScriptedModel(["done"])
    taken: list[Any] = []

    async def complete(messages: Any, actions: Any = None, **options: Any) -> Any:
        taken.extend(actions)
        return await ScriptedModel.complete(model, messages, actions, **options)

    model.complete = complete  # type: ignore[method-assign]
    tools = [deferred(f"tool_{n}", f"Does the thing number {n}. " * 20) for n in range(1000)]
    ReActAgent("a", model, actions=tools).reply_sync("go")

    texts = [json.dumps([each.name, each.description, each.parameters]) for each in taken]
    assert len(taken) == 1
    assert sum(map(estimate_tokens, texts)) < 600


# -- by itself -------------------------------------------------------------------------------------


def agent_with(id: str, actions: dict[str, str]) -> Agent:
    """Return an agent with these actions, each described."""

    def act(about: str) -> Any:
        async def method(self: Any, item: str = "") -> str:
            return about

        method.__doc__ = about
        return method

    marked = {name: action(name=name)(act(about)) for name, about in actions.items()}
    return type("Offering", (Agent,), marked)(id)


def crowd(space: NativeSpace, count: int) -> None:
    for number in range(4):
        tools = {f"t{number}_{n}": f"Count the sheep of field {n}." for n in range(count // 4)}
        space.add(agent_with(f"farm{number}", tools))


@pytest.mark.parametrize(
    ("count", "options", "is_hidden"),
    (
        (44, {}, True),
        (28, {}, False),
        (44, {"deferred": False}, False),
        (4, {"deferred": True}, True),
    ),
)
def test_discovered_actions_are_deferred_once_there_are_over_40(
    space: NativeSpace, count: int, options: dict[str, Any], is_hidden: bool
) -> None:
    def own() -> str:
        """Of the program."""
        return ""

    crowd(space, count)
    model = Shown(["done"])
    agent = space.add(ReActAgent("a", model, actions=[own], discover="*", **options))
    agent.reply_sync("go")

    assert model.shown[0][0] == "own"
    assert ("find_actions" in model.shown[0]) is is_hidden
    assert any("t0_0" in name for name in model.shown[0]) is not is_hidden


def test_deferred_actions_are_never_a_programs_own_functions_by_themselves() -> None:
    tools = [Action(f"tool_{n}", lambda: None, "Do it.") for n in range(60)]
    model = Shown(["done"])
    ReActAgent("a", model, actions=tools).reply_sync("go")

    assert model.shown[0] == names(tools)


def test_find_actions_gives_one_server_three_of_five_hits_as_long_as_others_match(
    space: NativeSpace,
) -> None:
    greedy = {f"sheep{n}": "Sheep sheep sheep: count the sheep." for n in range(20)}
    space.add(agent_with("greedy", greedy))
    for n in range(3):
        space.add(agent_with(f"honest{n}", {"tally": "Tally the flock of sheep in a field."}))
    model = ScriptedModel([find("count the sheep"), find("greedy", "2"), "done"])
    agent = space.add(ReActAgent("a", model, discover="*", deferred=True))
    first, second = [
        [each["name"] for each in step.result["result"]] for step in agent.reply_sync("go").steps
    ]

    assert sum("greedy" in name for name in first) == 3
    assert sum("honest" in name for name in first) == 2
    assert len(second) == 5  # nothing else matches
