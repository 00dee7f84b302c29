"""Runs of other frameworks' agents in their frozen worlds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from moothall import (
    ACCESS_REQUESTED,
    CallbackApprover,
    ConfigError,
    Journal,
    LangGraphAgent,
    PydanticAIAgent,
    ReActAgent,
    ScriptedModel,
)
from moothall.evals import Case, Dataset, Evaluation, FrozenWorld, same_calls_as_record
from moothall.serving.theirs.langgraph import as_steps
from serving.theirs import test_langgraph, test_openai_agents, test_pydantic_ai
from serving.theirs.little_framework import Little, LittleAgent

TOOLS: Any = {"pay": {"access_policy": ACCESS_REQUESTED}}
YES = CallbackApprover(lambda request: True)


class LittleShop:
    """A program of the little framework whose first payment fails."""

    def __init__(self) -> None:
        self.payments: list[tuple[str, int]] = []
        self.asked = 0

    def script(self, messages: list[Any]) -> Any:
        self.asked += 1
        count = sum(each["role"] == "tool" for each in messages)
        if count < 2:
            return [(f"c{count}", "pay", {"to": "Anna", "amount": 99 if count == 0 else 3})]
        return messages[-1]["content"]

    def pay(self, to: str, amount: int) -> str:
        if amount == 99:
            raise ValueError("too much")
        self.payments.append((to, amount))
        return f"{amount} to {to}"


def little(**options: Any) -> tuple[Any, Any]:
    shop = LittleShop()
    return shop, LittleAgent("clerk", Little(shop.script, pay=shop.pay), **options)


def of_pydantic_ai(**options: Any) -> tuple[Any, Any]:
    shop = test_pydantic_ai.Shop()
    return shop, PydanticAIAgent("clerk", shop.agent(), **options)


class AskedShop(test_openai_agents.Shop):
    """A shop that counts the requests to its model."""

    asked = 0

    def answer(self, items: Any) -> list[Any]:
        self.asked += 1
        return super().answer(items)


def of_openai_agents(**options: Any) -> tuple[Any, Any]:
    shop = AskedShop()
    return shop, test_openai_agents.AgentsSDKAgent("clerk", shop.agent(), **options)


def of_langgraph(**options: Any) -> tuple[Any, Any]:
    shop = test_langgraph.Shop()
    return shop, LangGraphAgent("clerk", shop.graph(), **options)


MAKERS = (little, of_pydantic_ai, of_openai_agents, of_langgraph)


@pytest.mark.parametrize("make", MAKERS)
async def test_frozen_world_of_a_program_of_others_asks_no_model_and_pays_nothing(
    tmp_path: Path, make: Callable[..., tuple[Any, Any]]
) -> None:
    _, clerk = make(journal=tmp_path / "runs.db", approver=YES, tools=TOOLS)
    recorded = await clerk.reply("Pay Anna", run_id="r")
    for model in ("recorded", None):
        shop, clerk = make(tools=TOOLS)
        world = FrozenWorld(str(tmp_path / "runs.db"), "r", model=model)
        reply = await world.reply(clerk)
        assert (reply.text, reply.stop_reason) == (recorded.text, "done"), reply.detail
        assert [each.result for each in reply.steps] == [each.result for each in recorded.steps]
        assert (shop.payments, world.left_calls, world.differs) == ([], [], "")
        assert (shop.asked > 0) is (model is None)


@pytest.mark.parametrize("make", MAKERS)
async def test_evaluation_of_a_program_of_others_finds_another_prompt_and_call(
    tmp_path: Path, make: Callable[..., tuple[Any, Any]]
) -> None:
    _, clerk = make(journal=tmp_path / "runs.db", approver=YES, tools=TOOLS)
    await clerk.reply("Pay Anna", run_id="r")

    data = Dataset.from_runs(str(tmp_path / "runs.db"))
    evaluation = Evaluation(
        lambda: make(tools=TOOLS)[1],
        data,
        [same_calls_as_record],
        {"recorded": {"model": "recorded"}},
        journal=tmp_path / "evals.db",
    )
    results = await evaluation.run()
    assert (results.errors, results.mean("same_calls_as_record").mean) == ([], 1.0)
    data.cases[0] = Case("r", "Pay Bo", run="r")
    results = await evaluation.run()
    assert results.mean("same_calls_as_record").mean == 0.0
    assert "1 is not the recorded one" in results.cells[0].reasons["same_calls_as_record"]


async def test_frozen_world_of_a_graph_has_the_answers_of_people_and_its_nodes_calls(
    tmp_path: Path,
) -> None:
    payments: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        payments.append(amount)
        return f"paid {amount}"

    pay = as_steps(pay)

    def clerk(amount: int, **options: Any) -> LangGraphAgent:
        def node(state: Any) -> Any:
            text = f"{pay.invoke({'amount': amount})}, {interrupt('Go on?')}"
            return {"messages": [{"role": "assistant", "content": text}]}

        graph = StateGraph(MessagesState)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        return LangGraphAgent("clerk", graph.compile(), **options)

    journal = Journal(tmp_path / "runs.db")
    first = clerk(3, journal=journal)
    await first.reply("Pay", run_id="r")
    journal.answer("r", journal.waiting("r")[0].key, "yes", by="eva")
    await first.resume_decided()
    world = FrozenWorld(journal, "r", model="recorded")
    assert (await world.reply(clerk(3))).text == "paid 3, yes"
    assert world.left_calls == []
    reply = await world.reply(clerk(4))
    assert ([str(each) for each in world.left_calls], payments) == (["pay(amount=4): refused"], [3])
    assert "not available" in reply.text


async def test_frozen_world_of_a_program_of_others_takes_no_other_model_or_prompt(
    tmp_path: Path,
) -> None:
    _, clerk = little(journal=tmp_path / "runs.db", approver=YES)
    await clerk.reply("Pay Anna", run_id="r")
    for options in ({"model": ScriptedModel(["x"])}, {"system_prompt": "x"}):
        world = FrozenWorld(clerk.journal, "r", **options)
        with pytest.raises(ConfigError, match="'clerk' asks its own models: compare it by"):
            await world.reply(little()[1])


async def test_frozen_world_of_one_of_ours_has_a_program_of_others_reply_again(
    tmp_path: Path,
) -> None:
    def boss(**options: Any) -> tuple[Any, ReActAgent]:
        shop, clerk = little(description="pays")
        answers = [{"name": "clerk", "args": {"text": "Pay Anna"}}, "done"]
        actions = [clerk.as_action("clerk")]
        return shop, ReActAgent("boss", ScriptedModel(answers), actions=actions, **options)

    _, first = boss(journal=tmp_path / "runs.db")
    await first.reply("Go", run_id="r")
    shop, again = boss()
    world = FrozenWorld(first.journal, "r", model="recorded")
    reply = await world.reply(again)
    assert (reply.text, shop.payments, shop.asked, world.left_calls) == ("done", [], 0, [])
