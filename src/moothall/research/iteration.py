"""One iteration of a researcher: its steps in order, each recorded, and the stop reason."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from moothall.models.protocol import usage_json
from moothall.reasoning.events import BlockEnded, BlockStarted
from moothall.reasoning.record import NULL_RECORD, NULL_STEP, Step
from moothall.reasoning.reply import Stop
from moothall.research import recording
from moothall.research.calling import sourced
from moothall.research.findings import (
    Findings,
    Narrative,
    ResearchResult,
    ResearchTask,
    check_given,
    objectives_of,
)
from moothall.research.workbench import Workbench

_GRACE_S: Final = 1.0
"""Seconds in which calls of models and tools end by themselves after the deadline."""


class Iterating(Workbench):
    """A workbench that runs the steps of an iteration."""

    iterations: int
    _running = False
    _is_cut = False  # whether the plan had more tasks than the budget has actions

    async def _iterate(self) -> None:
        progress = self.progress
        progress.fresh, known = 0, len(self.resources)
        self._is_cut = False
        self.tasks, self.results = [], []
        for name in self.steps:
            await self._take_step(name)
            if name == "plan" and not self.tasks:
                break
        progress.iteration += 1
        failure = self._failure()
        failed = self.results and all(each.error for each in self.results)
        # Rules go on with what did not fit into the plan, or was found and not read.
        full = len(self.tasks) >= self.max_tasks
        more = self.model is None and (self.unread(1) if failed else full)
        nothing_new = not (progress.fresh or self._is_cut or len(self.resources) != known or more)
        if failure and (nothing_new or progress.iteration >= self.iterations):
            progress.stop, progress.detail = "error", failure
            del progress.done[-len(self.tasks) :]  # so that a resumed run tries them again
        elif self._all_understood():
            progress.stop, progress.detail = "done", ""
        elif not self.tasks:
            progress.stop, progress.detail = "no_progress", "no task is left that was not done"
        elif nothing_new:
            progress.stop, progress.detail = "no_progress", "the last iteration found nothing new"
            if failed:
                fault = self.results[0].error
                progress.detail = f"each task of the last iteration failed: {fault}"
        self._record.save(progress)
        await self._record.commit()

    def _failure(self) -> str | None:
        """Return why nothing was read so far, if searching or reading fails; else None."""
        if any(each.visited for each in self.resources.get_all()):
            return None
        find = self.resources.find
        reading = [
            each
            for each in self.results
            if any(isinstance(x, str) and find(x) for x in each.args.values())
        ]
        if self.results and all(each.error for each in self.results):
            return f"nothing could be searched or read: {self.results[0].error}"
        if reading and all(each.error for each in reading):
            return f"nothing of what was found could be read: {reading[0].error}"
        return None

    def _all_understood(self) -> bool:
        return all(each.expertise >= self.target for each in self.objectives)

    async def _take_step(self, name: str) -> None:
        """Take a step and record it; Research records each task instead, Update nothing."""
        key = f"{self.iteration}.{name}"
        past = self._record is not NULL_RECORD and self._record.has_ended(key)
        about = (str(self.id), name, self.iteration)
        run: dict[str, Any] = {"past": past, **self._request.of_run}
        emit = self._request.emit or (lambda event: None)
        emit(BlockStarted(*about, **run))
        self._step, self._asks = name, 0
        numbered = len(self.progress.passages)

        async def call(step: Step) -> dict[str, Any]:
            before = self.progress.usage
            try:
                self._take(name, await self._within_time(name))
                if name == "narrate" and self._judge is not None and self._waits_for_judge:
                    from moothall.research.citations.judging import judge_narrative

                    await judge_narrative(self)
            except Exception as error:
                self._noted(error, "forward", self.steps[name])
                raise
            used = zip(usage_json(self.progress.usage), usage_json(before), strict=True)
            data = recording.step_of(self, name, numbered)
            return {**data, "spent": [now - then for now, then in used]}

        if name in ("research", "update"):
            data = await call(NULL_STEP)
        else:
            data = await self._record.step(key, call)
        if past:
            recording.take_step(self.progress, data)
            self.tasks = [ResearchTask(**each) for each in data.get("tasks", ())] or self.tasks
        emit(BlockEnded(*about, data, **run))

    async def _within_time(self, name: str) -> Any:
        """Return a step's result; a step of the user's own may hang, so the deadline ends it."""
        deadline = getattr(self._budget, "deadline", None)
        left = None if deadline is None else deadline - time.monotonic() + _GRACE_S
        try:
            async with asyncio.timeout(left) as limit:
                return await self.steps[name].forward(self)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Stop("deadline", f"the run's time limit was reached during {name}") from None

    def _take(self, name: str, given: Any) -> None:
        """Store a step's result; a step that returns None has stored it itself."""
        check_given(name, given)
        if name == "plan":
            tasks = self.tasks if given is None else list(given)
            self.tasks = [t for at, t in enumerate(tasks) if self.is_new(t, tasks[:at])]
            left = getattr(self._budget, "left", None)  # a budget of the user's own may not say
            # With no action left all tasks are kept, and refused.
            affordable = (left and left.actions) or self.max_tasks
            self._is_cut = affordable < len(self.tasks[: self.max_tasks])
            self.tasks: list[ResearchTask] = self.tasks[: min(self.max_tasks, affordable)]
        elif name == "research":
            self.results: list[ResearchResult] = (
                self.results if given is None else list(map(sourced, given))
            )
            self.progress.done.extend(self.tasks)
        elif isinstance(given, Narrative) and given.markdown != self.progress.narrative:
            self.checked(given.markdown)
        elif isinstance(given, Findings):
            topics = {each.topic for each in self.objectives}
            self.progress.remark = given.remark
            self.progress.generated = [
                each
                for each in objectives_of(given.generated_objectives, self.id)
                if each.topic not in topics
            ]
