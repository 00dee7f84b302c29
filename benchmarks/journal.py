"""What a journal costs: a recorded turn, many at once, a run resumed, a thread's bytes, budgets.

    python -m benchmarks.journal [--quick] [--only postgresql]

The limit of a turn is SQLite itself with the same promise: two transactions of the same rows, WAL,
with `synchronous=NORMAL`, or FULL for `durability="power"`; over PostgreSQL it is psycopg: two
transactions of the same rows. Beside it, where it is installed,
LangGraph's agent with its own SQLite checkpoints, written before each next step: with the default
channel of messages, which stores all of them at each step, and with its `DeltaChannel` (beta),
which stores the new ones and every hundredth time all.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.measure import Figures, emit, installed, side_by_side
from benchmarks.postgresql import Server
from benchmarks.turn import Fake, add_tool_async
from moothall import Budget, Journal, ReActAgent, ScriptedModel, SQLiteMemory

CALLS = 10
RUNS = 20
AT_ONCE = 100
ROW = '{"iteration":1,"call":0,"id":"call_0","action":"add_tool","args":{"a":1,"b":2}}'


def raw(path: Path, synchronous: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(
        "CREATE TABLE entries (run INTEGER, sequence INTEGER, kind TEXT, data TEXT, "
        "PRIMARY KEY (run, sequence)) WITHOUT ROWID"
    )
    return db


def raw_turns(db: sqlite3.Connection, turns: int, numbers: list[int]) -> int:
    for _ in range(turns):
        for rows in (2, 5):
            db.execute("BEGIN IMMEDIATE")
            for _ in range(rows):
                numbers[0] += 1
                db.execute("INSERT INTO entries VALUES (1, ?, 'ended', ?)", (numbers[0], ROW))
            db.execute("COMMIT")
    return turns


def agent(journal: Journal | None, number: int = 0) -> ReActAgent:
    return ReActAgent(
        f"agent-{number}",
        Fake(CALLS),
        actions=[add_tool_async],
        max_iterations=CALLS + 1,
        journal=journal,
    )


async def replies(journal: Journal | None, runs: int, anew: bool = False) -> int:
    """So many runs: of one agent, whose thread grows, or each of a new one."""
    one = agent(journal)
    for _ in range(runs):
        if anew:
            one = agent(journal)
        reply = await one.reply("go")
        assert reply.stop_reason == "done"
    return runs * (CALLS + 1)


async def at_once(journal: Journal | None, agents: int) -> int:
    made = [agent(journal, number) for number in range(agents)]
    for reply in await asyncio.gather(*(each.reply("go") for each in made)):
        assert reply.stop_reason == "done"
    return agents * (CALLS + 1)


def has_langgraph() -> bool:
    return installed("langgraph") and installed("langgraph.checkpoint.sqlite")


def messages_of(channel: str) -> Any:
    """The state of LangGraph's agent with one of its channels of messages; None is its default."""
    if channel == "default":
        return None
    from typing import Annotated

    from langchain_core.messages import AnyMessage
    from langgraph.channels import DeltaChannel
    from langgraph.graph.message import _messages_delta_reducer
    from langgraph.prebuilt.chat_agent_executor import AgentState

    kept = Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    return type("DeltaState", (AgentState,), {"__annotations__": {"messages": kept}})


def langgraph(folder: Path, channel: str) -> Callable[[], Any]:
    """LangGraph's prebuilt agent, which writes a checkpoint before each next step."""
    import warnings

    warnings.simplefilter("ignore")
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.prebuilt import create_react_agent

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
            done = (len(messages) - 1) // 2
            call = {"name": "add_tool_async", "args": {"a": 1, "b": 2}, "id": f"call_{done}"}
            answer = AIMessage("", tool_calls=[call]) if done < CALLS else AIMessage("3")
            return ChatResult(generations=[ChatGeneration(message=answer)])

        async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
            return self._generate(messages)

    numbers = [0]

    async def work() -> int:
        async with AsyncSqliteSaver.from_conn_string(str(folder / f"{channel}.db")) as saver:
            graph = create_react_agent(
                Scripted(),
                [tool(add_tool_async)],
                state_schema=messages_of(channel),
                checkpointer=saver,
            )
            for _ in range(2):
                numbers[0] += 1
                config = {"configurable": {"thread_id": str(numbers[0])}, "recursion_limit": 100}
                said = {"messages": [("user", "go")]}
                result = await graph.ainvoke(said, config, durability="sync")
                assert result["messages"][-1].content == "3"
        return 2 * (CALLS + 1)

    return work


def show(metric: str, variant: str, figures: dict[str, Figures]) -> None:
    limit = figures.pop("limit")
    for name, figure in figures.items():
        emit(
            metric,
            f"{variant}, {name}",
            figure.seconds * 1e6,
            "us",
            limit=limit.seconds * 1e6,
            ratio=figure.over(limit),
            best=min(figure.wall) * 1e6,
            cpu=statistics.median(figure.cpu) * 1e6,
        )


def turns(folder: Path, rounds: int) -> None:
    with asyncio.Runner() as runner, Journal(folder / "process.db") as journal:
        db, numbers = raw(folder / "raw.db", "NORMAL"), [0]
        works: dict[str, Callable[[], int]] = {
            "limit": lambda: raw_turns(db, RUNS * (CALLS + 1), numbers),
            "moothall, recorded": lambda: runner.run(replies(journal, RUNS)),
            "moothall, recorded, each run in a new thread": lambda: runner.run(
                replies(journal, RUNS, anew=True)
            ),
            "moothall, not recorded": lambda: runner.run(replies(None, RUNS)),
        }
        if has_langgraph():
            default, delta = langgraph(folder, "default"), langgraph(folder, "delta")
            works["langgraph, recorded"] = lambda: runner.run(default())
            works["langgraph, recorded, DeltaChannel"] = lambda: runner.run(delta())
        show("journal: turn", "10 calls of an async tool", side_by_side(works, rounds))
        db.close()


def power(folder: Path, rounds: int) -> None:
    with asyncio.Runner() as runner, Journal(folder / "power.db", durability="power") as journal:
        db, numbers = raw(folder / "raw-power.db", "FULL"), [0]
        works: dict[str, Callable[[], int]] = {
            "limit": lambda: raw_turns(db, CALLS + 1, numbers),
            "moothall, one run": lambda: runner.run(replies(journal, 1)),
            "moothall, 100 runs": lambda: runner.run(at_once(journal, AT_ONCE)),
        }
        show("journal: turn, power", "10 calls of an async tool", side_by_side(works, rounds))
        db.close()


def over_postgresql(rounds: int) -> None:
    """A turn over a server on loopback that waits for the disk at each commit."""
    with Server() as server, asyncio.Runner() as runner, Journal(server.url()) as journal:
        numbers = [0]
        db = psycopg.connect(server.url("bare"), autocommit=True)
        db.execute("CREATE SCHEMA bare")
        db.execute("CREATE TABLE entries (place BIGINT PRIMARY KEY, kind TEXT, data TEXT)")

        def insert(rows: int) -> None:
            numbers[0] += rows
            made = range(numbers[0], numbers[0] - rows, -1)
            db.cursor().executemany(
                "INSERT INTO entries VALUES (%s, 'ended', %s)", [(place, ROW) for place in made]
            )

        def bare() -> int:
            for _ in range(CALLS + 1):
                for rows in (2, 5):
                    with db.transaction():
                        insert(rows)
            return CALLS + 1

        def pipelined() -> int:
            for _ in range(CALLS + 1):
                for rows in (2, 5):
                    with db.pipeline():
                        db.execute("BEGIN")
                        insert(rows)
                        db.execute("COMMIT")
            return CALLS + 1

        works: dict[str, Callable[[], int]] = {
            "limit": bare,
            "psycopg, pipelined": pipelined,
            "moothall, one run": lambda: runner.run(replies(journal, 1)),
            "moothall, 100 runs": lambda: runner.run(at_once(journal, AT_ONCE)),
        }
        figures = side_by_side(works, rounds)
        show("journal: turn, PostgreSQL", "10 calls of an async tool", figures)
        db.close()


def shared(folder: Path, rounds: int) -> None:
    """A reservation and its settlement: two transactions of a read and a write."""
    with Journal(folder / "budget.db") as journal:
        budget = Budget(actions=10**9, journal=journal, name="bench")
        db = raw(folder / "raw-budget.db", "NORMAL")
        db.execute("INSERT INTO entries VALUES (1, 1, '', ?)", (ROW,))

        def limit() -> int:
            for _ in range(1000):
                db.execute("BEGIN IMMEDIATE")
                db.execute("SELECT data FROM entries WHERE run = 1").fetchone()
                db.execute("UPDATE entries SET data = ? WHERE run = 1", (ROW,))
                db.execute("COMMIT")
            return 500

        def ours() -> int:
            for _ in range(500):
                budget.reserve(actions=1).settle()
            return 500

        works = {"limit": limit, "moothall": ours}
        show("shared budget", "reserve and settle", side_by_side(works, rounds))
        db.close()


SAID = "word " * 40


def grown(folder: Path, turns: int) -> None:
    """The bytes of a thread of many turns: a question and an answer of 200 characters each."""

    async def ours() -> int:
        answers = ScriptedModel([f"Answer {number} {SAID}" for number in range(turns)])
        memory = SQLiteMemory(folder / "grown.memory")
        with Journal(folder / "grown.db") as journal:
            one = ReActAgent("agent", answers, memory=memory, journal=journal)
            for number in range(turns):
                await one.reply(f"Question {number} {SAID}", thread="user")
            journal.compact()
        return (folder / "grown.db").stat().st_size

    async def theirs(channel: str) -> int:
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
        from langgraph.prebuilt import create_react_agent

        path = folder / f"grown-{channel}.db"
        answers = FakeListChatModel(responses=[f"Answer {n} {SAID}" for n in range(turns)])
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            state = messages_of(channel)
            graph: Any = create_react_agent(answers, [], state_schema=state, checkpointer=saver)
            config = {"configurable": {"thread_id": "user"}}
            for number in range(turns):
                said = {"messages": [("user", f"Question {number} {SAID}")]}
                await graph.ainvoke(said, config, durability="sync")
        with sqlite3.connect(path) as db:
            db.execute("VACUUM")
        return path.stat().st_size

    variant = f"a thread of {turns:,} turns"
    mine = asyncio.run(ours())
    emit("journal: bytes", f"{variant}, moothall", mine / 1e6, "MB")
    if has_langgraph():
        for channel, name in (("default", "langgraph"), ("delta", "langgraph, DeltaChannel")):
            other = asyncio.run(theirs(channel))
            emit("journal: bytes", f"{variant}, {name}", other / 1e6, "MB", ratio=other / mine)


def resumed(folder: Path, rounds: int) -> None:
    """A run of a thousand turns whose model failed at the end, resumed from the file."""

    class Failing(Fake):
        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            if self.given == self.calls:
                raise ConnectionError("it is down")
            return await super().complete(messages, actions, schema)

    def seconds(number: int) -> float:
        def run(model: Fake, journal: Journal) -> str:
            turns = ReActAgent(
                "agent", model, actions=[add_tool_async], max_iterations=2000, journal=journal
            )
            return turns.reply_sync("go", run_id=f"{number}").stop_reason

        logging.disable()
        with Journal(folder / "resumed.db") as journal:
            assert run(Failing(1000), journal) == "error"
        logging.disable(logging.NOTSET)
        last = Fake(1000)
        last.given = 1000
        begun = time.perf_counter()
        with Journal(folder / "resumed.db") as journal:
            assert run(last, journal) == "done"
        return time.perf_counter() - begun

    taken = statistics.median(seconds(number) for number in range(rounds))
    emit("journal: resume", "a run of 1,000 turns", taken, "s", target="<= 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", choices=("postgresql",), help="only the turns over PostgreSQL")
    given = parser.parse_args()
    rounds = 3 if given.quick else 9
    over_postgresql(rounds)
    if given.only:
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("MOOTHALL_BENCH_DIR")) as folder:
        turns(Path(folder), rounds)
        power(Path(folder), rounds)
        shared(Path(folder), rounds)
        resumed(Path(folder), rounds)
        grown(Path(folder), 100 if rounds < 9 else 1000)


if __name__ == "__main__":
    main()
