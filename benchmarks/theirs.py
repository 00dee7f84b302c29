"""What our run around another framework's agent costs, and what comes of it under kill -9.

    python -m benchmarks.theirs [--quick]

**Overhead**: how many functions a reply calls with one call of a tool, beside the bare agent. For
Pydantic AI a row says what a capability costs that does nothing: ours is one, which a run is given
if the agent has none of its own.

**Kills**: a program asks its model, pays twice side by side, notes that, and ends. It is killed in
each request, and before and after each effect; then it goes on until it has ended. What moothall
has in doubt is decided by looking at the effects, as a person would. Beside it, where they are
installed: Pydantic AI within DBOS, and LangGraph with its SQLite checkpointer.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import logging
import os
import pstats
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agents import Agent as SDKAgent
from agents import Model as SDKModel
from agents import ModelResponse as SDKResponse
from agents import Runner, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from benchmarks.measure import emit, installed
from moothall import AgentsSDKAgent, Journal, LangGraphAgent, PydanticAIAgent
from moothall.journal import Done
from moothall.serving.theirs.langgraph import as_steps
from moothall.serving.theirs.pydantic_ai import AsSteps

PAYEES = ("Anna", "Bob")
TASK = "Pay both."
Call = tuple[str, str]
Next = Callable[[int], list[Call] | None]
"""Gives the calls that a model makes after so many results, of a tool and its argument."""
Effect = Callable[[str], str]

set_tracing_disabled(True)


def pays_and_notes(done: int) -> list[Call] | None:
    """Pay twice, then note it, then end."""
    return {0: [("pay", each) for each in PAYEES], 2: [("note", "both")]}.get(done)


def pays_once(done: int) -> list[Call] | None:
    """Pay once, then end."""
    return None if done else [("pay", PAYEES[0])]


# -- the program, in each framework ----------------------------------------------------------------


def of_pydantic_ai(calls: Next, effect: Effect, **options: Any) -> Agent[Any, Any]:
    def answer(messages: Any, info: Any) -> ModelResponse:
        done = sum(isinstance(p, ToolReturnPart) for m in messages for p in m.parts)
        parts = [
            ToolCallPart(name, {"what": what}, f"{name}-{what}") for name, what in calls(done) or ()
        ]
        return ModelResponse(parts=parts or [TextPart("done")])

    agent = Agent(FunctionModel(answer), name="shop", **options)

    @agent.tool_plain
    async def pay(what: str) -> str:
        return effect(f"pay-{what}")

    @agent.tool_plain
    async def note(what: str) -> str:
        return effect(f"note-{what}")

    return agent


def of_openai_agents(calls: Next, effect: Effect) -> SDKAgent[Any]:
    class Stated(SDKModel):
        async def get_response(self, *parts: Any, **named: Any) -> Any:
            items = named["input"] if "input" in named else parts[1]
            items = () if isinstance(items, str) else items
            done = sum(each.get("type") == "function_call_output" for each in items)
            output: Any = [
                function_call(name, {"what": what}, call_id=f"{name}-{what}")
                for name, what in calls(done) or ()
            ]
            output = output or [assistant_message("done")]
            return SDKResponse(output, Usage(requests=1, total_tokens=15), None)

        def stream_response(self, *parts: Any, **named: Any) -> Any:
            raise NotImplementedError

    @function_tool
    async def pay(what: str) -> str:
        return effect(f"pay-{what}")

    @function_tool
    async def note(what: str) -> str:
        return effect(f"note-{what}")

    return SDKAgent("shop", model=Stated(), tools=[pay, note])


def of_langgraph(calls: Next, effect: Effect, wrap: Any = as_steps, **options: Any) -> Any:
    class Stated(BaseChatModel):
        _llm_type = "stated"

        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, *parts: Any, **more: Any) -> ChatResult:
            done = sum(isinstance(each, ToolMessage) for each in messages)
            made: Any = [
                {"id": f"{name}-{what}", "name": name, "args": {"what": what}}
                for name, what in calls(done) or ()
            ]
            message = AIMessage("" if made else "done", tool_calls=made)
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: Any, *parts: Any, **more: Any) -> ChatResult:
            return self._generate(messages)

    @tool
    async def pay(what: str) -> str:
        """Pay."""
        return effect(f"pay-{what}")

    @tool
    async def note(what: str) -> str:
        """Note."""
        return effect(f"note-{what}")

    return create_agent(wrap(Stated()), wrap([pay, note]), **options)


# -- what it costs ---------------------------------------------------------------------------------


def function_calls(runner: asyncio.Runner, work: Callable[[], Awaitable[Any]]) -> int:
    """Return how many functions a reply calls, also built-in ones."""

    async def once() -> None:
        await work()

    counts = []
    for _ in range(6):
        profile = cProfile.Profile()
        gc.collect()
        gc.disable()
        profile.enable()
        runner.run(once())
        profile.disable()
        gc.enable()
        counts.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    return min(counts[3:])  # what is made once is made


def overhead() -> None:
    def effect(name: str) -> str:
        return f"{name} done"

    shop, sdk = of_pydantic_ai(pays_once, effect), of_openai_agents(pays_once, effect)
    own = of_pydantic_ai(pays_once, effect, capabilities=[AsSteps()])
    graph = of_langgraph(pays_once, effect)
    bare_graph = of_langgraph(pays_once, effect, wrap=lambda part: part)
    state = {"messages": [("user", TASK)]}
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        with Journal(Path(folder) / "runs.db") as journal:
            works: Any = {
                "Pydantic AI": (lambda: shop.run(TASK), PydanticAIAgent, shop, 32),
                "Pydantic AI, AsSteps() its own": (
                    lambda: shop.run(TASK),
                    PydanticAIAgent,
                    own,
                    25,
                ),
                "OpenAI Agents": (lambda: Runner.run(sdk, TASK), AgentsSDKAgent, sdk, 25),
                "LangGraph": (lambda: bare_graph.ainvoke(state), LangGraphAgent, graph, 60),
            }
            for name, (bare, kind, theirs, most) in works.items():
                base = function_calls(runner, bare)
                for label, options in (("no journal", {}), ("journal", {"journal": journal})):
                    clerk = kind("clerk", theirs, **options)
                    more = function_calls(
                        runner, lambda clerk=clerk: clerk.reply(TASK, thread=os.urandom(6).hex())
                    )
                    emit(
                        "theirs: function calls more than bare",
                        f"{name}, {label}",
                        100 * (more / base - 1),
                        "%",
                        bare=base,
                        target=f"<= {most}" if options else None,
                    )
        capability: Any = AbstractCapability()
        base = function_calls(runner, lambda: shop.run(TASK))
        idle = function_calls(runner, lambda: shop.run(TASK, capabilities=[capability]))
        label = "Pydantic AI, a capability that does nothing"
        emit("theirs: function calls more than bare", label, 100 * (idle / base - 1), "%")


# -- what comes of it under kill -9 ----------------------------------------------------------------


class Points:
    """The points at which a process may be killed, and the effects that it has."""

    def __init__(self, folder: Path, deadly: int | None) -> None:
        self.log, self.deadly, self.count = folder / "log", deadly, 0

    def here(self) -> None:
        self.count += 1
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, name: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{name}\n")

    def calls(self, done: int) -> list[Call] | None:
        self.note("request")
        self.here()
        return pays_and_notes(done)

    def effect(self, name: str) -> str:
        self.here()
        self.note(name)
        self.here()
        return f"{name} done"


POINTS = 9  # three requests, and before and after three effects
Work = Callable[[Points, Path], Awaitable[Any]]


def ours(kind: Any, make: Any) -> Work:
    async def work(points: Points, folder: Path) -> None:
        log = Counter(points.log.read_text().split("\n")) if points.log.exists() else Counter()
        with Journal(folder / "runs.db") as journal:
            decisions: Any = {}
            if any(each.id == "r" for each in journal.runs()):
                for each in journal.in_doubt("r"):
                    name = f"{each.action}-{each.args['what']}"
                    decisions[each.number] = Done(f"{name} done") if log[name] else "repeat"
                journal.decide("r", decisions)
            clerk = kind("clerk", make(points.calls, points.effect), journal=journal)
            reply = await clerk.reply(TASK, run_id="r")
            assert reply.stop_reason == "done", reply.detail

    return work


async def dbos(points: Points, folder: Path) -> None:
    """Pydantic AI within DBOS: requests and calls are steps of a workflow."""
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    database = f"sqlite:///{folder / 'dbos.db'}"
    options: Any = {"system_database_url": database, "run_admin_server": False}
    DBOS(config={"name": "theirs", "log_level": "CRITICAL", **options})

    @DBOS.step()
    def effect(name: str) -> str:
        return points.effect(name)

    agent = of_pydantic_ai(points.calls, effect, capabilities=[DBOSDurability()])

    @DBOS.workflow()
    async def go(task: str) -> str:
        return str((await agent.run(task)).output)

    DBOS.launch()  # what was cut off goes on
    with SetWorkflowID("r"):
        await go(TASK)


async def langgraph(points: Points, folder: Path) -> None:
    """LangGraph's own agent, with a checkpoint written before each next step."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        graph = of_langgraph(points.calls, points.effect, lambda part: part, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "r"}}
        has_begun = (await graph.aget_state(config)).next
        task = None if has_begun else {"messages": [("user", TASK)]}
        await graph.ainvoke(task, config, durability="sync")


def ended(work: Work, points: Points, folder: Path) -> bool:
    """Return whether a process of its own came to the end of the work."""
    if not (process := os.fork()):
        code = 1
        try:
            asyncio.run(work(points, folder))
            code = 0
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def kills(name: str, work: Work, target: str | None) -> None:
    """Kill the work at each point, and emit what came of it."""
    expected = {f"pay-{each}" for each in PAYEES} | {"note-both"}
    twice = lost = requests = 0
    for deadly in range(1, POINTS + 1):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            ended(work, Points(folder, deadly), folder)
            for _ in range(5):
                if ended(work, Points(folder, None), folder):
                    break
            log = Counter((folder / "log").read_text().split("\n")[:-1])
            requests += log.pop("request") - 3
            twice += sum(log[each] - 1 for each in expected if log[each] > 1)
            lost += sum(not log[each] for each in expected)
    emit(
        "theirs: effects twice or lost",
        name,
        twice + lost,
        "effects",
        kills=POINTS,
        requests_again=requests,
        target=target,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the overhead and our kills alone")
    is_quick = parser.parse_args().quick
    logging.disable(logging.CRITICAL)
    works = {
        "Pydantic AI, moothall": ours(PydanticAIAgent, of_pydantic_ai),
        "OpenAI Agents, moothall": ours(AgentsSDKAgent, of_openai_agents),
        "LangGraph, moothall": ours(LangGraphAgent, of_langgraph),
    }
    for name, work in works.items():  # before the first thread: they fork
        kills(name, work, "<= 0")
    if not is_quick and installed("langgraph.checkpoint.sqlite"):
        kills("LangGraph, its checkpointer", langgraph, None)
    if not is_quick and installed("dbos"):
        kills("Pydantic AI, DBOS", dbos, None)
    overhead()


if __name__ == "__main__":
    main()
