"""`show` prints a stream; every agent's stream takes `async with`; events are one table."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    Conversation,
    DualActAgent,
    Event,
    MaxTurns,
    ModelError,
    Person,
    ReActAgent,
    RemoteAgent,
    Reply,
    Researcher,
    ScriptedModel,
    TerminalApprover,
    show,
)

PAGE = Path(__file__).parents[3] / "docs" / "replies.md"


def look(query: str) -> str:
    """Look up what is asked."""
    return "Yes."


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def agent(id: str, *answers: Any, actions: Any = None, **options: Any) -> ReActAgent:
    return ReActAgent(id, ScriptedModel(list(answers)), actions=actions, **options)


def shown(stream: Any) -> tuple[str, Reply]:
    file = io.StringIO()
    reply = asyncio.run(show(stream, file))
    return file.getvalue(), reply


def decision(action: str, instruction: str, reasoning: str) -> str:
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": reasoning})


def test_text_calls_and_results_are_printed_in_their_order() -> None:
    call = {"name": "add", "args": {"a": 1, "b": 2}}
    text, reply = shown(agent("a", call, "It is\n3.", actions=[add]).stream("1 + 2?"))
    assert text == '→ add {"a": 1, "b": 2}\n← add: 3\nIt is\n3.\n'
    assert reply.text == "It is\n3."


def test_show_escapes_control_characters() -> None:
    text, _ = shown(agent("a", "red \x1b[31m and \x07").stream("x"))
    assert text == "red \\x1b[31m and \\x07\n"


def test_show_prints_a_reply_that_the_model_did_not_write() -> None:
    end = Action("end", lambda: "It is over.", "End it.", {}, terminal=True)
    text, reply = shown(agent("a", {"name": "end", "args": {}}, actions=[end]).stream("x"))
    assert text == f"→ end {{}}\n← end: {reply.text}\n{reply.text}\n"
    conclusion = json.dumps({"summary": "Counted.", "confidence": 1})
    human = agent("H", decision("TERMINATE", "", "fine"))
    dual = DualActAgent(human=human, reactive=agent("R", conclusion), first="reactive")
    text, _ = shown(dual.stream("x"))
    assert text == "Counted.\ndualact decides: TERMINATE fine\n"


def test_reason_of_no_answer_is_printed() -> None:
    text, reply = shown(agent("a", ModelError("no server")).stream("x"))
    assert text == "(failed: ModelError: no server)\n"
    assert reply.stop_reason == "error"


def test_show_gives_the_question_of_an_approver_a_line_of_its_own() -> None:
    file = io.StringIO()
    buy = Action("buy", lambda what: f"bought {what}", "Buy.", {}, access_policy=ACCESS_REQUESTED)
    approver = TerminalApprover(io.StringIO("y\n"), file)
    model = ScriptedModel([{"name": "buy", "args": {"what": "pears"}}, "Done."])
    buyer = ReActAgent("a", model, actions=[buy], approver=approver)
    asyncio.run(show(buyer.stream("x"), file))
    assert file.getvalue() == (
        '→ buy {"what": "pears"}\n'
        'a proposes: /a.buy what:"pears"\n'
        "Permit this? [y/N/always/run/never] ← buy: bought pears\n"
        "Done.\n"
    )


def test_show_prints_decisions_of_a_dual_act_in_words() -> None:
    two = DualActAgent(
        human=agent(
            "H", decision("CONTINUE", "Count.", "first"), decision("TERMINATE", "", "all is well")
        ),
        reactive=agent("R", "There are 3."),
    )
    text, reply = shown(two.stream("How many?"))
    assert text == (
        "dualact decides: CONTINUE Count.\nR:\nThere are 3.\n"
        "dualact decides: TERMINATE all is well\n"
    )
    assert reply.text == "There are 3."


def test_show_gives_an_answer_that_is_asked_for_again_a_line_of_its_own() -> None:
    human = agent("H", "I accept it.", decision("TERMINATE", "", "all is well"))
    text, _ = shown(DualActAgent(human=human, reactive=agent("R")).stream("How many?"))
    assert text.startswith("I accept it.\ndualact decides: TERMINATE all is well\n")


def test_show_heads_each_turn_of_a_conversation_by_its_speaker() -> None:
    talk = Conversation([agent("ann", "Hello."), agent("bo", "Good day.")], until=MaxTurns(2))
    text, _ = shown(talk.stream("Greet."))
    assert text == "ann:\nHello.\nbo:\nGood day.\n"


@pytest.mark.parametrize(
    "kind", ("loop", "dual act", "conversation", "researcher", "person", "remote")
)
def test_stream_of_every_agent_takes_async_with_and_ends_with_done(kind: str) -> None:
    async def kinds() -> list[str]:
        async with made(kind).stream("x") as events:
            return [event.kind async for event in events]

    def made(kind: str) -> Any:
        if kind == "dual act":
            return DualActAgent(
                human=agent("H", decision("TERMINATE", "", "ok")), reactive=agent("R")
            )
        if kind == "conversation":
            return Conversation([agent("a", "Yes.")], max_turns=1)
        if kind == "researcher":
            return Researcher("r", tools=[look])
        if kind == "person":
            return Person("p", stdin=io.StringIO("yes\n"), stdout=io.StringIO())
        if kind == "remote":
            return RemoteAgent(Talker("via"), "other")
        return agent("a", "Yes.")

    found = asyncio.run(kinds())
    assert found[-1] == "done"
    assert set(found) <= {each.kind for each in get_args(Event)}


def test_show_of_what_is_no_stream_is_refused() -> None:
    with pytest.raises(TypeError, match=r"show takes a stream, such as agent.stream\(text\), got "):
        asyncio.run(show(ReActAgent("a", ScriptedModel([])).reply))  # type: ignore[arg-type]


class Talker(Agent):
    """Asks nobody: every request is answered by itself."""

    def request(self, message: Any, timeout: Any = 300, wait: bool = False) -> Any:
        async def answered() -> Any:
            return {"say": {"args": {}}} if message["action"]["name"] == "help" else "Yes."

        return answered()


def test_event_kinds_are_one_table() -> None:
    kinds = {each.kind: each.__name__ for each in get_args(Event)}
    row = re.compile(r"^\| `(\w+)`(?:, `(\w+)`)? \| `(\w+)`(?:, `(\w+)`)? \|", re.M)
    table = {}
    for first, second, its_class, other in row.findall(PAGE.read_text()):
        table |= {first: its_class, second: other}
    assert {kind: table.get(kind) for kind in kinds} == kinds


async def test_event_says_itself_to_who_watches_and_to_a_caller_who_gets_no_results() -> None:
    call = {"name": "add", "args": {"a": 1, "b": 2}}
    events = agent("a", call, "It is 3.", actions=[add]).stream("1 + 2?")
    assert (
        [(each.line, each.progress) async for each in events if each.line or each.progress]
    ) == [
        ('→ add {"a": 1, "b": 2}', 'a: add {"a": 1, "b": 2}'),
        ("← add: 3", "a: add has ended"),
    ]
