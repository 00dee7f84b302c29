"""Check public pairs of a sentence and a passage that people judged.

    python -m benchmarks.judge [--split test]   # WiCE; with `test`, ExpertQA's rand_test too

It needs the public files (`public.py` says which; `MOOTHALL_PAIRS` is their folder). One JSON
object a form: the exact checks with the overlap of words as a rank among pairs of one label, and
the overlap alone; then how many pairs of each kind have each label.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.citations import area, rank
from benchmarks.judge import public
from benchmarks.judge.public import Pair
from moothall.research import support


def by_claim(pairs: Sequence[Pair], scores: Sequence[float]) -> tuple[list[float], list[float]]:
    """The best score of each claim of WiCE: supported ones, and the rest."""
    best: dict[str, float] = defaultdict(lambda: -2.0)
    for pair, score in zip(pairs, scores, strict=True):
        best[pair.group] = max(best[pair.group], score)
    good = {pair.group for pair in pairs if pair.target == 1}
    return [s for g, s in best.items() if g in good], [s for g, s in best.items() if g not in good]


def test(split: str) -> None:
    wice = public.wice(split)
    experts = list(public.expertqa("rand_test")) if split == "test" else []
    found = {pair: support(pair.sentence, pair.passage) for pair in (*wice, *experts)}
    for name, form in (
        ("exact checks, then overlap", lambda pair: rank(found[pair])),
        ("overlap of words", lambda pair: found[pair].overlap),
    ):
        right, wrong = by_claim(wice, [form(pair) for pair in wice])
        figures: dict[str, Any] = {
            "form": name,
            "wice_area": round(area(right, wrong), 3),
            "wice_claims": len(right) + len(wrong),
        }
        complete = [form(pair) for pair in experts if pair.kind == "Complete"]
        for kind in ("Missing", "Incomplete", "Partial") if experts else ():
            of_kind = [form(pair) for pair in experts if pair.kind == kind]
            figures[f"expertqa_{kind}"] = {
                "complete": len(complete),
                "claims": len(of_kind),
                "area": round(area(complete, of_kind), 3),
            }
        print(json.dumps(figures))
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for pair, each in found.items():
        labels[f"{pair.source} {pair.kind or pair.target}"][each.label] += 1
    print(json.dumps(labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--split", choices=("dev", "test"), default="test", help="of WiCE")
    test(parser.parse_args().split)


if __name__ == "__main__":
    main()
