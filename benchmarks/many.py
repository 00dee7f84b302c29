"""Many actions, and long results: what a model finds, and what stays in its window.

    python -m benchmarks.many [--quick]

The search gets the user's questions of the Berkeley Function Calling Leaderboard as they are, with
all functions of both parts offered at once (`scripts/corpora` unpacks them): the figure is the
share of questions whose function is among the five that are found. The 200 calls return 50 kB each
to a script in the place of a model, whose window is 32,000 tokens of four characters. With
Pydantic AI and deepagents installed, they do the same beside us.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.measure import emit, installed
from benchmarks.minds.bfcl import action, data
from moothall import Action, Call, ContextOverflow, ModelReply, ReActAgent
from moothall.actions.search import ActionIndex
from moothall.memory.bounded import estimate_tokens
from moothall.models import Model

PARTS = {"simple": "simple_python", "multiple": "multiple"}
WINDOW = 32_000
CHARS = 4
LENGTH = 50_000


# -- search ----------------------------------------------------------------------------------------


def offered() -> tuple[list[dict[str, Any]], dict[str, list[tuple[str, str]]]]:
    """All functions, under names of their own, and the questions with the function of each."""
    functions: dict[str, dict[str, Any]] = {}
    asked: dict[str, list[tuple[str, str]]] = {}
    for part, file in PARTS.items():
        name = f"BFCL_v4_{file}.json"
        lines = (data() / "possible_answer" / name).read_text().splitlines()
        right = {(row := json.loads(line))["id"]: row["ground_truth"] for line in lines}
        for line in (data() / name).read_text().splitlines():
            task = json.loads(line)
            for each in task["function"]:
                functions.setdefault(json.dumps(each, sort_keys=True), each)
            question = task["question"][0][-1]["content"]
            asked.setdefault(part, []).append((question, next(iter(right[task["id"]][0]))))
    made: list[dict[str, Any]] = []
    times: dict[str, int] = {}
    for each in functions.values():
        times[each["name"]] = number = times.get(each["name"], 0) + 1
        made.append(each if number == 1 else {**each, "name": f"{each['name']}__{number}"})
    return made, asked


def search(who: str, find: Callable[[str], Sequence[str]], asked: Any) -> None:
    for part, questions in asked.items():
        right = sum(name in {each.partition("__")[0] for each in find(q)} for q, name in questions)
        emit("search", f"{part}, {who}", right / len(questions), "share", cases=len(questions))


def searches() -> None:
    functions, asked = offered()
    index = ActionIndex([action(each) for each in functions])
    emit("search", "functions offered at once", len(functions), "functions")
    search("moothall", lambda question: [each.name for each in index.find(question)], asked)
    if installed("pydantic_ai"):
        search("pydantic_ai", pydantic_ai_search(functions), asked)


def pydantic_ai_search(functions: list[dict[str, Any]]) -> Callable[[str], Sequence[str]]:
    """Its own search, by default for models without one; it returns ten, of which five count."""
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    tools = [
        ToolDefinition(name=each["name"], description=each["description"]) for each in functions
    ]
    return lambda question: keywords_search_fn(None, [question], tools)[:5]


def tokens() -> None:
    """What 1,000 deferred actions add to a prompt."""
    shown: list[Any] = []

    class Looks:
        name = "looks"
        context_tokens: int | None = None

        async def complete(self, messages: Any, actions: Any = None) -> ModelReply:
            shown.extend(actions)
            return ModelReply(text="done")

    tools = [
        Action(f"tool_{n}", lambda: None, f"Does the thing number {n}. " * 20, deferred=True)
        for n in range(1000)
    ]
    ReActAgent("a", Looks(), actions=tools).reply_sync("go")
    texts = [json.dumps([each.name, each.description, each.parameters]) for each in shown]
    emit("1,000 actions", "moothall", sum(map(estimate_tokens, texts)), "tokens")


# -- long results ----------------------------------------------------------------------------------


def page(n: int) -> str:
    """A text of 50 kB, each line another."""
    return "".join(f"line {i} of page {n}: {'lorem ipsum ' * 4}\n" for i in range(1, 801))[:LENGTH]


class Prompts:
    """What the prompts of one run were."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []

    def take(self, messages: Sequence[str]) -> bool:
        """Keep a prompt; return whether it fits the window."""
        self.made.append([*messages])
        return sum(map(len, messages)) <= WINDOW * CHARS

    def show(self, who: str, refused: int, calls: int) -> None:
        first = self.made[: calls + 1]  # before results are read again
        grows = sum(after[: len(before)] == before for before, after in pairwise(first))
        largest = max(sum(map(len, each)) for each in self.made) / CHARS
        emit("long results: refused as too long", who, refused, "prompts", of=len(self.made))
        emit("long results: largest prompt", who, largest, "tokens", window=WINDOW)
        emit("long results: only extend the one before", who, grows / calls, "share")


def ours(calls: int) -> None:
    prompts, refused, wanted = Prompts(), 0, [*range(1, calls + 1)]

    class Reads:
        name = "reads"
        context_tokens: int | None = WINDOW
        asked = 0

        async def complete(self, messages: Any, actions: Any = None) -> ModelReply:
            nonlocal refused
            if not prompts.take([json.dumps(each) for each in messages]):
                refused += 1
                raise ContextOverflow("too long")
            self.asked += 1
            if self.asked <= calls:
                return ModelReply(calls=(Call(f"c{self.asked}", "fetch", {"n": self.asked}),))
            if wanted:
                how = {"number": wanted.pop(0), "lines": "600"}
                return ModelReply(calls=(Call(f"r{self.asked}", "read_result", how),))
            return ModelReply(text="done")

    def fetch(n: int) -> str:
        """Fetch a page."""
        return page(n)

    model: Model = Reads()
    agent = ReActAgent("reader", model, actions=[fetch], max_iterations=3 * calls)
    reply = agent.reply_sync("Read all pages.")
    again = (step for step in reply.steps if step.action == "read_result")
    reached = sum(
        f"line 600 of page {n}:" in str(s.result.get("result")) for n, s in enumerate(again, 1)
    )
    prompts.show("moothall", refused, calls)
    emit("long results: read again", "moothall", reached, "results", of=calls)


def deepagents(calls: int) -> None:
    from deepagents import create_deep_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    prompts = Prompts()
    state = {"asked": 0, "refused": 0, "summaries": 0}

    class Reads(BaseChatModel):  # type: ignore[misc]
        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
            if len(messages) == 1 and "Context Extraction" in str(messages[0].content):
                state["summaries"] += 1
                return made(AIMessage("All pages up to here were read."))
            state["refused"] += not prompts.take(
                [f"{m.type}{m.content}{getattr(m, 'tool_calls', '')}" for m in messages]
            )
            state["asked"] += 1
            if (n := state["asked"]) > calls:
                return made(AIMessage("done"))
            call = {"name": "fetch", "args": {"n": n}, "id": f"c{n}"}
            return made(AIMessage("", tool_calls=[call]))

    def made(message: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=message)])

    def fetch(n: int) -> str:
        """Fetch a page."""
        return page(n)

    model = Reads(profile={"max_input_tokens": WINDOW})
    agent = create_deep_agent(model=model, tools=[fetch])
    given = {"messages": [{"role": "user", "content": "Read all pages."}]}
    agent.invoke(given, {"recursion_limit": 100 * calls})
    prompts.show("deepagents", state["refused"], calls)
    emit("long results: summaries that its model wrote", "deepagents", state["summaries"], "calls")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    calls = 40 if parser.parse_args().quick else 200
    searches()
    tokens()
    ours(calls)
    if installed("deepagents"):
        deepagents(calls)


if __name__ == "__main__":
    main()
