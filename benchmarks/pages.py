"""How much of a page's text is found, and how much of what is read is its text.

    python -m benchmarks.pages FOLDER

FOLDER is a clone of Scrapinghub's article-extraction-benchmark: 181 pages of news as they were
served, and the text of each article, marked by people. Both texts are compared as its
`evaluate.py` does: by the runs of four words that they have, counted per page, with the means over
all pages. Beside ours stands trafilatura by itself, with its own settings and without comments.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trafilatura

from benchmarks.measure import emit
from moothall.foundation.errors import UnreadableDocument
from moothall.research.reading.html import read_html

RUN = 4
_WORD = re.compile(r"\w+", re.UNICODE)


def runs(text: str) -> Counter[tuple[str, ...]]:
    """The runs of four words of a text; of a shorter one, itself."""
    words = _WORD.findall(text)
    ends = max(1, len(words) - RUN + 1)
    return Counter(tuple(words[at : at + RUN]) for at in range(ends) if words)


def shares(true: str, read: str) -> tuple[float, float]:
    """The share of the text that is found, and the share of what was read that is right."""
    wanted, found = runs(true), runs(read)
    both = (wanted & found).total()
    return both / (wanted.total() or 1), both / (found.total() or 1) if found else 0.0


def ours(page: bytes) -> str:
    try:
        return read_html(page, None, "https://page.example/").text
    except UnreadableDocument:
        return ""


def alone(page: bytes) -> str:
    return trafilatura.extract(page) or ""


def without_comments(page: bytes) -> str:
    return trafilatura.extract(page, include_comments=False) or ""


def measure(folder: Path, form: str, read: Callable[[bytes], str]) -> None:
    """Print the figures of one form."""
    truth = json.loads((folder / "ground-truth.json").read_text("utf-8"))
    pages: list[tuple[float, float]] = []
    seconds = 0.0
    for name, stated in truth.items():
        page = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        start = time.process_time()
        text = read(page)
        seconds += time.process_time() - start
        pages.append(shares(stated.get("articleBody", ""), text))
    recall, precision = (statistics.mean(each) for each in zip(*pages, strict=True))
    score = 2 * precision * recall / (precision + recall)
    mostly_wrong = sum(right < 0.6 for _, right in pages)
    emit("pages: found", form, recall, "share", pages=len(pages))
    emit("pages: right", form, precision, "share", below_six_tenths=mostly_wrong)
    emit("pages: F1", form, score, "share")
    emit("pages: time", form, 1000 * seconds / len(pages), "CPU ms a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the clone")
    folder: Path = parser.parse_args().folder
    measure(folder, "moothall", ours)
    measure(folder, "trafilatura", alone)
    measure(folder, "trafilatura without comments", without_comments)


if __name__ == "__main__":
    main()
