"""H's turn of a dual act: it is shown a conclusion, and decides."""

from __future__ import annotations

from functools import partial
from typing import Any

from civitas.errors import JournalError, RunMismatch
from civitas.jsonvalue import Unreadable
from civitas.reasoning.dualact.conclusions import (
    DECISION_SCHEMA,
    Conclusion,
    DecisionAction,
    HumanDecision,
    read_decision,
)
from civitas.reasoning.dualact.review import ReviewRule, Situation
from civitas.reasoning.dualact.turn import Work, as_stop
from civitas.reasoning.events import DecisionMade
from civitas.reasoning.hooks import expect
from civitas.reasoning.record import Step
from civitas.reasoning.reply import ANSWERED, Reply, Stop


async def decide(work: Work) -> None:
    """H's turn: it decides about the last conclusion, or how R begins."""
    agent, progress = work.agent, work.progress
    conclusion = progress.conclusion
    number = len(progress.decisions) + 1
    if conclusion is not None and not _is_reviewed(work, conclusion):
        accepted = HumanDecision(
            DecisionAction.TERMINATE, "", f"accepted: {work.config.review!r} did not catch it"
        )
        _take(work, accepted, number)
        return
    several = len(work.config.reactives)
    in_words = getattr(work.config.human, "decides_in_words", False)
    prompt = work.briefing.for_human(progress.task, conclusion, work.heard(), several, in_words)
    about: dict[str, Any] = {"loop": number, "conclusion": conclusion}
    prompt = await work.hooked(
        "pre_reasoning", about, "prompt", prompt, lambda made: expect(made, str)
    )
    if agent._decide_by is not None:
        decision = await work.record.step(
            f"decide.{number}", partial(_decided_by_function, work), of=HumanDecision
        )
    else:
        decision = await _ask_human(work, prompt, several)
    _take(work, decision, number)
    about["prompt"] = prompt
    changed = await work.hooked(
        "post_reasoning",
        about,
        "decision",
        decision,
        partial(_expect_decision, work),
        HumanDecision,
    )
    if changed != decision:
        progress.decisions.pop()
        _take(work, changed, number)


async def _decided_by_function(work: Work, step: Step) -> HumanDecision:
    agent, progress = work.agent, work.progress
    assert agent._decide_by is not None
    decision = await work.call(agent._decide_by, progress.conclusion, progress.task)
    if isinstance(decision, HumanDecision):
        return decision
    raise Stop(
        "error",
        f"the decision function of {agent.id!r} must give a HumanDecision, got {decision!r:.80}",
    )


def _is_reviewed(work: Work, conclusion: Conclusion) -> bool:
    rule = work.config.review
    assert isinstance(rule, ReviewRule)
    before = work.progress.conclusions[:-1]
    return rule.catches(Situation(conclusion, before, work.budget))


def _expect_decision(work: Work, decision: Any) -> None:
    """See that a hook gave a decision that can be taken."""
    expect(decision, HumanDecision)
    work.expect_as_many(decision.new_instruction, "a decision")


def _take(work: Work, decision: HumanDecision, number: int) -> None:
    agents = len(work.config.reactives)
    try:
        work.expect_as_many(decision.new_instruction, "a decision")
    except ValueError as error:
        raise Stop("error", str(error)) from None
    work.progress.decided(decision, work.config.max_hr_loops, agents)
    if work.asked.emit is not None:
        of = (work.asked.run_id, work.asked.thread)
        work.asked.emit(DecisionMade(str(work.agent.id), number, decision, False, *of))


async def _ask_human(work: Work, prompt: str, several: int) -> HumanDecision:
    human = work.config.human
    # Of several R each may be given an instruction: then the schema would be in the way.
    schema = DECISION_SCHEMA if several == 1 else None
    fault = ""
    for attempt in range(2):
        part = f"H{len(work.progress.decisions) + 1}" + (".again" if attempt else "")
        try:
            reply = await work.ask(human, prompt, schema, part)
        except (JournalError, RunMismatch):  # not H's to judge
            raise
        except Exception as error:
            raise work.broken("H", human, error) from error
        work.progress.steps.extend(reply.steps)
        work.progress.human_usage = work.progress.human_usage + reply.usage
        if reply.stop_reason not in ANSWERED:
            detail = f"H ({human.id!r}): {reply.detail or reply.stop_reason}"
            raise Stop(as_stop(reply.stop_reason), detail, reply.error)
        try:
            return read_decision(_said(reply), several)
        except Unreadable as error:
            fault = f"Your answer {error}"
            prompt = work.briefing.again(fault, several)
    raise Stop("unreadable", f"H ({human.id!r}) gave no decision: {fault}")


def _said(reply: Reply) -> Any:
    """What is read as H's answer: the object of a schema or a terminal action, or its text."""
    return reply.value if isinstance(reply.value, dict) else reply.text
