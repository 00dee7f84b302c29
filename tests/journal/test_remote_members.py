"""A member elsewhere that was cut off may have acted: somebody decides before it is asked again."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Conversation, Journal, MaxTurns, NativeSpace, RemoteAgent, action
from moothall.journal import Done


class Till(Agent):
    """Pays, and answers the first time only if it is let."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.paid = 0
        self.has_paid = threading.Event()

    @action
    async def say(self, content: str) -> str:
        """Pay."""
        self.paid += 1
        self.has_paid.set()
        if self.paid == 1:
            await asyncio.Event().wait()
        return "It is paid."


@pytest.mark.parametrize(
    ("decision", "paid", "text"),
    (
        (Done("It was paid."), 1, "It was paid."),
        ("repeat", 2, "It is paid."),
        ("skip", 1, ""),
    ),
)
def test_remote_member_that_was_cut_off_is_in_doubt_until_somebody_decides(
    tmp_path: Path, decision: Any, paid: int, text: str
) -> None:
    async def main(journal: Journal) -> None:
        till = space.add(Till("till"))
        me = space.add(Agent("me"))

        def ask() -> Any:
            members = [RemoteAgent(me, "till")]
            talk = Conversation(members, journal=journal, until=MaxTurns(1), stop_if_failed="none")
            return talk.reply("Pay.", run_id="r")

        first = asyncio.create_task(ask())
        assert await asyncio.to_thread(till.has_paid.wait, 20)
        first.cancel()
        await asyncio.wait((first,))
        reply = await ask()
        assert (reply.stop_reason, till.paid) == ("in_doubt", 1)
        (doubt,) = journal.in_doubt("r")
        assert doubt.args == {"text": "Pay."}
        journal.decide("r", decision)
        reply = await ask()
        assert (reply.stop_reason, reply.text, till.paid) == ("done", text, paid)

    with NativeSpace() as space, Journal(tmp_path / "runs.db") as journal:
        asyncio.run(main(journal))
