"""One cell of an experiment: a condition, a seed and values, lived in a process of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pydantic import TypeAdapter

from civitas.clock import seconds_of
from civitas.errors import CivitasError, ConfigError, FileError
from civitas.society.experiments.functions import Source, found, function_of, portable
from civitas.society.experiments.table import write_part
from civitas.society.experiments.workflow import Item, Life, Row, steps_of
from civitas.text import error_text


@dataclass(frozen=True)
class Cell:
    """What one process lives.

    Attributes:
        condition: the name of the condition
        seed: the seed
        values: the values of the parameters that are swept
        source: the function that gives the society, or where it is
        step: how long a step is
        parameters: the society's parameters
        workflow: what is done
        metrics: the name of each, and its function or where it is
        every: after how many steps something is measured
    """

    condition: str
    seed: int
    values: dict[str, Any]
    source: Source
    step: str | int
    parameters: dict[str, Any]
    workflow: list[Item]
    metrics: tuple[tuple[str, Source | None], ...]
    every: int

    def __str__(self) -> str:
        values = "".join(f", {name}={json.dumps(each)}" for name, each in self.values.items())
        return f"condition {self.condition!r}, seed {self.seed}{values}"

    @property
    def steps(self) -> int:
        """How many steps it lives."""
        return steps_of(self.workflow, seconds_of(self.step))

    def as_json(self) -> dict[str, Any]:
        """It as JSON data, for another process.

        Raises:
            ConfigError: a function of it is not at the top of a file
        """
        workflow = [each.model_dump(exclude_unset=True, by_alias=True) for each in self.workflow]
        made: dict[str, Any] = portable({**vars(self), "workflow": workflow})
        return made

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Cell:
        """The cell that JSON data says."""
        given = found(given)
        workflow = TypeAdapter(list[Item]).validate_python(given["workflow"])
        metrics = tuple((name, by) for name, by in given["metrics"])
        return cls(**{**given, "workflow": workflow, "metrics": metrics})


async def live(
    cell: Cell, folder: Path, lived: Callable[[int], None]
) -> tuple[list[Row], dict[str, Any]]:
    """Live a cell; gives what was measured, and its totals.

    Raises:
        ConfigError: the society, an item of the workflow or a metric cannot be used
    """
    function = function_of(cell.source, folder)
    parameters = dict(cell.parameters)
    if "folder" in inspect.signature(function).parameters:
        parameters["folder"] = folder
    make = functools.partial(function, cell.seed, **parameters)
    rows: list[Row] = []
    life = Life(make, cell.metrics, cell.every, cell.step, folder, lived, rows)
    await life.live(cell.workflow, cell.condition)
    return rows, {**life.totals, "first_failures": life.failures[:5]}


def main() -> None:
    """Live the cell of the job on standard input, and write its part.

    The job is one line of JSON. What follows it is waited for beside: where the process that gave
    the job is gone, its end of the pipe is closed, and this process ends.
    """
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a society's code prints is no word of ours
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    folder = Path(job["folder"])
    cell = Cell.from_json(job["cell"])

    def lived(steps: int) -> None:
        _say(said, {"lived": steps})

    try:
        rows, totals = asyncio.run(live(cell, folder, lived))
        write_part(Path(job["part"]), job["name"], cell.seed, cell.values, rows, totals)
    except Exception as error:  # told to who gave the job, who raises it
        kinds = {"config": ConfigError, "file": FileError}
        kind = next((name for name, each in kinds.items() if isinstance(error, each)), "other")
        text = str(error) if isinstance(error, CivitasError) else error_text(error, 1000)
        _say(said, {"error": text, "kind": kind})
        sys.exit(1)
    _say(said, {"ended": True})


def _say(to: TextIO, what: dict[str, Any]) -> None:
    to.write(json.dumps(what) + "\n")


def _end_with_stdin() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
