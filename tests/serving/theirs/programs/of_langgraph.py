"""Graphs of LangGraph: a research agent, a calculator, a team of writers, a desk for mails."""

from __future__ import annotations

import operator
from functools import partial
from typing import Annotated, Any, Literal

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel
from typing_extensions import TypedDict

from moothall import LangGraphAgent
from moothall.serving.theirs.langgraph import as_steps
from serving.theirs.programs.program import Program


class Scripted(BaseChatModel):
    """A chat model that gives these answers, by how many its prompt has."""

    answers: list[Any]
    _llm_type = "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[{"name": getattr(e, "name", str(e))} for e in tools])

    def _generate(self, messages: Any, *parts: Any, **options: Any) -> ChatResult:
        place = sum(isinstance(each, AIMessage) for each in messages)
        answer = self.answers[place]
        if isinstance(answer, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])
        calls: Any = [
            {"id": f"c{place}.{n}", "name": name, "args": args}
            for n, (name, args) in enumerate(answer)
        ]
        message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def program(graph: Any, task: str, tool: str, effects: list[str]) -> Program:
    async def bare() -> Any:
        result = await graph.ainvoke({"messages": [HumanMessage(task)]})
        return result["messages"][-1].content

    return Program(partial(LangGraphAgent, "clerk", graph), bare, task, tool, effects)


# -- an agent of langchain with tools --------------------------------------------------------------


def researcher() -> Program:
    effects: list[str] = []

    @tool
    def search(query: str) -> str:
        """Search the web."""
        return f"Result for: {query}"

    @tool(parse_docstring=True)
    async def save(title: str, text: str) -> str:
        """Save a report.

        Args:
            title: its title
            text: its text
        """
        effects.append(title)
        return f"saved {title}"

    model = Scripted(
        answers=[
            [("search", {"query": "bees"}), ("search", {"query": "wasps"})],
            [("save", {"title": "Insects", "text": "Bees and wasps."})],
            "The report is saved.",
        ]
    )
    agent = create_agent(
        as_steps(model), as_steps([search, save]), system_prompt="You are a researcher."
    )
    return program(agent, "Write on insects", "save", effects)


# -- a calculator, whose node calls the tools itself -----------------------------------------------


class Counted(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]
    llm_calls: int


def calculator() -> Program:
    effects: list[str] = []

    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply `a` and `b`."""
        return a * b

    @tool
    def note(number: int) -> str:
        """Note a number."""
        effects.append(str(number))
        return "noted"

    tools = as_steps([multiply, note])
    by_name = {each.name: each for each in tools}
    answers: list[Any] = [
        [("multiply", {"a": 3, "b": 4})],
        [("note", {"number": 12})],
        "It is 12.",
    ]
    model = as_steps(Scripted(answers=answers)).bind_tools(tools)

    def llm_call(state: Counted) -> Any:
        prompt = [SystemMessage("You do arithmetic."), *state["messages"]]
        return {"messages": [model.invoke(prompt)], "llm_calls": state.get("llm_calls", 0) + 1}

    def tool_node(state: Counted) -> Any:
        last: Any = state["messages"][-1]
        return {
            "messages": [
                ToolMessage(str(by_name[e["name"]].invoke(e["args"])), tool_call_id=e["id"])
                for e in last.tool_calls
            ]
        }

    def goes_on(state: Counted) -> Literal["tool_node", "__end__"]:
        last: Any = state["messages"][-1]
        return "tool_node" if last.tool_calls else END

    graph = StateGraph(Counted)
    graph.add_node("llm_call", llm_call)
    graph.add_node("tool_node", tool_node)
    graph.add_edge(START, "llm_call")
    graph.add_conditional_edges("llm_call", goes_on, ["tool_node", END])
    graph.add_edge("tool_node", "llm_call")
    return program(graph.compile(), "What is 3 times 4?", "note", effects)


# -- an orchestrator and its workers, side by side -------------------------------------------------


class Report(MessagesState):
    sections: list[str]
    done: Annotated[list[str], operator.add]


class Section(TypedDict):
    section: str
    done: Annotated[list[str], operator.add]


def writers() -> Program:
    effects: list[str] = []

    @tool
    async def publish(text: str) -> str:
        """Publish a report."""
        effects.append(text)
        return "published"

    planner, writer = (
        as_steps(Scripted(answers=["Past, Future"])),
        as_steps(Scripted(answers=["…"])),
    )
    publishing = as_steps(publish)

    async def plan(state: Report) -> Any:
        answer = await planner.ainvoke(state["messages"])
        return {"sections": answer.content.split(", ")}

    async def write(state: Section) -> Any:
        answer = await writer.ainvoke([HumanMessage(state["section"])])
        return {"done": [f"{state['section']}: {answer.content}"]}

    async def join(state: Report) -> Any:
        text = "\n".join(sorted(state["done"]))
        said = await publishing.ainvoke({"text": text})
        return {"messages": [AIMessage(f"{said}: {text}")]}

    graph = StateGraph(Report)
    graph.add_node("plan", plan)
    graph.add_node("write", write)  # type: ignore[type-var]
    graph.add_node("join", join)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda state: [Send("write", {"section": each}) for each in state["sections"]]
    )
    graph.add_edge("write", "join")
    graph.add_edge("join", END)
    return program(graph.compile(), "Write about bees", "publish", effects)


# -- a desk for mails, whose nodes say where it goes on --------------------------------------------


class Intent(BaseModel):
    intent: str
    urgency: str


class Mail(MessagesState):
    intent: str
    draft: str


def mail_desk() -> Program:
    effects: list[str] = []

    @tool
    def send_reply(text: str) -> str:
        """Send a reply."""
        effects.append(text)
        return "sent"

    sending = as_steps(send_reply)
    sorter = as_steps(Scripted(answers=['{"intent": "billing", "urgency": "high"}']))
    drafter = as_steps(Scripted(answers=["We look into it."]))

    def classify(state: Mail) -> Command[Literal["billing", "draft"]]:
        text = sorter.invoke([SystemMessage("Sort it."), *state["messages"]]).content
        found = Intent.model_validate_json(text)
        goto: Any = "billing" if found.intent == "billing" else "draft"
        return Command(update={"intent": found.intent}, goto=goto)

    def billing(state: Mail) -> Command[Literal["draft"]]:
        return Command(update={"messages": [AIMessage("Ticket 7 is open.")]}, goto="draft")

    def draft(state: Mail) -> Any:
        answer = drafter.invoke(
            [HumanMessage(f"{state['intent']}: {state['messages'][0].content}")]
        )
        return {"draft": answer.content}

    def send(state: Mail) -> Any:
        return {"messages": [AIMessage(f"{sending.invoke({'text': state['draft']})}, ticket 7")]}

    graph = StateGraph(Mail)
    for name, node in (
        ("classify", classify),
        ("billing", billing),
        ("draft", draft),
        ("send", send),
    ):
        graph.add_node(name, node)
    graph.add_edge(START, "classify")
    graph.add_edge("draft", "send")
    graph.add_edge("send", END)
    return program(graph.compile(), "I was charged twice", "send_reply", effects)


PROGRAMS = (researcher, calculator, writers, mail_desk)
