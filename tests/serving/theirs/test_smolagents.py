"""A fourth framework by the example's seam: code agents of smolagents, where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, Model, TokenUsage, ToolCallingAgent, tool

from moothall import CallbackApprover, Journal, Later, SQLiteMemory
from serving.theirs.kills import Points, kill_everywhere, reply_once_decided

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples" / "theirs"))

from smolagents.models import MessageRole
from smolagents_agent import SmolAgent


class Scripted(Model):  # type: ignore[misc]
    """A model that is a function of its prompt's length, which gives a program or a call."""

    def __init__(self, answer: Any) -> None:
        super().__init__(model_id="scripted")
        self.answer = answer

    def generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        usage = TokenUsage(10, 5)
        answer = self.answer(messages)
        if isinstance(answer, str):
            text = f"<code>\n{answer}\n</code>"
            return ChatMessage(MessageRole.ASSISTANT, text, token_usage=usage)
        name, args = answer
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": args}}
        return ChatMessage(MessageRole.ASSISTANT, "", [call], token_usage=usage)


def paying(effects: list[str]) -> Any:
    @tool
    def pay(to: str) -> str:
        """Pay.

        Args:
            to: who gets it
        """
        effects.append(to)
        return f"{to} is paid"

    return pay


def texts(messages: Any) -> str:
    return " ".join(str(each.content) for each in messages)


@pytest.mark.parametrize("decision", (True, False))
@pytest.mark.parametrize("kind", ("code", "calls"))
async def test_framework_approval_of_a_smolagents_agent_waits_in_the_journal(
    tmp_path: Path, decision: bool, kind: str
) -> None:
    effects: list[str] = []
    path = tmp_path / "runs.db"

    def answer(messages: Any) -> Any:
        if kind == "code":
            return "final_answer(pay('Anna'))"
        done = texts(messages)
        if "is paid" in done or "not permitted" in done.lower():
            return "final_answer", {"answer": done[-40:]}
        return "pay", {"to": "Anna"}

    def make() -> Any:
        classes = {"code": CodeAgent, "calls": ToolCallingAgent}
        agent = classes[kind](tools=[paying(effects)], model=Scripted(answer), verbosity_level=0)
        approver = CallbackApprover(lambda request: Later())
        tools: Any = {"pay": {"access_policy": "requested"}}
        return SmolAgent("clerk", agent, journal=path, approver=approver, tools=tools)

    reply = await reply_once_decided(make, path, decision, effects)
    assert len(effects) == decision
    with Journal(path) as journal:
        assert journal.replay("r").text == reply.text
    assert [each.action for each in reply.steps] == ["pay"]


async def test_framework_managed_agent_of_smolagents_is_within_the_run(tmp_path: Path) -> None:
    effects: list[str] = []
    inner = CodeAgent(
        tools=[paying(effects)],
        model=Scripted(lambda messages: "final_answer(pay('Anna'))"),
        name="payer",
        description="pays",
        verbosity_level=0,
    )
    outer = CodeAgent(
        tools=[],
        model=Scripted(lambda messages: "final_answer(str(payer('Pay Anna')))"),
        managed_agents=[inner],
        verbosity_level=0,
    )
    reply = await SmolAgent("boss", outer, journal=tmp_path / "runs.db").reply("Go", run_id="r")
    assert ("Anna is paid" in reply.text, effects, reply.usage.total) == (True, ["Anna"], 30)


async def test_framework_thread_of_a_smolagents_agent_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    def answer(messages: Any) -> str:
        return f"final_answer('blue' if 'blue' in {texts(messages[1:])!r} else 'blue?')"

    for task, expected in (("I like blue", "blue"), ("What do I like?", "blue")):
        agent = CodeAgent(tools=[], model=Scripted(answer), verbosity_level=0)
        clerk = SmolAgent("clerk", agent, memory=SQLiteMemory(tmp_path / "memory.db"))
        assert (await clerk.reply(task, thread="anna")).text == expected


@pytest.mark.timeout(600)
def test_framework_killed_run_of_smolagents_does_nothing_twice_and_loses_nothing(
    tmp_path: Path,
) -> None:
    def make(points: Points, path: str) -> Any:
        def answer(messages: Any) -> str:
            points.model()
            both = "print(pay('Anna'), pay('Bob'))"
            return "final_answer(note('both'))" if "Bob done" in texts(messages) else both

        @tool
        def pay(to: str) -> str:
            """Pay.

            Args:
                to: who gets it
            """
            return points.effect(f"pay-{to}")

        @tool
        def note(text: str) -> str:
            """Note.

            Args:
                text: what
            """
            return points.effect(f"note-{text}")

        agent = CodeAgent(tools=[pay, note], model=Scripted(answer), verbosity_level=0)
        return SmolAgent("clerk", agent, journal=path)

    kill_everywhere(make, tmp_path)
