"""The spans of a run from its journal: those that it made then."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from journal.crash import crash
from moothall import (
    Action,
    AnthropicModel,
    Call,
    CitizenAgent,
    ConfigError,
    DualActAgent,
    ModelError,
    ModelReply,
    NoSuchRun,
    OpenAIModel,
    ReActAgent,
    Researcher,
    ScriptedModel,
    Society,
    SQLiteMemory,
    TelemetryError,
    Usage,
)
from moothall.research import search_folder
from moothall.serving.telemetry import export
from serving.telemetry.conftest import Traced
from society.life import living


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def fail() -> None:
    """Fail."""
    raise LookupError("not there")


def shape(spans: Any) -> set[tuple[str, int, int, int | None]]:
    """The names, ids and parents of spans."""
    return {
        (
            span.name,
            span.context.trace_id,
            span.context.span_id,
            None if span.parent is None else span.parent.span_id,
        )
        for span in spans
    }


def exported(journal: Path, run_id: str) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    count = export(journal, run_id, exporter)
    found = exporter.get_finished_spans()
    assert count == len(found)
    return found


def test_export_of_a_run_gives_the_spans_that_it_made(traced: Traced, tmp_path: Path) -> None:
    calls = (Call("1", "add", {"a": 1, "b": 2}), Call("2", "fail", {}))
    usage = Usage(10, 5, cache_read_tokens=4)
    model = ScriptedModel([ModelReply(calls=calls, usage=usage), "It is 3."])
    path = tmp_path / "journal.db"
    agent = ReActAgent("adder", model, actions=[add, fail], journal=path)
    agent.reply_sync("What is 1 + 2?", run_id="r", thread="t")

    afterwards = exported(path, "r")
    assert shape(afterwards) == shape(traced.spans)
    then = {span.context.span_id: span for span in traced.spans if span.context}
    for span in afterwards:
        assert span.context
        live = then[span.context.span_id]
        assert span.status.status_code == live.status.status_code
        assert dict(span.attributes or {}).items() <= dict(live.attributes or {}).items()
        assert span.kind is live.kind
        provider = "gen_ai.provider.name"
        assert (span.attributes or {}).get(provider) == (live.attributes or {}).get(provider)
        assert span.start_time
        assert live.start_time
        assert abs(span.start_time - live.start_time) < 5e9


def test_export_names_the_providers_of_models_at_servers(traced: Traced, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    there = "http://127.0.0.1:1/v1"
    models = (OpenAIModel("m", there, max_retries=0), AnthropicModel("m", there, max_retries=0))
    for number, model in enumerate(models):
        ReActAgent("far", model, journal=path).reply_sync("Hello", run_id=str(number))

    for number, provider in enumerate(("openai", "anthropic")):
        (chat,) = [each for each in exported(path, str(number)) if each.name.startswith("chat")]
        then = next(each for each in traced.spans if each.context == chat.context)
        assert chat.kind is then.kind is SpanKind.CLIENT
        assert (chat.attributes or {})["gen_ai.provider.name"] == provider
        assert (then.attributes or {})["gen_ai.provider.name"] == provider


def test_export_of_a_group_gives_the_spans_that_it_made(traced: Traced, tmp_path: Path) -> None:
    decisions = [
        json.dumps({"action": action, "new_instruction": text, "reasoning": "so"})
        for action, text in (("CONTINUE", "Add."), ("TERMINATE", ""))
    ]
    human = ReActAgent("h", ScriptedModel(decisions))
    calls = [Call("1", "add", {"a": 1, "b": 2}), "It is 3."]
    worker = ReActAgent("r", ScriptedModel(calls), actions=[add])
    path = tmp_path / "journal.db"
    pair = DualActAgent(id="pair", human=human, reactive=worker, journal=path)
    pair.reply_sync("Add 1 and 2", run_id="r")

    assert len(traced.spans) > 7
    assert shape(exported(path, "r")) == shape(traced.spans)


def test_export_of_research_gives_the_spans_that_it_made(traced: Traced, tmp_path: Path) -> None:
    def look(query: str) -> str:
        """Look something up."""
        return f"Nothing is known of {query}."

    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        return json.dumps({"tasks": [{"tool": "look", "args": {"query": "moss"}}]})

    path = tmp_path / "journal.db"
    researcher = Researcher(
        "r", ScriptedModel(answer), tools=[Action("look", look, "Look.")], journal=path
    )
    researcher.reply_sync("What is moss?", run_id="r")

    assert {span.name for span in traced.spans} >= {"plan r", "research r", "execute_tool look"}
    # A step that records nothing of its own, and in which nothing recorded happens, has no span.
    assert shape(exported(path, "r")) <= shape(traced.spans)
    names = {span.name for span in exported(path, "r")}
    assert names >= {"plan r", "research r", "execute_tool look", "invoke_workflow r"}


def test_export_of_a_run_that_stopped_and_was_resumed_has_both_replies(
    traced: Traced, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    for reply in (ModelError("down"), "Up again."):
        ReActAgent("a", ScriptedModel([reply]), journal=path).reply_sync("Hi", run_id="r")

    assert shape(exported(path, "r")) == shape(traced.spans)


def test_export_of_a_run_that_was_killed_has_what_it_did(tmp_path: Path) -> None:
    path, copy = tmp_path / "journal.db", tmp_path / "copy.db"

    def kill(messages: object, actions: object) -> str:
        crash(path, copy)
        return "Never."

    model = ScriptedModel([Call("1", "add", {"a": 1, "b": 2}), kill])
    agent = ReActAgent("a", model, actions=[add], journal=path)
    agent.reply_sync("Add", run_id="r")

    found = exported(copy, "r")
    assert sorted(span.name for span in found) == [
        "chat scripted",
        "execute_tool add",
        "invoke_agent a",
    ]
    assert (found[-1].attributes or {})["error.type"] == "stopped"


def test_export_of_an_unknown_run_raises(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    ReActAgent("a", ScriptedModel(["Hello."]), journal=path).reply_sync("Hi", run_id="r")
    with pytest.raises(NoSuchRun):
        export(path, "other", InMemorySpanExporter())


class Raising(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise OSError("no room")


class Refusing(SpanExporter):
    """An exporter that takes nothing."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.FAILURE


def test_export_that_fails_raises(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    ReActAgent("a", ScriptedModel(["Hello."]), journal=path).reply_sync("Hi", run_id="r")
    with pytest.raises(TelemetryError, match="the spans of run 'r' were not exported: Refusing"):
        export(path, "r", Refusing())
    with pytest.raises(TelemetryError, match="not exported: Raising raised OSError: no room"):
        export(path, "r", Raising())
    with pytest.raises(ConfigError, match="exporter= must be a SpanExporter, got int"):
        export(path, "r", 5)  # type: ignore[arg-type]


def test_search_of_a_folder_is_a_retrieval_live_and_afterwards(
    traced: Traced, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "moss.md").write_text("# Moss\n\nMoss grows on the north side of trees.\n")
    tool = search_folder(tmp_path / "docs", index=tmp_path / "index.db")
    path = tmp_path / "journal.db"
    agent = ReActAgent(
        "a",
        ScriptedModel([Call("1", "search_folder", {"query": "moss"}), "On trees."]),
        actions=[tool],
        journal=path,
    )
    agent.reply_sync("Where is moss?", run_id="r", thread="t")
    assert traced.tree()["retrieval docs"] == "execute_tool search_folder"
    found = traced.named("retrieval docs").attributes or {}
    assert found["gen_ai.data_source.id"] == "docs"
    assert "gen_ai.retrieval.query.text" not in found
    assert shape(exported(path, "r")) == shape(traced.spans)

    traced.exporter.clear()
    researcher = Researcher("r", ScriptedModel(["{}"] * 9), tools=[tool], journal=path)
    researcher.reply_sync("Where does moss grow?", run_id="s")
    assert "retrieval docs" in traced.tree()
    assert shape(exported(path, "s")) <= shape(traced.spans)
    assert "retrieval docs" in {span.name for span in exported(path, "s")}


def test_export_of_a_society_gives_the_spans_that_it_made(traced: Traced, tmp_path: Path) -> None:
    async def ask(me: CitizenAgent) -> None:
        for word in ("one", "two"):
            await me.llm.complete([{"role": "user", "content": f"{me.id} {word}"}])

    path = tmp_path / "journal.db"

    def run(steps: int) -> None:
        citizens = [living(ask, id=number) for number in range(3)]
        model = ScriptedModel(lambda messages, actions: "Fine.")

        async def main() -> None:
            async with Society(citizens, model=model, journal=path) as society:
                await society.run(step=60, steps=steps, run_id="s", save_every=2)

        asyncio.run(main())

    run(5)
    assert len([span for span in traced.spans if span.name == "chat scripted"]) == 30
    assert shape(exported(path, "s")) == shape(traced.spans)
    traced.exporter.clear()
    run(5)  # it is over
    assert traced.spans == ()


def test_recall_of_a_memory_is_a_retrieval(traced: Traced, tmp_path: Path) -> None:
    traced.instrument(content=True)
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        memory.add_memory({"role": "user", "content": "Moss grows on trees."})
        assert memory.recall("moss")
    span = traced.named("retrieval memory")
    assert (span.attributes or {})["gen_ai.retrieval.query.text"] == "moss"
