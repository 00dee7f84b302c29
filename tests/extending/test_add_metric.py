"""A metric stands in one place: rows, tables, the command's report and the studio's charts read it.

A user's own metric is a function of a population's columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from pyarrow import parquet

from moothall import Society
from moothall.society import Column, Grid, Population, RowBlock, Rows
from moothall.society.metrics import METRICS, Metric, charts


class Reading(RowBlock):
    """Citizens read a page in each step."""

    columns: ClassVar = {"pages": Column("int32")}

    def step_rows(self, rows: Rows) -> None:
        rows["pages"] += 1


def test_metric_of_a_users_own_is_in_the_rows_and_in_the_table(tmp_path: Path) -> None:
    population = Population(
        4, Grid(2, 2), [Reading()], seed=7, metrics={"read": lambda columns: columns["pages"].sum()}
    )
    with Society(population, seed=7) as town:
        rows = town.run_sync(steps=3, out=tmp_path)
    assert rows[-1]["read"] == 12
    assert parquet.read_table(tmp_path / "metrics.parquet")["read"].to_pylist() == [4, 8, 12]


@pytest.mark.parametrize(
    ("metric", "summary", "text"),
    (
        (Metric("births", lambda now: 1, "births", total="sum"), {"births": 6}, "6"),
        (Metric("births", lambda now: 1, "births", total="last"), {"births": 2}, "2"),
        (
            Metric("births", lambda now: 1, "births", 100, most="births_most"),
            {"births_most": 3},
            "at most 0.03",
        ),
    ),
)
def test_metric_says_what_a_run_reports_of_it(
    metric: Metric, summary: dict[str, int], text: str
) -> None:
    made = metric.summary([{"births": 1}, {"births": 3}, {"births": 2}])
    assert (made, metric.text(made)) == (summary, text)


def test_metric_is_in_each_row_and_charts_name_only_metrics() -> None:
    with Society([], seed=7) as town:
        (row,) = town.run_sync(steps=1)
    assert [*row] == ["step", "time", *(each.name for each in METRICS)]
    assert {line[0] for _, _, lines in charts() for line in lines} <= row.keys()
