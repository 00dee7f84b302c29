"""Companies, supervisors and schedules: docs/supervision.md."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, assert_type

from moothall.serving import Company, Restart, Schedule, Supervised, Supervisor


async def work(part: Supervised) -> None:
    part.running()
    assert_type(part.deaths, int)


async def main() -> None:
    async with Company.from_yaml("company.yaml") as company:
        assert_type(company, Company)
        assert_type(company.health(), dict[str, Any])
        assert_type(company.metrics(), str)
        assert_type(company.port, int | None)
        await company.ended()
    supervisor = Supervisor(Restart(most=3, first=0.1))
    await supervisor.keep("work", work, restart=Restart(steady=5))
    await supervisor.keep("work", 5)  # error
    Restart(most="3")  # error


times = Schedule(cron="0 7 * * mon", missed="all").after(datetime.now(UTC))
assert_type(times, Iterator[datetime])
Schedule(every=60, missed="twice")  # error
asyncio.run(main())
