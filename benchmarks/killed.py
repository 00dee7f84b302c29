"""Other people's tasks, killed after and inside every call, and resumed.

    python -m benchmarks.killed [--quick] [--every N] [--who NAME ...]

Each task of `benchmarks/tau2.py` is a run whose model makes the calls that tau2 states. It runs
once without a fault; tau2's own hash says that its database is right. Then, for each call, the
process is killed by kill -9 at three places: inside the call before it changes anything, inside it
after its change is committed, and after it, when the model is asked next. A new process
resumes the run. What moothall has in doubt is decided by looking into the task's database, as a
person would: a call that is there is `Done` with its result, another one is repeated.

LangGraph's own agent, with its SQLite checkpoints written before each next step, and DBOS, with
a step for each answer and each call in its SQLite database, do the same where they are installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import emit, installed
from benchmarks.tau2 import DOMAINS, Desk, Domain, State, Task, reads, results
from moothall import Action, Call, Journal, ModelReply, ReActAgent
from moothall.journal import Done

logger = logging.getLogger("benchmarks.killed")

RUN = "task"
GO = "Do it."
PLACES = ("begins", "took effect", "asked next")
Place = tuple[str, int]


@dataclass(frozen=True)
class Work:
    """What one process does: a task, in a folder, until it is killed at a place or has ended."""

    tools: Any
    task: Task
    folder: Path
    kill: Place | None = None

    def at(self, place: str, number: int) -> None:
        """Die here, if this is the place."""
        if (place, number) == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def desk(self) -> Desk:
        return Desk(self.tools, self.folder / "desk.db", self.at)

    def next_call(self, done: int) -> tuple[str, dict[str, Any]] | None:
        """What the model says after so many results: its next call, or None at the end."""
        self.at("asked next", done)
        return self.task.calls[done] if done < len(self.task.calls) else None

    def names(self) -> dict[str, dict[str, Any]]:
        """The task's tools, each with a schema of the arguments that it gets."""
        found: dict[str, dict[str, Any]] = {}
        for name, args in self.task.calls:
            schema = found.setdefault(name, {"type": "object", "properties": {}})
            schema["properties"].update({each: {} for each in args})
        return found


# -- who runs it -----------------------------------------------------------------------------------


def moothall(work: Work) -> int:
    """Run or resume it with a journal; how many calls were in doubt before."""
    desk = work.desk()

    class Stated:
        name = "stated"
        context_tokens: int | None = 1_000_000  # it counts the results that it is shown

        async def complete(self, messages: Any, *_: Any, **__: Any) -> ModelReply:
            done = sum(each["role"] == "tool" for each in messages)
            call = work.next_call(done)
            if call is None:
                return ModelReply("Done.")
            return ModelReply("", (Call(f"call_{done}", call[0], json.dumps(call[1])),))

    def action(name: str, schema: dict[str, Any]) -> Action:
        async def execute(**args: Any) -> str:
            return desk.call(name, args)

        return Action(name, execute, f"{name}.", schema, idempotent=reads(name))

    actions = [action(name, schema) for name, schema in work.names().items()]
    most = len(work.task.calls) + 1
    with Journal(work.folder / "runs.db") as journal:
        doubts = looked_up(journal, work.folder)
        agent = ReActAgent("clerk", Stated(), actions=actions, max_iterations=most, journal=journal)
        reply = asyncio.run(agent.reply(GO, run_id=RUN))
    assert reply.stop_reason == "done", (reply.stop_reason, reply.detail)
    return doubts


def looked_up(journal: Journal, folder: Path) -> int:
    """Decide each call in doubt by what the task's database has of it; how many there were."""
    if not any(each.id == RUN for each in journal.runs()):
        return 0
    decisions: dict[int, Done | Literal["repeat", "skip"]] = {}
    for doubt in journal.in_doubt(RUN):
        begun = sum(
            entry.kind == "started"
            and entry.data["about"].get("action") == doubt.action
            and entry.data.get("args") == doubt.args
            for entry in journal.entries(RUN)
        )
        there = results(folder / "desk.db", doubt.action, dict(doubt.args))
        decisions[doubt.number] = Done(there[-1]) if len(there) == begun else "repeat"
    journal.decide(RUN, decisions)
    return len(decisions)


def langgraph(work: Work) -> int:
    """LangGraph's prebuilt agent; what it has of a run it goes on with."""
    import sqlite3
    import warnings

    warnings.simplefilter("ignore")
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import StructuredTool
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.prebuilt import create_react_agent

    desk = work.desk()

    class Stated(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "stated"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
            done = sum(each.type == "tool" for each in messages)
            call = work.next_call(done)
            if call is None:
                return ChatResult(generations=[ChatGeneration(message=AIMessage("Done."))])
            made = {"name": call[0], "args": call[1], "id": f"call_{done}"}
            message = AIMessage("", tool_calls=[made])
            return ChatResult(generations=[ChatGeneration(message=message)])

    def tool(name: str, schema: dict[str, Any]) -> Any:
        def execute(**args: Any) -> str:
            return desk.call(name, args)

        return StructuredTool(
            name=name, description=f"{name}.", args_schema={"title": name, **schema}, func=execute
        )

    file = sqlite3.connect(work.folder / "langgraph.db", check_same_thread=False)
    tools = [tool(name, schema) for name, schema in work.names().items()]
    graph: Any = create_react_agent(Stated(), tools, checkpointer=SqliteSaver(file))
    config = {"configurable": {"thread_id": RUN}, "recursion_limit": 1000}
    said = None if graph.get_state(config).values else {"messages": [("user", GO)]}
    result = graph.invoke(said, config, durability="sync")
    assert result["messages"][-1].content == "Done."
    return 0


def dbos(work: Work) -> int:
    """A workflow of DBOS; what of it is pending goes on when DBOS is launched."""
    from dbos import DBOS, SetWorkflowID

    desk = work.desk()
    DBOS(
        config={
            "name": "tau2",
            "system_database_url": f"sqlite:///{work.folder / 'dbos.db'}",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    def ask(done: int) -> Any:
        return work.next_call(done)

    @DBOS.step()
    def act(name: str, args: dict[str, Any]) -> str:
        return desk.call(name, args)

    @DBOS.workflow()
    def run() -> str:
        done = 0
        while (call := ask(done)) is not None:
            act(*call)
            done += 1
        return "Done."

    DBOS.launch()
    with SetWorkflowID(RUN):
        handle = DBOS.start_workflow(run)
    assert handle.get_result() == "Done."
    return 0


WHO: dict[str, Callable[[Work], int]] = {"moothall": moothall, "langgraph": langgraph, "dbos": dbos}
NEEDS = {"langgraph": ("langgraph", "langgraph.checkpoint.sqlite"), "dbos": ("dbos",)}


# -- what came of it -------------------------------------------------------------------------------


@dataclass
class Counts:
    """What came of the runs of one framework."""

    tasks: int = 0
    right: int = 0
    kills: int = 0
    in_doubt: int = 0
    unfinished: int = 0
    writes_again: int = 0
    changed_twice: int = 0
    differs: int = 0

    def add(self, whole: State, then: State) -> None:
        """Count a run that was killed and resumed, beside the one that nobody killed."""
        self.writes_again += sum((then.made - whole.made).values())
        self.changed_twice += sum((then.changed - whole.changed).values())
        self.differs += then.objects != whole.objects

    def show(self, who: str, domain: str) -> None:
        variant = f"{domain}, {who}"
        for name, value in vars(self).items():
            emit("killed", f"{variant}: {name.replace('_', ' ')}", value, "")


def in_child(work: Callable[[], int]) -> int:
    """Do it in a forked process; what it gave, or -9 if it was killed."""
    child = os.fork()
    if not child:
        code = 99
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    status: int | None = None
    try:
        _, status = os.waitpid(child, 0)
    finally:
        if status is None:  # whoever waits was interrupted
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def judge(run: Callable[[Work], int], domain: Domain, tasks: Iterable[Task]) -> Counts:
    """Run each task, then kill it at each of its places and resume it.

    Args:
        run: runs a task or goes on with it, and gives how many calls were in doubt before
        domain: whose tools the calls are of
        tasks: what is run
    """
    counts = Counts()
    root = Path(tempfile.mkdtemp(dir=os.environ.get("MOOTHALL_BENCH_DIR")))

    def once(task: Task, folder: Path, kill: Place | None = None) -> int:
        folder.mkdir(exist_ok=True)
        return in_child(lambda: run(Work(domain.tools, task, folder, kill)))

    try:
        for task in tasks:
            folder = root / "whole"
            ended = once(task, folder)
            assert ended == 0, (run, task.id, ended)
            whole = State.of(folder / "desk.db")
            counts.tasks += 1
            counts.right += in_child(lambda: is_right(domain, task, folder)) == 1  # noqa: B023
            shutil.rmtree(folder)
            for place in every_place(task):
                folder = root / "killed"
                ended = once(task, folder, place)
                assert ended == -signal.SIGKILL, (run, task.id, place, ended)
                counts.kills += 1
                resumed = once(task, folder)
                if resumed == 99:
                    counts.unfinished += 1
                else:
                    counts.in_doubt += resumed
                counts.add(whole, State.of(folder / "desk.db"))
                shutil.rmtree(folder)
            logger.info("%s: %s", task.id, counts)
    finally:
        shutil.rmtree(root)
    return counts


def is_right(domain: Domain, task: Task, folder: Path) -> bool:
    """Whether tau2's database with the file's objects has the hash that tau2 expects."""
    expected = in_child_text(lambda: domain.hash_of(task.calls))
    desk = Desk(domain.tools, folder / "desk.db")
    desk.close()
    return expected == domain.hash_of(())


def in_child_text(work: Callable[[], str]) -> str:
    """The text that it gives in a forked process."""
    reader, writer = os.pipe()
    in_child(lambda: os.write(writer, work().encode()) * 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        return file.read()


def every_place(task: Task) -> Iterator[Place]:
    """Inside each call, before and after its change, and after it."""
    for number in range(1, len(task.calls) + 1):
        for place in PLACES:
            yield place, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every twentieth task")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth task")
    parser.add_argument("--who", nargs="*", choices=tuple(WHO), default=tuple(WHO))
    parser.add_argument("--verbose", action="store_true", help="show the counts after each task")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if given.verbose:
        logger.setLevel(logging.INFO)
    every = 20 if given.quick else given.every
    for name in DOMAINS:
        domain = Domain.load(name)
        tasks = list(domain.tasks())[::every]
        for who in given.who:
            if all(map(installed, NEEDS.get(who, ()))):
                judge(WHO[who], domain, tasks).show(who, name)


if __name__ == "__main__":
    main()
