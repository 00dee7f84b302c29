"""Durable functions where agents stand: at the doors, in a space, in a company's schedule."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Journal, NativeSpace, durable, step
from moothall.serving import asgi
from serving.doors.conftest import client


@step
async def shout(text: str) -> str:
    return text.upper()


@durable
async def desk(text: str) -> str:
    """Shout a text, if that is permitted."""
    durable.emit("at work")
    return await shout(text) if await durable.ask("Shout?") else "quiet"


@durable
async def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "runs.db") as journal:
        yield journal


def test_openai_response_of_a_function_goes_on_once_its_question_is_answered(
    serve: Callable[[Any], str], journal: Journal
) -> None:
    responses = client(serve(asgi(desk.on(journal)))).responses
    made = responses.create(model="desk", input="hello")
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True)
    asyncio.run(desk.on(journal).resume())
    assert responses.retrieve(made.id).output_text == "HELLO"


def test_function_of_several_parameters_takes_json_in_a_space(journal: Journal) -> None:
    with NativeSpace() as space:
        me = Agent("me")
        space.add(add.on(journal))
        space.add(me)
        text = json.dumps({"first": 2, "second": 3})
        assert me.ask("add", "say", content=text).result() == "5"
    assert [(run.agent, run.state) for run in journal.runs()] == [("add", "done")]
