"""What a model of 1.5B parameters makes of our prompts and forms; figures as JSON lines.

    python -m benchmarks.minds [--quick] [--part NAME]… [--count N] [--shut] [--keep FILE]
        [--threads N] [--cached]

`--count` bounds the cases of each category, `--shut` takes those that nobody looked at while the
prompts were written, `--keep` goes on with the outcomes of a file. With few cores, minutes a part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.minds import (
    bfcl,
    citizens,
    decisions,
    everyday,
    judgements,
    manytools,
    notes,
    research,
    reviewed,
    twosteps,
    values,
)
from benchmarks.minds.mind import SETTINGS, Outcomes, mind, share


def calls(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Calls that one request needs."""
    with mind(max_tokens=400) as model:
        for category in bfcl.CATEGORIES:
            share("bfcl", category, bfcl.run(model, outcomes, category, count, shut))


def judged(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Judgements of H, by each way of judging; all cases of the default."""
    for judging in forms or [None]:
        with mind(max_tokens=300) as model:
            rows = judgements.run(model, outcomes, count, shut, judging)
        share_judged(f"judgements.{judging or 'default'}", rows)


def share_judged(part: str, rows: list[dict[str, Any]]) -> None:
    """Print how many judgements are right, of all conclusions, of right and of wrong ones."""
    share(part, "all", rows)
    share(part, "right accepted", [each for each in rows if each["wanted"]])
    share(part, "wrong sent back", [each for each in rows if not each["wanted"]])


def in_two_steps(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Tasks of two steps."""
    with mind(max_tokens=250) as model:
        share("two steps", "right", twosteps.run(model, outcomes, count, shut))


def decided(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Choices of blocks and of speakers, and ends of conversations."""
    with mind(max_tokens=200) as model:
        choices, speakers = decisions.run(model, outcomes, count, shut)
    share_decided("", choices, speakers)


def share_decided(of: str, choices: list[dict[str, Any]], speakers: list[dict[str, Any]]) -> None:
    """Print how many choices of blocks and of speakers are right."""
    share(f"{of}dispatcher", "block", [each for each in choices if not each["none"]])
    share(f"{of}dispatcher", "none", [each for each in choices if each["none"]])
    goes_on = [each for each in speakers if not each["over"]]
    share(f"{of}speakers", "next", goes_on)
    share(f"{of}speakers", "over", [each for each in speakers if each["over"]])
    share(f"{of}speakers", "goes on", goes_on, "ended")


def kept(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Notes of conversations."""
    with mind(max_tokens=300) as model:
        rows = notes.run(model, outcomes, count, shut)
    share("notes", "facts", facts_of(rows))


def facts_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each fact of conversations."""
    return [{"right": at < row["right"]} for row in rows for at in range(row["of"])]


def of_everyday(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Sixty tasks of everyday life."""
    with mind(max_tokens=300) as model:
        rows = everyday.run(model, outcomes, count, shut)
    share_judged("everyday judgements", rows["judgements"])
    share_decided("everyday ", rows["dispatch"], rows["speakers"])
    handed = rows["handover"]
    share("everyday hand-over", "mine", [each for each in handed if each["mine"]])
    share("everyday hand-over", "whose", [each for each in handed if not each["mine"]])
    share("everyday notes", "facts", facts_of(rows["notes"]))
    share("everyday two steps", "right", rows["two_steps"])


def valued(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Values of a type."""
    with mind(max_tokens=200) as model:
        share("values", "all", values.run(model, outcomes, count, shut))


def researched(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Questions of research, without a model and with it."""
    rows = research.run(None, outcomes, count, shut)
    share("research, no model", "right", rows)
    with mind(max_tokens=300) as model:
        rows = research.run(model, outcomes, count, shut)
    share("research", "right", rows)
    stand = [{"right": at < row["stand"]} for row in rows for at in range(row["footnotes"])]
    share("research", "footnotes stand", stand)


def lived(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Plans, talks and interviews of citizens."""
    with mind() as model:
        plans, talks, answers = citizens.run(model, outcomes, count, shut)
    share("citizens", "plans usable", plans)
    new = [{"right": at < row["right"]} for row in talks for at in range(row["of"])]
    share("citizens", "messages new", new)
    share("citizens", "answers as the trace", answers)


def found(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Tasks over many deferred actions."""
    with mind(max_tokens=250) as model:
        rows = manytools.run(model, outcomes, count, shut)
    for metric, key in (("found", "found"), ("called", "called"), ("right", "right")):
        share("many tools", metric, rows, key)


def under_review(outcomes: Outcomes, count: int, shut: bool, forms: list[str]) -> None:
    """Tasks alone, with H, and repeated."""
    with mind(max_tokens=300) as model, mind(max_tokens=300, temperature=0.7) as warm:
        rows = reviewed.run(model, warm, outcomes, count, shut)
    for metric, key in (("alone", "alone"), ("with H", "right"), ("repeated", "repeated")):
        share("reviewed", metric, rows, key)


PARTS: dict[str, Callable[[Outcomes, int, bool, list[str]], None]] = {
    "bfcl": calls,
    "judgements": judged,
    "two steps": in_two_steps,
    "decisions": decided,
    "everyday": of_everyday,
    "notes": kept,
    "values": valued,
    "research": researched,
    "citizens": lived,
    "many tools": found,
    "reviewed": under_review,
}


LEADERBOARD = ("bfcl", "many tools")
"""The parts that need its data."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two cases of each category")
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--form", action="append", help="ways of judging to compare")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--shut", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--threads", type=int, help="cores to use; llama.cpp chooses if left out")
    parser.add_argument("--cached", action="store_true", help="cache prompts: faster, less exact")
    options = parser.parse_args()
    SETTINGS.update(deterministic=not options.cached, threads=options.threads)
    count = 2 if options.quick else options.count
    parts = options.part or list(PARTS)
    if not set(parts).isdisjoint(LEADERBOARD):
        bfcl.data()  # what is missing is said before the first part
    for name in parts:
        PARTS[name](Outcomes(options.keep), count, options.shut, options.form or [])


if __name__ == "__main__":
    main()
