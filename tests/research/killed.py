"""A researcher in a process of its own, which is killed, and what it did outside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from journal.program import RUN, Counting, Effects, main, watch
from moothall import Budget, Journal, ScriptedModel
from moothall.models.protocol import ModelReply, Usage
from moothall.research import Researcher
from research.small_web import SCRIPT, tools


class Paid(ScriptedModel):
    """A scripted model, each of whose answers is noted outside."""

    def __init__(self, effects: Effects) -> None:
        super().__init__([ModelReply(each, usage=Usage(100, 20)) for each in SCRIPT])
        self._effects = effects

    async def complete(self, *args: Any, **options: Any) -> ModelReply:
        reply = await super().complete(*args, **options)
        self._effects.note(f"answer {SCRIPT.index(reply.text)}")
        return reply


def do(job: dict[str, Any]) -> None:
    """Begin the run, or go on with it; or be killed meanwhile."""
    folder = Path(job["folder"])
    commit = job.get("commit")
    watch(("journal",), None if commit is None else tuple(commit))
    effects = Effects(folder / "effects", job.get("effect"))
    budget = Budget(model_calls=job.get("calls", 10))
    objective, model = ("gamma", None) if job.get("extractive") else ("alpha", Paid(effects))
    parts = [objective], tools(effects.note), 9
    with Journal(folder / "journal") as journal:
        researcher = Researcher("r", model, *parts, journal=journal, budget=budget)
        report = asyncio.run(researcher.report(RUN))
    said = {
        "markdown": report.markdown,
        "stop": report.stop_reason,
        "calls": budget.spent.model_calls,
        "usage": [report.usage.input_tokens, report.usage.output_tokens],
        "commits": Counting.commits,
    }
    (folder / "reply.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(do)
