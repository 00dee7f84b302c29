"""Many conversations answered by one model, each by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from moothall import Journal, ModelError, ScriptedModel, complete_many


def test_complete_many_asks_so_many_at_once() -> None:
    under_way, most = 0, 0

    async def answer(messages: list[dict[str, Any]], _: object) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return str(messages[0]["content"]).upper()

    answers = asyncio.run(complete_many(ScriptedModel(answer), [*"abcde"], at_once=2))
    assert [each.text for each in answers if not isinstance(each, ModelError)] == [*"ABCDE"]
    assert most == 2


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
