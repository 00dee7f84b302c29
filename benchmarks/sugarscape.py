"""Who survives on the Sugarscape, and at which prices, beside what Epstein and Axtell report.

    python -m benchmarks.sugarscape [--quick]

Traders by the farthest that one sees, 10 seeds of 200 steps each (`--quick`: 2 of 50): how many
live at the end, the geometric mean of the prices of the last half, and their deviation from step to
step, of the logarithm.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from statistics import mean, stdev

from examples.models.sugarscape import sugarscape

from benchmarks.measure import emit
from moothall.society import Society

SIGHTS = (1, 5, 10, 15)


async def lived(seed: int, farthest: int, steps: int) -> tuple[int, float, float]:
    """Return the survivors, the mean of the logarithms of the prices, and their deviation."""
    async with Society(sugarscape(seed, sight=(1, farthest))) as society:
        rows = await society.run(steps=steps)
    prices = [math.log(row["price"]) for row in rows[steps // 2 :] if row["trades"]]
    return rows[-1]["traders"], mean(prices), stdev(prices)


async def main() -> None:
    """Print a line for each sight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds and steps")
    seeds, steps = (2, 50) if parser.parse_args().quick else (10, 200)
    for farthest in SIGHTS:
        runs = [await lived(seed, farthest, steps) for seed in range(seeds)]
        survivors, prices, deviations = zip(*runs, strict=True)
        emit(
            "sugarscape",
            f"sight 1 to {farthest}",
            mean(survivors),
            "traders",
            least=min(survivors),
            most=max(survivors),
            price=math.exp(mean(prices)),
            price_least=math.exp(min(prices)),
            price_most=math.exp(max(prices)),
            deviation=mean(deviations),
        )


if __name__ == "__main__":
    asyncio.run(main())
