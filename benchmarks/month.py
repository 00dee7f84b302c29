"""What a day of a town costs over a month, and what becomes of relations, shops and jobs.

    python -m benchmarks.month [--citizens 2000] [--days 31]

A line for some of the days: the processor time of the day, the peak memory of the process, the
mean number of relations, how many sellers have nothing left at midnight, and the share of jobless.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from typing import Any

import numpy as np

from moothall import Society
from moothall.society import City, Feed, Firm, Population, all_blocks, make_economy

SHOWN = (1, 2, 3, 7, 14, 16, 21, 23, 28, 30, 31)


async def month(citizens: int, days: int, seed: int) -> None:
    city = City.generate(seed=seed, citizens=citizens)
    population = Population(citizens, city, all_blocks(), seed)
    services: list[Any] = [*make_economy(city, seed=seed), Feed()]
    sellers = [each for each in services if isinstance(each, Firm) and each.sells]
    print("day  processor s  memory MB  relations  sellers sold out  jobless %")
    async with Society(population, services=services) as society:
        for day in range(1, days + 1):
            began = time.process_time()
            row = (await society.run(days=1))[-1]
            took = time.process_time() - began
            del society.metrics[:]
            if day in SHOWN or day == days:
                relations = np.count_nonzero(population.columns["friends"], axis=1).mean()
                most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                empty = f"{sum(not each.stock for each in sellers)} of {len(sellers)}"
                print(
                    f"{day:3}  {took:11.2f}  {most:9.0f}  {relations:9.1f}  {empty:>16}  "
                    f"{100 * row['unemployment']:9.1f}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--citizens", type=int, default=2000)
    parser.add_argument("--days", type=int, default=31)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(month(given.citizens, given.days, given.seed))


if __name__ == "__main__":
    main()
