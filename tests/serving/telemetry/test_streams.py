"""Streams that nobody reads to their end: every span ends, and nothing is left current."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest
from opentelemetry import trace

from moothall import Call, ReActAgent, ScriptedModel
from serving.telemetry.conftest import Traced


async def look(where: str) -> str:
    """Look somewhere, and wait."""
    await asyncio.sleep(0)
    return where


def agent() -> ReActAgent:
    model = ScriptedModel([Call("1", "look", {"where": "there"}), "One two three four five."])
    return ReActAgent("a", model, actions=[look])


async def abandoned(number: int) -> None:
    """Leave a stream after so many events: closed, dropped, cancelled or in a closed loop."""
    events = agent().stream("Look")
    for _ in range(number % 6):
        await anext(events)
    way = number % 4
    if way == 0:
        await events.aclose()
    elif way == 1:
        del events
    elif way == 2:
        task = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
    # Otherwise it is left to the end of its loop.


async def abandoned_model(number: int) -> None:
    """Leave the stream of a model itself, in a task that is not the one that began it."""
    parts: Any = ScriptedModel(["One two three four five."]).stream(
        [{"role": "user", "content": "Count"}]
    )
    await anext(parts)
    if number % 2:
        await asyncio.create_task(parts.aclose())


def abandon(streams: int) -> None:
    for first in range(0, streams, 50):
        loop = asyncio.new_event_loop()

        async def some(first: int = first) -> None:
            numbers = range(first, min(first + 50, streams))
            await asyncio.gather(*map(abandoned, numbers), *map(abandoned_model, numbers))

        loop.run_until_complete(some())
        loop.close()  # with tasks and generators that have not ended
    gc.collect()


@pytest.mark.parametrize(
    "streams",
    (60, pytest.param(10_000, marks=(pytest.mark.long, pytest.mark.timeout(600)))),
)
def test_abandoned_streams_leave_no_span_current_and_log_nothing(
    traced: Traced, streams: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="opentelemetry"):
        abandon(streams)

    told = [each for each in caplog.records if each.name.startswith("opentelemetry")]
    assert told == []
    assert not trace.get_current_span().get_span_context().is_valid
    assert sum(span.name == "chat scripted" for span in traced.spans) >= streams
