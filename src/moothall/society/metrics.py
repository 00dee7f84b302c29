"""What a society measures in each step: each metric says all about itself, here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


class Measure(NamedTuple):
    """What metrics are read from, after the commit stage: the society, and counts of its step."""

    society: Any
    home: int
    work: int
    money: int
    owned_money: int
    delivered: int
    failures: int


@dataclass(frozen=True)
class Metric:
    """A column of `Society.metrics`, and how commands, the studio and experiments show it.

    Attributes:
        name: the column
        of: returns the value of a step
        label: the name for people; empty: the command does not print it
        scale: how many of its units are one as people read it: 100 cents are a dollar
        total: what a run reports: `last`, the `sum` of its steps, or nothing
        most: the name under which a run reports its greatest value; empty for none
        in_cells: whether an experiment adds it up over its cells
        chart: the title of the studio's chart that has it; empty for none
        unit: the unit of that chart, and of the command
        colour: the act whose colour the chart's line has
    """

    name: str
    of: Callable[[Measure], Any]
    label: str = ""
    scale: int = 1
    total: str = ""
    most: str = ""
    in_cells: bool = False
    chart: str = ""
    unit: str = ""
    colour: str = ""

    def summary(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what a run reports of its rows, by name."""
        values = [row[self.name] for row in rows]
        result = {}
        if self.total:
            result[self.name] = values[-1] if self.total == "last" else sum(values)
        return result | ({self.most: max(values)} if self.most else {})

    def text(self, totals: Mapping[str, object]) -> str:
        """Return a run's report of it for people."""
        total, highest = (totals.get(each) for each in (self.name, self.most))
        highest = None if highest is None else f"at most {self._number(highest)}"
        return ", ".join(
            [*([] if total is None else [self._number(total)]), *([highest] if highest else [])]
        )

    def _number(self, value: Any) -> str:
        if self.scale == 1:
            return f"{value:,}"
        return f"{value / self.scale:,.2f} {self.unit}".rstrip()


_PLACES_TITLE: Final = "Where citizens are"


def _working_count(measure: Measure) -> int:
    """Return how many do their work in the step, wherever they are, at home too."""
    population = measure.society.population
    # A status without a column of acts has its act beside.
    working: int = sum(dict.get(each, "act") == "work" for each in population.views.values())
    words = getattr(population.declared.get("act"), "words", None) or ()
    if "work" not in words:  # a block of one's own has other acts
        return working
    return working + int((population.pull_column("act") == words.index("work")).sum())


def _unemployment(measure: Measure) -> float:
    """Return the share of the jobless of the last day; 0 without a labour market."""
    return float(getattr(measure.society.services.get("labour"), "unemployment", 0.0))


def _unpaid(measure: Measure) -> int:
    """Return the benefits of the last day that were due and not paid, in cents."""
    counts = getattr(measure.society.services.get("labour"), "counts", {})
    return int(counts.get("unpaid", 0))


METRICS: Final = (
    Metric(
        "moving",
        lambda measure: measure.society.books.travelled,
        "on the way",
        most="moving_most",
        colour="travel",
        chart=_PLACES_TITLE,
        unit="citizens",
    ),
    Metric(
        "home",
        lambda measure: measure.home,
        "at home",
        total="last",
        colour="leisure",
        chart=_PLACES_TITLE,
        unit="citizens",
    ),
    Metric(
        "work",
        lambda measure: measure.work,
        "at work",
        total="last",
        most="working_most",
        colour="work",
        chart=_PLACES_TITLE,
        unit="citizens",
    ),
    Metric("working", _working_count),
    Metric(
        "stranded",
        lambda measure: measure.society.books.stranded_count(),
        most="stranded_most",
    ),
    Metric("unemployment", _unemployment),
    Metric("unpaid", _unpaid, scale=100),
    Metric(
        "money",
        lambda measure: measure.money,
        "money",
        100,
        total="last",
        chart="All money",
        unit="dollars",
        colour="food",
    ),
    Metric("owned", lambda measure: measure.owned_money, scale=100),
    Metric(
        "messages",
        lambda measure: measure.delivered,
        "messages",
        total="sum",
        chart="Messages",
        unit="a step",
        colour="social",
    ),
    Metric("failures", lambda measure: measure.failures, "failures", total="sum", in_cells=True),
    Metric(
        "fallbacks",
        lambda measure: measure.society.fallbacks,
        total="sum",
        in_cells=True,
        chart="Fallbacks to a rule",
        unit="a step",
        colour="travel",
    ),
    Metric(
        "model_calls", lambda measure: measure.society.model_calls.calls, total="sum", in_cells=True
    ),
)
"""The metrics in the order of a row, which begins with the step's number and time."""


def charts() -> list[tuple[str, str, list[tuple[str, str, str, int]]]]:
    """Return the charts that a page shows: title, unit, and of each line all that draws it."""
    titles = {each.chart: each.unit for each in METRICS if each.chart}
    result = []
    for title, unit in titles.items():
        lines = [each for each in METRICS if each.chart == title]
        line_rows = [(m.name, m.label if len(lines) > 1 else "", m.colour, m.scale) for m in lines]
        result.append((title, unit, line_rows))
    return result
