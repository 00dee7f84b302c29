"""Two pages on one matter, and a model that tells of one: what the report says of the other.

    python -m benchmarks.disagreement

Of 40 pairs, 20 state other numbers, 10 other dates, and 10 the contrary; the latter are a judge's.
A scripted one says of all that it is shown that it says otherwise, so `meaning` counts to how many
the other page is shown. 60 pairs agree, though they speak of like things: other towns, other years,
the same time in another unit; of these no judge is asked.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measure import emit
from moothall import Researcher, ScriptedModel
from moothall.research import Report, search_folder

PAIRS = Path(__file__).parent / "data" / "disagreement.jsonl"


def pairs() -> list[dict[str, Any]]:
    """The pairs of pages, each with its kind and the sentence that the model tells."""
    return [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def _judged(messages: list[dict[str, Any]], actions: Any) -> str:
    """The verdict of a judge on one sentence: what it is to compare it with says otherwise."""
    text = messages[-1]["content"]
    found = re.findall(r"\(passages ([\d, ]+)(?:; compare with ([\d, ]+))?\)", text)
    cited, others = found[0]
    numbers, other_numbers = (
        [int(n) for n in (each or "").split(",") if n] for each in (cited, others)
    )
    verdict = {"sentence": 1, "why": "it says so", "passages": numbers, "label": "supported"}
    verdict |= {"probability": 0.9} | ({"otherwise": other_numbers} if others else {})
    return json.dumps({"verdicts": [verdict]})


def report_of(pair: dict[str, Any], folder: Path) -> Report:
    """The report of a model that tells of the first page alone."""
    for number, (title, text) in enumerate(pair["pages"], 1):
        (folder / f"{number}.md").write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    question = f"What is known of this: {pair['told']}"
    query = {"tool": "search_folder", "args": {"query": pair["told"]}, "reasoning": "all of it"}
    rating = {"objectives": [{"topic": question, "answered": ["all"], "unanswered": []}]}
    rating |= {"generated_objectives": [], "remark": ""}
    for number in (1, 2):  # of the passages, the page's own
        script = [json.dumps({"tasks": [query]}), f"**{pair['told']}** [^{number}^]"]
        model = ScriptedModel([*script, json.dumps(rating)])
        tool = search_folder(folder, index=str(folder / "index.db"))
        judge = ScriptedModel(_judged) if pair["kind"] == "meaning" else False
        report = Researcher("r", model, question, [tool], 1, judge=judge).report_sync()
        if any("/1.md" in each.passage.url for each in report.citations[:1]):
            break
    return report


def measured() -> Counter[str]:
    """How many pairs of each kind are named, and of how many the expertise is high all the same."""
    named: Counter[str] = Counter()
    for pair in pairs():
        with tempfile.TemporaryDirectory() as folder:
            report = report_of(pair, Path(folder))
        if report.differing:
            named[pair["kind"]] += 1
            named["sure"] += report.objectives[0].expertise >= 0.9
    return named


def main() -> int:
    """Print the counts; 1 if an exact one is missed, or one that agrees is named."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    named = measured()
    counts = Counter(pair["kind"] for pair in pairs())
    for kind, count in counts.items():
        emit("disagreement", kind, named[kind], "reports", of=count)
    emit("disagreement", "sure of one side", named["sure"], "reports")
    exact = all(named[kind] == counts[kind] for kind in ("number", "date", "meaning"))
    return 0 if exact and not (named["agreement"] or named["sure"]) else 1


if __name__ == "__main__":
    sys.exit(main())
