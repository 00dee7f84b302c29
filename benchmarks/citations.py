"""How many wrong citations the check catches, and how many right ones it loses.

    python -m benchmarks.citations [--quick] [--misses] [--pairs FILE.jsonl [--split SPLIT]]

`data/citations.jsonl` has sentences beside the passages that they cite, right and wrong ones. The
check was trained on the split `tune`; `published` was only looked at afterwards. `--pairs` takes
sentences of your own in its place: one JSON object a line with `sentence`, `passage`, `right` (true
or false) and `kind`; `--split` only those of them whose `split` it names.

One JSON object a line, with 95 % Wilson intervals: for each split, in all and by kind, how many
wrong ones are marked (`partly` or `unsupported`) and how many lose their footnote (`unsupported`
alone), and the same of the right ones; then how many sentences a second are checked. `--misses`
names every sentence that was judged wrongly, `--quick` measures the speed with fewer sentences.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moothall.research import Support, support

DATA = Path(__file__).parent / "data" / "citations.jsonl"
SPLITS = ("tune", "published")
AIMS = {"wrong marked": 0.95, "right marked": 0.1, "wrong removed": 0.85, "right removed": 0.05}
MARKED = {"marked": ("partly", "unsupported"), "removed": ("unsupported",)}


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    z = 1.96
    middle, width = count + z * z / 2, z * math.sqrt(count * (of - count) / of + z * z / 4)
    return (middle - width) / (of + z * z), (middle + width) / (of + z * z)


def line(metric: str, variant: str, rows: list[tuple[dict[str, Any], Support]]) -> dict[str, Any]:
    """How many of some sentences have a label."""
    labels = MARKED[metric.partition(" ")[2]]
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
        "target": AIMS[metric],
    }


def measure(
    quick: bool, misses: bool, pairs: Path | None = None, part: str | None = None
) -> Iterator[dict[str, Any]]:
    text = (pairs or DATA).read_text(encoding="utf-8")
    data = [json.loads(row) for row in text.splitlines() if row.strip()]
    if part is not None:
        data = [row for row in data if row.get("split") == part]
    for split in SPLITS if pairs is None else (pairs.stem,):
        judged = [
            (row, support(row["sentence"], row["passage"]))
            for row in data
            if pairs is not None or row["split"] == split
        ]
        for right, whose in ((False, "wrong"), (True, "right")):
            rows = [each for each in judged if each[0]["right"] is right]
            kinds = dict.fromkeys(row.get("kind", "") for row, _ in rows)
            for how in MARKED if rows else ():
                for kind in kinds:
                    of_kind = [each for each in rows if each[0].get("kind", "") == kind]
                    yield line(f"{whose} {how}", f"{split}, {kind}", of_kind)
                yield line(f"{whose} {how}", split, rows)
        for row, found in judged if misses and split != "published" else ():
            if (found.label == "supported") != row["right"]:
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
        "target": 500,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sentences for the speed")
    parser.add_argument(
        "--misses", action="store_true", help="name what was judged wrongly, but of published"
    )
    parser.add_argument("--pairs", type=Path, help="sentences of your own, as JSON lines")
    parser.add_argument("--split", help="which of these")
    args = parser.parse_args()
    for figure in measure(args.quick, args.misses, args.pairs, args.split):
        print(json.dumps(figure, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
