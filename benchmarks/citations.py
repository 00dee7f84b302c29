"""Which label the check of citations gives to wrong and to right sentences.

    python -m benchmarks.citations [--quick] [--misses] [--pairs FILE.jsonl [--split SPLIT]]
        [--judge MODEL]

`data/citations.jsonl` has sentences beside the passages that they cite, right and wrong ones.
`--pairs` takes sentences of your own in its place: one JSON object a line with `sentence`,
`passage`, `right` (true or false) and `kind`; `--split` only those of them whose `split` it names.
`--judge` has a model judge the meaning, as `Researcher(judge=)` does.

One JSON object a line, with 95 % Wilson intervals: for each split, in all and by kind, how many
wrong and right ones are marked (`partly` or `unsupported`), lose their footnote (`unsupported`
alone) or are `not checked`; the area under the ROC by label, then overlap of words; and how many
sentences a second are checked. `--misses` names every sentence with a wrong label, `--quick`
measures the speed with fewer sentences.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import show
from moothall.research import Support, support

DATA = Path(__file__).parent / "data" / "citations.jsonl"
SPLITS = ("tune", "published")
AIMS = {"right marked": "<= 0.1 ratio", "right removed": "<= 0.05 ratio"}
LABELS = {
    "marked": ("partly", "unsupported"),
    "removed": ("unsupported",),
    "not checked": ("not checked",),
}
_RANKS = {"supported": 3, "partly": 2, "not checked": 1, "unsupported": 0}


def rank(found: Support) -> float:
    """A score to order pairs by: the label, then a model's probability, or the overlap."""
    within = found.overlap if found.probability is None else found.probability
    return _RANKS[found.label] + within


def area(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The area under the ROC curve."""
    wrong = sorted(wrong)
    above = sum((bisect_left(wrong, r) + bisect_right(wrong, r)) / 2 for r in right)
    return above / max(len(right) * len(wrong), 1)


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    z = 1.96
    middle, width = count + z * z / 2, z * math.sqrt(count * (of - count) / of + z * z / 4)
    return (middle - width) / (of + z * z), (middle + width) / (of + z * z)


def line(metric: str, variant: str, rows: list[tuple[dict[str, Any], Support]]) -> dict[str, Any]:
    """How many of some sentences have a label."""
    labels = LABELS[metric.partition(" ")[2]]
    count = sum(found.label in labels for _, found in rows)
    low, high = wilson(count, len(rows))
    return {
        "metric": metric,
        "variant": variant,
        "value": count,
        "unit": f"of {len(rows)}",
        "ratio": round(count / len(rows), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "target": AIMS.get(metric),
    }


def measure(
    quick: bool,
    misses: bool,
    pairs: Path | None = None,
    part: str | None = None,
    judge: str | None = None,
) -> Iterator[dict[str, Any]]:
    text = (pairs or DATA).read_text(encoding="utf-8")
    data = [json.loads(row) for row in text.splitlines() if row.strip()]
    if part is not None:
        data = [row for row in data if row.get("split") == part]
    for split in SPLITS if pairs is None else (pairs.stem,):
        judged = [
            (row, support(row["sentence"], row["passage"], judge=judge))
            for row in data
            if pairs is not None or row["split"] == split
        ]
        for right, whose in ((False, "wrong"), (True, "right")):
            rows = [each for each in judged if each[0]["right"] is right]
            kinds = dict.fromkeys(row.get("kind", "") for row, _ in rows)
            for how in LABELS if rows else ():
                for kind in kinds:
                    of_kind = [each for each in rows if each[0].get("kind", "") == kind]
                    yield line(f"{whose} {how}", f"{split}, {kind}", of_kind)
                yield line(f"{whose} {how}", split, rows)
        ranks = [
            [rank(found) for row, found in judged if row["right"] is each] for each in (True, False)
        ]
        if all(ranks):
            yield {
                "metric": "area under the ROC",
                "variant": split,
                "value": round(area(*ranks), 3),
                "unit": "",
            }
        for row, found in judged if misses and split != "published" else ():
            is_wrong = found.label in ("partly", "unsupported")
            if found.label != "not checked" and is_wrong is row["right"]:
                yield {
                    "split": split,
                    "kind": row.get("kind", ""),
                    "sentence": row["sentence"],
                    "label": found.label,
                    "probability": found.probability,
                    "why": found.why,
                }
    yield speed(data, 200 if quick else 2000)


def speed(data: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Sentences a second of the processor, each against another passage of 2,000 characters."""
    passages = [row["passage"] for row in data]
    pairs = []
    for number in range(count):
        at = number % len(data)
        text = f"Passage {number}. " + " ".join(passages[at:] + passages[:at])
        pairs.append((data[at]["sentence"], text[:2000]))
    start = time.process_time()
    for sentence, passage in pairs:
        support(sentence, passage)
    taken = time.process_time() - start
    return {
        "metric": "citations checked",
        "variant": "passages of 2,000 characters, each a new one",
        "value": count / taken,
        "unit": "sentences per second of the processor",
        "target": ">= 500",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sentences for the speed")
    parser.add_argument(
        "--misses", action="store_true", help="name what was judged wrongly, but of published"
    )
    parser.add_argument("--pairs", type=Path, help="sentences of your own, as JSON lines")
    parser.add_argument("--split", help="which of these")
    parser.add_argument("--judge", metavar="MODEL", help="have a model judge the meaning")
    args = parser.parse_args()
    for figure in measure(args.quick, args.misses, args.pairs, args.split, args.judge):
        show(figure)


if __name__ == "__main__":
    main()
