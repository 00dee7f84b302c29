"""Calls of a door's callers, which are counted while they are under way, and watched."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from moothall import NativeSpace, ReActAgent, ScriptedModel
from moothall.foundation.errors import MoothallError
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.served import Served


def test_call_that_cannot_begin_is_not_under_way() -> None:
    with NativeSpace() as space:
        served = Served(space.add(ReActAgent("Clerk", ScriptedModel([]))))

    async def main() -> None:
        caller = Caller(asyncio.get_running_loop(), None)
        with pytest.raises(MoothallError):
            await served.call("ada", "Clerk", "say", {"content": "Hi"}, caller)
        with pytest.raises(MoothallError), served.calling("ada", "Clerk", caller):
            pass
        assert not served.busy

    asyncio.run(main())


def test_caller_whose_loop_is_closed_does_not_end_what_others_are_told() -> None:
    agent = ReActAgent("Clerk", ScriptedModel(["One.", "Two."]))
    served = Served(agent)
    told: list[Any] = []

    async def main() -> None:
        loop = asyncio.new_event_loop()
        loop.close()
        for caller in (Caller(loop, None), Caller(asyncio.get_running_loop(), None)):
            caller.tell = told.append
            with served.calling("ada", "Clerk", caller):
                await agent.reply("Hi")
        await asyncio.sleep(0)
        assert "Two." in str(told)
        await served.close()

    asyncio.run(main())


def test_caller_goes_on_with_its_conversation_after_a_call_of_90_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is idle from the end of its call on."""
    clock, passed_s = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed_s)

    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        nonlocal passed_s
        passed_s += 90 * 60 if messages[-1]["content"] == "Count the hats." else 60
        return " ".join(each["content"] for each in messages if each["role"] == "user")

    served = Served(ReActAgent("Clerk", ScriptedModel(answer)))

    async def main() -> None:
        caller = Caller(asyncio.get_running_loop(), None)

        async def said(sender: str, text: str) -> Any:
            args = {"content": text, "thread": "hats"}
            return await served.call(sender, "Clerk", "say", args, caller)

        await said("alice", "Count the hats.")
        await said("bob", "Hi.")
        assert await said("alice", "And now?") == "Count the hats. And now?"
        await served.close()

    asyncio.run(main())
