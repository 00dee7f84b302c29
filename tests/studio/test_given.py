"""What a studio gives a page of runs, cards and forms, whole, as `given.json` has it."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cli.test_waiting import clerk
from moothall import (
    Budget,
    Call,
    Journal,
    ModelError,
    ModelReply,
    Price,
    Prices,
    ReActAgent,
    ScriptedModel,
    Usage,
)
from moothall.studio import Studio

GIVEN = json.loads(Path(__file__).with_name("given.json").read_text())


def look(x: int) -> str:
    """Look."""
    raise ValueError("it is dark")


def record(journal: Journal) -> None:
    """Record runs: one is done, one failed, one is like it, one waits for people and a result."""
    answers = [
        ModelReply("", (Call("1", "look", {"x": 1}),), Usage(1000, 500)),
        ModelReply("Seen.", usage=Usage(20_000, 1000)),
    ]
    model = ScriptedModel(answers, name="mine:x", max_tokens=2000)
    budget = Budget(usd=5, prices=Prices({"mine:x": Price(1, 2)}))
    guide = ReActAgent("guide", model, actions=[look], journal=journal, budget=budget)
    guide.reply_sync("Look\nround", run_id="first", thread="t", tags={"customer": "acme"})
    failing = ScriptedModel([ModelError("no network"), "Here."])
    for id in ("second", "again"):
        ReActAgent("guide", failing, journal=journal).reply_sync("Go", run_id=id)
    clerk(journal).reply_sync("Pay.", run_id="third")


def settled(value: Any, key: str = "") -> Any:
    """A value without what is another at each time, or on another machine."""
    if isinstance(value, dict):
        left_out = {"data"} if "sequence" in value else set()  # what the journal has
        left_out |= {"options", "value"} if value.get("name") == "model" else set()
        return {name: settled(each, name) for name, each in value.items() if name not in left_out}
    if isinstance(value, list):
        return [settled(each) for each in value]
    if key in ("at", "asked", "began", "changed", "seconds"):
        return type(value).__name__
    if isinstance(value, str):
        return re.sub(r"/\S*pytest\S*|\b[0-9a-f]{64}\b| Traceback.*", "…", value)
    return value


def test_studio_gives_a_page_what_is_written_down(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which a form proposes
    with ThreadPoolExecutor(1) as thread:  # in this one Playwright may have a loop
        thread.submit(record, studio.journal).result()
    runs = studio.runs
    studio.cards.refresh_waits(studio.journal, "eva")
    given: dict[str, Any] = {
        "list": json.loads(runs.list_json()),
        "run first": runs.run("first"),
        "run second": runs.run("second"),
        "run third": runs.run("third"),
        "entries first": runs.entries("first"),
        "entries third": runs.entries("third", 4, 3),
        "entry": runs.entry("first", 4),
        "sums": [runs.sums(each) for each in ("first", "second", "third")],
        "models": runs.models(["first", "third"]),
        "prompt": runs.prompt("first", "", 4),
        "find": [runs.find(each) for each in ("Look", "network", "nothing")],
        "search": runs.search("first", "dark"),
        "compare": runs.compare("second", "again"),
        "cards": studio.cards.to_json(),
        **{f"forms of {tab.name}": [each.to_json() for each in tab.forms()] for tab in studio.tabs},
    }
    given = settled(json.loads(json.dumps(given)))
    for name, value in GIVEN.items():
        assert given[name] == value, name
    assert given.keys() == GIVEN.keys()
