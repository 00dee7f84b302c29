"""Graphs of LangGraph as agents of ours, with scripted chat models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from moothall import CallbackApprover, ConfigError, Journal, Later, SQLiteMemory
from moothall.serving.theirs.langgraph import as_steps
from moothall.serving.theirs.langgraph_agent import LangGraphAgent
from serving.theirs.kills import Points, Store, kill_everywhere, reply_once_decided


class FunctionModel(BaseChatModel):
    """A chat model that is a function of its messages."""

    function: Callable[[Any], AIMessage]

    @property
    def _llm_type(self) -> str:
        return "function"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *parts: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.function(messages))])


def results(messages: Any) -> list[str]:
    return [str(each.content) for each in messages if isinstance(each, ToolMessage)]


def call(*calls: tuple[str, str, dict[str, Any]]) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": i, "name": n, "args": a} for i, n, a in calls])


class Shop:
    """A graph that pays and then says what came of it."""

    def __init__(self) -> None:
        self.payments: list[tuple[str, int]] = []
        self.asked = 0

    def answer(self, messages: Any) -> AIMessage:
        self.asked += 1
        if done := results(messages):
            return AIMessage(f"paid: {done[-1]}")
        return call(("c1", "pay", {"to": "Anna", "amount": 3}))

    def graph(self) -> Any:
        @tool
        def pay(to: str, amount: int) -> str:
            """Pay."""
            self.payments.append((to, amount))
            return f"{amount} to {to}"

        model = FunctionModel(function=self.answer)
        return create_agent(as_steps(model), as_steps([pay]))


async def test_framework_graph_replies_with_its_calls_as_steps(tmp_path: Path) -> None:
    shop, path = Shop(), tmp_path / "runs.db"
    clerk = LangGraphAgent("clerk", shop.graph(), journal=path)
    reply = await clerk.reply("Pay Anna", run_id="r")
    assert (reply.text, [each.args for each in reply.steps]) == (
        "paid: 3 to Anna",
        [{"to": "Anna", "amount": 3}],
    )
    assert [each["role"] for each in reply.messages] == ["user", "assistant", "tool", "assistant"]
    with Journal(path) as journal:
        assert journal.replay("r").text == reply.text
        assert journal.check() == []
    assert (await clerk.reply("Pay Anna", run_id="r")).text == reply.text
    assert (shop.asked, len(shop.payments)) == (2, 1)


async def test_framework_thread_goes_on_after_a_restart(tmp_path: Path) -> None:
    for count in (1, 3):
        model = FunctionModel(function=lambda messages: AIMessage(f"{len(messages)} messages"))
        graph = create_agent(as_steps(model), [])
        clerk = LangGraphAgent("clerk", graph, memory=SQLiteMemory(tmp_path / "memory.db"))
        assert (await clerk.reply("Go", thread="anna")).text == f"{count} messages"


@pytest.mark.parametrize("decision", (True, False))
async def test_framework_approval_waits_in_the_journal(tmp_path: Path, decision: bool) -> None:
    path, shop = tmp_path / "runs.db", Shop()

    def make() -> LangGraphAgent:
        approver = CallbackApprover(lambda request: Later())
        tools: Any = {"pay": {"access_policy": "requested"}}
        return LangGraphAgent("c", shop.graph(), journal=path, approver=approver, tools=tools)

    await reply_once_decided(make, path, decision, shop.payments)
    assert (len(shop.payments), shop.asked) == (decision, 2)


@pytest.mark.parametrize("restarts", (True, False))
async def test_framework_interrupt_waits_and_what_its_node_did_before_is_not_done_again(
    tmp_path: Path, restarts: bool
) -> None:
    done: list[str] = []

    def make() -> LangGraphAgent:
        @tool
        def book(what: str) -> str:
            """Book."""
            done.append(what)
            return f"{what} booked"

        booking = as_steps(book)

        async def node(state: Any) -> Any:
            first = await booking.ainvoke({"what": "seat"})
            answer = interrupt("Sure?")
            return {"messages": [AIMessage(f"{first}, {answer}")]}

        graph = StateGraph(MessagesState)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        return LangGraphAgent("clerk", graph.compile(), journal=tmp_path / "runs.db")

    first = make()
    assert (await first.reply("Go", run_id="r")).stop_reason == "waiting"
    with Journal(tmp_path / "runs.db") as journal:
        (wait,) = journal.waiting()
        journal.answer("r", wait.key, "yes")
    reply = await (make() if restarts else first).reply("Go", run_id="r")
    assert (reply.text, done) == ("seat booked, yes", ["seat"])


async def test_plain_nodes_side_by_side_keep_their_keys(tmp_path: Path) -> None:
    model = as_steps(FunctionModel(function=lambda messages: AIMessage("seen")))
    graph = StateGraph(MessagesState)
    for name in ("left", "right"):
        graph.add_node(name, lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_edge(START, name)
    clerk = LangGraphAgent("clerk", graph.compile(), journal=tmp_path / "runs.db")
    assert (await clerk.reply("Go", run_id="r")).text == "seen"
    with Journal(tmp_path / "runs.db") as journal:
        keys = {e.data["key"] for e in journal.entries("r") if e.kind == "ended"}
    assert keys == {"left@1/1", "right@1/1"}


async def test_framework_graph_without_steps_is_refused() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    model = FunctionModel(function=lambda messages: AIMessage("done"))
    with pytest.raises(ConfigError, match="'look' must be as_steps"):
        LangGraphAgent("clerk", create_agent(as_steps(model), [look]))
    with pytest.raises(ConfigError, match="FunctionModel must be as_steps"):
        LangGraphAgent("clerk", create_agent(model, as_steps([look])))
    with pytest.raises(ConfigError, match="two tools of the name 'look'"):
        as_steps([look, look])
    graph = StateGraph(MessagesState)
    with pytest.raises(ConfigError, match="must be of the class Pregel of langgraph"):
        LangGraphAgent("clerk", graph)
    graph.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "answer")
    with pytest.raises(ConfigError, match="FunctionModel must be as_steps"):
        LangGraphAgent("clerk", graph.compile())


async def test_framework_graph_that_hides_its_model_ends_as_an_error() -> None:
    class Desk:
        def answer(self, state: Any) -> Any:
            model = FunctionModel(function=lambda messages: AIMessage("done"))
            return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", Desk().answer)
    graph.add_edge(START, "answer")
    reply = await LangGraphAgent("clerk", graph.compile()).reply("Go")
    assert (reply.stop_reason, "as_steps(model)" in reply.detail) == ("error", True)


@pytest.mark.timeout(600)
def test_framework_killed_run_does_nothing_twice_and_loses_nothing(
    tmp_path: Path, is_on_server: bool, journal_store: Store
) -> None:
    def make(points: Points, path: str) -> LangGraphAgent:
        def answer(messages: Any) -> AIMessage:
            points.model()
            done = results(messages)
            if not done:
                return call(*((to, "pay", {"to": to}) for to in ("Anna", "Bob")))
            if len(done) == 2:
                return call(("n", "note", {"text": "both"}))
            return AIMessage(" ".join(done))

        @tool
        async def pay(to: str) -> str:
            """Pay."""
            return points.effect(f"pay-{to}")

        @tool
        async def note(text: str) -> str:
            """Note."""
            return points.effect(f"note-{text}")

        note.metadata = {"requires_approval": is_on_server}
        graph = create_agent(as_steps(FunctionModel(function=answer)), as_steps([pay, note]))
        approver = CallbackApprover(lambda request: Later())
        return LangGraphAgent("clerk", graph, journal=path, approver=approver)

    kill_everywhere(make, tmp_path, journal_store)
