"""Ask a report: an answer from the passages that it cites, and from nothing else."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from moothall import Block, DefinitionError, action
from moothall.build import refuse_on_loop
from moothall.research.extractive.question_words import QuestionWords
from moothall.research.findings import Findings, Passage, ResearchTask, Resource, Section
from moothall.research.report import Report
from moothall.research.researcher import Researcher

if TYPE_CHECKING:
    from moothall import Model
    from moothall.budget import Budget

_MAX_PASSAGES: Final = 12  # passages that a model is shown
_TOOL_NAME: Final = "find_passages"


def ask(
    report: Report,
    question: str,
    *,
    model: Model | str | None = None,
    budget: Budget | None = None,
) -> Report:
    """Answer a question about a report from the passages that it cites, and wait for the answer.

    No source is read again. Without a model the answer quotes the sentences that fit best. A
    model's answer is checked like any report: a sentence that its passage does not support is
    marked. With a model, where an event loop runs, await `ask_async`.

    Args:
        report: a report, also one that `Journal.replay` returned as its `value`
        question: what to find out
        model: a model, or the name of one; None to quote
        budget: what the answer may spend

    Returns:
        the answer, a report with its own footnotes; if nothing in the passages is relevant, it
        says so and cites nothing

    Raises:
        DefinitionError: `report` is no report, or the question is empty
        RuntimeError: an event loop runs in this thread, and a model is given
    """
    try:
        refuse_on_loop("ask", "ask_async(…)")
    except RuntimeError:
        if model is not None:
            raise
        with ThreadPoolExecutor(1) as executor:  # a thread with a loop runs no other
            return executor.submit(ask, report, question, budget=budget).result()
    return asyncio.run(ask_async(report, question, model=model, budget=budget))


async def ask_async(
    report: Report,
    question: str,
    *,
    model: Model | str | None = None,
    budget: Budget | None = None,
) -> Report:
    """Answer a question about a report from the passages that it cites: see `ask`."""
    if not isinstance(report, Report):
        raise DefinitionError(f"ask: report must be a Report, got {report!r:.80}")
    if not isinstance(question, str) or not question.strip():
        raise DefinitionError(f"ask: question must be a text, got {question!r:.80}")
    passages = list(dict.fromkeys(each.passage for each in report.citations))

    @action(name=_TOOL_NAME, idempotent=True)
    async def find_passages(query: str) -> list[Resource]:
        """Return the passages of the report that fit a question best.

        Args:
            query: the question
        """
        ranked = [each.passage for each in QuestionWords(query, passages).best()]
        best = list(dict.fromkeys([*ranked, *passages]))[:_MAX_PASSAGES]
        return _resources(passages if model is None else best)

    steps: dict[str, Any] = (
        {} if model is None else {"plan": _PlanOneLook(), "evaluate": _KeepAnswer()}
    )
    agent = Researcher("ask", model, [question.strip()], [find_passages], 1, **steps)
    return await agent.report(budget=budget)


class _PlanOneLook(Block):
    """Plans one look at the passages."""

    async def forward(self, researcher: Any) -> list[ResearchTask]:
        topics = [each.topic for each in researcher.objectives]
        return [ResearchTask(_TOOL_NAME, {"query": each}, "the question itself") for each in topics]


class _KeepAnswer(Block):
    """Leaves the answer as it is."""

    async def forward(self, researcher: Any) -> Findings:
        return Findings(researcher.narrative.markdown, "", [])


def _resources(passages: list[Passage]) -> list[Resource]:
    """Return passages as resources that were read when the report's were."""
    resources = []
    for each in passages:
        url, _, anchor = each.url.partition("#")
        part = Section(0, anchor, each.title, each.fetched_at or None)
        resources.append(
            Resource(url, None, True, each.text, [part], each.fetched_at or None, each.publication)
        )
    return resources
