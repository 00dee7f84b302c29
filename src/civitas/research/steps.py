"""The five steps of an iteration, each a block that may be replaced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from civitas.block import Block
from civitas.errors import InvalidArguments
from civitas.research import prompts, rules
from civitas.research.findings import (
    Findings,
    Narrative,
    Objective,
    ResearchResult,
    ResearchTask,
    checked_expertise,
)

if TYPE_CHECKING:
    from civitas.research.researcher import Researcher


class Plan(Block):
    """Makes tasks of the objectives and of what the last iteration came to.

    Broader where expertise is low, deeper where it is high; at most `researcher.max_tasks`, none of
    them done already.
    """

    description = "makes tasks of the objectives and the findings"

    async def forward(self, researcher: Researcher) -> list[ResearchTask]:
        """The tasks of this iteration."""
        if researcher.model is None:
            return rules.plan(researcher)

        def read(value: Any) -> list[ResearchTask]:
            tasks = [ResearchTask(**each) for each in value["tasks"]]
            for task in tasks:
                researcher.tools[task.tool].check(task.args)  # the schema names those there are
            return tasks

        tasks: list[ResearchTask] = await researcher.ask_model(
            prompts.plan(researcher), prompts.plan_schema(researcher), read
        )
        return tasks


class Research(Block):
    """Executes the tasks side by side. It asks no model; a tool may, by its `Context`."""

    description = "executes the tasks"

    async def forward(self, researcher: Researcher) -> list[ResearchResult]:
        """What came of each task, in their order."""
        return await researcher.execute(researcher.tasks)


class Update(Block):
    """Adds to the pool of resources what the tools found, and marks what they read."""

    description = "adds what was found to the pool of resources"

    async def forward(self, researcher: Researcher) -> None:
        """Bring the pool up to date."""
        for result in researcher.results:
            for each in result.resources:
                researcher.add(each)


class Narrate(Block):
    """Writes what is known, with a footnote for whatever a source says.

    The passages of the results are packed into chunks that fit the model; each improves the latest
    narrative. What a footnote's passage does not bear out is marked and counted.
    """

    description = "writes what is known, with its sources"

    async def forward(self, researcher: Researcher) -> Narrative:
        """The latest narrative."""
        if researcher.model is None:
            return rules.narrate(researcher)
        narrative = researcher.narrative
        for chunk in prompts.chunks(researcher):
            text: str = await researcher.ask_model(prompts.narrate(researcher, narrative, chunk))
            narrative = researcher.checked(text)
        return narrative


class Evaluate(Block):
    """Tells how well each objective is understood, what to find out next, and what to improve."""

    description = "tells how well the objectives are understood"

    async def forward(self, researcher: Researcher) -> Findings:
        """The findings; the expertise of each objective is set."""
        if researcher.model is None:
            return rules.evaluate(researcher)

        def read(value: Any) -> tuple[dict[str, float], Findings]:
            reached = {
                each["topic"]: checked_expertise(each["expertise"], each["topic"])
                for each in value["objectives"]
            }
            missing = [o.topic for o in researcher.objectives if o.topic not in reached]
            if missing:
                raise InvalidArguments(f"no expertise is stated for {json.dumps(missing)}")
            generated = [Objective(each) for each in value["generated_objectives"] if each.strip()]
            return reached, Findings(researcher.narrative.markdown, value["remark"], generated)

        reached, findings = await researcher.ask_model(
            prompts.evaluate(researcher), prompts.EVALUATION, read
        )
        for objective in researcher.objectives:
            objective.expertise = reached[objective.topic]
        return findings  # type: ignore[no-any-return]
