"""What `moothall simulate` does, begun and gone on with by a program."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moothall import Journal, Society
from moothall.foundation.errors import ConfigError
from moothall.studio.orders.order import order_of, record_order
from moothall.studio.orders.simulate import (
    SimulateOrder,
    check_simulation,
    society_of,
    threads_for,
)

ORDER = SimulateOrder(citizens=10, step="6h", seed=3)


class Stop(Exception):
    pass


def stop(row: dict[str, Any]) -> None:
    if row["step"] == 1:
        raise Stop


async def lived(order: SimulateOrder, journal: Journal | None, progress: Any = None) -> Any:
    async with society_of(order, journal) as town:
        options: Any = {"progress": progress}
        if journal is not None:
            await record_order(order, journal, "r", town)
            options |= {"run_id": "r", "save_every": order.save_every}
        await town.run(order.days, order.step, **options)
        return town.state_dict()


def test_days_that_are_whole_steps_count_though_no_float_holds_them() -> None:
    order = SimulateOrder(citizens=10, days=0.35, step="1min")
    check_simulation(order)
    assert order.steps == 504
    for days in (0.3505, 1e-9):
        with pytest.raises(ConfigError, match=f"--days {days:g} is not a whole number of steps"):
            check_simulation(replace(order, days=days))
    assert len(asyncio.run(Society([]).run(order.days, order.step))) == order.steps
    check_simulation(replace(order, days=100_000, step="1h"))
    with pytest.raises(ConfigError, match=r"--days must be above 0, at most 100000, got 100001"):
        check_simulation(replace(order, days=100_001, step="1h"))


def test_run_goes_on_by_the_order_that_its_record_has(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(Stop):
            asyncio.run(lived(ORDER, journal, stop))
        found = order_of(journal.entries("r"))
        assert found == ORDER
        assert isinstance(found, SimulateOrder)
        assert asyncio.run(lived(found, journal)) == asyncio.run(lived(ORDER, None))


def test_citizens_in_columns_run_on_as_many_threads_as_pay() -> None:
    assert threads_for(100_000) == 1
    assert 1 <= threads_for(1_000_000) <= min(3, os.cpu_count() or 1)


def test_expected_calls_of_a_model_count_each_day_that_is_begun() -> None:
    orders = [SimulateOrder(citizens=1_000, step="6h", days=days) for days in (1, 1.25, 2)]
    assert [each.expected[0] for each in orders] == [1_350, 2_025, 2_700]
    assert {tokens // calls for calls, tokens in (each.expected for each in orders)} == {700}
