"""The programs whose processes are killed, and the process that starts them: it forks each, so that
a hundred of them take seconds.

Run as `python -m journal.program`, it reads a job as a line of JSON and answers how the process of
that job ended.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from moothall import (
    ACCESS_REQUESTED,
    Budget,
    CallbackApprover,
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    MaxTurns,
    PostgresMemory,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
)
from moothall.actions import action
from moothall.agents.replies.reply import Reply
from moothall.foundation.sqlite import SQLiteConnection
from moothall.models.protocol import Call, ModelReply, Usage

RUN = "R"
TASK = "Move the money."
WIDTH = 24
REPEATED = ("look", "approve")
"""What a resumed run may do again."""


def kill() -> None:
    """Be gone, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


class Effects:
    """What the actions did, in a file outside: a line of one length for each begin and end."""

    def __init__(self, path: Path, fatal: str | None) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._fatal = fatal
        self._path = path

    def has(self, what: str) -> bool:
        return what in self._path.read_text().split()

    def note(self, what: str) -> None:
        os.write(self._fd, what.ljust(WIDTH - 1).encode() + b"\n")
        os.fsync(self._fd)
        if what == self._fatal:
            kill()


class Counting(SQLiteConnection):
    """Counts the transactions that write to one of the files, and kills the process at one."""

    files: tuple[str, ...] = ()
    commits = 0
    fatal: tuple[int, str] | None = None

    def __init__(self, database: Any, *args: Any, **options: Any) -> None:
        super().__init__(database, *args, **options)
        self._counts = any(f"/{file}?" in str(database) for file in self.files)
        self._writes = False

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self._writes = self._counts and "IMMEDIATE" in sql
        if sql != "COMMIT" or not self._writes:
            return super().execute(sql, *args)
        Counting.commits += 1
        if self.fatal == (Counting.commits, "before"):
            kill()
        done = super().execute(sql, *args)
        if self.fatal == (Counting.commits, "after"):
            kill()
        return done


def watch(files: tuple[str, ...], fatal: tuple[int, str] | None) -> None:
    """Have every connection of this process be one that counts."""
    real = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = real(*args, **{**options, "factory": Counting})
        return made

    sqlite3.connect = connect  # type: ignore[assignment]
    psycopg.connect = CountingServer.connect
    Counting.files, Counting.fatal = files, fatal


class CountingServer(psycopg.Connection[Any]):
    """Counts the transactions that write to a server likewise."""

    _writes = False
    _pipeline_of: Any = None

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        with super().pipeline() as pipeline:
            self._pipeline_of = pipeline
            yield pipeline

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        if isinstance(query, str) and query.startswith("BEGIN"):
            self._writes = query == "BEGIN"
        if query != "COMMIT" or not self._writes:
            return super().execute(query, *args, **options)
        Counting.commits += 1
        if Counting.fatal == (Counting.commits, "before"):
            kill()
        done = super().execute(query, *args, **options)
        if Counting.fatal == (Counting.commits, "after"):
            self._pipeline_of.sync()
            kill()
        return done


def place(folder: Path) -> str:
    """The journal and memory of a folder: in it, or where a file in it says."""
    named = folder / "url"
    return named.read_text() if named.exists() else ""


def recorded(folder: Path, **options: Any) -> Journal:
    return Journal(place(folder) or folder / "journal", **options)


def remembering(folder: Path, thread: str | None = None) -> Any:
    url = place(folder)
    return PostgresMemory(url, thread) if url else SQLiteMemory(folder / "memory", thread)


def tools(effects: Effects) -> list[Any]:
    @action
    async def transfer(n: int) -> str:
        """Move some money."""
        effects.note(f"begin transfer {n}")
        await asyncio.sleep(0)
        effects.note(f"end transfer {n}")
        return f"moved {n}"

    @action
    def post(n: int) -> str:
        """Post a letter."""
        effects.note(f"begin post {n}")
        effects.note(f"end post {n}")
        return f"posted {n}"

    @action(idempotent=True)
    async def look(n: int) -> str:
        """Look at the account."""
        effects.note(f"begin look {n}")
        await asyncio.sleep(0)
        effects.note(f"end look {n}")
        return f"saw {n}"

    @action(access_policy=ACCESS_REQUESTED)
    async def refund(n: int) -> str:
        """Give money back."""
        effects.note(f"begin refund {n}")
        await asyncio.sleep(0)
        effects.note(f"end refund {n}")
        return f"refunded {n}"

    @action
    def fail(n: int) -> str:
        """Fail."""
        effects.note(f"begin fail {n}")
        effects.note(f"end fail {n}")
        raise ValueError(f"no {n}")

    return [transfer, post, look, refund, fail]


def call(number: int, name: str, n: int) -> Call:
    return Call(f"c{number}", name, {"n": n})


def says(*calls: Call, text: str = "") -> ModelReply:
    return ModelReply(text, calls, Usage(10, 5))


def react(folder: Path, journal: Journal, effects: Effects) -> ReActAgent:
    script = [
        says(call(1, "transfer", 1), call(2, "look", 1), call(3, "post", 1)),
        says(call(4, "post", 2)),
        says(call(5, "burn", 1)),  # which it has not
        says(call(6, "look", 2)),
        says(call(7, "transfer", 2), call(8, "transfer", 3)),
        says(text="All is moved."),
    ]
    return ReActAgent(
        "teller",
        ScriptedModel(script),
        actions=tools(effects),
        memory=remembering(folder),
        journal=journal,
    )


def dual(folder: Path, journal: Journal, effects: Effects) -> DualActAgent:
    def decision(name: str, instruction: Any) -> ModelReply:
        made = {"action": name, "new_instruction": instruction, "reasoning": "so"}
        return says(text=json.dumps(made))

    def worker(id: str, first: int) -> ReActAgent:
        script = [
            says(call(1, "transfer", first), call(2, "look", first)),
            says(text=f"{id} moved it."),
            says(call(3, "post", first)),
            says(text=f"{id} posted it."),
        ]
        return ReActAgent(
            id,
            ScriptedModel(script),
            actions=tools(effects),
            memory=remembering(folder, id),
        )

    human = ReActAgent(
        "boss",
        ScriptedModel(
            [
                decision("CONTINUE", ["the left", "the right"]),
                says(text="well"),  # no decision: asked once more
                decision("REDIRECT", "post it"),
                decision("TERMINATE", ""),
            ]
        ),
        memory=remembering(folder, "boss"),
    )
    config = DualActConfig(human=human, reactive=[worker("left", 1), worker("right", 2)])
    return DualActAgent(config, "pair", journal=journal)


def asked(folder: Path, journal: Journal, effects: Effects) -> ReActAgent:
    """A person approves one of three calls made at once; another of them fails."""

    def approve(request: Any) -> bool:
        effects.note(f"begin approve {request.args['n']}")
        effects.note(f"end approve {request.args['n']}")
        return True

    script = [
        says(call(1, "refund", 1), call(2, "fail", 1), call(3, "look", 1)),
        says(call(4, "fail", 2)),
        says(call(5, "refund", 2)),
        says(text="All is back."),
    ]
    return ReActAgent(
        "teller",
        ScriptedModel(script),
        actions=tools(effects),
        memory=remembering(folder),
        journal=journal,
        approver=CallbackApprover(approve),
    )


def steered(folder: Path, journal: Journal, effects: Effects) -> ReActAgent:
    """The user interrupts the second answer of the model."""

    async def answer(messages: list[dict[str, Any]], _: Any) -> ModelReply:
        said = [message["content"] for message in messages if message["role"] == "user"]
        done = sum(message["role"] == "tool" for message in messages)
        if done == 0:
            return says(call(1, "transfer", 1), call(2, "look", 1))
        if len(said) == 1:
            asyncio.get_running_loop().call_soon(agent.interrupt, "Post it too.")
            await asyncio.Event().wait()
        return says(call(3, "post", 1)) if done == 2 else says(text="All is moved.")

    memory = remembering(folder)
    model = ScriptedModel(answer)
    agent = ReActAgent("teller", model, actions=tools(effects), memory=memory, journal=journal)
    return agent


def talk(folder: Path, journal: Journal, effects: Effects) -> Conversation:
    def member(id: str, first: int) -> ReActAgent:
        script = [
            says(call(1, "transfer", first), call(2, "look", first)),
            says(text=f"{id} moved it."),
            says(call(3, "post", first)),
            says(text=f"{id} posted it."),
        ]
        memory = remembering(folder, id)
        return ReActAgent(id, ScriptedModel(script), actions=tools(effects), memory=memory)

    members = [member("ann", 1), member("bob", 2)]
    return Conversation(members, until=MaxTurns(4), id="talk", journal=journal)


def tree(folder: Path, journal: Journal, effects: Effects) -> ReActAgent:
    """Two calls of one answer ask the same agent, each in a conversation of its own."""

    async def work(messages: list[dict[str, Any]], _: Any) -> ModelReply:
        task = next(each["content"] for each in messages if each["role"] == "user")
        n = int(task.split()[-1])
        done = sum(message["role"] == "tool" for message in messages)
        if done == 0:
            return says(call(1, "transfer", n), call(2, "look", n))
        return says(call(3, "post", n)) if done == 2 else says(text=f"moved {n}")

    clerk = ReActAgent("clerk", ScriptedModel(work), actions=tools(effects))
    script = [
        says(*(Call(f"c{n}", "clerk", {"text": f"Move {n}"}) for n in (1, 2))),
        says(call(3, "post", 3)),
        says(text="All is moved."),
    ]
    actions = [clerk.as_action(fresh=True), *tools(effects)]
    memory = remembering(folder)
    return ReActAgent(
        "teller", ScriptedModel(script), actions=actions, memory=memory, journal=journal
    )


PROGRAMS: dict[str, Callable[[Path, Journal, Effects], Any]] = {
    "react": react,
    "dual": dual,
    "asked": asked,
    "steered": steered,
    "spent": react,
    "talk": talk,
    "tree": tree,
}
THREADS = {
    **dict.fromkeys(PROGRAMS, ("default",)),
    "dual": ("boss", "left", "right"),
    "talk": ("ann", "bob"),
}


def as_data(reply: Reply) -> dict[str, Any]:
    """A reply without what no two runs have in common."""
    steps = [
        [step.iteration, step.action, step.args, step.result.get("result"), step.error]
        for step in reply.steps
    ]
    data: dict[str, Any] = {
        "text": reply.text,
        "value": reply.value,
        "messages": reply.messages,
        "steps": steps,
        "usage": [reply.usage.input_tokens, reply.usage.output_tokens],
        "stop_reason": reply.stop_reason,
        "run_id": reply.run_id,
    }
    if reply.decisions or reply.r_runs:
        data["steps"] = sorted(steps, key=str)  # of several at once
        data["r_runs"] = reply.r_runs
        data["decisions"] = [[each.action.value, each.reasoning] for each in reply.decisions]
        data["conclusions"] = [each.summary for each in reply.conclusions]
    return data


def read_on(folder: Path) -> None:
    """Open, read and close all files again and again, as a copy or a search does."""
    never = threading.Event()
    while not never.wait(0.001):  # without a pause it takes most of the processor
        for path in folder.iterdir():
            with suppress(OSError):
                path.read_bytes()


def do(job: dict[str, Any]) -> None:
    """Begin the run, or go on with it; or be killed meanwhile."""
    folder = Path(job["folder"])
    fatal = job.get("commit")
    watch(tuple(job.get("files", ("journal",))), None if fatal is None else tuple(fatal))
    effects = Effects(folder / "effects", job.get("effect"))
    durability = job.get("durability", "process")
    if not place(folder):
        threading.Thread(target=read_on, args=(folder,), daemon=True).start()
    with recorded(folder, durability=durability) as journal:
        agent = PROGRAMS[job["program"]](folder, journal, effects)
        if job["program"] == "spent":  # it stops at a budget, and goes on with a larger one
            small = agent.reply_sync(TASK, run_id=RUN, budget=Budget(model_calls=3))
            assert small.stop_reason in ("budget", "in_doubt", "done")
        reply = agent.reply_sync(TASK, run_id=job.get("run", RUN))
    said = {"reply": as_data(reply), "commits": Counting.commits}
    (folder / "reply.json").write_text(json.dumps(said))


IMPORTED = (
    "docstring_parser",
    "jsonschema_rs",
    "moothall.models.wrappers.prices",
    "pydantic.type_adapter",
)
"""What the jobs import where they want it."""


def main(do: Callable[[dict[str, Any]], None]) -> None:
    """Do each job of standard input in a process of its own, and tell how that ended."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                do(job)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(do)
