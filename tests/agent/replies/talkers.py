"""Participants of conversations: agents on written-down models, and one without a model."""

from __future__ import annotations

import asyncio
from typing import Any

from moothall.agents.conversation.participants import NOTHING_NEW
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.reply import Reply
from moothall.models.protocol import Usage
from moothall.models.wrappers.scripted import ScriptedModel


def agent(id: str | int, *answers: Any, **options: Any) -> ReActAgent:
    """An agent whose model gives these answers."""
    return ReActAgent(id, ScriptedModel(answers), **options)


def heard(agent: ReActAgent, thread: str | None = None) -> list[str]:
    """What an agent remembers to have been told in a thread."""
    state = agent.state_dict()
    memory = state["memory"] if thread is None else state["threads"][thread]
    return [m["content"] for m in memory["items"] if m["role"] == "user"]


def answer(text: str, **more: Any) -> Reply:
    """A reply with nothing but a text, at a price of one token in and one out."""
    said = [{"role": "assistant", "content": text}]
    given = {"stop_reason": "done", "usage": Usage(1, 1), "value": text, "steps": []} | more
    return Reply(text=text, messages=said, **given)


class Talker:
    """A participant that is no Agent: it keeps what it hears, and says how often it spoke."""

    def __init__(self, id: str | int) -> None:
        self.id = id
        self.heard: list[str] = []
        self.asked = 0

    async def reply(self, text: Any, **wanted: Any) -> Any:
        self.asked += 1
        number = self.asked
        if text != NOTHING_NEW:
            self.heard.append(text)
        await asyncio.sleep(0)
        return answer(f"{self.id} {number}")

    async def observe(self, message: Any) -> None:
        assert message["role"] == "user"
        self.heard.append(message["content"])
        await asyncio.sleep(0)

    def state_dict(self) -> dict[str, Any]:
        return {"heard": list(self.heard), "asked": self.asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.heard, self.asked = list(state["heard"]), state["asked"]


class Gated(Talker):
    """Speaks when it is let, and tells when it was cancelled."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.spoken = asyncio.Event()
        self.cancelled = False
        self.told: list[Any] = []

    async def reply(self, text: Any, **wanted: Any) -> Any:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        said = await super().reply(text)
        self.spoken.set()
        return said

    def interrupt(self, text: Any) -> bool:
        self.told.append(text)
        return True
