"""A program with a conversation that is recorded, killed, and resumed.

journalled.py ORDER JOURNAL LOG KILL: KILL is the action to be killed in, the first time; or `at ID
TURNS`, where it is looked whether the conversation of that id is over, `next TURNS`, where it is
told who speaks next, or `over`, after all; `-` for none. Each action writes its beginning and its
end to the file LOG. With `cancel:ACTION` the reply is cancelled in that action instead, and gone on
with in the same process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agent.replies.talkers import answer
from moothall import (
    Action,
    Budget,
    ChosenBy,
    Conversation,
    DualActAgent,
    DualActConfig,
    HandOver,
    Journal,
    MaxTurns,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
)
from moothall.models.protocol import ModelReply, Usage

RUN = "run"
IDEMPOTENT = os.environ.get("IDEMPOTENT") == "1"
MEMORIES = os.environ.get("MEMORIES")


class World:
    """What the actions change: a file."""

    def __init__(self, log: str, kill: str) -> None:
        self.log = Path(log)
        self.kill = kill
        self.cancel: asyncio.Task[Any] | None = None
        self.spoken = asyncio.Event()

    def write(self, line: str) -> None:
        with self.log.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def at(self, point: str) -> None:
        """Be killed here, the first time."""
        if self.kill == point and point not in self.lines():
            self.write(point)
            os.kill(os.getpid(), signal.SIGKILL)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def looks(self, id: str) -> Any:
        """A condition that is never met, and may be killed."""

        def look(state: Any) -> None:
            self.at(f"at {id} {state.turns}")

        return look

    async def work(self, what: str) -> str:
        """Do a piece of work."""
        first = f"begin {what}" not in self.lines()
        self.write(f"begin {what}")
        if first and what.startswith("waits"):
            await self.spoken.wait()  # until what goes on beside it is in the journal
        if first and self.kill == what:
            os.kill(os.getpid(), signal.SIGKILL)
        if first and self.kill == f"cancel:{what}":
            assert self.cancel is not None
            self.cancel.cancel()
            await asyncio.Event().wait()
        self.write(f"end {what}")
        return f"{what} is done"


def use(*what: str) -> ModelReply:
    from moothall.models.protocol import Call

    calls = tuple(Call(f"c-{each}", "work", {"what": each}) for each in what)
    return ModelReply(calls=calls, usage=Usage(10, 5), finish_reason="calls")


def over(to: str, message: str) -> ModelReply:
    from moothall.models.protocol import Call

    call = Call(f"h-{message}", "hand_over", {"to": to, "message": message})
    return ModelReply(calls=(call,), usage=Usage(10, 5), finish_reason="calls")


def say(text: str) -> ModelReply:
    return ModelReply(text, usage=Usage(10, 2))


def agent(world: World, id: str, *answers: Any, **options: Any) -> ReActAgent:
    if MEMORIES is not None:
        options["memory"] = SQLiteMemory(Path(MEMORIES) / f"{id}.db")
    model = ScriptedModel(answers, f"model of {id}", max_tokens=100)
    return ReActAgent(
        id, model, actions=[Action("work", world.work, idempotent=IDEMPOTENT)], **options
    )


class Clerk:
    """A participant that is no Agent, and keeps no record."""

    id = "clerk"

    def __init__(self, world: World) -> None:
        self.world = world

    async def reply(self, text: Any, **wanted: Any) -> Any:
        self.world.write(f"clerk asked {text}")
        return answer(f"noted: {text}")

    async def observe(self, message: Any) -> None:
        self.world.write(f"clerk told {message['content']}")


def make(order: str, world: World, id: str = "talk", **options: Any) -> Any:
    looks = world.looks(id)
    options["id"] = id
    if order == "round":
        a = agent(world, "a", use("a1"), say("a first"), use("a2"), say("a second"))
        b = agent(world, "b", use("b1"), use("b2"), say("b first"), use("b3"), say("b second"))
        return Conversation([a, b], until=MaxTurns(4) | looks, **options)
    if order == "clerk":
        a = agent(world, "a", use("a1"), say("a first"), use("a2"), say("a second"))
        return Conversation([Clerk(world), a], until=MaxTurns(4) | looks, **options)
    if order == "chosen":
        chooser = ScriptedModel(
            [
                ModelReply(text, usage=Usage(5, 1))
                for text in ("b", '{"next": "b"}', '{"next": "a"}', '{"next": "b"}')
            ],
            "chooser",
            max_tokens=20,
        )
        a = agent(world, "a", use("a1"), say("a first"))
        b = agent(world, "b", use("b1"), say("b first"), use("b2"), say("b second"))
        c = agent(world, "c")
        return Conversation([a, b, c], ChosenBy(chooser), MaxTurns(3) | looks, **options)
    if order == "hand-over":
        a = agent(world, "a", use("a1"), over("b", "yours"), use("a2"), say("a is done"))
        b = agent(world, "b", use("b1"), over("a", "back"))
        return Conversation([a, b], HandOver(), looks, **options)
    if order == "together":

        async def spoken(messages: Any, actions: Any) -> ModelReply:
            world.spoken.set()
            return say("a first")

        a = agent(world, "a", use("a1"), spoken, use("a2"), say("a second"))
        b = agent(world, "b", use("waits"), say("b first"), use("b2"), say("b second"))
        c = agent(world, "c", use("c1"), say("c first"))

        def who(state: Any) -> Any:
            world.at(f"next {state.turns}")
            return {0: ["a", "b"], 2: "c", 3: ["b", "a"]}.get(state.turns)

        return Conversation([a, b, c], who, looks, **options)
    if order == "nested":
        inner = make("hand-over", world, id="inner")
        c = agent(world, "c", use("c1"), say("c first"), use("c2"), say("c second"))
        return Conversation([c, inner], until=MaxTurns(3) | looks, **options)
    decision = '{"action": "%s", "new_instruction": "%s", "reasoning": "because"}'
    if order == "outcome":
        a = agent(world, "a", say("a first"))
        b = agent(world, "b", say("b first"), use("b1"), say('{"n": 3}'))
        return Conversation([a, b], until=MaxTurns(2) | looks, **options)
    if order == "of dual acts":
        human = agent(
            world,
            "H",
            say(decision % ("CONTINUE", "go")),
            say(decision % ("TERMINATE", "")),
            say(decision % ("CONTINUE", "more")),
            say(decision % ("TERMINATE", "")),
        )
        reactive = agent(world, "R", use("r1"), say("r first"), use("r2"), say("r second"))
        dual = DualActAgent(DualActConfig(human, reactive), id="dual")
        c = agent(world, "c", use("c1"), say("c first"), use("c2"), say("c second"))
        return Conversation([c, dual], until=MaxTurns(4) | looks, **options)
    if order == "as R":
        a = agent(world, "a", use("a1"), say("a first"), use("a2"), say("a second"))
        b = agent(world, "b", use("b1"), say("b first"), use("b2"), say("b second"))
        reactive = Conversation([a, b], until=MaxTurns(2) | world.looks("R"), id="R")
        given = (("CONTINUE", "go"), ("REDIRECT", "more"), ("TERMINATE", ""))
        human = agent(world, "H", *(say(decision % each) for each in given))
        return DualActAgent(DualActConfig(human, reactive), **options)
    assert order == "as H"
    a = agent(world, "a", use("a1"), say("a first"), use("a2"), say("a second"))
    decided = [say(decision % each) for each in (("CONTINUE", "go"), ("TERMINATE", ""))]
    # Asked for a decision, it has its last speaker say it when it is over.
    b = agent(world, "b", use("b1"), say("b first"), decided[0], say("b second"), decided[1])
    human = Conversation([a, b], until=MaxTurns(2) | world.looks("H"), id="H")
    reactive = agent(world, "R", use("r1"), say("r is done"))
    return DualActAgent(DualActConfig(human, reactive), **options)


def participants(made: Any) -> list[Any]:
    if isinstance(made, DualActAgent):
        inner = [made.human_agent, made.reactive_agent]
    elif isinstance(made, Conversation):
        inner = list(made.agents.values())
    else:
        return [made]
    return [each for part in inner for each in participants(part)]


def transcripts(made: Any) -> dict[str, Any]:
    found = {}
    if isinstance(made, DualActAgent):
        for part in (made.human_agent, made.reactive_agent):
            found |= transcripts(part)
    elif isinstance(made, Conversation):
        state = made.state
        found[str(made.id)] = {
            "said": [
                [each.number, each.speaker, each.text, each.error] for each in state.transcript
            ],
            "turns": state.turns,
            "waiting": {id: len(each) for id, each in state.pending.items()},
        }
        for part in made.agents.values():
            found |= transcripts(part)
    return found


def memories(made: Any) -> dict[str, Any]:
    return {
        str(each.id): [
            {k: v for k, v in m.items() if k in ("role", "content", "tool_calls")}
            for m in each.memory.get_memories()
        ]
        for each in participants(made)
        if hasattr(each, "memory")
    }


def told(reply: Any) -> dict[str, Any]:
    return {
        "text": reply.text,
        "value": reply.value,
        "messages": reply.messages,
        "steps": [
            [step.action, step.args, step.result | {"timestamp": None}, step.error]
            for step in reply.steps
        ],
        "usage": [reply.usage.input_tokens, reply.usage.output_tokens],
        "stop": [reply.stop_reason, reply.detail],
    }


async def main(order: str, path: str, log: str, kill: str) -> dict[str, Any]:
    world = World(log, kill)
    budget = Budget(tokens=10**9, model_calls=10**6, actions=10**6)
    with Journal(path) as journal:
        made = make(order, world, journal=journal, budget=budget)
        schema = {"type": "object"} if order == "outcome" else None
        if kill.startswith("cancel:"):
            world.cancel = asyncio.create_task(made.reply("go", schema, run_id=RUN))
            await asyncio.wait((world.cancel,))
            assert world.cancel.cancelled()
        reply = await made.reply("go", schema, run_id=RUN)
        world.at("over")
        replay = None
        if reply.stop_reason != "in_doubt":
            replay = told(journal.replay(RUN))
            again = await made.reply("go", schema, run_id=RUN)
            assert told(again) == told(reply), told(again)
    spent = budget.spent
    return {
        "reply": told(reply),
        "replay": replay,
        "transcripts": transcripts(made),
        "memories": memories(made),
        "spent": [spent.tokens, spent.model_calls, spent.actions],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
