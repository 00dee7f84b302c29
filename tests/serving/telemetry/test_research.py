"""The spans of research and of searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moothall import Action, Call, ReActAgent, Researcher, ScriptedModel, SQLiteMemory
from moothall.research import search_folder
from serving.telemetry.conftest import Traced


def test_research_has_a_span_for_each_of_its_steps(traced: Traced) -> None:
    def look(query: str) -> str:
        """Look something up."""
        return f"Nothing is known of {query}."

    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        return json.dumps({"tasks": [{"tool": "look", "args": {"query": "moss"}}]})

    researcher = Researcher("r", ScriptedModel(answer), tools=[Action("look", look, "Look.")])
    researcher.reply_sync("What is moss?")

    parents = traced.tree()
    assert parents["plan r"] == parents["research r"] == "invoke_workflow r"
    assert parents["execute_tool look"] == "research r"


def test_search_of_a_folder_is_a_retrieval(traced: Traced, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "moss.md").write_text("# Moss\n\nMoss grows on the north side of trees.\n")
    tool = search_folder(tmp_path / "docs", index=tmp_path / "index.db")
    model = ScriptedModel([Call("1", "search_folder", {"query": "moss"}), "On trees."])
    ReActAgent("a", model, actions=[tool]).reply_sync("Where is moss?", thread="t")

    assert traced.tree()["retrieval docs"] == "execute_tool search_folder"
    about = traced.named("retrieval docs").attributes or {}
    assert about["gen_ai.data_source.id"] == "docs"
    assert "gen_ai.retrieval.query.text" not in about

    traced.exporter.clear()
    researcher = Researcher("r", ScriptedModel(["{}"] * 9), tools=[tool])
    researcher.reply_sync("Where does moss grow?")
    assert "retrieval docs" in traced.tree()


def test_recall_of_a_memory_is_a_retrieval(traced: Traced, tmp_path: Path) -> None:
    traced.instrument(content=True)
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        memory.add_memory({"role": "user", "content": "Moss grows on trees."})
        assert memory.recall("moss")
    span = traced.named("retrieval memory")
    assert (span.attributes or {})["gen_ai.retrieval.query.text"] == "moss"
