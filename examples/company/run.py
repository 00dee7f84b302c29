"""The company of company.yaml, run by a program: an agent dies, and is back at once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from moothall import Agent
from moothall.serving import Company

FILES = Path(__file__).parent


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that a supervisor brings about."""
    while not condition():  # noqa: ASYNC110 - a company has no event for it
        await asyncio.sleep(0.01)


async def main() -> None:
    """Start it, have the stock die, and look at what an operator sees."""
    with tempfile.TemporaryDirectory() as folder:  # its journal is written beside the file
        for name in ("company.yaml", "shop.py"):
            text = (FILES / name).read_text().replace("127.0.0.1:8100", "127.0.0.1:0")
            (Path(folder) / name).write_text(text)
        async with Company.from_yaml(Path(folder) / "company.yaml") as company:
            me = await asyncio.to_thread(company.space.add, Agent("me"))
            left = 3
            while left >= 0:
                left = await me.ask("Stock", "take", thing="chairs")
            await until(lambda: company.health()["agents"]["Stock"]["restarts"] == 1)
            print("chairs after the death:", await me.ask("Stock", "take", thing="chairs"))
            stock = company.health()["agents"]["Stock"]
            print(stock["state"], stock["deaths"], "death:", stock["error"])
            await until(lambda: "moothall_schedule_firings_total" in company.metrics())
            print(*[line for line in company.metrics().splitlines() if "restarts_total" in line])


if __name__ == "__main__":
    asyncio.run(main())
