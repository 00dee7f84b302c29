"""Eight sub-agents, each in a conversation of its own, called by one answer of a model.

    python -m benchmarks.sub_agents [--quick]

`limit` of the time is the three calls of a model that come one after the other: the one that calls
the eight, theirs at the same time, and the last. The processor's time is that of the framework
alone, since the models only wait. With deepagents and Pydantic AI installed, they do the same job
beside us, in the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.measure import emit, installed, side_by_side
from moothall import Call, ModelReply, ReActAgent

MANY = 8
SLEEP_S = 0.1
DONE = "All is done."


# -- ours ------------------------------------------------------------------------------------------


class Chief:
    """Calls the eight, and ends once they have answered."""

    name = "chief"
    context_tokens: int | None = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        await asyncio.sleep(SLEEP_S)
        if messages[-1]["role"] == "tool":
            return ModelReply(text=DONE)
        texts = ({"text": f"task {number}"} for number in range(MANY))
        return ModelReply(calls=tuple(Call(f"c{n}", "helper", t) for n, t in enumerate(texts)))


class Helper:
    """Answers what it was told."""

    name = "helper"
    context_tokens: int | None = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        assert len(messages) == 1, messages
        await asyncio.sleep(SLEEP_S)
        return ModelReply(text=f"did {messages[-1]['content']}")


def ours() -> Callable[[], Awaitable[str]]:
    helper = ReActAgent("helper", Helper())

    async def once() -> str:
        tool = helper.as_action(fresh=True, description="Does a task.")
        reply = await ReActAgent("chief", Chief(), actions=[tool]).reply("go")
        assert [s.result["result"] for s in reply.steps] == [f"did task {n}" for n in range(MANY)]
        return reply.text

    return once


# -- the peers -------------------------------------------------------------------------------------


def pydantic_ai() -> Callable[[], Awaitable[str]]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    async def chief(messages: list[Any], info: Any) -> ModelResponse:
        await asyncio.sleep(SLEEP_S)
        if len(messages) > 1:
            return ModelResponse([TextPart(DONE)])
        texts = ({"text": f"task {number}"} for number in range(MANY))
        return ModelResponse([ToolCallPart("helper", t, f"c{n}") for n, t in enumerate(texts)])

    async def answer(messages: list[Any], info: Any) -> ModelResponse:
        assert len(messages) == 1, messages
        await asyncio.sleep(SLEEP_S)
        return ModelResponse([TextPart(f"did {messages[-1].parts[-1].content}")])

    sub = Agent(FunctionModel(answer), name="helper")

    async def helper(text: str) -> str:
        """Does a task."""
        return str((await sub.run(text)).output)

    async def once() -> str:
        agent: Any = Agent(FunctionModel(chief), name="chief", tools=[helper])
        return str((await agent.run("go")).output)

    return once


def deepagents() -> Callable[[], Awaitable[str]]:
    from deepagents import create_deep_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(BaseChatModel):  # type: ignore[misc]
        is_chief: bool

        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(SLEEP_S)
            if not self.is_chief:
                return made(AIMessage(f"did {messages[-1].content}"))
            if isinstance(messages[-1], ToolMessage):
                return made(AIMessage(DONE))
            calls = [
                {
                    "name": "task",
                    "args": {"description": f"task {n}", "subagent_type": "helper"},
                    "id": f"c{n}",
                }
                for n in range(MANY)
            ]
            return made(AIMessage("", tool_calls=calls))

    def made(message: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=message)])

    helper = {
        "name": "helper",
        "description": "Does a task.",
        "system_prompt": "",
        "model": Model(is_chief=False),
        "tools": [],
    }
    agent: Any = create_deep_agent(model=Model(is_chief=True), tools=[], subagents=[helper])

    async def once() -> str:
        result = await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]})
        said = [each.content for each in result["messages"] if isinstance(each, ToolMessage)]
        assert said == [f"did task {n}" for n in range(MANY)], said
        return str(result["messages"][-1].content)

    return once


PEERS = {"pydantic_ai": pydantic_ai, "deepagents": deepagents}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sub_agents", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 15

    async def limit() -> str:
        await asyncio.sleep(SLEEP_S)
        await asyncio.gather(*(asyncio.sleep(SLEEP_S) for _ in range(MANY)))
        await asyncio.sleep(SLEEP_S)
        return DONE

    forms = {"limit": lambda: limit, "moothall": ours}
    forms |= {name: make for name, make in PEERS.items() if installed(name)}
    with asyncio.Runner() as runner:

        def work(once: Callable[[], Awaitable[str]]) -> Callable[[], int]:
            async def run() -> int:
                assert await once() == DONE
                return 1

            return lambda: runner.run(run())

        figures = side_by_side({n: work(make()) for n, make in forms.items()}, rounds, warm=2)
    bare = figures["limit"]
    variant = f"{MANY} of one answer, a model of {SLEEP_S} s"
    for name, figure in figures.items():
        if name == "limit":
            continue
        more: dict[str, Any] = {"target": "<= 0.35"} if name == "moothall" else {}
        seconds, ratio = figure.seconds, figure.over(bare)
        emit(
            "sub-agents",
            f"{variant}, {name}",
            seconds,
            "s",
            limit=bare.seconds,
            ratio=ratio,
            **more,
        )
        cpu, least = (statistics.median(each.cpu) * 1000 for each in (figure, bare))
        emit("sub-agents, CPU", f"{variant}, {name}", cpu, "ms", limit=least, ratio=cpu / least)


if __name__ == "__main__":
    main()
