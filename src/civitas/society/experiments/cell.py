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
from typing import Any

from pydantic import TypeAdapter

from civitas.clock import seconds_of
from civitas.errors import CivitasError, ConfigError, FileError
from civitas.society.experiments.functions import Source, function_of, importable
from civitas.society.experiments.pictures import draw_map
from civitas.society.experiments.table import file_name, write_part, write_whole
from civitas.society.experiments.workflow import Item, Life, steps_of
from civitas.text import error_text


@dataclass(frozen=True)
class Cell:
    """What one process lives; `values` are those that are swept, `parameters` all together."""

    condition: str
    seed: int
    values: dict[str, Any]
    source: Source
    step: str | int
    parameters: dict[str, Any]
    workflow: list[Item]
    metrics: list[tuple[str, Source | None]]
    every: int
    has_map: bool = False

    def __str__(self) -> str:
        values = "".join(f", {name}={json.dumps(each)}" for name, each in self.values.items())
        return f"condition {self.condition!r}, seed {self.seed}{values}"

    @property
    def steps(self) -> int:
        """How many steps it lives."""
        return steps_of(self.workflow, seconds_of(self.step))

    def as_json(self) -> str:
        """It for another process. Raises ConfigError where a function of it is no `file.py:…`."""
        workflow = [each.model_dump(exclude_unset=True, by_alias=True) for each in self.workflow]
        try:
            return json.dumps({**vars(self), "workflow": workflow})
        except TypeError:
            raise ConfigError(
                "another process needs functions as file.py:function; with jobs=0 all is lived in "
                "this process, with any function"
            ) from None

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Cell:
        """The cell that JSON data says."""
        workflow = TypeAdapter(list[Item]).validate_python(given["workflow"])
        return cls(**{**given, "workflow": workflow})

    async def live(self, part: Path, name: str, folder: Path, lived: Callable[[int], None]) -> None:
        """Live it, and write the part that it leaves."""
        with importable(folder):  # also for what is imported only when it is needed
            await self._live(part, name, folder, lived)

    async def _live(
        self, part: Path, name: str, folder: Path, lived: Callable[[int], None]
    ) -> None:
        function = function_of(self.source, folder)
        parameters = dict(self.parameters)
        if "folder" in inspect.signature(function).parameters:
            parameters["folder"] = folder
        make = functools.partial(function, self.seed, **parameters)
        picture = part.parent.parent / file_name(f"map-{self.condition}", ".png")

        def draw(society: Any) -> None:
            write_whole(picture, functools.partial(draw_map, society))

        at_end = draw if self.has_map else None
        life = Life(make, self.metrics, self.every, self.step, folder, lived, at_end)
        await life.live(self.workflow, self.condition)
        write_part(part, name, self.seed, self.values, life.rows, life.totals)


def main() -> None:
    """Live the cell of the job on standard input, a line of JSON.

    Where who gave the job is gone, its end of the pipe is closed, and this process ends.
    """
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a society's code prints is no word of ours
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()

    def say(**what: Any) -> None:
        said.write(json.dumps(what) + "\n")

    try:
        asyncio.run(
            Cell.from_json(job["cell"]).live(
                Path(job["part"]), job["name"], Path(job["folder"]), lambda n: say(lived=n)
            )
        )
    except Exception as error:  # told to who gave the job, who raises it
        kinds = {"config": ConfigError, "file": FileError}
        kind = next((name for name, each in kinds.items() if isinstance(error, each)), "other")
        text = str(error) if isinstance(error, CivitasError) else error_text(error, 1000)
        say(error=text, kind=kind)
        sys.exit(1)


if __name__ == "__main__":
    main()
