"""One cell of an experiment: a condition, a seed and values, run in a process of its own."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import inspect
import json
import os
import select
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from moothall import ConfigError, FileError, MoothallError, StateError
from moothall.journal import Journal
from moothall.society.clock import seconds_of
from moothall.society.experiments.measurements import (
    ANSWERS_PREFIX,
    BY_RULE,
    MeasurementRow,
    Measurements,
)
from moothall.society.experiments.models import TOWN, Source, function_of, importable
from moothall.society.experiments.pictures import draw_map
from moothall.society.experiments.trajectory_file import TrajectoryFile
from moothall.society.experiments.workflow import Item, RunLength, SurveyItem, count_steps
from moothall.society.kernel.faults import fault_in_words
from moothall.society.kernel.intervention import Intervention
from moothall.society.metrics import METRICS
from moothall.society.population.population import Population
from moothall.society.society import Society
from moothall.society.survey import Respondent, Survey
from moothall.society.tables import trajectories_path

_CAN_FORK: Final = sys.platform == "linux"
"""Elsewhere there is no fork, or libraries of the system do not live on in a child."""
_SUMMED_METRICS = tuple(each.name for each in METRICS if each.in_cells)


@dataclass(frozen=True)
class Cell:
    """What one process runs; `values` are the swept parameters, `parameters` all of them."""

    condition: str
    seed: int
    values: dict[str, Any]
    experiment: str
    folder: Path
    source: Source
    step: str | int
    parameters: dict[str, Any]
    workflow: list[Item]
    metrics: list[tuple[str, Source | None]]
    every: int
    has_map: bool = False
    trajectories: bool = False

    def __str__(self) -> str:
        values = "".join(f", {name}={json.dumps(each)}" for name, each in self.values.items())
        return f"condition {self.condition!r}, seed {self.seed}{values}"

    @property
    def steps(self) -> int:
        """How many steps it runs."""
        return count_steps(self.workflow, seconds_of(self.step))

    def as_json(self) -> bytes:
        """Return it for another process. Raises ConfigError if a function is not `file.py:…`."""
        try:
            return _adapter().dump_json(self, exclude_unset=True)
        except PydanticSerializationError:
            raise ConfigError(
                "another process needs functions as file.py:function; with jobs=0 all cells run in "
                "this process, with any function"
            ) from None

    async def run(self, part: Path, on_steps: Callable[[int], None]) -> None:
        """Run the cell, and write its part of the results."""
        # The folder is importable during the whole run, for imports inside of functions.
        values = json.dumps(self.values, sort_keys=True)
        equal_columns = {"experiment": self.experiment, "parameters": values, "seed": self.seed}
        with importable(self.folder), closing(Measurements(part, **equal_columns)) as rows:
            run, is_complete = _CellRun(self, on_steps, part, rows), False
            try:
                await run.run(self.workflow, self.condition)
                rows.write(run.totals)
                is_complete = True
            finally:
                run.close(is_complete)


def society_maker(cell: Cell) -> Callable[[], Society]:
    """Return the function that makes the society of a cell."""
    make = function_of(cell.source, cell.folder)
    parameters = dict(cell.parameters)
    if "folder" in inspect.signature(make).parameters:
        parameters["folder"] = cell.folder

    def make_society() -> Society:
        if cell.source == TOWN:
            society = make(seed=cell.seed, **parameters)
        else:
            society = make(cell.seed, **parameters)
        if isinstance(society, Population):
            society = Society(society)
        if not isinstance(society, Society):
            raise ConfigError(f"society.make must return a Society, got {society!r:.80}")
        return society

    return make_society


@functools.cache
def _adapter() -> TypeAdapter[Cell]:
    return TypeAdapter(Cell)


class _CellRun:
    """A running cell: the rows that it measures, and totals of failures."""

    def __init__(
        self, cell: Cell, on_steps: Callable[[int], None], part: Path, rows: Measurements
    ) -> None:
        self._cell, self._on_steps, self._part, self.rows = cell, on_steps, part, rows
        self._batches = part.with_suffix(".batches")
        self._journal: Journal | None = None
        self._runs = 0
        self._make = society_maker(cell)
        self._metrics = [
            (name, None if by is None else function_of(by, cell.folder))
            for name, by in cell.metrics
        ]
        self.totals: dict[str, Any] = {**dict.fromkeys(_SUMMED_METRICS, 0), "first_failures": []}
        self.totals["first_fallback"] = []

    async def run(
        self,
        workflow: list[Item],
        condition: str,
        saved: Mapping[str, tuple[Any, list[Intervention]]] | None = None,
        start: str = "",
    ) -> None:
        """Run a workflow in a new society, from a saved state or from the start."""
        saved = dict(saved or {})
        pending: list[Intervention] = []  # made at the next step, so that no state has them yet
        async with self._make() as society, AsyncExitStack() as stack:
            self._record_batches(society)
            society.books.faults.is_logged = False
            trajectories = self._trajectories(society, condition)
            if trajectories is not None:
                stack.callback(trajectories.close)
            if start:
                state, pending = saved[start][0], [*saved[start][1]]
                society.load_state_dict(state)
                for each in pending:
                    society.intervene(each)
            self._measure(society, condition, {})
            for item in workflow:
                if item.run is not None or item.step is not None:
                    count = item.step or (item.run or RunLength()).count(
                        seconds_of(self._cell.step)
                    )
                    await self._run_steps(society, condition, count, trajectories)
                    pending = []
                elif item.survey is not None:
                    await self._survey(society, condition, item.survey)
                elif item.interview is not None:
                    citizen, question = item.interview.citizen, item.interview.question
                    id = self._next_id(society, condition)
                    answer = await society.interview(citizen, question, run_id=id)
                    name = f"interview {citizen}: {question} (by {answer.source})"
                    self.rows.append(
                        MeasurementRow(condition, society.number, name, None, str(answer))
                    )
                elif item.intervene is not None:
                    pending.append(Intervention(society.number, **item.intervene))
                    society.intervene(pending[-1])
                elif item.save is not None:
                    saved[item.save] = society.state_dict(), [*pending]
                elif item.branch is not None:
                    name = f"{condition}/{item.branch.name}"
                    await self.run(item.branch.workflow, name, saved, item.branch.of)
            if trajectories is not None:
                trajectories.write()
            if self._cell.has_map and not start:
                draw_map(society, self._part.with_suffix(".png"))
            lines = [str(each) for each in society.books.faults.by_key.values()]
            self.totals["first_failures"] = (self.totals["first_failures"] + lines)[:3]
            if society.model_calls.first_unusable:
                self.totals["first_fallback"] = [society.model_calls.first_unusable]
            for block, many in society.model_calls.fallback_counts.items():
                self.totals[BY_RULE + block] = self.totals.get(BY_RULE + block, 0) + many

    def _trajectories(self, society: Society, condition: str) -> TrajectoryFile | None:
        """Return the file of where citizens are in a condition, if it is asked for."""
        if not self._cell.trajectories:
            return None
        values = json.dumps(self._cell.values, sort_keys=True)
        folder = self._part.parent.parent
        path = trajectories_path(folder, condition, self._cell.seed, values)
        return TrajectoryFile(society, path)

    async def _run_steps(
        self, society: Society, condition: str, steps: int, trajectories: TrajectoryFile | None
    ) -> None:
        every = self._cell.every
        add = None if trajectories is None else trajectories.add
        while steps > 0:
            chunk = min(steps, every - society.number % every)
            society.metrics.clear()  # a run of years takes no more memory than one of a day
            id = self._next_id(society, condition)
            rows = await society.run(step=self._cell.step, steps=chunk, run_id=id, progress=add)
            if society.unmade:
                number, reason = society.unmade[0]
                raise ConfigError(
                    f"condition {condition!r}: the intervention of step {number} could not be "
                    f"made: {reason}"
                )
            for name in _SUMMED_METRICS:
                self.totals[name] += sum(row.get(name, 0) for row in rows)
            self._measure(society, condition, rows[-1])
            self._on_steps(chunk)
            steps -= chunk

    def _measure(self, society: Society, condition: str, row: Mapping[str, object]) -> None:
        """Record the metrics; before the first step only those by functions."""
        for name, by in self._metrics:
            try:
                value: Any = row.get(name) if by is None else by(society)
            except Exception as error:
                error.add_note(f"metric {name!r}, condition {condition!r}, step {society.number}")
                raise
            if by is None and row and name not in row and "." not in name:  # nor of a survey
                raise ConfigError(
                    f"metrics: there is no column {name!r}; there are: "
                    f"{', '.join(key for key in row if key != 'time')}"
                )
            value = value.item() if getattr(value, "ndim", None) == 0 else value
            if value is None:
                continue
            if not isinstance(value, Real) or not abs(float(value)) < float("inf"):
                rule = f"must be a finite number, got {value!r:.80} after step {society.number}"
                raise ConfigError(f"metrics: {name} {rule}")
            self.rows.append(MeasurementRow(condition, society.number, name, float(value)))

    async def _survey(self, society: Society, condition: str, item: SurveyItem) -> None:
        """Ask a survey, and record the mean answer to each question."""
        folder = self._cell.folder
        questions = [each.question(_question_rule(each.by, folder)) for each in item.questions]
        citizens: Any = item.citizens
        if isinstance(citizens, str):
            citizens = function_of(citizens, folder)
        survey = Survey(item.name, questions)
        answers = await society.survey(survey, citizens, run_id=self._next_id(society, condition))
        if not answers and callable(citizens):
            return  # today it is true of nobody
        if item.keep:
            text = json.dumps([[e.citizen, e.question, e.value, e.source] for e in answers])
            self.rows.append(
                MeasurementRow(condition, society.number, ANSWERS_PREFIX + item.name, None, text)
            )
        values_by_name: dict[str, list[Any]] = {}
        for question in questions:
            replies = [each for each in answers if each.question == question.id]
            values = [each.value for each in replies if each.source != "none"]
            if not values:
                reason = replies[0].reason if replies else "there is not a citizen"
                raise ConfigError(f"survey {item.name!r}: no citizen answers: {reason}")
            subject = f"survey {item.name!r}"
            silent = [f"{subject}, {e.citizen}: {e.reason}" for e in replies if e.source == "none"]
            self.totals["failures"] += len(silent)
            self.totals["first_failures"] += silent[:3]
            for name, measure in question.measures.items():
                values_by_name[name] = [measure.number_in(value) for value in values]
        by_model = [each.source == "model" for each in answers]
        if any(by_model):
            values_by_name["by_model"] = by_model
        for name, each in values_by_name.items():
            mean = float(sum(each)) / len(each)
            self.rows.append(MeasurementRow(condition, society.number, f"{item.name}.{name}", mean))

    def _next_id(self, society: Society, condition: str) -> str | None:
        """Return the id of the next run in the cell's journal; None if it has none."""
        if self._journal is None or society.journal is not self._journal:
            return None
        self._runs += 1
        return f"{condition}, {self._runs}"

    def _record_batches(self, society: Society) -> None:
        """Record a society whose model is asked by batches: a cell begun anew finds them again."""
        batch = getattr(society.default_model, "batch", False)
        if not batch or society.journal is not None or self._cell.trajectories:
            return
        if self._journal is None:
            self._batches.mkdir(exist_ok=True)
            self._journal = Journal(self._batches / "journal.db")
        society.journal = self._journal

    def close(self, is_complete: bool) -> None:
        """Close the journal; it is deleted after a whole cell."""
        if self._journal is not None:
            self._journal.close()
            if is_complete:
                shutil.rmtree(self._batches, ignore_errors=True)


def _question_rule(source: Source | None, folder: Path) -> Callable[[Respondent], Any] | None:
    """Return the rule of a question: a value of the status, or a function."""
    if source is None or not isinstance(source, str) or not source.startswith("status."):
        return None if source is None else function_of(source, folder)
    names = source.split(".")[1:]
    return lambda respondent: functools.reduce(
        lambda value, name: value[name], names, respondent.status
    )


def reported_class(error: Exception) -> type[Exception]:
    """Return the class with which an error of a cell is reported: one of three."""
    return next((each for each in (ConfigError, FileError) if isinstance(error, each)), StateError)


def main() -> None:
    """Run the cells on standard input, two lines each: the file of its part, and its JSON."""
    # Each runs in a process that is forked from this one, which has imported what cells need. Where
    # there is no safe fork, this process runs one itself. All end with the parent, whose pipe is
    # closed.
    reports = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what a society's code prints must not mix with our reports

    def send_report(**report: object) -> None:
        reports.write(json.dumps(report) + "\n")

    if not _CAN_FORK:
        sys.exit(_run_cell(sys.stdin.readline(), sys.stdin.readline(), send_report, 0))
    _adapter()
    for name in ("scipy.sparse.csgraph", "pyarrow.parquet", "pandas"):  # pyarrow loads pandas
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all that is imported
    while (part := sys.stdin.readline()) and (line := sys.stdin.readline()):
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            os.close(write_end)
            if (random := sys.modules.get("numpy.random")) is not None:
                random.seed()  # as `random` does by itself: it is the same in all children
            code = _run_cell(part, line, send_report, read_end)
            atexit._run_exitfuncs()
            sys.stdout.flush()  # what a society's code printed
            os._exit(code)  # taking all modules apart would copy their pages, too
        os.close(read_end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(write_end)
        send_report(code=code)


def _run_cell(part: str, line: str, send_report: Callable[..., None], read_end: int) -> int:
    """Run a cell and return the exit code; end if the parent or the writer to `read_end` ends."""
    cell = _adapter().validate_json(line)

    def exit_with_parent() -> None:
        select.select([0, read_end], [], [])
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
    try:
        asyncio.run(cell.run(Path(json.loads(part)), lambda steps: send_report(lived=steps)))
    except Exception as error:  # reported to the parent process, which raises it
        text = str(error) if isinstance(error, MoothallError) else fault_in_words(error)[0]
        send_report(error=text, kind=reported_class(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    main()
