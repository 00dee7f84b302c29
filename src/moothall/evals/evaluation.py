"""An evaluation: conditions by cases by seeds, each a durable run, then graded."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakValueDictionary

from moothall import Budget, ConfigError, NoSuchRun, Reply, StateError
from moothall.agents import AgentSource
from moothall.build import (
    check_function,
    check_integer,
    check_text,
    error_text,
    log_failure,
    refuse_on_loop,
    side_by_side,
)
from moothall.evals.calls_to_take import CallsToTake
from moothall.evals.cases import Case, Dataset
from moothall.evals.equality import json_key
from moothall.evals.frozen_world import FrozenWorld
from moothall.evals.graders import GradedCell, Grader, call_lines
from moothall.evals.grading import check_grader, check_grader_name, grade_cell, note_grades
from moothall.evals.other_programs import run_elsewhere
from moothall.evals.results import CellResult, Evaluated
from moothall.journal import REASONS, Journal, RunView

if TYPE_CHECKING:
    from moothall import Agent

logger: logging.Logger = logging.getLogger("moothall.evals")

Conditions: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By name, what is another: `model`, `system_prompt`, `agent` or `program`."""
_FIRST_LOOK = 16  # cases, after which it is first looked whether a difference is decided
_PARTS = ("model", "system_prompt", "agent", "program")


class Evaluation:
    """An evaluation of an agent: what it replies to each case, in each condition, and how good.

    A case of a recorded run is asked in that run's frozen world, and any other case in a world of
    which nothing is recorded, so that no action with an effect is executed. Each cell, a case in a
    condition, is a run in a journal of the evaluation's own: if the process is killed, the next one
    goes on, and asks no model twice for what has ended. Another grader asks no model.

    Args:
        agent: the agent; a function that makes one, which gets the case if it takes an argument; or
            `MODULE:NAME`
        data: the cases
        graders: functions of a reply and its case: `moothall.evals` has some
        conditions: by name, what is another: `model`, `system_prompt`, `agent`, or `program`, as
            `FILE.py:NAME`, which runs in a process of its own. Differences are to the first. By
            default the agent as it is
        seeds: how often each case is asked; the number is the `seed` of a model that takes one
        journal: where the cells are recorded: a journal, or its path
        world: `frozen`, or `live` to have the agent act as always
        leaves: what becomes of a call that the record does not have, as `FrozenWorld` takes it
        live: names of actions that only read, and are executed then
        approvals: `live` to ask the agent's own approver
        deps: returns the `deps` of a case
        budget: what all cells may spend together
        concurrency: how many cells reply at a time; all those of a model with `batch=True`
        stop_early: the name of a grader: once each condition's difference to the first one is
            decided, no further case is asked. It looks after 16 cases, 32, 64 and so on, with
            intervals that are wider for that, and right

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self,
        agent: Agent | Callable[..., Agent] | str,
        data: Dataset | Iterable[Case],
        graders: Sequence[Grader],
        conditions: Conditions | None = None,
        seeds: int = 1,
        *,
        journal: Journal | str | PathLike[str] = "evals.db",
        world: Literal["frozen", "live"] = "frozen",
        leaves: Any = "refuse",
        live: Iterable[str] = (),
        approvals: Literal["record", "live"] = "record",
        deps: Callable[[Case], Any] | None = None,
        budget: Budget | None = None,
        concurrency: int = 8,
        stop_early: str | None = None,
    ) -> None:
        check_integer("Evaluation: seeds=", seeds)
        check_integer("Evaluation: concurrency=", concurrency)
        check_function("Evaluation: deps=", deps, "case", optional=True)
        check_text("Evaluation: stop_early=", stop_early, optional=True)
        if stop_early is not None and len(conditions or ()) < 2:
            raise ConfigError("stop_early= needs two conditions, whose difference it looks at")
        if world not in ("frozen", "live"):
            raise ConfigError(f"world= must be 'frozen' or 'live', got {world!r:.80}")
        if world == "live" and hasattr(agent, "reply"):
            raise ConfigError("world='live' needs a function that makes the agent, or MODULE:NAME")
        for grader in graders:
            check_grader(grader)
        self.data: Dataset = data if isinstance(data, Dataset) else Dataset(data)
        self.graders: list[Grader] = list(graders)
        if stop_early is not None:
            self.check_grader("stop_early=", stop_early)
        self.conditions: dict[str, dict[str, Any]] = {
            name: dict(parts) for name, parts in (conditions or {"as it is": {}}).items()
        }
        for name, parts in self.conditions.items():
            if unknown := parts.keys() - set(_PARTS):
                raise ConfigError(
                    f"condition {name!r} takes {', '.join(_PARTS)}, got {', '.join(unknown)}"
                )
        self._agent = agent
        self._seeds = seeds
        self._journal = Journal.from_argument(journal, "Evaluation")
        self._world = world
        self._frozen: dict[str, Any] = {"leaves": leaves, "live": [*live], "approvals": approvals}
        self._deps = deps
        self._budget = budget
        self._concurrency = concurrency
        self._stop_early = stop_early
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def check_grader(self, argument: str, name: str) -> None:
        """Raise ConfigError if an argument names a grader that there is not."""
        check_grader_name(argument, name, chain(self.graders, *self.data.graders.values()))

    def run_sync(self, progress: Callable[[int, int], object] | None = None) -> Evaluated:
        """Call `run` from a script, and wait for the results."""
        refuse_on_loop("Evaluation.run_sync", "run()")
        return asyncio.run(self.run(progress))

    async def run(self, progress: Callable[[int, int], object] | None = None) -> Evaluated:
        """Ask and grade what is missing, and return the results.

        Args:
            progress: called with how many cells are done, and how many there are

        Raises:
            ConfigError: the agent cannot reply in a frozen world
        """
        cases = [*self.data]
        if cases:
            self._check_conditions(cases[0])
        total, done = len(cases) * len(self.conditions) * self._seeds, 0

        def note_done(cell: CellResult) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        evaluated = Evaluated([], [*self.conditions])
        replies: dict[tuple[str, str, int], Reply[Any]] = {}
        at, end = 0, len(cases)
        while at < len(cases):
            if self._stop_early is not None:
                end = _FIRST_LOOK << evaluated.looks
                evaluated.looks += 1
            cells = [
                CellResult(condition, case, seed)
                for condition in self.conditions
                for case in cases[at:end]
                for seed in range(1, self._seeds + 1)
            ]
            await self.ask_cells(cells, note_done)
            for cell in cells:
                if cell.run:
                    await self._grade(cell, replies)
            evaluated.cells += cells
            at = end
            if self._stop_early is not None and evaluated.is_decided(self._stop_early):
                break
        return evaluated

    def _check_conditions(self, case: Case) -> None:
        """Raise ConfigError for conditions of one cell, and for an agent that cannot reply here."""
        names: dict[str, str] = {}  # by the ids of their runs
        for name, parts in self.conditions.items():
            if "program" in parts:
                continue
            agent = self.check_condition(case, parts)
            first = names.setdefault(self._run_id(agent, case, parts, 1), name)
            if self.conditions[first] != parts:
                raise ConfigError(
                    f"conditions {first!r} and {name!r} are told apart by nothing that is "
                    "recorded: give the model, or the function, a name of its own"
                )

    def check_condition(self, case: Case, parts: Mapping[str, Any]) -> Any:
        """Return the agent that a condition makes; ConfigError if it cannot reply."""
        agent = self._make_agent(case, parts)
        if self._world == "frozen":
            self._world_of(parts, None).check(agent)
        return agent

    # -- asking ------------------------------------------------------------------------------------

    async def ask_cells(
        self, cells: list[CellResult], note_done: Callable[[CellResult], None]
    ) -> None:
        """Have the agent reply to cells, those of all conditions at once; tell of each that has."""
        slots = asyncio.Semaphore(self._concurrency)
        own_model = getattr(self._agent, "model_or_name", None)
        works = []
        for name, parts in self.conditions.items():
            own_cells = [each for each in cells if each.condition == name]
            if "program" in parts:
                works.append(self._ask_elsewhere(parts, own_cells, note_done))
                continue
            has_batches = getattr(parts.get("model", own_model), "batch", False)
            own_slots = asyncio.Semaphore(len(own_cells)) if has_batches else slots
            works += [self._ask(each, parts, own_slots, note_done) for each in own_cells]
        await side_by_side(works)

    def _make_agent(self, case: Case, parts: Mapping[str, Any]) -> Any:
        agent: Any = parts.get("agent", self._agent)
        if isinstance(agent, str):
            return AgentSource(agent, "the agent").make()
        if hasattr(agent, "reply"):
            return agent
        return agent(case) if _takes_case(agent) else agent()

    def _world_of(self, parts: Mapping[str, Any], case: Case | None) -> FrozenWorld:
        names = [name for name in ("model", "system_prompt") if name in parts]
        options = {**self._frozen, **{name: parts[name] for name in names}}
        run = () if case is None or not case.run else (self.data.journal, case.run)
        return FrozenWorld(*run, **options)

    async def _ask_elsewhere(
        self,
        parts: Mapping[str, Any],
        cells: list[CellResult],
        note_done: Callable[[CellResult], None],
    ) -> None:
        """Have another process ask the cells of a condition with a program of its own."""
        options = (self._deps, self._budget, parts.get("agent"))
        if self._frozen["leaves"] != "refuse" or any(each is not None for each in options):
            raise ConfigError("a condition with program takes no agent, deps=, budget= or leaves=")
        job = {
            "agent": parts["program"],
            "parts": {name: each for name, each in parts.items() if name != "program"},
            "cases": [each.to_json() for each in self.data],
            "condition": cells[0].condition if cells else "",
            "cells": [[each.case.name, each.seed] for each in cells],
            "runs": None if self.data.journal is None else self.data.journal.path,
            "journal": self._journal.path,
            "world": self._world,
            "live": self._frozen["live"],
            "seeds": self._seeds,
            "concurrency": self._concurrency,
        }
        async for answer in run_elsewhere(job):
            cell = cells[answer["number"]]
            cell.run, cell.errors = answer["run"], answer["errors"]
            note_done(cell)
        for cell in cells:
            if not cell.run and not cell.errors:
                cell.errors[""] = "its process has ended without an answer"

    async def _ask(
        self,
        cell: CellResult,
        parts: Mapping[str, Any],
        slots: asyncio.Semaphore,
        note_done: Callable[[CellResult], None],
    ) -> None:
        """Have the agent reply to a case, unless it has; note the run, or what went wrong."""
        case, seed = cell.case, cell.seed
        async with slots:
            try:
                agent = self._make_agent(case, parts)
                run_id = self._run_id(agent, case, parts, seed)
                async with self._locks.setdefault(run_id, asyncio.Lock()):  # cases may ask the same
                    tags = {"case": case.name[:200], "condition": cell.condition[:200]}
                    await self._reply(agent, case, parts, seed, run_id=run_id, tags=tags)
                cell.run = run_id
            except Exception as error:
                log_failure(logger, f"case {case.name!r} failed", error)
                cell.errors[""] = error_text(error)
        note_done(cell)

    async def _reply(
        self, agent: Any, case: Case, parts: Mapping[str, Any], seed: int, **options: Any
    ) -> None:
        """Have an agent reply to a case in a run, unless that has ended."""
        run_id, is_recorded = options["run_id"], parts.get("model") == "recorded"
        with suppress(NoSuchRun):
            view = RunView(self._journal, run_id)
            if view.outline.state in REASONS.final:
                return
            # A recorded one costs nothing to begin anew.
            if is_recorded or any(each.path for each in view.entries):  # a helper has replied
                self._journal.delete(run_id)
        if self._deps is not None:
            options["deps"] = self._deps(case)
        if self._budget is not None:
            options["budget"] = self._budget
        model = parts.get("model", getattr(agent, "model_or_name", None))
        is_of_server = isinstance(model, str) and model not in ("recorded", "local")
        if self._seeds > 1 and (is_of_server or hasattr(model, "with_options")):
            options["options"] = {"seed": seed}
        text, history = case.request
        if history:
            options["history"] = history
        if self._world == "live":
            agent.journal, agent.deaths = self._journal, None
            for name in ("model", "system_prompt"):
                if name in parts:
                    setattr(agent, name, parts[name])
            reply = await agent.reply(text, **options)
        else:
            world = self._world_of(parts, case)
            reply = await world.reply(agent, text, journal=self._journal, **options)
        if reply.stop_reason == "error" and not (is_recorded and case.run):
            raise StateError(f"the reply has failed: {reply.detail}")
        entries = () if self._budget is None else RunView(self._journal, run_id).entries
        ends = {each.path: each for each in entries if each.reason}  # the last of each part
        spent = next((each for each in ends.values() if each.reason == "budget"), None)
        if spent is not None:
            if reply.stop_reason != "budget":  # an agent that it asks has none left
                self._journal.delete(run_id)
            raise ConfigError(f"the budget is spent: {spent.detail or reply.detail}")

    def _run_id(self, agent: Any, case: Case, parts: Mapping[str, Any], seed: int) -> str:
        """Return the id of a cell's run: the same for the same contents."""
        contents = {name: _described(each) for name, each in parts.items()}
        leaves, live, approvals = self._frozen.values()
        world = [self._world, _described(leaves), sorted(live), approvals]
        of_case = _takes_case(parts.get("agent", self._agent))
        request = [case.contents, case.metadata] if of_case else case.contents
        text = json_key([str(agent.id), agent.describe_program(), contents, request, seed, world])
        return f"eval-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    # -- grading -----------------------------------------------------------------------------------

    async def _grade(
        self, cell: CellResult, replies: dict[tuple[str, str, int], Reply[Any]]
    ) -> None:
        """Grade a cell by what its journal has."""
        view = RunView(self._journal, cell.run)
        reply = view.reply
        if not isinstance(reply, Reply):
            cell.errors[""] = f"run {cell.run!r} has no reply, it is {view.outline.state}"
            return
        case = cell.case
        runs = self.data.journal
        record = RunView(runs, case.run) if case.run and runs is not None else None
        cell.text, cell.stop_reason, cell.calls = reply.text, reply.stop_reason, call_lines(view)
        if record is not None:
            rest = CallsToTake(record.calls)
            cell.left_calls = [
                f"{each.action} {json_key(each.asked_args)}"
                for each in view.calls
                if not each.path and rest.take("", each.action, each.asked_args) is None
            ]
        replies[cell.condition, case.name, cell.seed] = reply
        first = replies.get((next(iter(self.conditions)), case.name, cell.seed))
        graded = GradedCell(case, cell.condition, cell.seed, view, record, first)
        more = self.data.graders
        graders = (*self.graders, *more.get("", ()), *more.get(case.name, ()))
        await grade_cell(cell, graders, reply, graded)
        note_grades(self._journal, view, cell)


def _takes_case(agent: Any) -> bool:
    """Return whether what makes an agent is to be called with the case."""
    if isinstance(agent, str) or hasattr(agent, "reply"):
        return False
    try:
        signature(agent).bind()
    except TypeError:
        return True
    return False


def _described(value: Any) -> Any:
    """Return what tells a part of a condition from others, as JSON data."""
    if isinstance(value, str | int | float | None):
        return value
    name = getattr(value, "name", None) or getattr(value, "__qualname__", None)
    return [type(value).__qualname__, str(name)]
