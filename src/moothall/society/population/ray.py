"""Rows on Ray: each worker holds a part of a population, on one machine or on a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import Any, Final

from moothall import ConfigError, StateError
from moothall.build import check_integer, error_text, guard, to_its_end
from moothall.society.arrays import import_package, np
from moothall.society.columns.column import COMMIT_COLUMNS
from moothall.society.columns.row_part import Moment
from moothall.society.population.engine import LocalEngine
from moothall.society.population.population import Population
from moothall.society.population.step import Wants, run_in_threads

logger: logging.Logger = logging.getLogger("moothall.society")

_STEPS_PER_COPY: Final = 8
"""After so many steps a worker's columns are copied, from which a new one would begin."""
_CONNECT_S: Final = 5.0
_MAX_LOSSES: Final = 3  # so many times in a step a worker is replaced, before the step is given up


class RayEngine(LocalEngine):
    """Runs the rows of a population on Ray's workers; full agents stay in this process.

    Each worker holds the columns of a part of the rows, which lie by home area where homes were
    drawn in order. In each step it is sent what the commit stage has settled and what others may
    see, and gives back what its rows want. So the result is the same bytes as `LocalEngine`'s,
    whatever the number of workers. One that is killed is replaced, and repeats the steps since its
    columns were last copied.

    Args:
        workers: how many parts; 1 or more
        address: of a Ray cluster, such as `ray://host:10001` or `auto`; None starts Ray here
        concurrency: how many turns of full agents may wait at a time

    Raises:
        ConfigError: an argument is wrong
        MissingExtra: Ray is not installed
    """

    def __init__(
        self, workers: int = 2, address: str | None = None, *, concurrency: int = 64
    ) -> None:
        check_integer("workers", workers, 1, None)
        if address is not None and not isinstance(address, str):
            raise ConfigError(f"address must be a text or None, got {address!r:.80}")
        super().__init__(concurrency=concurrency, threads=workers)
        self.workers = workers
        self.address = address
        import_package("ray.exceptions", "RayEngine", "ray")
        self._ray = import_package("ray")
        # Linux ends the processes of Ray with the thread that has started them.
        self._thread = ThreadPoolExecutor(1, "moothall-ray")
        self._started_ray = False
        self._parts: list[_RowActor] = []
        self._population: Population | None = None
        self._fresh: set[str] = set()
        self.written_columns: set[str] = (
            set()
        )  # the columns that the workers are sent with the next step
        self._pull_lock = guard()  # the commit stage has several threads

    async def run_rows(self, population: Population, moment: Moment) -> list[Wants]:
        """Run a step of the rows on the workers; return their wants, in the order of the rows."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._run_rows, population, moment)
        return await to_its_end(work)

    def _run_rows(self, population: Population, moment: Moment) -> list[Wants]:
        errors = self._ray.exceptions
        try:
            self._begin(population)
            self._lend_threads(population)  # to the commit stage, in which the workers wait
            step_data = self._step_data(population, moment)
            calls = [part.step(step_data) for part in self._parts]
            wants: list[Wants] = []
            for part, call in zip(self._parts, calls, strict=True):
                wants += part.result(call)
        except errors.ObjectStoreFullError as error:
            raise StateError(
                "Ray's object store is too small for this population: start Ray with a larger one "
                f"(ray start --object-store-memory), or use more workers: {error_text(error)}"
            ) from error
        except (errors.RaySystemError, ConnectionError) as error:
            raise StateError(
                f"the connection to Ray is lost: resume from the journal: {error_text(error)}"
            ) from error
        self._fresh = set()
        return wants

    # -- the workers -------------------------------------------------------------------------------

    def _begin(self, population: Population) -> None:
        """Start Ray and the workers with the current columns."""
        if self._population not in (None, population):
            raise ConfigError("the engine runs another population: each needs a RayEngine")
        if self._parts:
            return
        for block in population.blocks:
            if getattr(block, "whole", False):
                raise ConfigError(
                    f"block {block.name!r} needs all rows in one process (`whole = True`): use "
                    "LocalEngine"
                )
        ray = self._ray
        if not ray.is_initialized():
            _check_listening(self.address)
            # Ray of its own here reports to its makers unless this says no.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options = {} if self.address else {"num_cpus": self.workers, "include_dashboard": False}
            try:
                ray.init(self.address, log_to_driver=False, logging_level="ERROR", **options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                place = "here" if self.address is None else f"at {self.address!r}"
                raise ConfigError(f"there is no Ray {place}: {error_text(error)}") from error
            self._started_ray = True
        count = len(population)
        ends = [count * (worker + 1) // self.workers for worker in range(self.workers)]
        ranges = [(a, b) for a, b in zip([0, *ends], ends, strict=False) if a < b]
        frame = ray.put(_without_columns(population))
        self._parts = [_RowActor(ray, frame, population, *each) for each in ranges]
        self._population = population
        population.source = self
        self._fresh = set(population.arrays)

    def _step_data(self, population: Population, moment: Moment) -> Any:
        """Return what all workers are sent for a step."""
        commit_columns = {
            name: population.arrays[name] for name in COMMIT_COLUMNS if name in population.arrays
        }
        city = None if moment.view.city is population.city else moment.view.city
        columns = {
            name: each for name, each in moment.visible.items() if name not in commit_columns
        }
        view = replace(moment.view, city=None, others=None, at={})
        moment = replace(moment, view=view, visible=columns)
        written_columns = {name: population.arrays[name] for name in self.written_columns}
        self.written_columns.clear()
        layers = population.layers
        return self._ray.put(
            (moment, city, population.full, commit_columns, layers, written_columns)
        )

    def pull(self, names: Iterable[str]) -> None:
        """Copy columns from the workers into the population's arrays."""
        with self._pull_lock:
            self._pull(self._population, names)

    def _pull(self, population: Population | None, names: Iterable[str]) -> None:
        stale = [name for name in names if name not in self._fresh and name not in COMMIT_COLUMNS]
        if population is None or not stale or not self._parts:
            return
        full = population.full
        for part in self._parts:
            for name, values in part.columns(stale).items():
                array = population.arrays[name]
                if array.shape[1:] != values.shape[1:]:
                    grown = np.zeros((len(array), *values.shape[1:]), array.dtype)
                    array = population.arrays[name] = grown
                rows = slice(part.first, part.until)
                # Full agents write their own rows, here.
                array[rows] = (
                    values
                    if not full.any()
                    else np.where(
                        full[rows].reshape(-1, *[1] * (values.ndim - 1)), array[rows], values
                    )
                )
        self._fresh.update(stale)

    def changed(self) -> None:
        """Note that the population's arrays changed; the workers will start again from them."""
        if self._population is not None:
            self.pull(self._population.arrays)
        parts, self._parts = self._parts, []
        for part in parts:
            part.end()

    def pids(self) -> list[int]:
        """The process ids of the workers, those on other machines too."""
        return [int(part.pid()) for part in self._parts]

    def close(self) -> None:
        """Stop the workers, and Ray if this engine started it."""
        population = self._population
        if population is not None and self._parts:
            try:
                self.pull(population.arrays)
            except Exception:
                logger.warning("a population's last columns could not be brought", exc_info=True)
            population.source = None
        parts, self._parts, self._population = self._parts, [], None
        for part in parts:
            part.end()
        if self._started_ray:
            self._started_ray = False
            self._ray.shutdown()
        super().close()
        self._thread.shutdown()
        self._thread = ThreadPoolExecutor(1, "moothall-ray")  # of a next society


class _RowActor:
    """A worker's rows, and what is needed to replace the worker."""

    def __init__(
        self, ray: Any, frame: object, population: Population, first: int, until: int
    ) -> None:
        self._ray = ray
        self._frame = frame
        self.first, self.until = first, until
        self._saved_columns = ray.put(
            {name: values[first:until] for name, values in population.arrays.items()}
        )
        self._names, self._steps_since = [*population.arrays], list[Any]()
        self._actor = self._start_actor()

    def _start_actor(self) -> Any:
        actor_class = self._ray.remote(RowWorker).options(max_concurrency=1)
        return actor_class.remote(self._frame, self._saved_columns, self.first, self.until)

    def step(self, step_data: object) -> Any:
        """Begin a step."""
        self._steps_since.append(step_data)
        return self._actor.step.remote(step_data)

    def result(self, call: Any) -> list[Wants]:
        """Return its rows' wants; a lost worker is replaced and repeats its steps."""
        wants: list[Wants] = self._get(call, "step")
        if len(self._steps_since) >= _STEPS_PER_COPY:
            saved = self.columns(self._names)
            # A copy of its own: what a worker returns is lost with the worker's machine.
            self._saved_columns, self._steps_since = self._ray.put(saved), []
        return wants

    def columns(self, names: list[str]) -> dict[str, Any]:
        """Return columns of its rows."""
        columns: dict[str, object] = self._get(self._actor.columns.remote(names), "columns", names)
        return columns

    def pid(self) -> int:
        """The id of its worker's process."""
        return int(self._get(self._actor.pid.remote(), "pid"))

    def _get(self, call: Any, method: str, *args: Any) -> Any:
        errors = self._ray.exceptions
        for losses in range(_MAX_LOSSES + 1):
            try:
                return self._ray.get(call)
            except errors.RayTaskError as error:
                raise error.cause from error
            except errors.RayActorError as error:
                if losses == _MAX_LOSSES:
                    raise StateError(
                        f"a worker was lost {_MAX_LOSSES} times: {error_text(error)}"
                    ) from error
                logger.warning(
                    "a worker of rows %d to %d was lost: it is replaced", self.first, self.until
                )
                self._actor = self._start_actor()
                for step_data in self._steps_since:
                    call = self._actor.step.remote(step_data)
                if method != "step":
                    call = getattr(self._actor, method).remote(*args)
        raise AssertionError("unreachable")

    def end(self) -> None:
        """End the worker."""
        self._ray.kill(self._actor)


class RowWorker:
    """Holds the columns of rows `first` … `until` − 1 of a population in a process of Ray."""

    def __init__(self, frame: Any, columns: dict[str, Any], first: int, until: int) -> None:
        self._population: Population = frame
        frame.base, frame.until, frame.is_part = first, until, True
        for name, values in columns.items():
            frame.arrays[name] = frame.declared[name].array_of(values)

    def step(self, step_data: Any) -> list[Wants]:
        """Run a step of the rows; return their wants."""
        moment, city, full, commit_columns, layers, written_columns = step_data
        population = self._population
        population.layers = layers
        population.full = full
        for name, values in commit_columns.items():
            population.arrays[name] = values[population.base : population.until]
        for name, values in written_columns.items():
            part = values[population.base : population.until]
            population.arrays[name] = population.declared[name].array_of(part)
        moment.view.city = population.city if city is None else city
        moment.visible = {**moment.visible, **commit_columns}
        return run_in_threads(population, moment, None)

    def columns(self, names: list[str]) -> dict[str, Any]:
        """Columns of the rows."""
        return {name: np.asarray(self._population.arrays[name]) for name in names}

    def pid(self) -> int:
        """The id of its process."""
        return os.getpid()


def _check_listening(address: str | None) -> None:
    """Check that something listens at the address; Ray itself would wait for minutes."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ConfigError(f"there is no Ray at {address!r}: {error_text(error)}") from error


def _without_columns(population: Population) -> Population:
    """Return a population without columns and society, to send to workers."""
    frame = copy(population)
    frame.arrays, frame.agents, frame.society, frame.source, frame.pool = {}, {}, None, None, None
    frame.handles, frame.remembers = {}, False
    frame.metrics = {}
    return frame
