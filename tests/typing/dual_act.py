"""A dual act: docs/dual-act.md."""

from dataclasses import dataclass
from typing import Any, assert_type

from moothall import (
    Conclusion,
    Conversation,
    DecisionAction,
    DualActAgent,
    DualActConfig,
    DualActReply,
    HumanDecision,
    ReActAgent,
    Reply,
    ReviewRule,
    below_confidence,
    no_progress,
    on_error,
)
from moothall.agents.replies.stream import ReplyStream


@dataclass
class Count:
    files: int


human = ReActAgent("planner", "local", system_prompt="You review the work completed.")
reactive = ReActAgent("executor", "local", actions=[len])
rule: ReviewRule = on_error | below_confidence(0.7) | no_progress
dual_act = DualActAgent(human=human, reactive=reactive, max_hr_loops=5, review=rule)
same = DualActAgent(DualActConfig(human=human, reactive=[reactive], first="reactive"), "pair")

reply = dual_act.reply_sync("How many Python files are there?")
assert_type(reply, DualActReply[Any])
print(reply.text, reply.stop_reason, reply.r_runs, reply.human_usage.total)
for decision in reply.decisions:
    print(decision.action.value, "|", decision.new_instruction, "|", decision.reasoning)
for conclusion in reply.conclusions:
    print(conclusion.summary, conclusion.confidence)
counted = dual_act.reply_sync("How many?", schema=Count)
print(counted.value.files, counted.r_runs)
ordinary: Reply = counted


async def decide(conclusion: Conclusion | None, task: object) -> HumanDecision:
    if conclusion is not None and conclusion.artifacts:
        return HumanDecision(DecisionAction.TERMINATE, reasoning="done")
    return HumanDecision(DecisionAction.CONTINUE, "Go on.")


def extract(reply: Reply) -> Conclusion:
    return Conclusion(reply.text, [step.action for step in reply.steps])


dual_act.set_decision_func(decide)
dual_act.set_conclusion_extractor(extract)
dual_act.set_decision_func(extract)  # error


async def stream() -> None:
    assert_type(await dual_act.reply("Count.", schema=Count), DualActReply[Count])
    assert_type(await dual_act.resume(Count), DualActReply[Count])
    events = dual_act.stream("Count.", schema=Count, thread="ada")
    assert_type(events, ReplyStream[DualActReply[Count]])
    async for event in events:
        match event.kind:
            case "decision":
                print(event.loop, event.decision.action)
            case "conclusion":
                print(event.loop, event.conclusion.summary)
            case _:
                pass
    if events.reply is not None:
        print(events.reply.r_runs, events.reply.value.files)
    nested = DualActAgent(human=dual_act, reactive=Conversation([human, reactive]))
    print((await nested.reply("Count.")).conclusions)
