"""One iteration of a researcher: its five steps, each recorded and told to who looks on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from civitas.reasoning.events import BlockEnded, BlockStarted
from civitas.reasoning.record import NULL_RECORD, Step
from civitas.reasoning.state import usage_json
from civitas.research import recording
from civitas.research.findings import Findings, Narrative, ResearchTask, checked_expertise
from civitas.research.workbench import Workbench

# The steps whose outcome is recorded as a whole; of Research, each task is, by itself.
_RECORDED = ("plan", "narrate", "evaluate")


class Iterating(Workbench):
    """What takes the five steps of an iteration; `steps` are their blocks, by name."""

    steps: dict[str, Any]
    iterations: int

    async def _iterate(self) -> None:
        progress = self.progress
        progress.fresh, known = 0, len(self.resources)
        self.tasks, self.results = [], []
        for name in self.steps:
            await self._take_step(name)
            if name == "plan" and not self.tasks:
                break
        progress.iteration += 1
        failure = self._failure()
        nothing_new = not progress.fresh and len(self.resources) == known
        if failure and (nothing_new or progress.iteration >= self.iterations):
            progress.stop, progress.detail = "error", failure
            del progress.done[-len(self.tasks) :]  # so that they are tried again by who goes on
        elif not self.tasks:
            progress.stop, progress.detail = "no_progress", "no task is left that was not done"
        elif self._all_understood():
            progress.stop, progress.detail = "done", ""
        elif nothing_new:
            faults = [each.error for each in self.results]
            progress.stop, progress.detail = "no_progress", "the last iteration found nothing new"
            if None not in faults:
                progress.detail = f"each task of the last iteration failed: {faults[0]}"
        if self._record is not None:
            self._record.save(progress)
            await self._record.commit()

    def _failure(self) -> str | None:
        """Why nothing was read so far, where it is searching or reading that fails."""
        if any(each.visited for each in self.resources.get_all()):
            return None
        find = self.resources.find
        reading = [
            each.error
            for each in self.results
            if any(isinstance(x, str) and find(x) for x in each.args.values())
        ]
        for what, faults in (
            ("nothing could be searched or read", [each.error for each in self.results]),
            ("nothing of what was found could be read", reading),
        ):
            if faults and None not in faults:
                return f"{what}: {faults[0]}"
        return None

    def _all_understood(self) -> bool:
        return all(each.expertise >= self.target for each in self.objectives)

    async def _take_step(self, name: str) -> None:
        block, record = self.steps[name], self._record or NULL_RECORD
        key = f"{self.iteration}.{name}"
        past = record is not NULL_RECORD and record.has_ended(key)
        of = (str(self.id), name, self.iteration)
        run = (past, self._asked.run_id, self._asked.thread)
        emit = self._asked.emit or (lambda event: None)
        emit(BlockStarted(*of, *run))
        self._step, self._asks = name, 0
        numbered = len(self.progress.passages)

        async def call(step: Step) -> dict[str, Any]:
            before = self.progress.usage
            self._take(name, await block.forward(self))
            data = (
                {"tasks": [asdict(each) for each in self.tasks]}
                if name == "plan"
                else recording.step_of(self.progress, name, numbered)
            )
            used = zip(usage_json(self.progress.usage), usage_json(before), strict=True)
            return {**data, "spent": [now - then for now, then in used]}

        if name in _RECORDED:
            data = dict(await record.step(key, call))
            if past:
                self._replay(data)
        else:
            self._take(name, await block.forward(self))
            data = self._told_of(name)
        emit(BlockEnded(*of, data, *run))

    def _hear(self, text: str) -> None:
        """Know what is said to it while it works, for the next step that asks."""
        self.progress.told.append(text)
        if self._record is not None:
            self._record.hear({"content": text})

    def _take(self, name: str, given: Any) -> None:
        """Take what a step gives; one that gives None has set it itself."""
        if name == "plan":
            tasks = self.tasks if given is None else list(given)
            self.tasks = [t for at, t in enumerate(tasks) if self.is_new(t, tasks[:at])]
            self.tasks = self.tasks[: self.max_tasks]
        elif name == "research":
            self.results = self.results if given is None else list(given)
            self.progress.done.extend(self.tasks)
        elif name == "narrate" and isinstance(given, Narrative):
            if given.markdown != self.progress.narrative:
                self.checked(given.markdown)
        elif name == "evaluate" and isinstance(given, Findings):
            self.progress.remark = given.remark
            topics = {each.topic for each in self.objectives}
            self.progress.generated = [
                each for each in given.generated_objectives if each.topic not in topics
            ]
        if name == "evaluate":
            for each in self.objectives:  # one that was set to nonsense is refused
                each.expertise = checked_expertise(each.expertise, each.topic)

    def _replay(self, data: dict[str, Any]) -> None:
        """Be where a step left this that was recorded."""
        if "tasks" in data:
            self.tasks = [ResearchTask(**each) for each in data["tasks"]]
        recording.take_step(self.progress, data)
        self._numbers = {(p.url, p.sha256): n for n, p in enumerate(self.progress.passages, 1)}

    def _told_of(self, name: str) -> dict[str, Any]:
        """What Research or Update came to, in short."""
        if name == "research":
            named = ("tool", "args", "citation", "error")
            return {"results": [{n: getattr(r, n) for n in named} for r in self.results]}
        found = [
            {"url": each.url, "description": each.description, "visited": bool(each.visited)}
            for result in self.results
            for each in result.resources
        ]
        return {"resources": found}
