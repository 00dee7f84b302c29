"""One iteration of a researcher: its steps in order, each recorded, and the stop reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moothall import BlockEnded, BlockStarted, DefinitionError, InvalidArguments
from moothall.agents import ReplyRequest
from moothall.build import StepHandle, Stop, WorkSpan, call_user
from moothall.research import recording
from moothall.research.findings import (
    Findings,
    Narrative,
    ResearchTask,
    check_result,
    objectives_of,
)
from moothall.research.researcher_protocol import can_plan
from moothall.research.tool_calls import one_text_tools, with_resources
from moothall.research.writing.review import ANSWER_HINT, ProposedPlan

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

_MAX_REVIEWS: Final = 20
"""How often a plan is shown to a reviewer, at most."""
_GRACE_S: Final = 1.0
"""Seconds in which calls of models and tools end by themselves after the deadline."""


class OneIteration(ReplyRequest):
    """A request for one iteration only."""


async def iterate(bench: Workbench) -> None:
    """Take the five steps, and note the stop reason if the research is over."""
    progress, agent = bench.progress, bench.agent
    progress.fresh, resource_count = 0, len(bench.resources)
    done_before = len(progress.done)
    bench.is_cut = False
    bench.tasks, bench.results = [], []
    for name in agent.steps:
        await _take_step(bench, name)
        if name == "research":
            bench.unnarrated_results += bench.results
        elif name == "narrate":
            bench.unnarrated_results = []
        elif name == "plan" and not (bench.tasks or bench.unnarrated_results):
            break
    progress.iteration += 1
    failure = _failure_so_far(bench)
    all_failed = bench.results and all(each.error for each in bench.results)
    # Rules go on with what did not fit into the plan, or was found and not read.
    is_full = len(bench.tasks) >= agent.max_tasks
    has_more = not can_plan(agent.model_of("plan")) and (bench.unread(1) if all_failed else is_full)
    can_retry = len(bench.resources) and any(map(bench.is_new, bench.results))  # to be tried again
    is_stale = not (
        progress.fresh
        or bench.is_cut
        or len(bench.resources) != resource_count
        or has_more
        or can_retry
    )
    if failure and (is_stale or progress.iteration >= agent.iterations):
        progress.stop, progress.detail = "error", failure
        del progress.done[done_before:]  # so that a resumed run tries them again
    elif is_understood(bench):
        progress.stop, progress.detail = "done", ""
    elif not bench.tasks:
        progress.stop, progress.detail = "no_progress", "no task is left that was not done"
    elif is_stale:
        progress.stop, progress.detail = "no_progress", "the last iteration found nothing new"
        if all_failed:
            fault = bench.results[0].error
            progress.detail = f"each task of the last iteration failed: {fault}"
    bench.record.save(progress)
    await bench.record.commit()


def is_understood(bench: Workbench) -> bool:
    """Return whether each objective has reached the target."""
    return all(each.expertise >= bench.agent.target for each in bench.objectives)


def _failure_so_far(bench: Workbench) -> str | None:
    """Return why nothing was read so far, if searching or reading fails; else None."""
    if any(each.visited for each in bench.resources.get_all()):
        return None
    find = bench.resources.find
    read_results = [
        each
        for each in bench.results
        if any(isinstance(x, str) and find(x) for x in each.args.values())
    ]
    if bench.results and all(each.error for each in bench.results):
        return f"nothing could be searched or read: {bench.results[0].error}"
    if read_results and all(each.error for each in read_results):
        return f"nothing of what was found could be read: {read_results[0].error}"
    return None


async def _take_step(bench: Workbench, name: str) -> None:
    """Take a step and record it; Research records each task instead, Update nothing."""
    record = bench.record
    key = f"{bench.iteration}.{name}"
    has_ended = record.has_ended(key)
    span_values = (str(bench.agent.id), name, bench.iteration)
    event_options: dict[str, Any] = {"past": has_ended, **bench.request.run_fields}
    emit = bench.request.emit or (lambda event: None)
    emit(BlockStarted(*span_values, **event_options))
    bench.begin(name)
    progress = bench.progress
    progress_before = replace(
        progress, passages=[*progress.passages], notes=[*progress.notes], used={**progress.used}
    )

    async def call(step: StepHandle | None = None) -> dict[str, Any]:
        try:
            _store_result(bench, name, await _forward_in_time(bench, name))
            if name == "plan" and bench.iteration == 1:
                await _review_plan(bench)
            if name == "narrate" and bench.waits_for_judge:
                from moothall.research.judging import judge_narrative

                await judge_narrative(bench)
        except Exception as error:
            bench.agent.with_note(error, "forward", bench.agent.steps[name])
            raise
        finally:
            if bench.waits_for_judge:  # it never came to judging
                bench.apply_verdicts({})
        data = recording.step_data(bench, name, progress_before)
        return {**data, "spent": (bench.progress.usage - progress_before.usage).to_json()}

    async def take_or_replay() -> dict[str, Any]:
        if name in ("research", "update"):
            return await call()
        return await record.once(key, call)

    if has_ended:
        data = await take_or_replay()
    else:
        data = await WorkSpan("part", name, bench.agent, key).hold(take_or_replay)
    if has_ended:
        recording.apply_step(bench.progress, data)
        bench.tasks = [ResearchTask(**each) for each in data.get("tasks", ())] or bench.tasks
        bench.is_cut = bench.is_cut or data.get("is_cut", False)
    emit(BlockEnded(*span_values, data, **event_options))


async def _forward_in_time(bench: Workbench, name: str) -> Any:
    """Return a step's result; a step of the user's own may hang, so the deadline ends it."""
    remaining = getattr(bench.budget, "remaining_seconds", lambda: None)()
    try:
        async with asyncio.timeout(None if remaining is None else remaining + _GRACE_S) as limit:
            return await bench.agent.steps[name].forward(bench)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Stop("deadline", f"the run's time limit was reached during {name}") from None


async def _review_plan(bench: Workbench) -> None:
    """Let a person see and change the plan and the outline, until the person lets it begin."""
    review = bench.agent.review_plan
    if review is None:
        return
    is_by_model = can_plan(bench.agent.model_of("plan"))
    fault = ""
    for _ in range(_MAX_REVIEWS):
        plan = ProposedPlan(
            [each.topic for each in bench.objectives],
            [replace(each) for each in bench.tasks],
            [replace(each) for each in bench.progress.outline],
        )
        with bench.record.waiting_for("person", text="the reviewer of its plan"):
            verdict = await _review_of(bench, review, plan, fault)
        fault = ""
        if verdict is False:
            raise Stop("cancelled", "its plan was not accepted")
        if isinstance(verdict, str) and is_by_model:
            bench.note_user_text(verdict)
            bench.progress.outline = []
            _store_result(bench, "plan", await bench.agent.steps["plan"].forward(bench))
            continue
        if isinstance(verdict, str):  # rules understand no words: each line is a query
            tool, name = next(one_text_tools(bench.tools, "query"), ("", ""))
            lines = [each.strip() for each in verdict.splitlines() if each.strip()]
            plan.tasks = [ResearchTask(tool, {name: each}, "asked for") for each in lines]
        elif isinstance(verdict, ProposedPlan):
            plan = verdict
        elif verdict not in (None, True):
            raise DefinitionError(
                "review_plan= must return a ProposedPlan, a text, True, False or None, got "
                f"{verdict!r:.80}"
            )
        try:
            for each in plan.tasks:
                if each.tool not in bench.tools:
                    raise InvalidArguments(f"there is no tool {each.tool!r}")
                bench.tools[each.tool].check(each.args)
        except InvalidArguments as error:
            fault = f"The plan cannot be carried out: {error}"
            continue
        bench.progress.outline = list(plan.outline)
        # None that a person left is dropped.
        _store_result(bench, "plan", plan.tasks, len(plan.tasks))
        return
    raise Stop("cancelled", f"its plan was not accepted in {_MAX_REVIEWS} rounds. {fault}".rstrip())


async def _review_of(bench: Workbench, review: Any, plan: ProposedPlan, fault: str) -> Any:
    """Return what a reviewer says of a plan: a function, or an agent that is asked in words."""
    if not hasattr(review, "reply"):
        return await call_user(review, plan)
    question = "\n\n".join(filter(None, (fault, str(plan), ANSWER_HINT)))
    reply = await review.reply(question, thread=bench.request.thread)
    if reply.stop_reason not in ("done", "terminal"):  # such as a person who has left
        reason = reply.detail or reply.stop_reason
        raise Stop("cancelled", f"its plan was not accepted: {reason}")
    try:
        return plan.answered(reply.text, bench.tools)
    except InvalidArguments as error:
        return f"{reply.text}\n{error}"


def _store_result(bench: Workbench, name: str, result: Any, min_tasks: int = 0) -> None:
    """Store a step's result; a step that returns None has stored it itself."""
    check_result(name, result)
    max_tasks = max(bench.agent.max_tasks, min_tasks)
    if name == "plan":
        tasks = bench.tasks if result is None else list(result)
        bench.tasks = [t for at, t in enumerate(tasks) if bench.is_new(t, tasks[:at])]
        budget_left = getattr(bench.budget, "left", None)  # a budget of the user's own may not say
        # With no action left all tasks are kept, and refused.
        affordable = (budget_left and budget_left.actions) or max_tasks
        bench.is_cut = affordable < len(bench.tasks[:max_tasks])
        bench.tasks = bench.tasks[: min(max_tasks, affordable)]
    elif name == "research":
        bench.results = bench.results if result is None else list(map(with_resources, result))
        # What has failed for the first time is tried again in a later iteration.
        to_repeat = {e.key for e in bench.results if e.has_raised} - bench.progress.failed.keys()
        bench.progress.done.extend(each for each in bench.tasks if each.key not in to_repeat)
        bench.progress.note_faults(bench.results)
    elif isinstance(result, Narrative) and result.markdown != bench.progress.narrative:
        bench.check_narrative(result.markdown)
    elif isinstance(result, Findings):
        topics = {each.topic for each in bench.objectives}
        bench.progress.remark = result.remark
        bench.progress.generated = [
            each
            for each in objectives_of(result.generated_objectives, bench.agent.id)
            if each.topic not in topics
        ]
