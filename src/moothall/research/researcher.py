"""The researcher: iterations of five steps until its objectives are understood; a report."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import date
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall import (
    ACCESS_PERMITTED,
    Action,
    ActionRegistry,
    ConfigError,
    DefinitionError,
    Environment,
    JournalError,
    Reply,
    SearchError,
)
from moothall import model as model_by_name
from moothall.agents import ReplyRequest
from moothall.build import (
    NULL_RECORD,
    Record,
    RecordedAgent,
    Stop,
    check_function,
    check_integer,
    dump_state,
    json_text,
    load_state,
    log_failure,
    refuse_on_loop,
)
from moothall.models import check_model
from moothall.research import recording
from moothall.research.findings import (
    Objective,
    Progress,
    ProgressView,
    ResearchResult,
    ResearchTask,
    objectives_of,
)
from moothall.research.iteration import OneIteration, is_understood, iterate
from moothall.research.iteration_steps import Evaluate, Narrate, Plan, Research, Update
from moothall.research.report import Report, report_of
from moothall.research.researcher_protocol import ResearcherOptions, can_plan
from moothall.research.resource_pool import ResourcePool
from moothall.research.tool_calls import Tools, check_tools
from moothall.research.workbench import Workbench
from moothall.research.writing.review import Reviewer
from moothall.research.writing.style import Style, line_of, outline_of, style_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall import AccessPolicy, Model
    from moothall.budget import Budget
    from moothall.build import Thread
    from moothall.journal import Journal, RunPart

logger: logging.Logger = logging.getLogger("moothall.research")

_MODEL_STEPS: Final = frozenset(("plan", "narrate", "evaluate"))
"""The steps that ask a model."""

_ITERATING: ContextVar[Workbench | None] = ContextVar("moothall_research", default=None)
"""The workbench whose iteration `run` is about to begin."""


class Researcher(RecordedAgent, ProgressView):
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
        plan: a block in the place of Plan; `research`, `update`, `narrate`, `evaluate`: likewise
        searchers: more of what it may call, such as `search_arxiv()`
        sites: hosts that alone are used; `exclude`: that are not; `since`: the oldest day, or year
        target: the expertise, above 0 and at most 1, at which an objective is understood
        max_tasks: how many tasks an iteration has at most; `review_plan` may leave more
        judge: a model, or the name of one, that judges whether passages support sentences; None is
            the one that writes, if it is a server's, True that one anyhow; False checks exactly
        models: another model for some steps, by their names: `plan`, `narrate`, `evaluate`; None is
            the extractive form of that step
        outline: whether the report is written by an outline, section by section: True, or the
            headings; a `length` of 1,500 words or more has one anyhow
        length: about how many words a model's report has; `tone`: how it writes, such as `for
            children`; `language`: in which language, such as `French`
        title: the report's title, in the place of its objective or of a model's own
        context_tokens: how many tokens a prompt and its answer may have together; by default what
            the model, or its server, says
        review_plan: sees the first plan and the outline, and may change them, before research
            begins: a function of a `ProposedPlan`, or an agent that replies, such as a `Person`
        **options: the options of `Agent`, and `shared=`: whether all who ask share one conversation

    Attributes:
        steps: the blocks of the five steps, by name
        workbench: what is known of its own objectives, and what their steps work with

    Raises:
        DefinitionError: an argument is invalid
    """

    environment: ClassVar[Environment] = Environment()
    takes_topics = True  # a text is an objective, not a prompt: a dual act adds nothing to it
    run_kind: str = Report.run_kind
    model_or_name: Model | str | None = None
    _judge: Model | str | bool | None = None
    state_type: type[Any] = Progress
    reasons_with_text: frozenset[str] = RecordedAgent.reasons_with_text | {"budget", "deadline"}
    is_untracked: bool = True  # a report has what its sources say
    outside_policy: ClassVar[AccessPolicy] = ACCESS_PERMITTED  # it reads what its sources name

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
        plan: Any = None,
        research: Any = None,
        update: Any = None,
        narrate: Any = None,
        evaluate: Any = None,
        searchers: ActionRegistry | Iterable[Any] = (),
        sites: Iterable[str] = (),
        exclude: Iterable[str] = (),
        since: date | str | None = None,
        target: float = 0.9,
        max_tasks: int = 8,
        judge: Model | str | bool | None = None,
        models: Mapping[str, Model | str | None] | None = None,
        outline: bool | Iterable[str] = False,
        title: str = "",
        context_tokens: int | None = None,
        review_plan: Reviewer | None = None,
        **options: Unpack[ResearcherOptions],
    ) -> None:
        agent_options: dict[str, Any] = {**options}
        self.style: Style = style_of(agent_options, id)
        super().__init__(id, **agent_options)
        self.model = model
        self._models = self._checked_models(models)
        if not isinstance(judge, bool | None):
            check_model(f"agent {id!r}", judge, "judge")
        self._judge = judge
        self._tools = Tools(tools, searchers, (sites, exclude, since), id)
        check_integer(f"agent {id!r}: iterations=", iterations)
        check_integer(f"agent {id!r}: max_tasks=", max_tasks)
        self.iterations: int = iterations
        self.max_tasks: int = max_tasks
        if not isinstance(role, str):
            raise ConfigError(f"agent {id!r}: role= must be a text, got {role!r:.80}")
        self.role = role
        if type(target) not in (int, float) or not 0 < target <= 1:
            raise ConfigError(
                f"agent {id!r}: target= must be more than 0 and at most 1, got {target!r:.80}"
            )
        self.target: float = float(target)
        self._title = line_of("title", title, id)
        self.outline: bool | list[str] = outline_of(outline, id)
        check_integer(f"agent {id!r}: context_tokens=", context_tokens, optional=True)
        self.context_tokens: int | None = context_tokens
        if not callable(getattr(review_plan, "reply", None)):  # else it is an agent that replies
            check_function(f"agent {id!r}: review_plan=", review_plan, "plan", optional=True)
        self.review_plan = review_plan
        self.steps: dict[str, Any] = {
            "plan": plan or Plan(),
            "research": research or Research(),
            "update": update or Update(),
            "narrate": narrate or Narrate(),
            "evaluate": evaluate or Evaluate(),
        }
        for name, block in self.steps.items():
            self.check_part(name, block, "before_forward", "forward", "after_forward")
        self.blocks: list[Any] = [*self.steps.values(), *self.blocks]
        if budget is not None:
            self.check_part("budget", budget, "reserve", "deadline")
            self.budget: Budget | None = budget
        self.journal = journal
        own_objectives = objectives_of(objectives, id)
        self._initial_expertise = {each.topic: each.expertise for each in own_objectives}
        self.workbench: Workbench = Workbench(self, Progress(objectives=own_objectives))

    @property
    def model(self) -> Model | None:
        """The model; None in the extractive form. A model given by name is made on first use."""
        return self.model_of("")

    @model.setter
    def model(self, model: Model | str | None) -> None:
        if model is not None:
            check_model(f"agent {self.id!r}", model)
        self.model_or_name = model

    @property
    def judge(self) -> Model | None:
        """The model that judges citations; None for exact checks alone."""
        if isinstance(self._judge, str):
            self._judge = model_by_name(self._judge)
        if not isinstance(self._judge, bool | None):
            return self._judge
        writer = self.model_of("narrate")
        return writer if self._judge or (self._judge is None and can_plan(writer)) else None

    @property
    def tools(self) -> dict[str, Action]:
        """What it may call, by name."""
        return self._tools.by_name()

    def find_action(self, name: str) -> Action | None:
        """Return the action of that name of those that it calls itself."""
        return self.tools.get(name)

    def model_of(self, step: str) -> Model | None:
        """Return the model of a step, by its name; None in the extractive form."""
        model = self._models.get(step, self.model_or_name)
        if isinstance(model, str):
            model = model_by_name(model)
            if step in self._models:
                self._models[step] = model
            else:
                self.model_or_name = model
        return model

    # -- what is known of its own objectives -------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """What is known: enough to resume it in another process."""
        return self.workbench.progress

    @property
    def resources(self) -> ResourcePool:
        """The resources that were found or read."""
        return self.workbench.resources

    @property
    def tasks(self) -> list[ResearchTask]:
        """The tasks of the last iteration."""
        return self.workbench.tasks

    @property
    def results(self) -> list[ResearchResult]:
        """The results of the last iteration."""
        return self.workbench.results

    @property
    def run_id(self) -> str | None:
        """The id of the run of its own objectives; None before it has one."""
        return self.workbench.run_id

    def _checked_models(self, models: object) -> dict[str, Model | str | None]:
        if not isinstance(models, Mapping | None) or not set(models or ()) <= _MODEL_STEPS:
            steps = ", ".join(sorted(_MODEL_STEPS))
            raise ConfigError(
                f"agent {self.id!r}: models= must be models by step ({steps}), got {models!r:.80}"
            )
        for each in (each for each in (models or {}).values() if each is not None):
            check_model(f"agent {self.id!r}", each)
        return dict(models or {})

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
        request = ReplyRequest(self.task, run_id=run_id or self.run_id, budget=budget)
        report: Report = (await self.reply_to_request(request)).value
        return report

    def report_sync(self, run_id: str | None = None, *, budget: Budget | None = None) -> Report:
        """Call `report` and wait for it, for scripts."""
        refuse_on_loop(f"report_sync of agent {self.id!r}", "report()")
        return asyncio.run(self.report(run_id, budget=budget))

    def report_so_far(self) -> Report:
        """Return a report of what is known of the agent's own objectives now.

        It is for a run that was cancelled or is under way, and does not change the run.
        """
        snapshot = Workbench(self, copy.deepcopy(self.progress))
        snapshot.run_id, snapshot.results = self.run_id, self.results
        reason = snapshot.progress.stop or "cancelled"
        if reason not in Report.completed:  # the iteration that was cut off has found something
            self._note_stop(snapshot, Stop(reason, snapshot.progress.detail))
        return self._make_report(snapshot)

    @property
    def _is_extractive(self) -> bool:
        """Whether the report is written by rules, not by a model or a step of the user's own."""
        return self.model_of("narrate") is None and type(self.steps["narrate"]) is Narrate

    def _make_report(self, bench: Workbench) -> Report:
        resources = bench.resources.get_all()
        return report_of(
            bench.progress,
            resources,
            bench.run_id,
            extractive=self._is_extractive,
            prices=None if self.budget is None else getattr(self.budget, "prices", None),
        )

    async def forward(self) -> None:
        """Run one iteration of the five steps.

        Raises:
            DefinitionError: there are no objectives, or no tools
            BudgetExceeded: the budget is too small; `DeadlineExceeded`: its time is over
            InDoubt: a call was running when its process ended, and no end is recorded
            ModelError: the model failed, or its answers cannot be used
        """
        bench = _ITERATING.get()
        if bench is not None and bench.agent is self:
            _ITERATING.set(None)  # what its tools call is not this iteration
            await iterate(bench)
            return
        self._check_objectives()
        request = OneIteration(self.task, run_id=self.run_id)
        request.state = self.all_threads.default
        await self.respond(request)

    def _check_objectives(self) -> None:
        if not self.objectives:
            raise DefinitionError(f"agent {self.id!r} has no objectives: give it objectives=[…]")

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return its progress on its own objectives as JSON; valid between two iterations."""
        return self.as_state(Report.run_kind, progress=dump_state(self.progress))

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the progress that `state_dict` returned.

        Raises:
            StateError: `saved` is not such a state
        """
        state = self.read_state(saved, Report.run_kind)
        self.workbench.reset(load_state(Progress, state.get("progress"), f"researcher {self.id!r}"))

    # -- its runs ----------------------------------------------------------------------------------

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Keep an observed message for the next research in its thread."""
        observed = [*(thread.agent_state or []), json_text(message.get("content", ""))]
        thread.agent_state = observed[-100:]

    def load_parts(self) -> tuple[Any, list[Action] | None]:
        """Import and make what a reply needs."""
        from moothall.research import extractive_steps  # noqa: F401 - for the extractive form
        from moothall.research.citations import check, differences  # noqa: F401

        for each in self.tools.values():
            each.get_ready()
            _ = each.help  # which a task's action has, too
        return super().load_parts()

    def action_sources(self) -> Iterable[Any]:
        """Return what says what it may call."""
        return self._tools.sources

    def describe_program(self) -> dict[str, Any]:
        """Return its program, independent of the request."""
        return recording.fingerprint_of(self)

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore what it did in a part that is over."""
        record = Record(part, Progress)
        if record.start is not None:
            self._catch_up(record, self.budget or budget)

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""
        if request.answer is not None:
            raise DefinitionError(f"agent {self.id!r} gives a report: leave schema= out")
        if type(self.steps["plan"]) is Plan:  # one of the user's own may need no tools
            by_rules = self._models.get("plan", self.model_or_name) is None
            check_tools(self.tools, self.id, extractive=by_rules)
        # A run of its own objectives also resumes with more of them.
        request.resumed = (
            request.thread is None
            and not self.workbench.running
            and request.content == self.task != ""
        )

    async def recorded_reply(self, request: ReplyRequest, record: Record[Progress]) -> Reply:
        """Answer, or resume from the record."""
        bench = self.workbench
        if not request.resumed:
            bench = Workbench(self, Progress([Objective(json_text(request.content))]))
        self._attach(bench, request, record)
        bench.running, resources = True, bench.resources
        try:
            return await self._run_research(bench, request, record)
        finally:
            request.note_sources([each.url for each in bench.resources.get_all() if each.visited])
            bench.resources = resources  # what an iteration that was cut off found is found again
            bench.running, bench.record = False, NULL_RECORD

    async def _run_research(
        self, bench: Workbench, request: ReplyRequest, record: Record[Progress]
    ) -> Reply:
        if isinstance(request, OneIteration):
            try:
                await iterate(bench)
            except Stop as stop:
                self._reply_of_stop(bench, stop).value.raise_for_error()
            await record.commit()
            return recording.reply_of(self._make_report(bench), request.run_id)
        if request.state.reply is None:
            loop = asyncio.get_running_loop()
            request.state.reply = SimpleNamespace(loop=loop, interrupt=bench.note_user_text)
        if request.recorded is None:
            return await self._run_to_end(bench)
        record.at_end = partial(self._mark_known, record, bench.budget)
        self._catch_up(record, bench.budget)
        if self._has_ended(bench, record):
            return recording.reply_at_end(record)
        run_to_end, on_stop = partial(self._run_to_end, bench), partial(self._reply_of_stop, bench)
        return await record.run_to_end(run_to_end, recording.end_data, on_stop)

    def _attach(self, bench: Workbench, request: ReplyRequest, record: Record[Progress]) -> None:
        """Prepare what was asked, from the state that is recorded."""
        objectives = {
            each.topic: each for each in bench.objectives
        }  # the objects that the caller has
        saved = record.state
        if saved is not None:
            for each in saved.objectives:
                objectives.setdefault(each.topic, each).expertise = each.expertise
            if saved.stop == "no_progress" and len(objectives) > len(saved.objectives):
                saved.stop = None
            saved.objectives = [*objectives.values()]
            bench.reset(saved)
        elif request.recorded is not None or bench.run_id not in (None, request.run_id):
            for topic, each in objectives.items():
                each.expertise = self._initial_expertise.get(topic, 0.0)
            bench.reset(Progress(objectives=[*objectives.values()]))
        bench.progress.title = self._title
        bench.request = request
        bench.record = record
        bench.run_id = request.run_id
        new_texts = request.state.take_texts()
        record.take_told(new_texts)
        texts = [*new_texts, *(each["content"] for each in record.received)]
        bench.progress.told.extend([*(request.state.agent_state or ()), *texts])
        request.state.agent_state = None

    def _catch_up(self, record: Record[Progress], budget: Any) -> None:
        """Let the models skip the answers that are recorded, and charge the budget for them."""
        if not self._models and isinstance(self._judge, bool | None):
            record.catch_up(self.model_or_name, self.model, budget)
            return
        models_by_step = {step: self.model_of(step) for step in ("", *_MODEL_STEPS)} | {
            "judge": self.judge
        }
        for model in {
            id(each): each for each in models_by_step.values() if each is not None
        }.values():
            own_steps = frozenset(step for step, each in models_by_step.items() if each is model)
            record.catch_up(model, model, budget, partial(recording.is_of_any_step, own_steps))

    def _mark_known(self, record: Record[Progress], budget: Any) -> None:
        for each in (self.model_or_name, *self._models.values(), self.judge):
            record.mark_known(each, budget)

    def _has_ended(self, bench: Workbench, record: Record[Progress]) -> bool:
        """Return whether a run is over, without more iterations or objectives to do."""
        if record.over is None or record.over["reason"] not in Report.completed:
            return False
        ended_topics = {each["topic"] for each in record.over["report"]["objectives"]}
        has_more = any(each.topic not in ended_topics for each in bench.objectives)
        last_reason = record.over["report"]["stop_reason"]
        return not has_more and (
            last_reason != "max_iterations" or bench.progress.iteration >= self.iterations
        )

    async def _run_to_end(self, bench: Workbench) -> Reply:
        progress = bench.progress
        # A run that has failed gets at least one more iteration.
        limit = max(self.iterations, progress.iteration + (progress.stop == "error"))
        stop = progress.stop
        is_recorded = bench.request.recorded is not None  # the process was killed as the run ended
        if not (is_understood(bench) if stop == "done" else stop == "no_progress" and is_recorded):
            progress.stop = None
        try:
            while progress.stop is None:
                if progress.iteration >= limit:
                    progress.stop, progress.detail = "max_iterations", ""
                    break
                _ITERATING.set(bench)
                await self.run()
        except Stop as stop:
            return self._reply_of_stop(bench, stop)
        except JournalError:
            raise
        except Exception as failure:  # of a step of the user's own
            log_failure(logger, f"researcher {self.id!r} failed", failure)
            notes = "".join(f" ({note})" for note in getattr(failure, "__notes__", ())[:1])
            text = f"{type(failure).__name__}: {failure}{notes}"
            return self._reply_of_stop(bench, Stop("error", text, failure))
        finally:
            _ITERATING.set(None)
        report = self._make_report(bench)
        error = SearchError(report.detail) if report.stop_reason == "error" else None
        return recording.reply_of(report, bench.request.run_id, error)

    def _note_stop(self, bench: Workbench, stop: Stop) -> None:
        """Note the stop reason, and what the tools found; in the extractive form narrate it."""
        progress = bench.progress
        progress.stop, progress.detail = stop.reason, stop.detail
        bench.resources = ResourcePool(beyond=bench.resources)
        for each in (each for result in bench.results for each in result.resources):
            bench.resources.add(each)
        progress.note_faults(bench.results)
        if self._is_extractive and bench.results:
            from moothall.research import extractive_steps

            extractive_steps.narrate(bench)

    def _reply_of_stop(self, bench: Workbench, stop: Stop) -> Reply:
        self._note_stop(bench, stop)
        return recording.reply_of(self._make_report(bench), bench.request.run_id, stop.error)
