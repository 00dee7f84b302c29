"""Figures as a table: reads the JSON lines of the benchmarks, prints Markdown.

python -m benchmarks > figures.jsonl
python -m benchmarks.table figures.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def number(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if abs(value) >= 10_000:
        return f"{value / 1000:.3g} k"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def row(figure: dict[str, Any]) -> str:
    cells = [
        figure["metric"],
        figure["variant"],
        f"{number(figure['value'])} {figure['unit']}",
        number(figure.get("limit")),
        number(figure.get("ratio")),
        number(figure.get("target")),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    lines = Path(sys.argv[1]).read_text().splitlines()
    print("| what | who | figure | limit, same run | ratio | aim |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in lines:
        print(row(json.loads(line)))


if __name__ == "__main__":
    main()
