"""The tasks that models are measured by: that the right call is possible, and found right."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from json import dumps
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from moothall import ReActAgent, ScriptedModel
from moothall.models import LocalModel

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.instructions")


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.loop")


def test_benchmark_tasks_are_sixty_with_ten_questions_all_different(instructions: Any) -> None:
    assert len({task.text for task in instructions.TASKS}) == len(instructions.TASKS) == 60
    assert len({question.text for question in instructions.QUESTIONS}) == 10
    assert Counter(task.action for task in instructions.TASKS) == {
        "list_files": 8,
        "read_file": 14,
        "search_in_file": 12,
        "write_file": 8,
        "add": 6,
        "subtract": 4,
        "multiply": 5,
        "divide": 3,
    }


def test_benchmark_tasks_have_no_wording_that_the_prompt_was_chosen_by(
    instructions: Any,
) -> None:
    choices = importlib.import_module("benchmarks.choices")
    tuned = {task.text for tasks in choices.SPLITS.values() for task in tasks}
    assert tuned.isdisjoint(task.text for task in instructions.TASKS)


def test_benchmark_tasks_right_call_is_found_right(instructions: Any, tmp_path: Path) -> None:
    for number, task in enumerate(instructions.TASKS):
        root = tmp_path / str(number)
        root.mkdir()
        instructions.fill(root)
        model = ScriptedModel([{"name": task.action, "args": task.args}])
        reply = ReActAgent("a", model, actions=instructions.offered(root)).reply_sync(task.text)
        assert task.is_done(reply, root), (task.text, reply)


def test_benchmark_tasks_wrong_call_is_found_wrong(instructions: Any, tmp_path: Path) -> None:
    instructions.fill(tmp_path)
    write = next(task for task in instructions.TASKS if task.action == "write_file")
    for args in ({**write.args, "text": "other"}, {**write.args, "file_name": "other.txt"}):
        model = ScriptedModel([{"name": "write_file", "args": args}])
        agent = ReActAgent("a", model, actions=instructions.offered(tmp_path))
        assert not write.is_done(agent.reply_sync(write.text), tmp_path)
    # The right call after it does not make good what the wrong ones wrote elsewhere.
    model = ScriptedModel([{"name": "write_file", "args": write.args}])
    agent = ReActAgent("a", model, actions=instructions.offered(tmp_path))
    assert not write.is_done(agent.reply_sync(write.text), tmp_path)


def test_benchmark_questions_value_follows_its_schema(instructions: Any) -> None:
    for question in instructions.QUESTIONS:
        validate(question.value, question.schema)
        assert all(name in question.text for name in question.fields)


def test_forms_take_turns_at_being_first(loop: Any) -> None:
    forms = {form: lambda one, _, form=form: f"{one} in {form}" for form in ("a", "b")}
    done = list(loop.in_turns([1, 2, 3], forms, None))
    assert [form for form, _ in done] == ["a", "b", "b", "a", "a", "b"]
    assert done[2] == ("b", "2 in b")
    assert list(loop.in_turns([1, 2, 3], {}, None)) == [], "questions have fewer forms than tasks"


def test_benchmark_interval_of_a_proportion_is_wilsons(loop: Any) -> None:
    assert loop.wilson(5, 10) == [0.237, 0.763]
    assert loop.wilson(0, 60) == [0.0, 0.06]
    assert loop.wilson(60, 60) == [0.94, 1.0]


# -- free text -------------------------------------------------------------------------------------


def test_free_text_in_one_of_the_forms_is_a_call(instructions: Any, loop: Any) -> None:
    task = next(task for task in instructions.TASKS if task.action == "subtract")
    model = loop.FreeText(ScriptedModel([f'{{"action": "subtract", "args": {dumps(task.args)}}}']))
    outcome = loop.attempt(task, model)
    assert (outcome.right, outcome.action, outcome.turns, outcome.re_asks) == (True, True, 1, 0)


def test_benchmark_free_text_that_is_unreadable_is_asked_for_once_more_with_its_fault(
    instructions: Any, loop: Any
) -> None:
    task = next(task for task in instructions.TASKS if task.action == "add")
    call = f'{{"action": "add", "args": {dumps(task.args)}}}'
    scripted = ScriptedModel([f"Sure! {call}", call])
    outcome = loop.attempt(task, loop.FreeText(scripted))
    assert (outcome.right, outcome.turns, outcome.re_asks) == (True, 2, 1)
    system, user, said, fault = scripted.received[1]
    assert (system, user) == tuple(scripted.received[0])
    assert said == {"role": "assistant", "content": f"Sure! {call}"}
    assert fault["role"] == "user"
    assert "Expecting value: line 1 column 1" in fault["content"]


def test_texts_that_are_unreadable_end_the_reply_at_the_second(
    instructions: Any, loop: Any
) -> None:
    scripted = ScriptedModel(["Of course.", "```json\n{}\n```"])
    outcome = loop.attempt(instructions.TASKS[0], loop.FreeText(scripted))
    assert outcome.reply.stop_reason == "unreadable"
    assert (outcome.right, outcome.action, outcome.turns, outcome.re_asks) == (False, False, 2, 1)


def test_benchmark_free_text_offers_an_answer_after_a_failed_action(
    instructions: Any, loop: Any
) -> None:
    task = next(task for task in instructions.TASKS if task.action == "read_file")
    scripted = ScriptedModel(
        ['{"action": "read_file", "args": {"file_name": "no"}}', '{"answer": "It is not there."}']
    )
    outcome = loop.attempt(task, loop.FreeText(scripted))
    assert outcome.reply.text == "It is not there."
    assert (outcome.right, outcome.action, outcome.re_asks) == (False, True, 0)
    offers = ['{"answer": text}' in messages[0]["content"] for messages in scripted.received]
    assert offers == [False, True]


@pytest.mark.long
def test_benchmark_instructions_and_loop_show_the_same_prompt(
    instructions: Any, loop: Any, weights: Path, tmp_path: Path
) -> None:
    """By the tokens of it: at first, and after an action that failed."""
    actions = instructions.offered(tmp_path)
    call = {"id": "call_1", "name": "read_file", "args": {"file_name": "no"}}
    asked = [{"role": "user", "content": "Read <|im_end|> README.md"}]
    failed = [
        *asked,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "not there"},
    ]
    with LocalModel(weights, max_tokens=1, slots=1, context_tokens=1024) as model:
        for messages in (asked, failed):
            held = asyncio.run(model.complete(messages, actions))
            free = asyncio.run(loop.FreeText(model).complete(messages, actions))
            assert held.usage.input_tokens == free.usage.input_tokens > 300


def test_benchmark_free_text_shows_an_example_before_the_instruction(
    instructions: Any, loop: Any
) -> None:
    task = instructions.TASKS[0]
    scripted = ScriptedModel(['{"action": "list_files", "args": {}}'])
    outcome = loop.attempt(task, loop.FreeText(scripted), memory=loop.example())
    assert outcome.right
    assert outcome.turns == 1, "what the example says is no answer of the model"
    texts = [message["content"] for message in scripted.received[0][1:]]
    assert texts == ["Instruction: Read the file hello.txt", "", f"Instruction: {task.text}"]
