"""What searching a folder costs: bringing files into the index, answers, the process's memory.

    python -m benchmarks.folder [--quick] [--mb MB]

Files of generated Markdown of about 50 kB, 20 MB of them unless said otherwise. The limit of
indexing is SQLite itself, in turns with it: the same passages into a bare FTS5 table that keeps
their text, in transactions of a thousand. Answers are those of a process of its own, so that its
peak is its own. Questions have two to six words, as frequent as they are in the texts, but for the
hundred most frequent, which take the part of stop words. `current` is a search for which the whole
folder is looked at, after one file has changed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import emit, side_by_side
from benchmarks.memory import peak_mb
from moothall.research import search_folder

FILE = 50_000
"""Characters of a file."""
QUESTIONS = 200
TOKENIZER = "porter unicode61 remove_diacritics 2"


def texts(seed: int, without: int = 0) -> Callable[[int], str]:
    """Makes texts of so many words, whose frequencies fall as in any language (Zipf).

    `without`: so many of the most frequent words are left out.
    """
    rng = random.Random(seed)
    parts = ["ba", "co", "di", "fu", "ge", "la", "mo", "ni", "pra", "que", "ro", "stu", "ti", "ver"]
    named = random.Random(1)
    made = ("".join(named.choices(parts, k=named.randint(1, 5))) for _ in range(60_000))
    words = list(dict.fromkeys(made))
    weights = list(itertools.accumulate(1 / (place + 2.7) for place in range(len(words))))
    weights = [weight - weights[without] for weight in weights[without:]]
    return lambda count: " ".join(rng.choices(words[without:], cum_weights=weights, k=count))


def fill(folder: Path, mb: float) -> int:
    """Write so many megabytes; gives how many bytes they are."""
    text, size, number = texts(2), 0, 0
    while size < mb * 1e6:
        lines = [f"# Document {number} {text(3)}\n"]
        length = 0
        while length < FILE:
            lines.append(f"## {text(3)}\n\n" + "\n\n".join(text(60) + "." for _ in range(4)) + "\n")
            length += len(lines[-1])
        path = folder / f"{number % 100:02}" / f"{number}.md"
        path.parent.mkdir(exist_ok=True)
        size += path.write_bytes("\n".join(lines).encode())
        number += 1
    return size


def questions() -> list[str]:
    text, rng = texts(3, without=100), random.Random(4)
    return [text(rng.randint(2, 6)) for _ in range(QUESTIONS)]


def beside_sqlite(base: Path, mb: float, rounds: int) -> None:
    """Index a folder, and insert the passages of its index into a bare table."""
    (base / "docs").mkdir()
    size = fill(base / "docs", mb)
    numbers = itertools.count()
    indexes: list[Path] = []
    passages: list[tuple[str, str]] = []

    def ours() -> int:
        indexes.append(base / f"ours{next(numbers)}.db")
        search_folder(base / "docs", index=indexes[-1]).execute(query="nothing")
        return size

    def bare() -> int:
        if not passages:
            db = sqlite3.connect(indexes[0])
            passages.extend(
                db.execute(
                    "SELECT files.title || ' ' || passages.title, passages.text FROM passages "
                    "JOIN files ON files.number = passages.file ORDER BY passages.number"
                )
            )
            db.close()
        db = sqlite3.connect(base / f"bare{next(numbers)}.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (title, text, tokenize = '{TOKENIZER}')")
        for start in range(0, len(passages), 1000):
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO words VALUES (?, ?)", passages[start : start + 1000])
            db.execute("COMMIT")
        db.close()
        return size

    figures = side_by_side({"moothall": ours, "FTS5": bare}, rounds)
    rates = {name: 1 / figure.seconds / 1e6 for name, figure in figures.items()}
    emit("folder: index", "FTS5", rates["FTS5"], "MB/s", passages=len(passages))
    ratio = 1 / figures["moothall"].over(figures["FTS5"])
    emit("folder: index", "moothall", rates["moothall"], "MB/s", limit=rates["FTS5"], ratio=ratio)


def live(folder: Path) -> dict[str, float]:
    """Index a folder and search it, and say what it took."""
    size = fill(folder, float(folder.name))
    figures: dict[str, float] = {}
    start = time.perf_counter()
    action = search_folder(folder, index=folder.with_suffix(".db"))
    action.execute(query="nothing")
    figures["index"] = size / 1e6 / (time.perf_counter() - start)
    figures["index peak"] = peak_mb()
    taken: list[float] = []
    computed: list[float] = []
    found = 0
    for question in questions():
        start, cpu = time.perf_counter(), time.process_time()
        found += len(action.execute(query=question))
        taken.append((time.perf_counter() - start) * 1000)
        computed.append((time.process_time() - cpu) * 1000)
    for name, times in (("answer", taken), ("answer, CPU", computed)):
        figures[f"{name} median"] = statistics.median(times)
        figures[f"{name} p95"] = statistics.quantiles(times, n=20)[-1]
    figures["files found"] = found / QUESTIONS
    many = search_folder(folder, index=folder.with_suffix(".db"), results=1000)
    start = time.perf_counter()
    many.execute(query=questions()[0])
    figures["1,000 results"] = (time.perf_counter() - start) * 1000
    (folder / "00" / "0.md").write_text("# Changed\n\nSomething unheardof.\n")
    changed = search_folder(folder, index=folder.with_suffix(".db"))
    start = time.perf_counter()
    assert len(changed.execute(query="unheardof")) == 1
    figures["current"] = (time.perf_counter() - start) * 1000
    figures["peak"] = peak_mb()
    figures["file"] = (
        sum(each.stat().st_size for each in folder.parent.glob(f"{folder.name}.db*")) / 1e6
    )
    return figures


UNITS = {
    "index": "MB/s",
    "answer median": "ms",
    "answer p95": "ms",
    "answer, CPU median": "ms",
    "answer, CPU p95": "ms",
    "files found": "1",
    "1,000 results": "ms",
    "current": "ms",
    "index peak": "MB",
    "peak": "MB",
    "file": "MB",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 MB")
    parser.add_argument("--mb", type=float, default=20, help="so many megabytes of text")
    parser.add_argument("--live", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        print(json.dumps(live(Path(options.live))))
        return
    mb = 2 if options.quick else options.mb
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        beside_sqlite(base, min(mb, 20), 3)
        folder = base / f"{mb:g}"
        folder.mkdir()
        command = [sys.executable, "-m", "benchmarks.folder", "--live", str(folder)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures = json.loads(done.stdout)
        for name, unit in UNITS.items():
            emit(f"folder: {name}", f"{mb:g} MB", figures[name], unit)


if __name__ == "__main__":
    main()
