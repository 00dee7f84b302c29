"""Entries of a journal in plain words, as `moothall runs` and every live view show them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall import Call, Journal, ModelReply, ReActAgent, ScriptedModel
from moothall.journal import Entry

ANSWER = {"type": "ModelReply", "text": "Yes", "calls": [], "usage": [9, 2]}


def lines(journal: Journal) -> list[str]:
    return [entry.line for entry in journal.entries("r")]


def look(at: str) -> str:
    """Look."""
    if at == "void":
        raise ValueError("nothing\x1b[2J there")
    return "seen"


def look_at(at: str) -> dict[str, Any]:
    return {"name": "look", "args": {"at": at}}


def test_run_of_the_loop(tmp_path: Path) -> None:
    script = [[look_at("sea"), look_at("void")], {"name": "nope", "args": {}}, "Well."]
    with Journal(tmp_path / "j") as journal:
        agent = ReActAgent("a", ScriptedModel(script), actions=[look], journal=journal)
        agent.reply_sync("Go.", run_id="r")
        said = lines(journal)
    assert said[:2] == ["task: Go.", "ready for the first turn (1 message)"]
    assert said[3] == 'model answer 1: call look(at="sea"); call look(at="void")'
    assert sorted(said[4:8]) == [
        'tool call: look(at="sea")',
        'tool call: look(at="void")',
        r"tool error: look: nothing\x1b[2J there",
        'tool result: look: "seen"',
    ]
    assert said[8] == "turn finished (3 messages, 2 steps)"
    unusable = 'turn finished; the answer was unusable: "nope" is not an action'
    assert said[11].startswith(unusable)
    assert said[-1] == "over, done: Well."


def test_arguments_that_are_nested_too_deep_stand_as_the_model_wrote_them(journal: Journal) -> None:
    script = [Call("c", "look", "[" * 100_000), "Well."]
    agent = ReActAgent("a", ScriptedModel(script), actions=[look], journal=journal)
    assert agent.reply_sync("Go.", run_id="r").text == "Well."
    assert lines(journal)[3].startswith('model answer 1: call look("[[[')


def test_describe_shows_interruptions(journal: Journal) -> None:
    async def main(journal: Journal) -> None:
        asked = asyncio.Event()

        async def hang() -> ModelReply:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        class Slow(ScriptedModel):
            async def complete(self, *args: Any, **options: Any) -> ModelReply:
                if not asked.is_set():
                    return await hang()
                return await super().complete(*args, **options)

        agent = ReActAgent("a", Slow(["Well."]), journal=journal)
        reply = asyncio.ensure_future(agent.reply("Go.", run_id="r"))
        await asked.wait()
        agent.interrupt("Stop.")
        await reply

    asyncio.run(main(journal))
    assert "interrupted by the user: Stop." in lines(journal)


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    (
        ("started", {"key": "H1", "part": "H1", "agent": "judge"}, "turn of judge: H1"),
        ("started", {"key": "get", "args": {"url": "a"}}, 'step get started: {"url": "a"}'),
        (
            "ended",
            {"key": "get", "kept": "ab" * 32},
            "step get ended: a value, kept as abababababab",
        ),
        ("ended", {"key": "choose.1", "result": {"ids": ["A", "B"]}}, "next to speak: A, B"),
        ("ended", {"key": "told.B.1", "result": {"content": "Hi"}}, "step told.B.1 ended: Hi"),
        (
            "ended",
            {"key": "T1", "result": {"stop_reason": "done", "text": "Hi"}},
            "step T1 ended: Hi",
        ),
        (
            "ended",
            {"key": "3/anna/1", "about": {"model": "m"}, "result": {"answer": ANSWER}},
            "model answer 3/anna/1: Yes",
        ),
        (
            "ended",
            {"key": "3/anna/1", "about": {"model": "m"}, "result": {"failed": "too late"}},
            "model call 3/anna/1 failed: too late",
        ),
        (
            "ended",
            {"key": "3/bo/1", "about": {"model": "m"}, "result": {"failed": "CancelledError:"}},
            "model call 3/bo/1 failed: cancelled",
        ),
        (
            "ended",
            {
                "key": "1.0",
                "about": {"action": "pay"},
                "result": {"args": {"to": "bo"}, "result": {"error": '"pay" not permitted'}},
            },
            'tool call refused: pay(to="bo")',
        ),
        (
            "ended",
            {
                "key": "1.0",
                "about": {"action": "pay"},
                "result": {
                    "args": {"to": "bo"},
                    "result": {"error": '"pay" not permitted'},
                    "provenance": {"origins": {"to": [{"kind": "outside", "source": "a mail"}]}},
                },
            },
            'tool call refused [to: outside (a mail)]: pay(to="bo")',
        ),
        ("over", {"reason": "cancelled", "detail": ""}, "over, cancelled"),
        ("failed", {"key": "get", "error": "ValueError: "}, "step get failed: ValueError"),
        (
            "failed",
            {"key": "2", "about": {"model": "m"}, "error": "CancelledError: "},
            "model call 2 was cancelled",
        ),
        (
            "state",
            {
                "state": {"iteration": 1},
                "appended": {"messages": [{"role": "user", "content": c} for c in ("No.", "Yes.")]},
            },
            "interrupted by the user: No.; Yes.",
        ),
        ("failed", {"key": "get", "error": "OSError: down"}, "step get failed: OSError: down"),
        ("permitted", {"key": "1.0", "fingerprint": "f"}, "permitted by the approver: step 1.0"),
        (
            "permitted",
            {"key": "1.0", "fingerprint": "f", "action": "pay", "asked": {"a": 9}, "by": "eva"},
            "permitted by eva: pay(a=9)",
        ),
        (
            "permitted",
            {"key": "1.0", "fingerprint": "f", "args": {"a": 5, "b": 1}, "was": {"a": 9, "b": 1}},
            "permitted by the approver: step 1.0, with arguments that a person changed: a: 9 → 5",
        ),
        (
            "decided",
            {"key": "1.0", "decision": "done", "value": 5},
            "decided by a person, step 1.0: it took effect, result: 5",
        ),
        ("heard", {"content": "Hurry."}, "interrupted by the user: Hurry."),
        (
            "heard",
            {"content": [{"type": "text", "text": "Look."}]},
            'interrupted by the user: [{"type": "text", "text": "Look."}]',
        ),
        (
            "heard",
            {"at_step": 2, "when": None, "pay": [], "news": ["Rain"]},
            'intervention at step 2: news ["Rain"]',
        ),
        (
            "state",
            {"state": {}, "appended": {"transcript": [1], "pages": [1, 2], "lost": [1]}},
            "turn finished (1 utterance, 2 pages, 1 in lost)",
        ),
        ("state", {"state": {}, "appended": {"pages": []}}, "turn finished"),
        ("new", {"a": "\x07"}, r'new {"a": "\u0007"}'),
        ("over", {}, "over {}"),
    ),
)
def test_entry_in_words(kind: str, data: dict[str, Any], line: str) -> None:
    assert Entry(1, "", kind, 0.0, data).line == line
