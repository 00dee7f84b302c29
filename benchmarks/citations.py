"""How many planted wrong citations the check catches, and how many right ones it loses.

    python benchmarks/citations.py [--quick] [--misses]

`data/citations.jsonl` has sentences beside the passages that they cite, right and wrong ones. The
check was tuned on the split `tune`; `published` was only looked at afterwards. One JSON object a
line: for each split the wrong ones caught and the right ones lost, in all and by kind, with 95 %
Wilson intervals; then how many sentences a second are checked. `--misses` names every sentence that
was judged wrongly, `--quick` measures the speed with fewer sentences.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moothall.research.citations import fault

DATA = Path(__file__).parent / "data" / "citations.jsonl"
SPLITS = ("tune", "published")
AIMS = {"wrong caught": 0.95, "right lost": 0.05}


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    z = 1.96
    middle, width = count + z * z / 2, z * math.sqrt(count * (of - count) / of + z * z / 4)
    return (middle - width) / (of + z * z), (middle + width) / (of + z * z)


def line(
    metric: str, variant: str, rows: list[tuple[dict[str, Any], str | None]]
) -> dict[str, Any]:
    """How many of some sentences have a fault."""
    count = sum(why is not None for _, why in rows)
    low, high = wilson(count, len(rows))
    return {
        "metric": metric,
        "variant": variant,
        "value": count,
        "unit": f"of {len(rows)}",
        "ratio": count / len(rows),
        "low": round(low, 3),
        "high": round(high, 3),
        "target": AIMS[metric],
    }


def measure(quick: bool, misses: bool) -> Iterator[dict[str, Any]]:
    data = [json.loads(row) for row in DATA.read_text(encoding="utf-8").splitlines()]
    for split in SPLITS:
        judged = [
            (row, fault(row["sentence"], row["passage"])) for row in data if row["split"] == split
        ]
        for right, metric in ((False, "wrong caught"), (True, "right lost")):
            rows = [each for each in judged if each[0]["right"] is right]
            for kind in dict.fromkeys(row["kind"] for row, _ in rows):
                of_kind = [each for each in rows if each[0]["kind"] == kind]
                yield line(metric, f"{split}, {kind}", of_kind)
            yield line(metric, split, rows)
        for row, why in judged if misses and split == "tune" else ():
            if (why is None) != row["right"]:
                yield {"split": split, "kind": row["kind"], "sentence": row["sentence"], "why": why}
    yield speed(data, 200 if quick else 2000)


def speed(data: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Sentences a second of the processor, each against another passage of 1,000 characters."""
    passages = [row["passage"] for row in data]
    pairs = []
    for number in range(count):
        at = number % len(data)
        text = f"Passage {number}. " + " ".join(passages[at:] + passages[:at])
        pairs.append((data[at]["sentence"], text[:1000]))
    start = time.process_time()
    for sentence, passage in pairs:
        fault(sentence, passage)
    taken = time.process_time() - start
    return {
        "metric": "citations checked",
        "variant": "passages of 1,000 characters",
        "value": count / taken,
        "unit": "sentences per second of the processor",
        "target": 500,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sentences for the speed")
    parser.add_argument(
        "--misses", action="store_true", help="name what was judged wrongly of tune"
    )
    args = parser.parse_args()
    for figure in measure(args.quick, args.misses):
        print(json.dumps(figure, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
