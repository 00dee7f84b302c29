"""Writes a file of each format into `tests/formats/`: `.venv/bin/python scripts/write_formats.py`.

Run it once for each new version of a format, at its release, and keep the files of the versions
before: `tests/test_formats.py` reads them all. An existing file is left as it is.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
    action,
)
from moothall.society import (
    City,
    MobilityBlock,
    NeedsBlock,
    PlanBlock,
    Population,
    Society,
)
from moothall.spaces.amqp.inbox import Inbox

FOLDER = Path(__file__).parents[1] / "tests" / "formats"
TASK = "Buy bread." + " long" * 500
BUY = {"name": "pay", "args": {"coins": 3}}


def pay(coins: int) -> str:
    """Pay."""
    if coins == 4:
        os._exit(9)  # its process dies of it
    return "paid"


@action(outside=True)
def fetch_mail(box: str) -> Any:
    """Fetch the mail; a webhook brings it."""
    return Later("mail")


def reply_in_child(ask: Callable[[], Any]) -> None:
    """Have a process reply that dies of it."""
    child = os.fork()
    if not child:
        try:
            ask()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def pay_four(path: Path) -> None:
    """Begin a payment whose end nobody records."""
    model = ScriptedModel([{"name": "pay", "args": {"coins": 4}}])
    with Journal(path) as journal:
        ReActAgent("payer", model, actions=[pay], journal=journal).reply_sync(
            "Pay 4.", run_id="pay-2"
        )


def write_journal(path: Path) -> None:
    """Runs that ended, were forked, wait, and are in doubt; tags; budgets of several processes."""
    with Journal(path) as journal:
        service = Budget(tokens=10_000, actions=5, journal=journal, name="service", per="month")
        anna = service.child(name="anna", tokens=50_000)
        buyer = ReActAgent(
            "buyer",
            ScriptedModel([BUY, "You have bread.", "Äpfel sind da.", "Fresh."]),
            actions=[pay],
            journal=journal,
        )
        buyer.reply_sync(TASK, run_id="bread-1", budget=anna)
        buyer.reply_sync("Kaufe ÄPFEL.", run_id="apples-1", thread="anna")
        journal.budgets.limit("service", tokens=20_000)
        paid = [each for each in journal.entries("bread-1") if each.kind == "ended"][1]
        journal.fork("bread-1", "bread-2", upto=paid.sequence)
        tags = {"customer": "acme", "urgent": ""}
        buyer.reply_sync("Buy bread.", run_id="bread-3", tags=tags)
        payer = ReActAgent(
            "payer",
            ScriptedModel([BUY]),
            actions=[Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)],
            approver=Waiting(who=["eva"]),
            journal=journal,
        )
        payer.reply_sync("Pay 3.", run_id="pay-1")
        calls = [{"name": "fetch_mail", "args": {"box": box}} for box in "ab"]
        clerk = ReActAgent("clerk", ScriptedModel([calls]), actions=[fetch_mail], journal=journal)
        clerk.reply_sync("Read both.", run_id="mails-1")
    reply_in_child(lambda: pay_four(path))
    Journal(path).close()


def write_memory(path: Path) -> None:
    """A conversation of a thread."""
    with SQLiteMemory(path, thread="anna") as memory:
        memory.add_memory({"role": "user", "content": "Buy bread."})
        memory.add_memory({"role": "assistant", "content": "You have bread."})


def write_inbox(path: Path) -> None:
    """A message that was accepted, one that was started, one that ended."""
    with closing(Inbox(path)) as inbox:
        inbox.accept("s.1", "A", b'{"m":1}')
        inbox.start([("s.2", "A"), ("s.3", "A")])
        inbox.end("s.3", "A", b'{"answer":1}')


def town(journal: Journal, *, rows: bool) -> Society:
    """A town of six: of agents, or in columns."""
    city, blocks = City.generate(seed=1, citizens=10), [NeedsBlock(), PlanBlock(), MobilityBlock()]
    if rows:
        return Society(Population(6, city, blocks, seed=1), seed=1, journal=journal)
    return Society(6, city, seed=1, journal=journal)


def live(path: Path, rows: bool) -> None:
    """Have a town live five of eight steps."""

    def progress(row: dict[str, Any]) -> None:
        if row["step"] == 5:
            os._exit(9)

    with Journal(path) as journal, town(journal, rows=rows) as society:
        options: Any = {"save_every": 2, "progress": progress}
        asyncio.run(society.run(steps=8, run_id="rows" if rows else "agents", **options))


def write_checkpoint(path: Path) -> None:
    """The checkpoints of two towns whose processes have died, in a journal."""
    towns = path.with_name("towns.db")
    for rows in (False, True):
        reply_in_child(lambda rows=rows: live(towns, rows))  # type: ignore[misc]
    Journal(towns).close()
    path.write_bytes(gzip.compress(towns.read_bytes()))


def write_export(path: Path) -> None:
    """A run that ended."""
    with Journal(path.with_name("journal")) as journal:
        model = ScriptedModel([BUY, "You have bread."])
        buyer = ReActAgent("buyer", model, actions=[pay], journal=journal)
        buyer.reply_sync(TASK, run_id="bread-1")
        journal.export("bread-1", path)


def write_states(path: Path) -> None:
    """States of an agent, a society and a budget."""
    agent = ReActAgent("buyer", ScriptedModel(["Hello."]), actions=[pay])
    agent.reply_sync("Hello?", thread="anna")
    budget = Budget(tokens=100, usd=1)
    budget.reserve(tokens=7, usd=0.25).settle(tokens=7, usd=0.25)
    with Society(6, City.generate(seed=1, citizens=10), seed=1) as society:
        society.run_sync(steps=2)
        states = {
            "agent": agent.state_dict(),
            "society": society.state_dict(),
            "budget": budget.state_dict(),
        }
    path.write_text(json.dumps(states))


FILES: dict[str, Callable[[Path], None]] = {
    "journal-1.db": write_journal,
    "memory-1.db": write_memory,
    "inbox-1.db": write_inbox,
    "checkpoint-1.db.gz": write_checkpoint,
    "run-1.jsonl": write_export,
    "states-1.json": write_states,
}


def main() -> None:
    """Write the files that are not there."""
    for name, write in FILES.items():
        if not (FOLDER / name).exists():
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder) / name)
                (FOLDER / name).write_bytes((Path(folder) / name).read_bytes())


if __name__ == "__main__":
    main()
