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
from research.small_web import ALPHA, BETA, SCRIPT, evaluation, plan, tools


class Paid(ScriptedModel):
    """A scripted model, each of whose answers is noted outside."""

    def __init__(self, effects: Effects) -> None:
        super().__init__([ModelReply(each, usage=Usage(100, 20)) for each in SCRIPT])
        self._effects = effects

    async def complete(self, *args: Any, **options: Any) -> ModelReply:
        reply = await super().complete(*args, **options)
        self._effects.note(f"answer {SCRIPT.index(reply.text)}")
        return reply


class Writing(ScriptedModel):
    """A model that writes a report of two sections; each answer is noted outside."""

    def __init__(self, effects: Effects) -> None:
        super().__init__(self.answer, max_tokens=100)
        self._effects = effects

    def answer(self, messages: list[dict[str, Any]], actions: Any) -> str:
        asks, told = (str(each["content"]) for each in messages[:2])
        kind, said = "evaluate", evaluation({"alpha": 0.95 if "4711" in told else 0.1})
        if "Plan the next" in asks:
            later = ALPHA in told
            reading = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
            kind, said = f"plan {later}", reading if later else SCRIPT[0]
        elif "Write the section" in asks:
            kind = "ports" if "Ports of alpha" in asks else "beta"
            text = "The alpha protocol uses port 4711." if kind == "ports" else "Beta is newer."
            said = f"{text}[^1^][^2^]"
        elif "Write the summary" in asks:
            kind, said = "summary", "The alpha protocol uses port 4711.[^1^][^2^]"
        self._effects.note(f"answer {kind} {'4711' in told}"[:30])
        return said


def do(job: dict[str, Any]) -> None:
    """Begin the run, or go on with it; or be killed meanwhile."""
    folder = Path(job["folder"])
    commit = job.get("commit")
    watch(("journal",), None if commit is None else tuple(commit))
    effects = Effects(folder / "effects", job.get("effect"))
    budget = Budget(model_calls=job.get("calls", 10))
    objective = "gamma" if job.get("extractive") else "alpha"
    model: ScriptedModel | None = None if job.get("extractive") else Paid(effects)
    outline: bool | list[str] = ["Ports of alpha", "Beta"] if job.get("sections") else False
    if outline:
        model = Writing(effects)
    parts = [objective], tools(effects.note), 9
    with Journal(folder / "journal") as journal:
        researcher = Researcher(
            "r", model, *parts, journal=journal, budget=budget, outline=outline, judge=False
        )
        researcher.deaths = 1_000  # the commits of one process may all be beginnings
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
