"""Runs beside each other: the steps of two, and the cases of an evaluation in its conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final

from moothall.build import json_line
from moothall.journal import Entry, Journal, Outline, RunView
from moothall.studio.run_view import Totals, cut_value, entry_row

_MAX_STEPS: Final = 2_000
"""The most steps of a run that are compared: the first ones."""
_MAX_CASES: Final = 300
"""The most cases of an evaluation that are compared: those that were asked last."""


@dataclass
class _ComparedStep:
    """A call of a model or an action that ended or failed, and since when it ran."""

    entry: Entry
    started_at: float | None
    args: Any  # of an action
    result: Any

    @property
    def key(self) -> tuple[str, str, str]:
        """What was called, where, and with what."""
        subject = self.entry.subject
        target = str(subject.get("action", subject.get("model")))
        return (self.entry.path, target, json_line(self.args))

    def equals(self, other: _ComparedStep) -> bool:
        """Return whether both were given and gave the same."""
        return self.key == other.key and json_line(self.result) == json_line(other.result)

    def to_json(self) -> dict[str, Any]:
        """Return the step as pages get it."""
        args, result = cut_value(self.args), cut_value(self.result)
        return {**entry_row(self.entry), "began": self.started_at, "args": args, "result": result}


def compare_runs(left_entries: Sequence[Entry], right_entries: Sequence[Entry]) -> dict[str, Any]:
    """Return both runs' totals, and `rows` of `[step, step, same]`; None where one has none.

    A step is a call of a model or an action. Steps of the same name and input stand in one row.
    `cut` says whether steps were left out.
    """
    left_steps, right_steps = _steps(left_entries), _steps(right_entries)
    is_cut = max(len(left_steps), len(right_steps)) > _MAX_STEPS
    left_steps, right_steps = left_steps[:_MAX_STEPS], right_steps[:_MAX_STEPS]
    left_keys, right_keys = ([each.key for each in steps] for steps in (left_steps, right_steps))
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    rows: list[tuple[Any, ...]] = []
    for _, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        matched = left_steps[left_start:left_end], right_steps[right_start:right_end]
        for left_step, right_step in zip_longest(*matched):
            is_same = bool(left_step and right_step and left_step.equals(right_step))
            steps_json = (each and each.to_json() for each in (left_step, right_step))
            rows.append((*steps_json, is_same))
    totals = [Totals(each).to_json() for each in (left_entries, right_entries)]
    return {"rows": rows, "cut": is_cut, "totals": totals}


def _steps(entries: Sequence[Entry]) -> list[_ComparedStep]:
    """Return the calls of models and actions that ended or failed, in order."""
    open_entries: dict[tuple[str, str], Entry] = {}
    steps: list[_ComparedStep] = []
    for entry in entries:
        key, subject = (entry.path, entry.key), entry.subject
        if entry.starts_step:
            open_entries[key] = entry
        if not entry.ends_step or not subject.keys() & {"action", "model"}:
            continue
        start = open_entries.pop(key, None)
        result = entry.result
        args = None
        if "action" in subject:
            args = None if start is None else start.args
            if isinstance(result, dict):
                args, result = result.get("args", args), _outcome(result.get("result", result))
        elif isinstance(result, dict):
            result = {"text": result.get("text"), "calls": result.get("calls")}
        steps.append(_ComparedStep(entry, None if start is None else start.at, args, result))
    return steps


def _outcome(result: Any) -> Any:
    """Return what an action gave or its error, without when it did."""
    if not isinstance(result, dict) or not result.keys() & {"error", "result"}:
        return result
    error = result.get("error")
    return result.get("result") if error is None else error


# -- an evaluation ---------------------------------------------------------------------------------


def compare_cases(journal: Journal) -> dict[str, Any]:
    """Return what evaluations have asked: `rows` of `[case, cells, same]`, by `conditions`.

    A cell is the newest run of its case in its condition: its id, state, reply, calls, and grades
    of `[grader, good, note]`; None if there is none. `cut` says whether cases were left out.
    """
    cells_by_case: dict[str, dict[str, Outline]] = {}
    conditions: dict[str, None] = {}
    for each in sorted(journal.runs(tags=["case", "condition"]), key=lambda run: run.began):
        case, condition = each.tags["case"], each.tags["condition"]
        conditions[condition] = None
        # The case that was asked last comes last.
        cells_by_case[case] = {**cells_by_case.pop(case, {}), condition: each}
    rows: list[tuple[Any, ...]] = []
    for case, outlines in [*cells_by_case.items()][-_MAX_CASES:]:
        cells = [_cell(journal, outlines[e]) if e in outlines else None for e in conditions]
        replies = [(each["text"], each["calls"]) for each in cells if each is not None]
        rows.append((case, cells, all(each == replies[0] for each in replies)))
    is_cut = len(cells_by_case) > _MAX_CASES
    return {"conditions": [*conditions], "rows": rows, "cut": is_cut}


def _cell(journal: Journal, outline: Outline) -> dict[str, Any]:
    view = RunView(journal, outline)
    last = {each.by: each for each in view.feedback}
    grades = [[each.by or "", each.good, cut_value(each.note)] for each in last.values()]
    calls = [f"{each.action} {json_line(each.asked_args)}" for each in view.calls if not each.path]
    cell = {"text": cut_value(view.end_text), "calls": cut_value(calls), "grades": grades}
    return {"id": outline.id, "state": outline.state, **cell}
