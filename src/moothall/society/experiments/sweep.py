"""A sweep: run the cells of an experiment, each in its own process, and join their results.

A cell that has ended leaves a part under the hash of all that determines it. So the same call
continues after Ctrl-C, a crash or a full disk, and more seeds continue from fewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError, FileError, MoothallError, StateError
from moothall.build import check_function, check_integer, side_by_side, to_its_end
from moothall.society.experiments.cell import Cell, reported_class
from moothall.society.experiments.design import Design
from moothall.society.experiments.measurements import join_parts
from moothall.society.experiments.models import is_of_file, plain_value, source_code
from moothall.society.tables import file_name, import_arrow, write_whole

_MANIFEST: Final = "experiment.json"
_PACKAGES: Final = ("moothall", "numpy", "scipy")
_ERROR_CLASSES: Final = {each.__name__: each for each in (ConfigError, FileError, StateError)}
"""The classes that `kind_of` returns, by their names."""


@dataclass
class SweepProgress:
    """How far a sweep is; `ended` counts the cells of earlier calls too.

    `steps` is how many steps this call runs, `lived` how many of them it has run, in `seconds`.
    """

    cells: int
    ended: int
    steps: int
    lived: int = 0
    seconds: float = 0

    def __str__(self) -> str:
        part = 100 * self.lived // self.steps if self.steps else 100
        remaining = "" if self.seconds_left is None else f", {self.seconds_left:,.0f} s left"
        return f"{self.ended:,} of {self.cells:,} cells, {part} %{remaining}"

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None before the first step."""
        return self.seconds * (self.steps - self.lived) / self.lived if self.lived else None


async def sweep(
    design: Design,
    folder: Path,
    *,
    jobs: int,
    progress: Callable[[SweepProgress], object] | None = None,
) -> Path:
    """Run all cells that have not ended, and join all parts; return the file of the results."""
    check_integer("jobs", jobs, 0, None)
    check_function("progress=", progress, "progress", optional=True)
    import_arrow()
    cells = design.cells()
    if jobs:
        cells[0].as_json()  # report what no process can import before any cell runs
    shared = _design_hashes(design)
    with _exclusive_folder(folder):
        _check_folder(design, folder, shared)
        return await _run_sweep(design, cells, folder, shared, jobs, progress)


async def _run_sweep(
    design: Design,
    cells: list[Cell],
    folder: Path,
    shared: dict[str, str],
    jobs: int,
    progress: Callable[[SweepProgress], object] | None,
) -> Path:
    shared_hash = _hash(shared)
    # Of this call: a file may change before the next.
    file_hash = functools.cache(lambda path: hashlib.sha256(path.read_bytes()).hexdigest())
    parts = [folder / "parts" / f"{_key(shared_hash, cell, file_hash)}.parquet" for cell in cells]
    pending = [each for each in zip(cells, parts, strict=True) if not each[1].exists()]
    state = SweepProgress(
        len(cells), len(cells) - len(pending), sum(cell.steps for cell, _ in pending)
    )
    start = time.perf_counter()

    def count_steps(steps: int, ended_cells: int = 0) -> None:
        state.lived += steps
        state.ended += ended_cells
        state.seconds = time.perf_counter() - start
        if progress is not None:
            progress(state)

    count_steps(0)
    slots = asyncio.Semaphore(max(1, jobs))
    file_locks: dict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
    processes = _Processes()

    async def run_cell(cell: Cell, part: Path) -> None:
        # Only one process at a time may use a file of recorded answers.
        file = cell.parameters.get("answers")
        async with file_locks[str(file)] if file else contextlib.nullcontext(), slots:
            try:
                if jobs:
                    await _run_in_process(cell, part, count_steps, processes)
                else:
                    await cell.run(part, count_steps)
            except MoothallError as error:
                raise reported_class(error)(f"{cell}: {error}") from error
            count_steps(0, ended_cells=1)

    try:
        await side_by_side([run_cell(*each) for each in pending])
    finally:
        processes.kill()
        await to_its_end(processes.wait())
    path = folder / "results.parquet"
    totals = join_parts(parts, path)
    for cell, part in zip(cells, parts, strict=True):
        if cell.has_map:
            picture = folder / file_name(f"map-{cell.condition}", ".png")
            picture.unlink(missing_ok=True)  # it may be that of another first seed
            if (cell_picture := part.with_suffix(".png")).exists():
                write_whole(picture, functools.partial(shutil.copyfile, cell_picture))
    _write_manifest(design, folder, shared, totals)
    return path


def _design_hashes(design: Design) -> dict[str, str]:
    """Return hashes of what all cells share, by name."""
    question_rules = [question.by for survey in design.surveys() for question in survey.questions]
    rules = [
        each
        for each in question_rules
        if not (isinstance(each, str) and each.startswith("status."))
    ]
    asked_citizens = [survey.citizens for survey in design.surveys()]
    rules += [each for each in asked_citizens if isinstance(each, str) or callable(each)]
    functions = (*(each.by for each in design.metrics), *rules)
    parts = (
        [*(cell.parameters.get("blocks") or ()), cell.parameters.get("llm")]
        for cell in design.cells()
    )
    own_parts = [each for part in parts for each in part if is_of_file(each)]
    if design.society.make is not None:
        own_parts = []  # what a function of one's own takes as blocks is its own matter
    functions = (*functions, *dict.fromkeys(own_parts))
    sources = [
        design.society.source,
        *dict.fromkeys(each for each in functions if each is not None),
    ]
    code = [hashlib.sha256(source_code(each, design.folder)).hexdigest() for each in sources]
    shared = {**design.shared(), "code": code}
    return {name: _hash(plain_value(each)) for name, each in shared.items()}


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _key(fingerprint: str, cell: Cell, file_hash: Callable[[Path], str]) -> str:
    """Return the name of a cell's part; a town's table and city count by their bytes."""
    inputs = [cell.parameters.get(name) for name in ("citizens", "city") if cell.source == "town"]
    files = [file_hash(cell.folder / each) for each in inputs if isinstance(each, str)]
    extras = ["trajectories"] if cell.trajectories else []
    return _hash([fingerprint, cell.condition, cell.seed, cell.values, *files, *extras])[:24]


@contextlib.contextmanager
def _exclusive_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and keep all other sweeps from it. Raises ConfigError: one is there."""
    try:
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FileError(f"{folder} cannot be used: {error.strerror}") from error
    try:
        with contextlib.suppress(OSError):  # of a file system without locks
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{folder} is in use: another program runs an experiment there; wait for its "
                    "end, or give another folder"
                ) from None
        yield
    finally:
        os.close(fd)


def _check_folder(design: Design, folder: Path, shared: dict[str, str]) -> None:
    """Check that a folder is empty, or has results of this experiment from an earlier call."""
    path = folder / _MANIFEST
    try:
        own_files = (folder / "results.parquet", *(folder / "parts").glob("[!.]*.parquet"))
        has_results = any(each.exists() for each in own_files)
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise FileError(f"{folder} cannot be used: {error.strerror}") from error
    if data:
        try:
            before = json.loads(data)
            other, has = dict(before["determined_by"]), before["versions"]["moothall"]
            name = before["experiment"]["name"]
        except (ValueError, KeyError, TypeError):
            text = f"{path} is not a manifest of an experiment: give another folder"
            raise ConfigError(text) from None
    if not data or not has_results:  # nothing, or an attempt in which no cell has ended
        _write_manifest(design, folder, shared, None)
        return
    differs = [each for each in shared if other.get(each) != shared[each]]
    if has != version("moothall"):
        owner = f"moothall {has}, and this is {version('moothall')}"
    elif name != design.name:
        owner = f"experiment {name!r}"
    else:
        owner = f"another version of this one, which differs in {', '.join(differs)}"
    if differs or has != version("moothall"):
        raise ConfigError(f"{folder} has results of {owner}: give another folder, or delete it")


def _write_manifest(
    design: Design, folder: Path, shared: dict[str, str], totals: Mapping[str, object] | None
) -> None:
    versions = {name: version(name) for name in _PACKAGES}
    manifest = {
        "experiment": design.as_json(),
        "complete": totals is not None,
        "totals": totals,
        "versions": {"python": platform.python_version()} | versions,
        "determined_by": shared,
    }
    text = json.dumps(plain_value(manifest), indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / _MANIFEST, lambda file: Path(file).write_text(text, encoding="utf-8"))


# -- processes -------------------------------------------------------------------------------------


class _Processes:
    """The processes that run the cells of a sweep."""

    def __init__(self) -> None:
        self._all: list[Any] = []
        self._idle: list[Any] = []

    async def take(self) -> Any:
        """Return an idle process, or a new one."""
        return self._idle.pop() if self._idle else await to_its_end(self._start_process())

    def put_back(self, process: Any) -> None:
        """Have a process run other cells, unless it has ended."""
        if process.returncode is None:
            self._idle.append(process)

    async def _start_process(self) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "moothall.society.experiments.cell"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            start_new_session=True,  # Ctrl-C goes to the parent process, which ends this one
        )
        self._all.append(process)
        return process

    def kill(self) -> None:
        """Kill the processes, and the cells that they run."""
        for process in self._all:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        """Return when all have ended."""
        for process in self._all:
            await process.wait()


async def _run_in_process(
    cell: Cell, part: Path, count_steps: Callable[[int], None], processes: _Processes
) -> None:
    """Run a cell in a process of its own; a process that is killed is replaced once."""
    for _ in range(2):
        steps = 0
        process = await processes.take()
        with contextlib.suppress(ConnectionError):
            process.stdin.write(json.dumps(str(part)).encode() + b"\n" + cell.as_json() + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            message = json.loads(line)
            if "error" in message:
                raise _ERROR_CLASSES[message["kind"]](message["error"])
            if "code" in message:
                code: int = message["code"]
                break
            steps += message["lived"]
            count_steps(message["lived"])
        else:
            code = await process.wait()
        processes.put_back(process)
        if code == 0:
            return
        count_steps(-steps)
    manner = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
    raise StateError(
        f"its process {manner}, twice; cells that have ended are kept, and the same call continues"
    )
