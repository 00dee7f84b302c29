"""A refund that waits for a person, and a batch that waits for its webhook, in one run.

The reply ends as `waiting`; nothing of it is left in the process. The answers come by the journal,
here from this program, as a web page, a chat or `moothall waiting` gives them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from moothall import (
    ACCESS_REQUESTED,
    Journal,
    Later,
    ReActAgent,
    Refused,
    ScriptedModel,
    Waiting,
    action,
)


@action(access_policy=ACCESS_REQUESTED)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    return f"refunded {amount} for {order}"


@action
def book(order: str) -> Later:
    """Have the bank book it; its webhook says when that is done."""
    return Later(f"booked-{order}", until=2 * 86_400, default="the bank has not answered")


SCRIPT = [
    [
        {"name": "refund", "args": {"order": "A1", "amount": 80}},
        {"name": "refund", "args": {"order": "A2", "amount": 800}},
        {"name": "book", "args": {"order": "A1"}},
    ],
    "A1 is refunded and booked; A2 was refused.",
]


def made(journal: Journal) -> ReActAgent:
    """Make the agent, as each process does that works with it."""
    actions = [refund, book]
    approver = Waiting(remind=3600, who=["eva"])
    return ReActAgent(
        "clerk", ScriptedModel(SCRIPT), actions=actions, journal=journal, approver=approver
    )


async def main(path: Path) -> None:
    """Begin the run, answer from elsewhere, and go on."""
    with Journal(path) as journal:
        reply = await made(journal).reply("Refund A1 and A2.", run_id="refunds")
        print(reply.stop_reason)

    with Journal(path) as office:  # another process, another day
        for wait in office.waiting("refunds"):
            print("-", wait.kind, wait.args)
            if wait.kind == "result":
                office.answer("refunds", wait.key, "booked on Monday")
            elif wait.args["amount"] <= 100:
                office.answer("refunds", wait.key, True, by="eva")
            else:
                office.answer("refunds", wait.key, Refused("over 100 needs the board"), by="eva")

    with Journal(path) as journal:
        (resumed,) = await made(journal).resume_decided()
        assert resumed.reply is not None
        print(resumed.reply.text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "runs.db"))
