"""Many texts at once: `ReActAgent.map`, and `complete_many`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

from moothall import (
    Budget,
    ConfigError,
    DefinitionError,
    Journal,
    ModelError,
    ReActAgent,
    ScriptedModel,
    complete_many,
)


def shouting(asked: list[str]) -> ScriptedModel:
    def answer(messages: list[dict[str, Any]], _: object) -> str:
        text = str(messages[-1]["content"])
        asked.append(text)
        if text == "bad":
            raise ModelError("the server is down")
        return f"{text.upper()} {len(messages)}"

    return ScriptedModel(answer)


class Counting(ScriptedModel):
    """Answers in capitals, and counts how many it was asked at once."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        super().__init__(self.answer)

    async def answer(self, messages: list[dict[str, Any]], _: object) -> str:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return str(messages[-1]["content"]).upper()


def test_column_is_answered_in_order_each_text_by_itself() -> None:
    asked: list[str] = []
    agent = ReActAgent("a", shouting(asked))
    agent.reply_sync("before")
    replies = asyncio.run(agent.map(iter([*"abc", "bad"])))
    assert [each.text for each in replies] == ["A 1", "B 1", "C 1", ""]
    assert [each.stop_reason for each in replies] == ["done", "done", "done", "error"]
    assert agent.reply_sync("after").text == "AFTER 3"  # nothing of them is remembered


def test_column_asks_so_many_at_once_and_says_how_far_it_is() -> None:
    model = Counting()
    steps: list[tuple[int, int]] = []
    agent = ReActAgent("a", model)
    replies = asyncio.run(
        agent.map([*"abcdefg"], concurrency=3, progress=lambda done, of: steps.append((done, of)))
    )
    assert (len(replies), model.most) == (7, 3)
    assert steps == [(n, 7) for n in range(1, 8)]


def test_column_shows_a_bar_if_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    agent = ReActAgent("a", ScriptedModel(lambda *_: "x"))
    asyncio.run(agent.map(["a", "b"], progress=True))
    shown = capsys.readouterr().err
    assert shown.endswith("] 2 of 2\n")
    assert shown.count("\r") == 2
    asyncio.run(agent.map(["a", "b"]))
    assert capsys.readouterr().err == ""


def test_column_keeps_to_the_budget() -> None:
    agent = ReActAgent("a", ScriptedModel(lambda *_: "x"), budget=Budget(model_calls=2))
    replies = asyncio.run(agent.map([*"abcd"], concurrency=1))
    assert [each.stop_reason for each in replies] == ["done", "done", "budget", "budget"]


def test_column_of_a_journal_asks_only_what_was_not_answered(tmp_path: Path) -> None:
    asked: list[str] = []
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", shouting(asked), journal=journal, budget=Budget(model_calls=2))
        asyncio.run(agent.map([*"abc"], run_id="tags", concurrency=1))
    assert asked == ["a", "b"]
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", shouting(asked), journal=journal)
        replies = asyncio.run(agent.map([*"abc"], run_id="tags", concurrency=1))
        assert [each.run_id for each in replies] == ["tags/0", "tags/1", "tags/2"]
    assert [each.text for each in replies] == ["A 1", "B 1", "C 1"]
    assert asked == ["a", "b", "c"]


def test_column_has_a_schema_and_other_options_of_replies() -> None:
    agent = ReActAgent("a", ScriptedModel(lambda *_: "3"))
    replies = asyncio.run(agent.map(["a", "b"], int, tags=["numbers"]))
    assert [each.value for each in replies] == [3, 3]


def none() -> Iterator[str]:
    yield from ()


@pytest.mark.parametrize(
    ("texts", "options", "told"),
    (
        ("one text", {}, "map takes texts, such as a list or a column"),
        (None, {}, "map takes texts"),
        (["a"], {"concurrency": 0}, "concurrency= must be a whole number from 1 up"),
        (["a"], {"progress": 3}, "progress= must be a plain function"),
        (["a"], {"run_id": ""}, "run_id= must be 1–255 printable characters"),
    ),
)
def test_column_refuses_a_wrong_argument(texts: Any, options: dict[str, Any], told: str) -> None:
    agent = ReActAgent("a", ScriptedModel(lambda *_: "x"))
    with pytest.raises(ConfigError, match=told):
        asyncio.run(agent.map(texts, **options))
    assert asyncio.run(agent.map(none())) == []


def test_complete_many_asks_so_many_at_once() -> None:
    model = Counting()
    answers = asyncio.run(complete_many(model, [*"abcde"], at_once=2))
    assert [each.text for each in answers if not isinstance(each, ModelError)] == [*"ABCDE"]
    assert model.most == 2


def test_complete_many_asks_again_what_the_model_failed_at(tmp_path: Path) -> None:
    def answered(*script: Any) -> list[str]:
        """The answers, and the state of the run."""
        with Journal(tmp_path / "runs.db") as journal:
            options: Any = {"at_once": 1, "journal": journal, "run_id": "r"}
            answers = asyncio.run(complete_many(ScriptedModel(script), ["a", "b"], **options))
            texts = [getattr(each, "text", str(each)) for each in answers]
            return [*texts, journal.run("r").state]

    assert answered(ModelError("busy"), "two") == ["busy", "two", "stopped"]
    # Only the first is asked for once more: it is the model's third call.
    assert answered(None, None, "one") == ["one", "two", "done"]
    assert answered() == ["one", "two", "done"]


@pytest.mark.parametrize(
    ("texts", "told"),
    (
        (["a", float("nan")], "text number 1 must be a text or a list of blocks, got nan"),
        (["a", None], "text number 1 must be a text or a list of blocks, got None"),
        (["a", []], "text number 1 was given an empty list of blocks"),
        (pandas.DataFrame({"text": ["a"]}), "takes one column of a data frame"),
    ),
)
def test_column_with_a_row_that_is_no_text_is_refused_before_anything_is_paid(
    texts: Any, told: str
) -> None:
    asked: list[str] = []
    with pytest.raises(ConfigError, match=told):
        asyncio.run(ReActAgent("a", shouting(asked)).map(texts, concurrency=1))
    assert asked == []


@pytest.mark.parametrize(
    ("name", "hint"),
    (
        ("max_concurrency", ": max_concurrency= is concurrency= here"),
        ("response_format", ": response_format= is schema= here"),
        ("thread", ""),
        ("model", r": it is given where the agent is made, ReActAgent\(…, model=…\)"),
    ),
)
def test_column_names_an_argument_that_it_does_not_have(name: str, hint: str) -> None:
    agent = ReActAgent("a", shouting([]))
    with pytest.raises(DefinitionError, match=f"^ReActAgent.map has no argument {name}={hint}$"):
        asyncio.run(agent.map(["a"], **{name: 3}))  # type: ignore[arg-type]


def test_column_has_the_same_history_before_each_text() -> None:
    history = iter([{"role": "user", "content": "u"}, {"role": "assistant", "content": "v"}])
    replies = asyncio.run(ReActAgent("a", shouting([])).map(["ab", "ab"], history=history))
    assert [each.text for each in replies] == ["AB 3", "AB 3"]


def test_column_whose_run_ids_would_be_too_long_says_so() -> None:
    with pytest.raises(ConfigError, match="run_id= and a text's number must be 1–255"):
        asyncio.run(ReActAgent("a", shouting([])).map(["a"], run_id="r" * 255))
