"""R's turn of a dual act: it works on H's instruction until it comes to a conclusion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from civitas.errors import BudgetExceeded, DeadlineExceeded, JournalError, RunMismatch
from civitas.jsonvalue import Unreadable
from civitas.models.protocol import Usage
from civitas.reasoning.dualact.conclusions import Conclusion, conclusion_of, evidence_of, merged
from civitas.reasoning.dualact.turn import Work, as_stop
from civitas.reasoning.events import ConclusionReached
from civitas.reasoning.group import is_spent_for_all
from civitas.reasoning.hooks import expect
from civitas.reasoning.reply import Reply, Step, Stop, StopReason
from civitas.text import log_failure

logger = logging.getLogger("civitas.reasoning")


@dataclass(slots=True)
class _Run:
    """What one R came to.

    Attributes:
        conclusion: it
        stop: why all ends with it, if it does
        value: its answer as the value that was asked for, if one was
        steps: what it called
        usage: the tokens that it took
    """

    conclusion: Conclusion
    stop: Stop | None = None
    value: Any = None
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


async def act(work: Work) -> None:
    """R's turn: each R works on its instruction, and together they come to a conclusion."""
    progress = work.progress
    number = progress.r_runs + 1
    reactives = work.config.reactives
    heard = work.heard()
    instructions = [
        work.briefing.for_reactive(progress.task, given, progress.why, progress.redirected, heard)
        for given in progress.instruction
    ]
    about: dict[str, Any] = {"loop": number}
    given: str | list[str] = instructions[0] if len(reactives) == 1 else instructions
    given = await work.hooked(
        "pre_acting", about, "instruction", given, partial(_expect_instruction, work)
    )
    instructions = list(given) if isinstance(given, list) else [given] * len(reactives)
    work.speaking = reactives
    try:
        done = await _side_by_side(
            [
                partial(_run, work, agent, text)
                for agent, text in zip(reactives, instructions, strict=True)
            ]
        )
    finally:
        work.speaking = []
    ids = [str(agent.id) for agent in reactives]
    conclusion = merged({id: run.conclusion for id, run in zip(ids, done, strict=True)})
    values = {id: run.value for id, run in zip(ids, done, strict=True) if run.value is not None}
    stops = [run.stop for run in done if run.stop is not None]
    progress.r_runs += 1
    progress.conclusions.append(conclusion)
    progress.values.append(values.get(ids[0]) if len(ids) == 1 else values or None)
    progress.turn, progress.instruction = "human", []
    for run in done:
        progress.steps.extend(run.steps)
        progress.reactive_usage = progress.reactive_usage + run.usage
    changed = await work.hooked(
        "post_acting",
        {**about, "instruction": given},
        "conclusion",
        conclusion,
        lambda made: expect(made, Conclusion),
        Conclusion,
    )
    if changed != conclusion:
        progress.conclusions[-1] = conclusion = changed
        progress.values[-1] = None  # it was that of another text
    if work.asked.emit is not None:
        of = (work.asked.run_id, work.asked.thread)
        work.asked.emit(ConclusionReached(str(work.agent.id), number, conclusion, False, *of))
    if stops:
        raise stops[0]


async def _run(work: Work, agent: Any, instruction: str) -> _Run:
    """One R's run."""
    schema = work.asked.schema
    text = instruction
    if schema is None:
        text = work.briefing.with_format(instruction, work.progress.task, _keeps_schema(agent))
    run = _Run(Conclusion())
    for attempt in range(2):
        part = f"R{work.progress.r_runs + 1}{'.again' if attempt else ''}/{agent.id}"
        try:
            reply = await work.ask(agent, text, schema, part)
        except (JournalError, RunMismatch):  # not H's to judge
            raise
        except Exception as error:
            if isinstance(error, BudgetExceeded) and _is_spent(
                work, agent, late=isinstance(error, DeadlineExceeded)
            ):
                run.stop = work.broken("R", agent, error)
                return run
            about = f"R ({agent.id!r}) of dual act {work.agent.id!r} failed"
            log_failure(logger, about, error)
            run.conclusion = Conclusion(error=f"{type(error).__name__}: {error}")
            return run
        run.usage = run.usage + reply.usage
        run.steps.extend(reply.steps)
        run.value = reply.value if schema is not None else None
        if _ends_all(work, agent, reply.stop_reason):
            detail = f"R ({agent.id!r}): {reply.detail or reply.stop_reason}"
            run.stop = Stop(as_stop(reply.stop_reason), detail, reply.error)
            run.conclusion = conclusion_of(reply)
            return run
        if work.agent._extract_by is not None:
            try:
                run.conclusion = await _extracted(work, reply)
            except Stop as stop:  # R has run all the same
                run.conclusion = Conclusion(reply.text, evidence=evidence_of(reply))
                run.stop = stop
            return run
        try:
            run.conclusion = conclusion_of(reply)
            return run
        except Unreadable as error:
            fault = f"unreadable: the answer {error}"
            run.conclusion = Conclusion(reply.text, error=fault)
            text = f"Your answer {error}. Conclude again."
    return run


async def _extracted(work: Work, reply: Reply) -> Conclusion:
    assert work.agent._extract_by is not None
    made = await work.call(work.agent._extract_by, reply)
    if not isinstance(made, Conclusion):
        raise Stop("error", f"the conclusion extractor must give a Conclusion, got {made!r:.80}")
    # H is shown what R really did, whatever is made of what it said.
    return made if made.evidence else replace(made, evidence=evidence_of(reply))


def _ends_all(work: Work, agent: Any, reason: StopReason) -> bool:
    """Whether there is nothing for H to judge, R having stopped for this reason."""
    if reason in ("budget", "deadline"):
        return _is_spent(work, agent, late=reason == "deadline")
    return reason in ("cancelled", "in_doubt")


def _is_spent(work: Work, agent: Any, *, late: bool) -> bool:
    """Whether an R that met a limit met one of H's too; its own is a failure as others are."""
    shared = work.budget
    if shared is None:
        from civitas.budget import Budget  # not loaded for a pair without any

        own = getattr(agent, "budget", None)
        of_human = getattr(work.config.human, "budget", None)
        if isinstance(own, Budget) and isinstance(of_human, Budget):
            shared = own.common(of_human)
    return is_spent_for_all(shared, agent, late=late)


def _expect_instruction(work: Work, instruction: Any) -> None:
    """See that a hook gave an instruction, or one for each R; it raises as for a decision."""
    if not isinstance(instruction, list):
        expect(instruction, str)
        return
    for each in instruction:
        expect(each, str)
    work.expect_as_many(instruction, "it")


async def _side_by_side(works: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """What each gives, in their order. If one raises, the others are cancelled and waited for."""
    if len(works) == 1:
        return [await works[0]()]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(work)) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


async def _awaited(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


def _keeps_schema(agent: Any) -> bool:
    """Whether an agent's model keeps to a schema, so that it can be asked for one."""
    model = getattr(agent, "model", None)
    return bool(getattr(model, "keeps_schema", False))
