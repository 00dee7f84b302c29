"""What an evaluation has measured: a row for each grade, means, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError, Interval
from moothall.build import SafeHTML, as_json, json_text, one_line, written_whole
from moothall.evals.cases import Case

_WIDTH = 400  # of a text in a page


@dataclass(slots=True)
class CellResult:
    """One case in one condition, once: what the agent replied, and how good that is.

    Attributes:
        condition: the name of the condition
        case: the case
        seed: the number of the repetition
        run: the id of its run in the evaluation's journal; empty if there is none
        text: what it replied
        stop_reason: why the reply ended; `error` too if there is no reply
        calls: its calls, a line each
        left_calls: those that the record does not have
        grades: the values, by the graders' names
        reasons: the reasons for them
        errors: what went wrong, by the graders' names; without a reply, by an empty name
    """

    condition: str
    case: Case
    seed: int
    run: str = ""
    text: str = ""
    stop_reason: str = "error"
    calls: list[str] = field(default_factory=list)
    left_calls: list[str] = field(default_factory=list)
    grades: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        names = [each for each in self.__slots__ if each != "case"]
        return {"case": self.case.name, **{name: getattr(self, name) for name in names}}


class Evaluated:
    """The results of an evaluation.

    Attributes:
        cells: each case in each condition, each time
        conditions: the names of the conditions; differences are to the first
        looks: how often it was looked whether a difference is decided; 0 without `stop_early`
        columns: what stands above the columns of its table
        missing: how many cells have no reply, since the budget is spent or they have failed

    Raises:
        ConfigError: a grader or a condition is named that there is not
    """

    columns: Final = ("grader", "condition", "mean", "cases", "above the first")

    def __init__(
        self, cells: Sequence[CellResult], conditions: Sequence[str], looks: int = 0
    ) -> None:
        self.cells: list[CellResult] = list(cells)
        self.conditions: list[str] = list(conditions)
        self.looks: int = looks

    @property
    def missing(self) -> int:
        """How many cells have no reply."""
        return sum("" in each.errors for each in self.cells)

    @property
    def errors(self) -> list[str]:
        """What went wrong, in words."""
        return [
            f"{each.condition}, {each.case.name}: {f'{name}: ' if name else ''}{text}"
            for each in self.cells
            for name, text in each.errors.items()
        ]

    @property
    def graders(self) -> list[str]:
        """The names of the graders; of labels, `grader=label` for each label."""
        names: dict[str, None] = {}
        for cell in self.cells:
            for name, value in cell.grades.items():
                names[f"{name}={value}" if isinstance(value, str) else name] = None
        return sorted(names)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each grade, as JSON data: a failed one has its `error`."""
        return [
            {
                "condition": each.condition,
                "case": each.case.name,
                "seed": each.seed,
                "grader": name,
                "value": each.grades.get(name),
                "why": each.reasons.get(name, ""),
                "error": each.errors.get(name, ""),
                "run": each.run,
            }
            for each in self.cells
            for name in {**each.grades, **each.errors}
        ]

    def _by_case(self, grader: str, condition: str) -> dict[str, float]:
        """Return the mean over seeds of each case."""
        if condition not in self.conditions:
            raise ConfigError(f"there is no condition {condition!r}: {', '.join(self.conditions)}")
        name, _, label = grader.partition("=")
        values: dict[str, list[float]] = {}
        for cell in self.cells:
            value = cell.grades.get(name)
            if cell.condition != condition or value is None:
                continue
            number = float(value == label) if label else value
            if not isinstance(number, str):
                values.setdefault(cell.case.name, []).append(float(number))
        if not values and grader not in self.graders:
            names = ", ".join(self.graders) or "none"
            raise ConfigError(f"no grade is of {grader!r}; there are: {names}")
        return {case: sum(each) / len(each) for case, each in values.items()}

    def mean(self, grader: str, condition: str | None = None) -> Interval:
        """Return the mean of a grader over cases, and its 95 % interval.

        Of true and false, and of a label, it is their share, by Wilson; of numbers by Student's t.

        Args:
            grader: its name; of labels, such as `tone=warm`
            condition: the condition; the first by default
        """
        condition = self.conditions[0] if condition is None else condition
        values = [*self._by_case(grader, condition).values()]
        return Interval.of_share(values) if self._is_share(grader) else Interval.of_values(values)

    def _is_share(self, grader: str) -> bool:
        if "=" in grader:
            return True
        values = [each.grades[grader] for each in self.cells if grader in each.grades]
        return all(isinstance(each, bool) for each in values)

    def difference(self, grader: str, condition: str, first: str | None = None) -> Interval:
        """Return by how much a condition is above the first one, case by case.

        A case that one of them has no grade of is left out: `n` says how many are compared. Of
        labels the interval is a bootstrap over cases, else by Student's t. With `stop_early` it is
        that of `Interval.of_looks`, since who looks often finds something by chance.
        """
        before = self._by_case(grader, self.conditions[0] if first is None else first)
        now = self._by_case(grader, condition)
        pairs = [now[case] - before[case] for case in now if case in before]
        if self.looks:
            return Interval.of_looks(pairs, self.looks)
        if "=" in grader and pairs:
            return Interval.of_samples(pairs, lambda drawn: sum(drawn) / len(drawn))
        return Interval.of_values(pairs)

    def is_decided(self, grader: str) -> bool:
        """Return whether each condition's difference to the first one is above or below 0."""
        if all(each.errors for each in self.cells):
            return False  # nothing says which grades there are
        first, *other_conditions = self.conditions
        return all(
            self._by_case(grader, first).keys() & self._by_case(grader, each).keys()
            and 0 not in self.difference(grader, each)
            for each in other_conditions
        )

    def _measured(self) -> Iterator[tuple[str, str, Interval, Interval | None]]:
        """Yield the mean of each grader and condition, and its difference to the first one."""
        first = self.conditions[0]
        for grader in self.graders:
            has_first = bool(self._by_case(grader, first))
            for condition in self.conditions:
                if self._by_case(grader, condition):
                    is_above = has_first and condition != first
                    difference = self.difference(grader, condition) if is_above else None
                    yield grader, condition, self.mean(grader, condition), difference

    def to_json(self) -> dict[str, Any]:
        """Return means, differences and cells as JSON data."""
        mean_rows, difference_rows = list[dict[str, Any]](), list[dict[str, Any]]()
        for grader, condition, mean, difference in self._measured():
            names = {"grader": grader, "condition": condition}
            mean_rows.append(names | vars(mean))
            if difference is not None:
                ends = vars(difference).items()  # without an end where there are too few cases
                finite = {key: each if math.isfinite(each) else None for key, each in ends}
                difference_rows.append(names | finite)
        data: dict[str, Any] = {"means": mean_rows, "differences": difference_rows}
        return {**data, "cells": [each.to_json() for each in self.cells], "errors": self.errors}

    def table(self) -> list[tuple[str, ...]]:
        """Return means, and differences to the first condition, as rows of texts."""
        return [
            (grader, condition, str(mean), str(mean.n), "" if above is None else str(above))
            for grader, condition, mean, above in self._measured()
        ]

    def _repr_html_(self) -> str:
        return SafeHTML.table(self.columns, self.table(), len(self.table()))

    def write_html(self, path: str | Path) -> None:
        """Write a page that loads nothing: the table, and each case that differs, side by side."""
        parts = [self._repr_html_()]
        by_case: dict[tuple[str, int], list[CellResult]] = {}
        for cell in self.cells:
            by_case.setdefault((cell.case.name, cell.seed), []).append(cell)
        for (name, seed), cells in by_case.items():
            if len({(each.text, *each.calls) for each in cells}) == 1 and not any(
                each.errors or each.left_calls or False in each.grades.values() for each in cells
            ):
                continue
            rows = [
                (label, *(one_line(_lines(getattr(each, key)), _WIDTH) for each in cells))
                for label, key in _PARTS_SHOWN.items()
            ]
            head = (f"{name}, {seed}", *(each.condition for each in cells))
            parts.append(SafeHTML.table(head, rows, len(rows)))
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Evaluation</title>'
            f"<h1>Evaluation</h1>{''.join(parts)}</html>"
        )
        with written_whole(Path(path)) as part:
            part.write_text(page, encoding="utf-8")


_PARTS_SHOWN = {
    "reply": "text",
    "calls": "calls",
    "not in the record": "left_calls",
    "grades": "grades",
    "why": "reasons",
    "errors": "errors",
}


def _lines(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else json_text(as_json(value))
