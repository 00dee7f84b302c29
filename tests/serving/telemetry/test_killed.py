"""One run is one trace, whatever becomes of its processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker

from commands import Command
from journal.crash import crash
from moothall import Action, Call, ModelError, ReActAgent, ScriptedModel
from serving.telemetry.conftest import Traced
from serving.telemetry.test_names import PUBLISHED

PROGRAM = Path(__file__).with_name("program.py")
KILLED_AT = (1, 3, 3, 2, 4)
"""In each process: in calls of the model, before and after a request, and after its answer."""


def ids_of(spans: list[dict[str, Any]]) -> dict[str, set[tuple[str, str | None]]]:
    """The names and parents that each span's id stands for."""
    found: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    for span in spans:
        found[span["context"]["span_id"]].add((span["name"], span["parent_id"]))
    return found


@pytest.mark.timeout(120)
def test_run_over_three_processes_killed_five_times_is_one_trace(
    broker: Broker, tmp_path: Path
) -> None:
    spans = tmp_path / "spans.jsonl"
    job = {
        "port": broker.port,
        "exchange": "telemetry-killed",
        "spans": str(spans),
        "journal": str(tmp_path / "journal.db"),
    }

    def start(**more: Any) -> Command:
        given = json.dumps({**job, **more})
        pipe = subprocess.PIPE
        return Command(given, script=PROGRAM, stdin=pipe, stdout=pipe, text=True)

    workers = [start(role="work", id=id) for id in ("one", "two")]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for at in KILLED_AT:
            killed = start(role="ask", kill=at)
            assert killed.communicate(timeout=60)[0] == ""
            assert killed.returncode == -9
        last = start(role="ask", kill=None)
        assert last.communicate(timeout=60)[0] == "done All have counted.\n"
    finally:
        for worker in workers:
            worker.communicate()

    found = [json.loads(line) for line in spans.read_text().splitlines()]
    assert len({span["context"]["trace_id"] for span in found}) == 1
    ids = ids_of(found)
    assert all(len(each) == 1 for each in ids.values())
    parents = {span["parent_id"] for span in found} - {None}
    assert parents <= ids.keys()
    (root,) = [span for span in found if span["parent_id"] is None]
    assert root["name"] == "invoke_agent asker"
    assert len({span["pid"] for span in found}) > 3
    names = {name for span in found for name in span["attributes"] if name.startswith("gen_ai.")}
    assert names <= PUBLISHED
    assert sum(span["name"] == "invoke_agent counter" for span in found) >= 3


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def test_run_resumed_from_a_copy_has_the_ids_that_it_had(traced: Traced, tmp_path: Path) -> None:
    made: list[dict[str, tuple[str, str | None]]] = []
    for name in ("first.db", "second.db"):
        model = ScriptedModel([Call("1", "shout", {"text": "hi"}), "HI"])
        agent = ReActAgent("a", model, actions=[shout], journal=tmp_path / name)
        agent.reply_sync("Shout", run_id="same")
        made.append(
            {
                f"{span.name} {place}": (
                    hex(span.context.span_id if span.context else 0),
                    None if span.parent is None else hex(span.parent.span_id),
                )
                for place, span in enumerate(traced.spans)
            }
        )
        traced.exporter.clear()
    assert made[0] == made[1]


def test_run_that_stopped_and_is_resumed_has_two_replies_in_one_trace(
    traced: Traced, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    for replies in ([ModelError("down")], ["Up again."]):
        agent = ReActAgent("a", ScriptedModel(replies), journal=path)
        agent.reply_sync("Hello", run_id="r")

    assert [span.name for span in traced.spans] == ["chat scripted", "invoke_agent a"] * 2
    contexts = [span.context for span in traced.spans if span.context]
    assert len({each.trace_id for each in contexts}) == 1
    assert len({each.span_id for each in contexts}) == 4


def test_run_that_has_ended_makes_no_spans_when_it_is_asked_again(
    traced: Traced, tmp_path: Path
) -> None:
    agent = ReActAgent("a", ScriptedModel(["Hello."]), journal=tmp_path / "journal.db")
    agent.reply_sync("Hi", run_id="r")
    traced.exporter.clear()

    assert agent.reply_sync("Hi", run_id="r").text == "Hello."
    assert traced.spans == ()


def test_recorded_run_within_a_foreign_span_belongs_to_its_trace_also_when_it_goes_on_later(
    traced: Traced, tmp_path: Path
) -> None:
    agent = ReActAgent("a", ScriptedModel([ModelError("down"), "Hello."]), journal=tmp_path / "j")
    for _ in range(2):
        with traced.provider.get_tracer("mine").start_as_current_span("request"):
            agent.reply_sync("Hi", run_id="r")

    parents = [span.parent for span in traced.spans if span.name == "invoke_agent a"]
    request = next(span.context for span in traced.spans if span.name == "request")
    assert request is not None
    assert [each and each.span_id for each in parents] == [request.span_id] * 2


def test_recorded_run_in_a_call_of_another_joins_its_trace_also_when_resumed(
    traced: Traced, tmp_path: Path
) -> None:
    path, copy = tmp_path / "inner.db", tmp_path / "copy.db"

    def crashing(messages: object, actions: object) -> str:
        crash(path, copy)
        return "Inner."

    def inner(journal: Path, reply: object) -> ReActAgent:
        return ReActAgent("inner", ScriptedModel([reply]), journal=journal)

    called = inner(path, crashing)

    async def ask() -> str:
        """Ask the other agent."""
        return (await called.reply("Well?", run_id="inner")).text

    model = ScriptedModel([Call("1", "ask", {}), "Outer."])
    asking = Action("ask", ask, "Ask.", idempotent=True)
    outer = ReActAgent("outer", model, actions=[asking], journal=tmp_path / "outer.db")
    outer.reply_sync("Go", run_id="outer")
    before = traced.named("invoke_agent inner")
    traced.exporter.clear()

    resume: Callable[[], Any] = inner(copy, "Again.").resume_runs
    (resumed,) = asyncio.run(resume())

    assert resumed.outcome == "resumed"
    after = traced.named("invoke_agent inner")
    assert (after.context, after.parent and after.parent.span_id) == (
        before.context,
        before.parent and before.parent.span_id,
    )
