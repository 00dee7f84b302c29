"""A sweep: the cells of an experiment, each in a process of its own, and what they have measured.

A cell that has ended leaves one file, a part, under the hash of all that determines it. So the same
call goes on after Ctrl-C, a crash or a full disk, and more seeds or values go on from fewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from civitas.errors import ConfigError, FileError, StateError
from civitas.society.experiments.cell import Cell, live
from civitas.society.experiments.design import Design
from civitas.society.experiments.functions import code_of, in_words
from civitas.society.experiments.table import arrow, join, write_part, write_whole

_MANIFEST: Final = "experiment.json"
_IN_A_CELL: Final = "CIVITAS_IN_A_CELL"
_KINDS: Final[dict[str, type[Exception]]] = {"config": ConfigError, "file": FileError}
_PACKAGES: Final = ("civitas", "numpy", "scipy")


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        cells: how many cells there are
        ended: how many have ended, those of earlier calls too
        part: which part of all steps is lived, 0 … 1
        seconds_left: how long the rest takes at this rate; None before that can be said
    """

    cells: int
    ended: int
    part: float
    seconds_left: float | None


async def sweep(
    design: Design,
    folder: Path,
    *,
    jobs: int,
    progress: Callable[[Progress], Any] | None = None,
) -> Path:
    """Live all cells that have not ended, and join their parts; gives the file of the results.

    Args:
        design: the experiment
        folder: where parts and results are written
        jobs: how many processes live cells at a time; 0: this process, one cell after the other
        progress: told how far it is

    Raises:
        ConfigError: the folder has the results of another experiment or version, or a cell cannot
            be lived
        FileError: something cannot be written
        StateError: the process of a cell was killed, twice
    """
    if type(jobs) is not int or jobs < 0:
        raise ConfigError(f"jobs must be 0 or more, got {jobs!r:.40}")
    if jobs and os.environ.get(_IN_A_CELL):
        raise ConfigError(
            "a sweep was begun while a file was imported for a cell: "
            'begin it below `if __name__ == "__main__":`'
        )
    arrow()
    cells = design.cells()
    if jobs:
        for cell in cells[:1]:
            cell.as_json()  # what no process can import is said before anything is lived
    print_of = _fingerprint(design)
    _claim(design, folder, print_of)
    parts = [folder / "parts" / f"{_key(print_of, cell)}.parquet" for cell in cells]
    left = [number for number, part in enumerate(parts) if not part.exists()]
    far = _Far(cells, left, progress)
    if jobs:
        gate = asyncio.Semaphore(jobs)

        async def one(number: int) -> None:
            async with gate:
                await _in_process(design, cells[number], parts[number], far.of(number))
                far.ended(number)

        try:
            async with asyncio.TaskGroup() as group:
                for number in left:
                    group.create_task(one(number))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
    else:
        for number in left:
            cell = cells[number]
            with _named(cell):
                rows, totals = await live(cell, design.folder, far.of(number))
            write_part(parts[number], design.name, cell.seed, cell.values, rows, totals)
            far.ended(number)
    path = folder / "results.parquet"
    totals = join(parts, path)
    _write_manifest(design, folder, print_of, totals)
    return path


def _fingerprint(design: Design) -> str:
    """The hash of what all cells share: the society, its code, workflow and metrics."""
    said = design.as_json()
    for name in ("seeds", "parameters", "published", "source", "notes", "question"):
        said.pop(name, None)
    codes = [design.society.source]
    codes += [each.by for each in design.metrics if each.by is not None]
    hashes = [hashlib.sha256(code_of(each, design.folder)).hexdigest() for each in codes]
    return hashlib.sha256(json.dumps([said, hashes], sort_keys=True).encode()).hexdigest()


def _key(fingerprint: str, cell: Cell) -> str:
    said = [fingerprint, cell.condition, cell.seed, cell.values]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]


def versions() -> dict[str, str]:
    """The versions that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def _claim(design: Design, folder: Path, fingerprint: str) -> None:
    """See that a folder has nothing, or what an earlier call of this experiment has left."""
    path = folder / _MANIFEST
    try:
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise FileError(f"{folder} cannot be used: {error.strerror}") from error
    if not data:
        _write_manifest(design, folder, fingerprint, None)
        return
    try:
        before = json.loads(data)
        other, has = before["fingerprint"], before["versions"]["civitas"]
        name = before["experiment"]["name"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is no manifest of an experiment: give another folder") from None
    if has != version("civitas"):
        raise ConfigError(
            f"{folder} has results of civitas {has}, and this is "
            f"{version('civitas')}: give another folder, or delete it"
        )
    if other != fingerprint:
        what = f"experiment {name!r}" if name != design.name else "another version of this one"
        raise ConfigError(
            f"{folder} has results of {what} (its society, code, workflow, metrics or conditions "
            "differ): give another folder, or delete it"
        )


def _write_manifest(
    design: Design, folder: Path, fingerprint: str, totals: dict[str, Any] | None
) -> None:
    made = {
        "experiment": design.as_json(),
        "complete": totals is not None,
        "totals": totals,
        "versions": versions(),
        "fingerprint": fingerprint,
    }
    text = json.dumps(in_words(made), indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / _MANIFEST, lambda to: Path(to).write_text(text, encoding="utf-8"))


# -- processes -------------------------------------------------------------------------------------


async def _in_process(design: Design, cell: Cell, part: Path, lived: Callable[[int], None]) -> None:
    """Live a cell in a process of its own; one that is killed is tried once more."""
    job = _job(design, cell, part)
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more
        lived(more)

    for attempt in (1, 2):
        code = await _process(job, cell, count)
        if code == 0:
            return
        lived(-steps)
        steps = 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        if attempt == 2:
            raise StateError(
                f"{cell}: its process {how}, twice; the cells that have ended are kept: the same "
                "call goes on"
            )


def _job(design: Design, cell: Cell, part: Path) -> str:
    """What the process of a cell is told."""
    said = {"cell": cell.as_json(), "name": design.name}
    return json.dumps(
        {**said, "folder": os.path.abspath(design.folder), "part": os.path.abspath(part)}
    )


async def _process(job: str, cell: Cell, lived: Callable[[int], None]) -> int:
    """Run the process of a cell; gives its exit status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "civitas.society.experiments.cell"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"OMP_NUM_THREADS": "1", **os.environ, _IN_A_CELL: "1"},
        start_new_session=True,  # Ctrl-C is for the process that ends this one
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(ConnectionError):
            process.stdin.write(job.encode() + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            said = json.loads(line)
            if "lived" in said:
                lived(said["lived"])
            elif "error" in said:
                raise _KINDS.get(said["kind"], StateError)(f"{cell}: {said['error']}")
        return await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await asyncio.shield(process.wait())


@contextlib.contextmanager
def _named(cell: Cell) -> Any:
    """Have an error say which cell it is of."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{cell}: {error}") from error


class _Far:
    """How far a sweep is."""

    def __init__(
        self, cells: list[Cell], left: list[int], tell: Callable[[Progress], Any] | None
    ) -> None:
        self._cells, self._tell = len(cells), tell
        self._steps = {number: cells[number].steps for number in left}
        self._whole = sum(self._steps.values())
        before = len(cells) - len(left)
        self._ended = before
        self._lived = 0
        self._begun = time.perf_counter()
        self._say()

    def of(self, number: int) -> Callable[[int], None]:
        """What is told of the steps that a cell lives."""

        def lived(steps: int) -> None:
            self._lived += steps
            self._say()

        return lived

    def ended(self, number: int) -> None:
        """A cell has ended."""
        self._ended += 1
        self._say()

    def _say(self) -> None:
        if self._tell is None:
            return
        part = self._lived / self._whole if self._whole else 1.0
        spent = time.perf_counter() - self._begun
        left = spent / part * (1 - part) if part else None
        self._tell(Progress(self._cells, self._ended, part, left))
