"""What remembering in a file costs: adding, showing, recalling, and the process's memory.

    python -m benchmarks.memory [--quick]

A hundred thousand messages in one thread with `--quick`, else a million. The limit of adding is
SQLite itself, in turns with it: the same text into one table and one full-text index, a transaction
each. The memory runs in a process of its own, so that its peak is its own: `grown` is how much
larger its peak is than with a hundredth of the messages.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import emit, side_by_side
from moothall.memory import HashEmbedder, SQLiteMemory

MEMORIES = 1_000_000
QUICK = 100_000
SMALL = 100
"""The small run has this part of the messages."""


def vocabulary() -> list[str]:
    """Made-up words; the first are the frequent ones, as in any language."""
    rng = random.Random(1)
    parts = ["ba", "co", "di", "fu", "ge", "la", "mo", "ni", "pra", "que", "ro", "stu", "ti", "ver"]
    return ["".join(rng.choices(parts, k=rng.randint(1, 4))) for _ in range(20_000)]


def texts(count: int) -> Iterator[str]:
    """Messages of about a hundred characters."""
    rng = random.Random(2)
    words = vocabulary()
    for number in range(count):
        chosen = [words[min(int(rng.paretovariate(0.6)), len(words)) - 1] for _ in range(16)]
        yield f"{' '.join(chosen)} number{number}"


def peak_mb() -> float:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1024 * 1024 if sys.platform == "darwin" else 1024)


def seconds(work: Any, times: int = 5) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def live(path: str, count: int) -> dict[str, float]:
    """Fill a memory and recall from it, and say what it took."""
    figures: dict[str, float] = {}
    found = "number" + str(count // 3)
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        slowest = 0.0
        start = time.perf_counter()
        for text in texts(count):
            before = time.perf_counter()
            memory.add_memory({"role": "user", "content": text})
            slowest = max(slowest, time.perf_counter() - before)
        figures["add"] = count / (time.perf_counter() - start)
        figures["slowest add"] = slowest * 1000
        figures["opened, shown"] = seconds(memory.get_memories, 1) * 1000
        figures["shown again"] = seconds(memory.get_memories) * 1000
        question = " ".join(next(texts(1)).split()[:6])
        rare = f"{vocabulary()[15_000]} {found}"
        figures["rare words"] = seconds(lambda: memory.recall(rare, by="words")) * 1000
        figures["frequent words"] = seconds(lambda: memory.recall(question, by="words"), 3) * 1000
        start = time.perf_counter()
        memory.embed()
        figures["embed"] = count / (time.perf_counter() - start)
        figures["meaning"] = seconds(lambda: memory.recall(question), 3) * 1000
        assert memory.recall(rare, 1, by="words")[0]["content"].endswith(found)
        figures["read all"] = count / seconds(lambda: sum(1 for _ in memory.messages()), 1)
    figures["peak"] = peak_mb()
    figures["file"] = Path(path).stat().st_size / 1e6
    return figures


def apart(folder: str, count: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--live", f"{folder}/{count}.db"]
    done = subprocess.run([*command, str(count)], check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def beside_sqlite(folder: str, count: int, rounds: int) -> None:
    memory = SQLiteMemory(f"{folder}/ours.db")
    db = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE memories (number INTEGER PRIMARY KEY, item TEXT)")
    db.execute("CREATE VIRTUAL TABLE words USING fts5 (text, content = '')")
    given = list(texts(count))

    def ours() -> int:
        for text in given:
            memory.add_memory({"role": "user", "content": text})
        return count

    def bare() -> int:
        for text in given:
            item = json.dumps({"role": "user", "content": text})
            db.execute("BEGIN IMMEDIATE")
            number = db.execute("INSERT INTO memories (item) VALUES (?)", (item,)).lastrowid
            db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, text))
            db.execute("COMMIT")
        return count

    figures = side_by_side({"moothall": ours, "SQLite": bare}, rounds)
    rates = {name: 1 / figure.seconds for name, figure in figures.items()}
    emit("memory: add", "SQLite", rates["SQLite"], "1/s")
    ratio = 1 / figures["moothall"].over(figures["SQLite"])
    emit("memory: add", "moothall", rates["moothall"], "1/s", limit=rates["SQLite"], ratio=ratio)
    memory.close()
    db.close()


UNITS = {
    "add": "1/s",
    "slowest add": "ms",
    "opened, shown": "ms",
    "shown again": "ms",
    "rare words": "ms",
    "frequent words": "ms",
    "embed": "1/s",
    "meaning": "ms",
    "read all": "1/s",
    "file": "MB",
    "peak": "MB",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--live", nargs=2, metavar=("PATH", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        print(json.dumps(live(options.live[0], int(options.live[1]))))
        return
    count = QUICK if options.quick else MEMORIES
    with tempfile.TemporaryDirectory() as folder:
        beside_sqlite(folder, 500, 3 if options.quick else 9)
        small = apart(folder, count // SMALL)
        large = apart(folder, count)
        for name, unit in UNITS.items():
            emit(f"memory: {name}", f"{count} messages", large[name], unit)
        grown = large["peak"] - small["peak"]
        emit("memory: peak grown", f"{count} messages", grown, "MB", target="<= 16")


if __name__ == "__main__":
    main()
