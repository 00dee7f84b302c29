"""What a form says to an order, and what a page is told of entries and of events."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from civitas import (
    Call,
    Journal,
    ModelReply,
    ReActAgent,
    RefuseAll,
    ScriptedModel,
    Usage,
    action,
)
from civitas.action import ACCESS_REQUESTED
from civitas.errors import ConfigError
from civitas.studio.feed import Feed
from civitas.studio.page import filled
from civitas.studio.run_view import Totals, shown


def test_a_form_says_what_is_filled_in_alone() -> None:
    given = {"task": " a\n", "model": " ", "max_usd": 0, "max_tokens": None, "yes_read": False}
    assert filled(given) == {"task": "a", "yes_read": False}
    more = {"root": "~/a", "folder": "~", "role": "~", "max_seconds": 1.5, "max_iterations": 3}
    home = os.path.expanduser("~")
    assert filled(more) == {**more, "root": f"{home}/a", "folder": home}
    for wrong in ({"max_usd": -1}, {"max_iterations": -0.5}):
        with pytest.raises(ConfigError, match="a limit must be more than 0"):
            filled(wrong)


def aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own: in this one Playwright's loop may run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def frames(feed: Feed, after: int, count: int) -> list[Any]:
    """The first frames that a page gets that has all events up to one."""
    async with aclosing(feed.frames(feed.epoch, after)) as found:
        return [json.loads(await anext(found)) for _ in range(count)]


def test_a_frame_has_so_many_events_and_none_is_missing_or_twice() -> None:
    feed = Feed()
    for number in range(1201):
        feed.publish("n", number)
    told = aside(frames(feed, 0, 4))
    assert [len(each["events"]) for each in told] == [0, 500, 500, 201]
    assert [each["last"] for each in told] == [0, 500, 1000, 1201]
    assert [event[2] for each in told for event in each["events"]] == list(range(1201))
    assert [each["events"] for each in aside(frames(feed, 1200, 2))] == [[], [[1201, "n", 1200]]]
    (reset,) = aside(frames(feed, 1202, 1))
    assert (reset["reset"], reset["last"], reset["events"]) == (True, 1201, [])


@action
def look(path: str) -> str:
    """Look at a file."""
    raise ValueError(f"there is no {path}")


@action(access_policy=ACCESS_REQUESTED)
def remove(path: str) -> str:
    """Remove a file."""
    return path


def test_a_run_comes_to_what_its_entries_say(tmp_path: Path) -> None:
    calls = (Call("1", "look", {"path": "a"}), Call("2", "remove", {"path": "x" * 3000}))
    model = ScriptedModel([ModelReply("", calls, Usage(1000, 200)), "y" * 2500])
    model.name = "openai:gpt-4.1"
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", model, actions=[look, remove], approver=RefuseAll())
        agent.journal = journal
        aside(agent.reply("Do it.", run_id="R"))
        entries = journal.entries("R")
    totals, took = Totals(entries).to_json(), entries[-1].at - entries[0].at
    assert totals.pop("seconds") == pytest.approx(took)
    resumed = [*entries, *(replace(each, at=each.at + 1000) for each in entries)]
    assert Totals(resumed).to_json()["seconds"] == pytest.approx(2 * took)  # it rested between
    assert totals == {
        "began": entries[0].at,
        "input": 1000,
        "output": 200,
        "tokens": 1200,
        "model_calls": 2,
        "unpriced": 0,
        # 2 and 8 US dollars a million.
        "usd": "0.0036",
        "tool_calls": 2,
        "errors": 1,
        "refused": 1,
    }
    told = [shown(each) for each in entries]
    assert [each["sequence"] for each in told] == [each.sequence for each in entries]
    faults = {each["data"]["about"]["action"]: each["fault"] for each in told if "fault" in each}
    assert list(faults) == ["look"]
    assert "there is no a" in faults["look"]
    (refused,) = (each for each in told if each.get("refused"))
    assert refused["data"]["about"]["action"] == "remove"
    (first, second) = (each["spent"] for each in told if "spent" in each)
    assert first == {
        "input": 1000,
        "output": 200,
        "tokens": 1200,
        "model_calls": 1,
        "usd": "0.0036",
    }
    assert second["tokens"] == 0
    cut = [each for each in told if each.get("cut")]
    assert cut
    assert all("y" * 2001 not in json.dumps(each) for each in told)
    assert all("x" * 2001 not in json.dumps(each) for each in told)
    whole = [shown(each, whole=True) for each in entries]
    assert any("y" * 2500 in json.dumps(each["data"]) for each in whole)
    assert not any(each.get("cut") for each in whole)
