"""A person as an agent: asked in words, by a schema, as H at a real terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ConfigError,
    DecisionAction,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    Journal,
    NativeSpace,
    NobodyToAsk,
    Person,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.agents import ReplyRequest
from pseudo_terminal import CONTROL_D, Terminal

WAIT = 30


def person(*lines: str) -> tuple[Person, io.StringIO]:
    shown = io.StringIO()
    made = Person("Ann", stdin=io.StringIO("".join(f"{line}\n" for line in lines)), stdout=shown)
    return made, shown


def test_person_is_asked_and_answers() -> None:
    ann, shown = person("It is 3.")
    reply = ann.reply_sync("How many?")
    assert (reply.text, reply.stop_reason) == ("It is 3.", "done")
    assert shown.getvalue() == "How many?\nAnn> "


def test_person_interruptions_are_shown_with_the_next_question() -> None:
    ann, shown = person("It is 3.", "It is 4.")
    ann.interrupt("The red ones.")
    ann.reply_sync("How many?")
    ann.reply_sync("And now?")
    assert shown.getvalue() == "How many?\nThe red ones.\nAnn> And now?\nAnn> "


def test_person_is_asked_by_a_schema_until_the_answer_follows_it() -> None:
    ann, shown = person("three", "3")
    assert ann.reply_sync("How many?", schema=int).value == 3
    assert "is not JSON" in shown.getvalue()


def test_person_at_a_closed_terminal_ends_the_reply() -> None:
    ann, _ = person()
    reply = ann.reply_sync("How many?")
    assert reply.stop_reason == "error"
    assert isinstance(reply.error, NobodyToAsk)


def test_person_without_any_terminal_ends_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as in a process whose standard input was closed
    reply = Person("Ann", stdout=io.StringIO()).reply_sync("How many?")
    assert isinstance(reply.error, NobodyToAsk)


def test_person_shown_text_has_its_control_characters_escaped() -> None:
    ann, shown = person("ok", "ok")
    asyncio.run(ann.observe("seen \x1b]0;title\x07"))
    ann.reply_sync("one\r\x1b[2J\ntwo")
    assert "\x1b" not in shown.getvalue()
    assert shown.getvalue() == "seen \\x1b]0;title\\x07\none\\r\\x1b[2J\ntwo\nAnn> "


class Prompts(io.StringIO):
    """Tells when the person is asked for a line."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    def write(self, text: str) -> int:
        if text == "Ann> ":
            self.asked.set()
        return super().write(text)


def test_person_question_that_was_cancelled_leaves_its_line_to_the_next() -> None:
    async def main() -> str:
        read, write = os.pipe()
        prompts = Prompts()
        with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as keyboard:
            ann = Person("Ann", stdin=stdin, stdout=prompts)
            first = asyncio.create_task(ann.reply("first?"))
            await prompts.asked.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            prompts.asked.clear()
            second = asyncio.create_task(ann.reply("second?"))
            await prompts.asked.wait()
            keyboard.write(b"yes\n")
            return (await second).text

    assert asyncio.run(main()) == "yes"


@pytest.mark.parametrize("line", ("a", "accept", "ACCEPT it is right", "Terminate"))
def test_person_as_h_accepts_in_one_word(line: str) -> None:
    ann, _ = person("c Count them.", line)
    reply: Any = dual(ann, "3").reply_sync("How many?")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("3", "terminated", 1)
    assert reply.decisions[-1].reasoning == (line.partition(" ")[2] or "accepted by a person")


def dual(ann: Person, *works: Any) -> DualActAgent:
    return DualActAgent(DualActConfig(ann, ReActAgent("R", ScriptedModel(works))))


def test_person_as_h_decides_in_words() -> None:
    ann, shown = person(
        "what?", "c Count them.", "redirect Use your fingers.", "continue", "a fine"
    )
    agent = dual(ann, "many", "3")
    reply: Any = agent.reply_sync("How many?")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("3", "terminated", 2)
    assert [(d.action.value, d.new_instruction) for d in reply.decisions] == [
        ("CONTINUE", "Count them."),
        ("REDIRECT", "Use your fingers."),
        ("TERMINATE", ""),
    ]
    assert reply.decisions[-1].reasoning == "fine"
    said = shown.getvalue()
    assert said.count("is not a choice, or lacks its remark.\n") == 2
    assert "JSON" not in said
    assert "The agent's answer:\n  many\n" in said


def test_person_as_h_decides_in_words_for_several_at_once() -> None:
    ann, shown = person("c Go on.", "a")
    models = [ScriptedModel(["one"]) for _ in range(2)]
    workers = [ReActAgent(f"R{n}", model) for n, model in enumerate(models)]
    reply = DualActAgent(human=ann, reactive=workers).reply_sync("Count.")
    assert (reply.stop_reason, reply.text) == ("terminated", "R0: one\nR1: one")
    assert all(model.received[0][-1]["content"].startswith("Go on.") for model in models)
    assert "JSON" not in shown.getvalue()


def test_person_as_h_reads_what_was_done_and_may_stop() -> None:
    async def count(folder: str) -> str:
        """Count files."""
        return "2 files\nand a link\x1b[2J"

    ann, shown = person("c Count them.", "s")
    worker = ReActAgent(
        "R",
        ScriptedModel([{"name": "count", "args": {"folder": "."}}, "There are 3."]),
        actions=[count],
    )
    reply: Any = DualActAgent(DualActConfig(ann, worker)).reply_sync("How many?\nSay it.")
    assert (reply.stop_reason, reply.text) == ("cancelled", "There are 3.")
    assert "stopped by Ann" in reply.detail
    first, second, _ = shown.getvalue().split("Ann> ")
    assert first == (
        "The task:\n  How many?\n  Say it.\n"
        "What was done:\n  Nothing yet: say how the agent should begin.\n\n"
        "Choose:\n"
        "  a          accept: the work is done\n"
        "  c REMARK   send it back with a remark\n"
        "  r REMARK   have it done in another way, with a remark\n"
        "  s          stop: the work ends as it is, not accepted\n"
    )
    assert second.startswith(
        "The task:\n  How many?\n  Say it.\n"
        'What was done:\n  count {"folder": "."}\n    → 2 files\n    → and a link\\x1b[2J\n'
        "The agent's answer:\n  There are 3.\n\nChoose:\n"
    )


def test_person_as_h_reads_all_of_a_conclusion_or_a_prompt_of_the_programs_own() -> None:
    parts = {"steps": ["looked", "counted"], "suggested_next_action": "Look.", "confidence": 0.5}
    ann, shown = person("c Count.", "a")
    worker = ReActAgent("R", ScriptedModel([json.dumps({"summary": "3.", **parts})] * 2))
    DualActAgent(human=ann, reactive=worker).reply_sync("How many?")
    assert (
        "The steps, as the agent says:\n  - looked\n  - counted\n"
        "The agent's answer:\n  3.\n"
        "It suggests next:\n  Look.\n"
        "Its confidence, from 0 to 1:\n  0.5\n"
    ) in shown.getvalue()
    ann, shown = person("c Count.", "a")
    prompt = "Is this right?\n{steps}"
    DualActAgent(human=ann, reactive=worker, human_decision_prompt=prompt).reply_sync("How many?")
    assert "Is this right?\n| - looked\n| - counted\n" in shown.getvalue()


def test_person_may_be_r() -> None:
    ann, _ = person("There are 3.")
    go = json.dumps({"action": "CONTINUE", "new_instruction": "Count.", "reasoning": ""})
    done = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": ""})
    human = ReActAgent("H", ScriptedModel([go, done]))
    assert DualActAgent(DualActConfig(human, ann)).reply_sync("How many?").text == "There are 3."


def test_person_as_h_who_closes_the_terminal_ends_the_reply_with_the_last_conclusion() -> None:
    ann, _ = person("c Count.")
    reply = dual(ann, "3").reply_sync("How many?")
    assert (reply.text, reply.stop_reason) == ("3", "error")
    assert "the terminal" in reply.detail or "closed" in reply.detail


def test_person_in_a_space_is_asked_by_say() -> None:
    ann, _ = person("Hello!")
    with NativeSpace() as space:
        space.add(ann)
        me = space.add(ReActAgent("me", ScriptedModel([])))
        assert me.ask("Ann", "say", content="Hi").result(WAIT) == "Hello!"


PROGRAM = """
from moothall import DualActAgent, DualActConfig, Person, ReActAgent, ScriptedModel
worker = ReActAgent("worker", ScriptedModel(["I guess 7.", "I counted: 3."]))
reply = DualActAgent(DualActConfig(Person("you"), worker)).reply_sync("How many files?")
print("END", reply.stop_reason, reply.r_runs, reply.text)
"""


def test_person_is_h_at_a_pseudo_terminal() -> None:
    with Terminal("-c", PROGRAM) as terminal:
        terminal.until("you> ")
        assert "The task:\r\n  How many files?" in terminal.seen
        terminal.type("c Count the files.\n")
        terminal.until("you> ")
        assert "  I guess 7.\r\n" in terminal.seen
        terminal.type("r Do not guess.\n")
        terminal.until("you> ")
        assert "  I counted: 3.\r\n" in terminal.seen
        terminal.type("a\n")
        terminal.until("END terminated 2 I counted: 3.")
        assert terminal.end() == 0


def test_person_who_closes_the_pseudo_terminal_ends_the_program_in_order() -> None:
    with Terminal("-c", PROGRAM) as terminal:
        terminal.until("you> ")
        terminal.type("c Count the files.\n")
        terminal.until("you> ")
        terminal.type(CONTROL_D)  # end of file, at the beginning of a line after the empty one
        terminal.type(CONTROL_D)
        terminal.until("END error 1 I guess 7.")
        assert terminal.end() == 0


class Page:
    """A desk that answers what it was given, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = iter(answers)
        self.asked: list[tuple[str, list[str], str]] = []

    async def ask(self, request: ReplyRequest, told: Sequence[str], fault: str) -> Any:
        self.asked.append((str(request.content), list(told), fault))
        return next(self.answers)


def reviewed(*answers: Any) -> tuple[Page, Any]:
    page = Page(*answers)
    worker = ReActAgent("R", ScriptedModel(["One.", "Two."]))
    pair = DualActAgent(human=Person("Ann", desk=page), reactive=worker, first="reactive")
    return page, pair.reply_sync("How many?")


def test_person_at_a_desk_of_ones_own_decides_by_a_line_or_a_decision() -> None:
    redirect = HumanDecision(DecisionAction.REDIRECT, "Look again.")
    page, reply = reviewed(redirect, "what?", "a")
    assert (reply.stop_reason, reply.text, reply.decisions[0]) == ("terminated", "Two.", redirect)
    assert "One." in page.asked[0][0]
    assert page.asked[2][2].startswith("'what?' is not a choice")


@pytest.mark.parametrize(
    ("answer", "told"),
    (
        (None, "'Ann' was asked and has left"),
        (True, "ask of its desk, a Page, must return a text, a HumanDecision or None, got True"),
    ),
)
def test_person_at_a_desk_without_an_answer_ends_the_reply_with_the_reason(
    answer: Any, told: str
) -> None:
    _, reply = reviewed(answer)
    assert reply.stop_reason == "error"
    assert told in reply.detail


@pytest.mark.parametrize("desk", (object(), io.StringIO(), type("D", (), {"ask": len})()))
def test_person_desk_that_cannot_ask_is_refused(desk: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"desk= must have a method `async def ask\(request, messages"
    ):
        Person("Ann", desk=desk)


def reviewing(journal: Journal, you: Person | None = None) -> DualActAgent:
    """A dual act of a person who answers later."""
    clerk = ReActAgent("clerk", ScriptedModel(["Ten.", "Two."]))
    about: Any = {"first": "reactive", "id": "shop", "journal": journal, "approver": Waiting()}
    return DualActAgent(human=you or Person("you"), reactive=clerk, **about)


def test_person_who_answers_later_has_the_run_wait_until_the_work_is_accepted(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "runs.db")
    reply = asyncio.run(reviewing(journal).reply("How many?", run_id="r"))
    assert reply.stop_reason == "waiting"
    asked = []
    for line in ("what?", "c Count again.", "s", "a"):
        (wait,) = journal.waiting("r")
        asked.append(wait.text)
        journal.answer("r", wait.key, line, by="eva")
        (resumed,) = asyncio.run(reviewing(journal).resume_decided())
        assert resumed.reply is not None
        reply = resumed.reply
        if line == "s":
            assert (reply.stop_reason, journal.waiting("r")) == ("cancelled", [])
            asyncio.run(reviewing(journal).reply("How many?", run_id="r"))
    assert (reply.stop_reason, reply.text) == ("terminated", "Two.")
    assert "'what?' is not a choice" in asked[1]
    assert ["Two." in each for each in asked] == [False, False, True, True]


def test_person_at_a_terminal_answers_what_waits_in_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs.db")
    asyncio.run(reviewing(journal).reply("How many?", run_id="r"))
    you = Person("you", stdin=io.StringIO("a\n"), stdout=io.StringIO())
    reply = asyncio.run(reviewing(journal, you).reply("How many?", run_id="r"))
    assert reply.stop_reason == "terminated"
    assert journal.waiting() == []
