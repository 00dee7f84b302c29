"""A program with a conversation that can be stopped between two turns and gone on with.

paused_conversation.py ORDER whole FOLDER | pause FILE TURNS | resume FILE
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from moothall.agents.conversation.chosen_by import ChosenBy
from moothall.agents.conversation.conversation import Conversation
from moothall.agents.conversation.hand_over import HandOver
from moothall.agents.conversation.termination import MaxTokens, MaxTurns, Said
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.events import TurnEnded
from moothall.models.protocol import ModelReply, Usage


class Counts:
    """A model whose answer follows from what it is shown, in whichever process."""

    context_tokens = None

    def __init__(self, name: str, choices: list[str] | None = None) -> None:
        self.name = name
        self.choices = choices

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        if self.choices is not None:
            said = messages[-1]["content"].count('{"from": ') - 1
            chosen = self.choices[said % len(self.choices)]
            return ModelReply(json.dumps({"next": chosen}), usage=Usage(5, 1))
        number = len(messages)
        if actions and number < 6:
            to = actions[-1].parameters["properties"]["to"]["enum"][number % 2]
            args = {"to": to, "message": f"{self.name} has {number}"}
            from moothall.models.protocol import Call

            return ModelReply(calls=(Call("c", actions[-1].name, args),), usage=Usage(5, 2))
        return ModelReply(f"{self.name} saw {number}", usage=Usage(number, 1))


class Kept(ReActAgent):
    """An agent whose memory is saved."""

    def state_dict(self) -> dict[str, Any]:
        return {"memory": self.memory.get_memories()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory.items[:] = state["memory"]


def conversation(order: str) -> Conversation:
    ids = ("Ann", "Bob", "Cleo")
    orders: dict[str, Any] = {
        "round": None,
        "chosen": ChosenBy(Counts("chooser", ["Bob", "Ann", "Cleo"])),
        "hand-over": HandOver("Bob"),
        "together": lambda state: ["Cleo", "Ann"] if state.turns % 3 else "Bob",
    }
    until = (Said("Bob saw") & MaxTurns(5)) | MaxTokens(10_000)
    return Conversation([Kept(id, Counts(id)) for id in ids], orders[order], until, max_turns=9)


def outcome(talk: Conversation, reply: Any) -> dict[str, Any]:
    return {
        "turns": talk.state.turns,
        "text": reply.text,
        "messages": reply.messages,
        "usage": [reply.usage.input_tokens, reply.usage.output_tokens],
        "stop": [reply.stop_reason, reply.detail],
        "memories": {id: each.memory.get_memories() for id, each in talk.agents.items()},
    }


def save(talk: Conversation, file: str) -> None:
    Path(file).write_text(json.dumps(talk.state_dict()))


async def pause(talk: Conversation, file: str, turns: int) -> None:
    spoken = 0
    async for event in talk.stream("go"):
        spoken += isinstance(event, TurnEnded)
        if spoken == turns:
            save(talk, file)
            print(json.dumps({"paused": spoken}), flush=True)
            os._exit(0)  # as a crash would


def main(order: str, what: str, file: str, turns: str = "0") -> None:
    talk = conversation(order)
    if what == "whole":
        print(json.dumps(outcome(talk, talk.reply_sync("go"))))
    elif what == "resume":
        talk.load_state_dict(json.loads(Path(file).read_text()))
        print(json.dumps(outcome(talk, asyncio.run(talk.resume()))))
    else:
        asyncio.run(pause(talk, file, int(turns)))


if __name__ == "__main__":
    main(*sys.argv[1:])
