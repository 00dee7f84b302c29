"""The researcher: iterations of five steps until its objectives are understood; a report."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from moothall.action import Action, ActionRegistry
from moothall.errors import DefinitionError, JournalError, SearchError
from moothall.jsonvalue import json_text
from moothall.reasoning.group import check_model, check_part
from moothall.reasoning.loop.recording import catch_up_models, mark_known
from moothall.reasoning.record import NULL_RECORD, Record
from moothall.reasoning.recorded_agent import RecordedAgent
from moothall.reasoning.reply import GIVEN, Reply, Stop
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.resume import guarded
from moothall.reasoning.state import dumped, loaded, opened, state
from moothall.reasoning.threaded import describe
from moothall.research import recording
from moothall.research.calling import check_tools, tools_of
from moothall.research.findings import Objective, Progress, objectives_of, positive
from moothall.research.iteration import Iterating
from moothall.research.report import QUIET, Report, made
from moothall.research.steps import Evaluate, Narrate, Plan, Research, Update
from moothall.text import log_failure
from moothall.threads import refuse_on_loop

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.approval import Approver
    from moothall.budget import Budget
    from moothall.journal import Journal, Part
    from moothall.models.protocol import Model
    from moothall.reasoning.thread import Thread
    from moothall.workflow import AgentParts

logger: logging.Logger = logging.getLogger("moothall.research")


class _Iteration(ReplyRequest):
    """A request for one iteration only."""


class Researcher(RecordedAgent, Iterating):
    """An agent that finds out what its objectives ask for, and reports it with sources.

    Its blocks are the five steps of an iteration: Plan makes tasks, Research executes them with
    the tools, Update adds what they found to the pool of resources, Narrate writes what is known,
    with footnotes that are checked against the stored passages, and Evaluate rates how well each
    objective is understood. `run()` is one iteration; `report()` runs to the end: until each
    objective has reached the target, the iterations are used up, nothing new is found, or the
    budget is spent. `reply(text)` takes the text as its objective; each thread has its own.

    Without a model it is extractive: it plans by rules, and quotes and cites what it reads.

    Args:
        id: its id
        model: a model, or the name of one; None for the extractive form
        objectives: what to find out: texts, or objectives with the expertise reached so far
        tools: what it may call: actions, functions or agents, such as `search_folder(PATH)`
        iterations: how many iterations it may make
        role: its role, in words for the model
        journal: where its runs are recorded, so that they resume after a crash: a `Journal`, or
            the path of one
        budget: what its runs together may spend
        judge: a model, or the name of one, that judges whether passages support the sentences
            that cite them; by default the judge in the package does, which is no model
        plan: a block in the place of Plan; `research`, `update`, `narrate`, `evaluate`: likewise
        target: the expertise, above 0 and at most 1, at which an objective is understood
        max_tasks: how many tasks an iteration has at most
        shared: whether all who ask share one conversation
        **options: the arguments that every `Agent` takes

    Attributes:
        steps: the blocks of the five steps, by name
        iterations: how many iterations it may make

    Raises:
        DefinitionError: an argument is invalid
    """

    takes_topics = True  # a text is an objective, not a prompt: a dual act adds nothing to it
    _kind = recording.KIND
    _state_type = Progress
    _gives = GIVEN | {"budget", "deadline"}

    def __init__(
        self,
        id: str | int,
        model: Model | str | None = None,
        objectives: Iterable[Objective | str] | str = (),
        tools: ActionRegistry | Iterable[Any] = (),
        iterations: int = 3,
        role: str = "",
        *,
        journal: Journal | str | os.PathLike[str] | None = None,
        budget: Budget | None = None,
        judge: Model | str | None = None,
        plan: Any = None,
        research: Any = None,
        update: Any = None,
        narrate: Any = None,
        evaluate: Any = None,
        target: float = 0.9,
        max_tasks: int = 8,
        shared: bool = False,
        receive_own_broadcasts: bool = True,
        concurrency: int | None = None,
        approver: Approver | None = None,
        deps: Any = None,
        **options: Unpack[AgentParts],
    ) -> None:
        super().__init__(
            id,
            shared=shared,
            receive_own_broadcasts=receive_own_broadcasts,
            concurrency=concurrency,
            approver=approver,
            deps=deps,
            **options,
        )
        self.model = model
        if judge is not None:
            check_model(judge, id)
        self._judge = judge
        self.tools: dict[str, Action] = tools_of(tools, id)
        self.iterations: int = positive(iterations, f"agent {id!r}: iterations=")
        self.max_tasks: int = positive(max_tasks, f"agent {id!r}: max_tasks=")
        if not isinstance(role, str):
            raise DefinitionError(f"agent {id!r}: role= must be a text, got {role!r:.80}")
        self.role = role
        if not isinstance(target, int | float) or not 0 < target <= 1:
            raise DefinitionError(
                f"agent {id!r}: target= must be more than 0 and at most 1, got {target!r:.80}"
            )
        self.target: float = float(target)
        self.steps: dict[str, Any] = {
            "plan": plan or Plan(),
            "research": research or Research(),
            "update": update or Update(),
            "narrate": narrate or Narrate(),
            "evaluate": evaluate or Evaluate(),
        }
        for name, block in self.steps.items():
            check_part(block, ("before_forward", "forward", "after_forward"), name, id)
        self.blocks: list[Any] = [*self.steps.values(), *self.blocks]
        if budget is not None:
            check_part(budget, ("reserve", "deadline"), "budget", id)
            self.budget: Budget | None = budget
        self.journal = journal
        self._owner = self
        own = objectives_of(objectives, id)
        self._at_first = {each.topic: each.expertise for each in own}
        self._reset_progress(Progress(objectives=own))

    @property
    def task(self) -> str:
        """The agent's own objectives as one text, which identifies a run of them."""
        return "\n".join(each.topic for each in self.objectives)

    # -- asking it ---------------------------------------------------------------------------------

    async def report(self, run_id: str | None = None, *, budget: Budget | None = None) -> Report:
        """Research the agent's own objectives to the end.

        An ended run continues if there are more iterations or objectives than before.

        Args:
            run_id: the id of the run; an agent with a journal resumes a run with this id. If left
                out, the run that this researcher is in, or a new one
            budget: what this run may spend, beside what the agent's own budget allows

        Returns:
            the report; if the research was stopped, the report so far with the stop reason

        Raises:
            DefinitionError: there are no objectives, or no tools
            RunHeld: another process or agent works on the run
            RunMismatch: another program began the run
            JournalError: the journal cannot be used, or is damaged
        """
        self._check_objectives()
        reply = await self._reply_on_loop(
            ReplyRequest(self.task, run_id=run_id or self.run_id, budget=budget)
        )
        report: Report = reply.value
        return report

    def report_sync(self, run_id: str | None = None, *, budget: Budget | None = None) -> Report:
        """Call `report` and wait for it, for scripts."""
        refuse_on_loop(f"report_sync of agent {self.id!r}", "report()")
        return asyncio.run(self.report(run_id, budget=budget))

    def report_so_far(self) -> Report:
        """Return a report of what is known of the agent's own objectives now.

        It is for a run that was cancelled or is under way, and does not change the run.
        """
        now = copy.copy(self)
        now._reset_progress(copy.deepcopy(self.progress))
        now.run_id, now.results = self.run_id, self.results
        if now.progress.stop is None:
            now._stop(Stop("cancelled", ""))
        return now._report()

    @property
    def _is_extractive(self) -> bool:
        """Whether the report is written by rules, not by a model or a step of the user's own."""
        return self.model is None and type(self.steps["narrate"]) is Narrate

    def _report(self) -> Report:
        known = self.resources.get_all()
        return made(self.progress, known, self.run_id, extractive=self._is_extractive)

    async def forward(self) -> None:
        """Run one iteration of the five steps.

        Raises:
            DefinitionError: there are no objectives, or no tools
            BudgetExceeded: the budget is too small; `DeadlineExceeded`: its time is over
            InDoubt: a call was running when its process ended, and no end is recorded
            ModelError: the model failed, or its answers cannot be used
        """
        if self._running:
            await self._iterate()
            return
        self._check_objectives()
        request = _Iteration(self.task, run_id=self.run_id)
        request.state = self._kept.default
        await self._respond(request)

    def _check_objectives(self) -> None:
        if not self.objectives:
            raise DefinitionError(f"agent {self.id!r} has no objectives: give it objectives=[…]")

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return its progress on its own objectives as JSON; valid between two iterations."""
        return state(recording.KIND, progress=dumped(self.progress))

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the progress that `state_dict` returned.

        Raises:
            StateError: `saved` is not such a state
        """
        found = opened(saved, recording.KIND)
        self._reset_progress(loaded(Progress, found.get("progress"), f"researcher {self.id!r}"))

    # -- its runs ----------------------------------------------------------------------------------

    def _hear(self, text: str) -> None:
        """Note what the user says during research, for the next step that asks the model."""
        self.progress.told.append(text)
        self._record.hear({"content": text})

    async def _remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Keep an observed message for the next research in its thread."""
        thread.own = [*(thread.own or []), json_text(message.get("content", ""))][-100:]

    def _load(self) -> tuple[Any, list[Action] | None]:
        from moothall.research import rules  # noqa: F401 - for the extractive form
        from moothall.research.citations import check  # noqa: F401

        describe(self.tools.values())
        return super()._load()

    def _program(self) -> dict[str, Any]:
        return recording.program_of(self)

    async def _restore(self, part: Part, budget: Budget | None) -> None:
        record = Record(part, Progress)
        if record.begun is not None:
            catch_up_models(record, self._model, self.model, self.budget or budget)

    def _check_request(self, request: ReplyRequest) -> None:
        if request.answer is not None:
            raise DefinitionError(f"agent {self.id!r} gives a report: leave schema= out")
        if type(self.steps["plan"]) is Plan:  # one of the user's own may need no tools
            check_tools(self.tools, self.id, extractive=self._model is None)
        # A run of its own objectives also resumes with more of them.
        request.resumed = (
            request.thread is None and not self._running and request.content == self.task != ""
        )

    async def _work(self, request: ReplyRequest, record: Record[Progress]) -> Reply:
        worker = self
        if not request.resumed:
            worker = copy.copy(self)  # with the agent's parts, and a progress of its own
            worker._reset_progress(Progress([Objective(json_text(request.content))]))
        worker._attach(request, record)
        worker._running = True
        try:
            reply = await worker._research(request, record)
            await record.commit()
            return reply
        finally:
            worker._running, worker._record = False, NULL_RECORD

    async def _research(self, request: ReplyRequest, record: Record[Progress]) -> Reply:
        if isinstance(request, _Iteration):
            try:
                await self._iterate()
            except Stop as stop:
                self._stopped(stop).value.raise_for_error()
            return recording.reply_of(self._report(), request.run_id)
        if request.state.underway is None:
            loop = asyncio.get_running_loop()
            request.state.underway = SimpleNamespace(loop=loop, interrupt=self._hear)
        if record is NULL_RECORD:
            return await self._to_the_end()
        record.at_end = partial(mark_known, record, self._model, self._budget)
        catch_up_models(record, self._model, self.model, self._budget)
        if self._has_ended(record):
            return recording.replayed(record._read)
        return await guarded(record, self._to_the_end, recording.over, self._stopped)

    def _attach(self, request: ReplyRequest, record: Record[Progress]) -> None:
        """Prepare what was asked, from the state that is recorded."""
        own = {each.topic: each for each in self.objectives}  # the objects that the caller has
        before = record.state
        if before is not None:
            for each in before.objectives:
                own.setdefault(each.topic, each).expertise = each.expertise
            if before.stop == "no_progress" and len(own) > len(before.objectives):
                before.stop = None
            before.objectives = [*own.values()]
            self._reset_progress(before)
        elif record is not NULL_RECORD or self.run_id not in (None, request.run_id):
            for topic, each in own.items():
                each.expertise = self._at_first.get(topic, 0.0)
            self._reset_progress(Progress(objectives=[*own.values()]))
        self._request = request
        self._record = record
        self.run_id: str = request.run_id
        heard = [each["content"] for each in record.heard]
        self.progress.told += [*(request.state.own or ()), *request.state.hear(), *heard]
        request.state.own = None

    def _has_ended(self, record: Record[Progress]) -> bool:
        """Return whether a run is over, without more iterations or objectives to do."""
        if record.over is None or record.over["reason"] not in QUIET:
            return False
        before = {each["topic"] for each in record.over["report"]["objectives"]}
        more = any(each.topic not in before for each in self.objectives)
        was = record.over["report"]["stop_reason"]
        return not more and (was != "max_iterations" or self.progress.iteration >= self.iterations)

    async def _to_the_end(self) -> Reply:
        # A run that has failed gets at least one more iteration.
        most = max(self.iterations, self.progress.iteration + (self.progress.stop == "error"))
        stop = self.progress.stop
        recorded = self._record is not NULL_RECORD  # the process was killed as the run ended
        if not (self._all_understood() if stop == "done" else stop == "no_progress" and recorded):
            self.progress.stop = None
        try:
            while self.progress.stop is None:
                if self.progress.iteration >= most:
                    self.progress.stop, self.progress.detail = "max_iterations", ""
                    break
                await self.run()
        except Stop as stop:
            return self._stopped(stop)
        except JournalError:
            raise
        except Exception as failure:  # of a step of the user's own
            log_failure(logger, f"researcher {self.id!r} failed", failure)
            where = "".join(f" ({note})" for note in getattr(failure, "__notes__", ())[:1])
            text = f"{type(failure).__name__}: {failure}{where}"
            return self._stopped(Stop("error", text, failure))
        report = self._report()
        error = SearchError(report.detail) if report.stop_reason == "error" else None
        return recording.reply_of(report, self._request.run_id, error)

    def _stop(self, stop: Stop) -> None:
        """Note the stop reason; in the extractive form, narrate what the tools found."""
        progress = self.progress
        progress.stop, progress.detail = stop.reason, stop.detail
        if self._is_extractive and self.results:
            from moothall.research import rules

            for result in self.results:
                for each in result.resources:
                    self.resources.add(each)
            self._passages.clear()
            rules.narrate(self)

    def _stopped(self, stop: Stop) -> Reply:
        self._stop(stop)
        return recording.reply_of(self._report(), self._request.run_id, stop.error)
