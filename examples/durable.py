"""A letter is sorted, looked at by two agents, and paid once a person permits it.

The function is cut off twice: by an outage, and as it waits. Each time it begins at its first line
again, and each step that had ended gives its recorded result.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Literal

from moothall import DurableFunction, Journal, ReActAgent, RunWaiting, ScriptedModel, durable, step

is_down = True


@step
async def classify(text: str) -> Literal["bill", "letter"]:
    """Say what a text is."""
    print("  classified")
    return "bill" if "EUR" in text else "letter"


@step
async def fetch_rate(currency: str) -> float:
    """Fetch a rate from a service that is down at first."""
    if is_down:
        raise ConnectionError("the bank does not answer")
    print("  fetched the rate of", currency)
    return 1.25


@step(effect=True)
async def charge(card: str, cents: int) -> str:
    """Pay: this must not happen twice."""
    print("  paid", cents, "cents")
    return f"receipt for {cents}"


def agent(name: str, says: str) -> ReActAgent:
    """Return an agent that says one thing."""
    return ReActAgent(name, ScriptedModel([says]))


AGENTS = (agent("law", "It is due."), agent("style", "It is polite."))


@durable
async def desk(text: str) -> str:
    """Sort a text, and pay it if it is a bill."""
    if await classify(text) == "letter":
        return "filed"
    opinions = await asyncio.gather(*(each.reply(text) for each in AGENTS))
    cents = round(8_000 * await fetch_rate("USD"))
    if not await durable.ask(f"Pay {cents} cents?"):
        return "not paid"
    return f"{await charge('4711', cents)}: {' '.join(each.text for each in opinions)}"


async def work(office: DurableFunction[[str], str], journal: Journal) -> None:
    """Run the desk until its letter is paid."""
    global is_down
    try:
        await office.run("bill-1", "80 EUR, please")
    except ConnectionError as error:
        print("cut off:", error)
    is_down = False
    try:
        await office.run("bill-1", "80 EUR, please")
    except RunWaiting:
        (wait,) = journal.waiting("bill-1")
        print("waits:", wait.text)
        journal.answer("bill-1", wait.key, True)
    await office.resume()
    print(await office.run("bill-1", "80 EUR, please"))


def main() -> None:
    """Run the example in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "runs.db") as journal:
        asyncio.run(work(desk.on(journal), journal))


if __name__ == "__main__":
    main()
