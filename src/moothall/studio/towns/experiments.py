"""Experiments that a page runs: their progress, and their reports."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, MoothallError
from moothall.build import error_text, guard
from moothall.studio.hub import start_thread
from moothall.studio.orders.faults import about
from moothall.studio.orders.simulate import is_unbounded
from moothall.studio.page import Field, PageForm, report_page

if TYPE_CHECKING:
    from fastapi import APIRouter, Response

    from moothall.society import Experiment, SweepProgress
    from moothall.studio.hub import Hub

_MAX_ACTIVE: Final = 4
"""The most experiments that run at the same time."""
_PROGRESS_S: Final = 0.2
"""The least time between two events of the progress of one."""
_JOIN_TIMEOUT_S: Final = 20.0


@dataclass
class _ExperimentRun:
    """An experiment that was begun here; `state` is running, stopping, ended, stopped or failed."""

    number: int
    name: str
    file: str
    out: str
    cells: int
    jobs: int
    seeds: int | None  # instead of those of the file
    cells_ended: int = 0
    part: float = 0.0  # of its steps, from 0 to 1
    seconds_left: float | None = None
    state: str = "running"
    fault: str = ""
    published_at: float = 0.0
    task: Any = field(default=None, repr=False)
    loop: Any = field(default=None, repr=False)
    thread: threading.Thread | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as pages get it."""
        names = (
            "number",
            "name",
            "file",
            "out",
            "jobs",
            "seeds",
            "cells",
            "cells_ended",
            "part",
            "state",
        )
        return {name: getattr(self, name) for name in (*names, "seconds_left", "fault")}


class ExperimentRuns:
    """The experiments that pages have begun; each change is published on `experiment`.

    Their cells run in processes of their own, as by `moothall simulate FILE`, and what has ended
    does not run again.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._numbers = itertools.count(1)
        self._start_lock = guard()
        self._experiments: dict[int, _ExperimentRun] = {}

    def form(self) -> PageForm:
        """Return the form that runs the experiment of a file."""
        fields = [
            Field("file", "File of the experiment", hint="experiment.yaml", wide=True),
            Field("jobs", "Processes", "whole", value=1),
            Field("seeds", "Seeds", "whole", hint="as in the file", more=True),
            Field("out", "Folder of the results", hint="beside the file", more=True),
        ]
        return PageForm(
            name="experiment",
            title="Run an experiment",
            fields=fields,
            start=self.start,
            button="Run",
            about=f"A file of YAML, as for moothall simulate, in {os.getcwd()} or by its whole "
            "path. Python files that it names are run. A cell is one condition, lived with one "
            "seed.",
        )

    def start(self, file: str, jobs: int | None, seeds: int | None, out: str) -> None:
        """Begin or continue the experiment of a file; ConfigError if it cannot be run."""
        from moothall.society import Experiment

        if not file.strip():
            raise ConfigError("“File of the experiment” is empty: write its path", argument="file")
        if not jobs:
            raise ConfigError("“Processes” must be 1 or more", argument="jobs")
        path = Path(os.path.expanduser(file.strip())).absolute()
        with about("file"):
            experiment = Experiment.from_yaml(path)
        if seeds:
            with about("seeds"):
                experiment = Experiment.from_yaml(path, seeds=seeds)
        if is_unbounded(experiment):
            problem = (
                "a model on a server needs a limit: set society.max_calls or max_usd in the file"
            )
            raise ConfigError(problem, argument="file")
        out_path = os.path.expanduser(out.strip())
        folder = Path(out_path).absolute() if out_path else path.with_name(f"{path.stem}-results")
        with self._start_lock:
            active = [
                each for each in self._experiments.values() if each.state in ("running", "stopping")
            ]
            if any(each.out == str(folder) for each in active):
                raise ConfigError(f"an experiment is under way in {folder}", argument="out")
            if len(active) >= _MAX_ACTIVE:
                raise ConfigError(f"{_MAX_ACTIVE} experiments are under way: wait, or stop one")
            cells = experiment.size()["cells"]
            identity = (experiment.name, str(path), str(folder))
            run = _ExperimentRun(next(self._numbers), *identity, cells, jobs, seeds or None)
            run_experiment = partial(self._run_experiment, run, experiment, jobs)
            name = f"moothall-experiment-{run.number}"
            run.thread, _ = start_thread(name, lambda started: asyncio.run(run_experiment(started)))
            replaced = [each.number for each in self._experiments.values() if each.out == run.out]
            for number in replaced:  # it continues these
                del self._experiments[number]
            self._experiments[run.number] = run
        self._publish(run)

    async def _run_experiment(
        self, run: _ExperimentRun, experiment: Experiment, jobs: int, started: Future[None]
    ) -> None:
        run.loop, run.task = asyncio.get_running_loop(), asyncio.current_task()
        started.set_result(None)
        try:
            await experiment.run(jobs=jobs, out=run.out, progress=partial(self._on_progress, run))
            run.state, run.part = "ended", 1.0
        except asyncio.CancelledError:
            run.state = "stopped"
        except Exception as error:  # pages show it
            run.state = "failed"
            run.fault = str(error) if isinstance(error, MoothallError) else error_text(error)
        self._publish(run)

    def _on_progress(self, run: _ExperimentRun, progress: SweepProgress) -> None:
        run.cells_ended, run.seconds_left = progress.ended, progress.seconds_left
        run.part = progress.lived / progress.steps if progress.steps else 1.0
        if time.monotonic() - run.published_at >= _PROGRESS_S:
            self._publish(run)

    def _publish(self, run: _ExperimentRun) -> None:
        run.published_at = time.monotonic()
        self._hub.feed.publish("experiment", run.to_json())

    def list_all(self) -> list[dict[str, Any]]:
        """Return the experiments, the newest first."""
        return [each.to_json() for each in reversed([*self._experiments.values()])]

    def _find_run(self, number: int) -> _ExperimentRun:
        if number not in self._experiments:
            raise ConfigError(f"there is no experiment {number} here")
        return self._experiments[number]

    def stop(self, number: int) -> None:
        """End an experiment; begun again, it continues after the cells that have ended."""
        run = self._find_run(number)
        if run.state != "running":
            raise ConfigError(f"experiment {run.name!r} is not running")
        run.state = "stopping"
        self._cancel(run)
        self._publish(run)

    def _cancel(self, run: _ExperimentRun) -> None:
        with suppress(RuntimeError):  # it has just ended
            run.loop.call_soon_threadsafe(run.task.cancel)

    def close(self) -> None:
        """End all experiments."""
        active = [
            each for each in self._experiments.values() if each.state in ("running", "stopping")
        ]
        for each in active:
            self._cancel(each)
        for each in active:
            if each.thread is not None:
                each.thread.join(_JOIN_TIMEOUT_S)

    def report(self, number: int) -> Response:
        """Return the report of an experiment that has ended."""
        run = self._find_run(number)
        if run.state != "ended":
            raise ConfigError(f"experiment {run.name!r} has no report yet")
        try:
            html = (Path(run.out) / "report.html").read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the report cannot be read: {error.strerror}") from None
        return report_page(html)

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call."""
        from fastapi import Body

        router.get("/experiments")(self.list_all)
        router.get("/experiment")(self.report)

        @router.post("/stop_experiment")
        def stop_experiment(number: int = Body(embed=True)) -> None:
            self.stop(number)
