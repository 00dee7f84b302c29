"""The five steps of an iteration, each a replaceable block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moothall import Block
from moothall.build import UnreadableText, Unusable
from moothall.research import extractive_steps, prompts
from moothall.research.findings import (
    Findings,
    Narrative,
    Objective,
    ResearchResult,
    ResearchTask,
)
from moothall.research.narrating import narrate, plan_outline
from moothall.research.researcher_protocol import can_plan
from moothall.research.writing.answers import TopicEvaluation, tasks_in

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

_UNCITED_EXPERTISE: Final = 0.5
"""The highest expertise of an objective while no sentence of the report counts as supported."""

_ONE_SIDED_EXPERTISE: Final = 0.7
"""The same while a source that was read says otherwise, and the report does not tell."""


class Plan(Block):
    """Makes tasks from the objectives and the findings of the last iteration.

    Tasks are broad where expertise is low, and specific where it is high. There are at most
    `researcher.max_tasks`, and none was done before.
    """

    async def forward(self, researcher: Workbench) -> list[ResearchTask]:
        """Return the tasks of this iteration."""
        if not can_plan(researcher.model):
            return extractive_steps.plan(researcher)

        def read(text: str) -> list[ResearchTask]:
            tasks = tasks_in(text, researcher.tools)
            if not (tasks or researcher.iteration > 1 or researcher.resources.get_all()):
                raise UnreadableText("names no task, and nothing was read")
            return tasks

        await researcher.find_context()
        await plan_outline(researcher)
        try:
            return await researcher.ask_until_usable(
                prompts.plan(researcher),
                read,
                prompts.plan_schema(researcher),
            )
        except Unusable as error:
            tasks = extractive_steps.plan(researcher)
            if not (tasks or researcher.progress.narrative):
                raise researcher.unreadable(error) from None
            researcher.note_replaced("the plan", error)
            return tasks


class Research(Block):
    """Executes the tasks side by side. It asks no model; a tool may, through its `Context`."""

    async def forward(self, researcher: Workbench) -> list[ResearchResult]:
        """Return the results of the tasks, in order."""
        return await researcher.execute(researcher.tasks)


class Update(Block):
    """Adds the resources that the tools found to the pool, and marks those that they read."""

    async def forward(self, researcher: Workbench) -> None:
        """Bring the pool up to date."""
        for result in researcher.results:
            for each in result.resources:
                researcher.add(replace(each, objective=result.objective))


class Narrate(Block):
    """Writes what is known, with a footnote for each statement from a source.

    The passages of the results are packed into chunks that fit the model, in as many as it takes.
    Each chunk improves the latest narrative; of a long report, which has an outline, a section of
    it. Sentences that their passages do not support are marked and counted.
    """

    async def forward(self, researcher: Workbench) -> Narrative:
        """Return the improved narrative."""
        if researcher.model is None:
            return extractive_steps.narrate(researcher)
        await researcher.find_context()
        return await narrate(researcher)


class Evaluate(Block):
    """Rates how well each objective is understood; says what to find out and improve next."""

    async def forward(self, researcher: Workbench) -> Findings:
        """Return the findings, and set the expertise of each objective."""
        if not can_plan(researcher.model):
            return extractive_steps.evaluate(researcher)

        await researcher.find_context()
        researcher.progress.estimated, researcher.progress.unanswered = False, []
        evaluation = TopicEvaluation(each.topic for each in researcher.objectives)
        try:
            await researcher.ask_until_usable(
                prompts.evaluation(researcher), evaluation.read, prompts.EVALUATION
            )
        except Unusable as error:
            by_rules = extractive_steps.evaluate(researcher)
            evaluation.remark = evaluation.remark or by_rules.remark
            evaluation.generated = evaluation.generated or [
                o.topic for o in by_rules.generated_objectives
            ]
            researcher.note_replaced("the evaluation", error)
        researcher.progress.unanswered = evaluation.unanswered
        # Without a judge, nobody could call a sentence in other words supported.
        labels = {each.label for each in researcher.progress.supports}
        has_support = "supported" in labels if researcher.agent.judge else bool(labels)
        limit = 1.0 if has_support else _UNCITED_EXPERTISE
        if any(not other.number for _, other, _ in researcher.differences()):
            limit = min(limit, _ONE_SIDED_EXPERTISE)
        for objective in researcher.objectives:
            reached = evaluation.reached.get(objective.topic, objective.expertise)
            objective.expertise = min(reached, limit)
        generated = [Objective(each) for each in evaluation.generated]
        return Findings(researcher.narrative.markdown, evaluation.remark, generated)
