"""How fast research reads slow pages and HTML, and what a run of very many results takes.

    python -m benchmarks.research_speed [--html FOLDER]

20 pages that take 0.2 s each, four at once, as `visit_page` does with one host; a run of five
iterations whose tools give 1,000 resources of 10,000 characters; and bringing a folder of HTML
(Debian's `python3-doc`, unless another is named) into the index of `search_folder`, in seconds of
the processor, and reading a PDF in a process of its own. Each in a process of its own.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pypdf

from benchmarks.docweb import SLOW_S, running
from benchmarks.folder import texts
from benchmarks.measure import emit
from benchmarks.memory import peak_mb
from moothall.agents.block import Block
from moothall.research import Researcher, ResearchTask, Resource, search_folder, visit_page
from moothall.research.reading.pdf.document import read_pdf_bytes
from moothall.research.reading.process import ProcessReading

SLOW_PAGES, AT_ONCE, ROUNDS = 20, 4, 3
MANY, CHARS, CALLS, ITERATIONS = 1000, 10_000, 25, 5
AIM_RATIO, AIM_MB, AIM_HTML = "<= 1.3 ratio", "<= 500", ">= 3"
DOCUMENTATION = "/usr/share/doc/python3.11/html"


class Fixed(Block):
    """A Plan that wants the same every time, as far as it is not done."""

    description = "wants what it is told to"

    def __init__(self, tasks: Callable[[int], list[ResearchTask]]) -> None:
        super().__init__()
        self._tasks = tasks

    async def forward(self, researcher: Researcher) -> list[ResearchTask]:
        return self._tasks(researcher.iteration)


def slow(port: int) -> dict[str, float]:
    """Read pages that take SLOW_S each, as many at once as one host is asked for."""
    read(port, "first", 1)  # the libraries are loaded now
    return {"seconds": read(port, "then", SLOW_PAGES)}


def read(port: int, name: str, pages: int) -> float:
    """How many seconds a run takes that reads so many slow pages at once."""
    urls = [f"http://127.0.0.1:{port}/slow/{name}/{number}" for number in range(pages)]
    tasks = [ResearchTask("visit_page", {"url": url}, "to be read") for url in urls]
    researcher = Researcher(
        "researcher",
        None,
        ["slowness"],
        [visit_page(allow_hosts=["127.0.0.1"], per_host=AT_ONCE)],
        iterations=1,
        plan=Fixed(lambda _: tasks),
        max_tasks=pages,
    )
    start = time.perf_counter()
    researcher.report_sync()
    seconds = time.perf_counter() - start
    visited = sum(bool(each.visited) for each in researcher.resources.get_all())
    assert visited == pages, f"{visited} pages of {pages} were read"
    return seconds


def many() -> dict[str, float]:
    """A run whose tools give MANY resources of CHARS characters, in ITERATIONS."""
    text = texts(5)
    found = [
        Resource(
            f"https://example.org/{number}",
            f"Page {number}",
            True,
            "\n\n".join(f"{text(80)}." for _ in range(25))[:CHARS],
        )
        for number in range(MANY)
    ]

    def find(part: int) -> list[Resource]:
        """Find what there is."""
        return found[part::CALLS]

    def tasks(iteration: int) -> list[ResearchTask]:
        parts = range(iteration - 1, CALLS, ITERATIONS)
        return [ResearchTask("find", {"part": part}, "more") for part in parts]

    researcher = Researcher(
        "researcher", None, [text(5)], [find], ITERATIONS, target=1.0, plan=Fixed(tasks)
    )
    before, start = peak_mb(), time.perf_counter()
    researcher.report_sync()
    seconds = time.perf_counter() - start
    chars = sum(len(each.content or "") for each in researcher.resources.get_all())
    results = len(researcher.resources)
    return {
        "seconds": seconds,
        "peak": peak_mb(),
        "before": before,
        "results": results,
        "chars": chars,
        "iterations": researcher.progress.iteration,
    }


def html(folder: str) -> dict[str, float]:
    """Index a folder of HTML; in seconds of the processor."""
    files = [*Path(folder).rglob("*.htm*")]
    size = sum(each.stat().st_size for each in files)
    with tempfile.TemporaryDirectory() as place:
        start, cpu = time.perf_counter(), time.process_time()
        action = search_folder(folder, index=Path(place) / "index.db", pattern="*.htm*")
        action.execute(query="nothing")
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
    return {"files": len(files), "mb": size / 1e6, "cpu": cpu, "seconds": seconds}


def documents(_: str) -> dict[str, float]:
    """Read a small PDF several times: the first starts the process that reads it."""
    data = pdf([f"This is what page {number} says." for number in range(20)])
    taken = []
    for _ in range(21):
        start = time.perf_counter()
        ProcessReading("pdf", data).read()
        taken.append(time.perf_counter() - start)
    start = time.perf_counter()
    read_pdf_bytes(data)
    read_pdf_bytes(data)
    within = (time.perf_counter() - start) / 2
    return {"first": taken[0], "next": statistics.median(taken[1:]), "within": within}


def pdf(pages: list[str]) -> bytes:
    """A PDF with a text on each page."""
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(600, 800)
        content = pypdf.generic.DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        names = {pypdf.generic.NameObject(k): pypdf.generic.NameObject(v) for k, v in font.items()}
        fonts = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/F1"): pypdf.generic.DictionaryObject(names)}
        )
        page[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        page[pypdf.generic.NameObject("/Contents")] = writer._add_object(content)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def alone(*arguments: str) -> dict[str, float]:
    """What a measurement gives in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.research_speed", "--live", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def speed(port: int) -> None:
    ideal = math.ceil(SLOW_PAGES / AT_ONCE) * SLOW_S
    taken = [alone("slow", str(port))["seconds"] for _ in range(ROUNDS)]
    seconds = statistics.median(taken)
    more = {"limit": ideal, "ratio": seconds / ideal, "target": AIM_RATIO}
    emit("research: 20 slow pages", f"{AT_ONCE} at once", seconds, "s", **more)
    figures = alone("many")
    peak = figures.pop("peak")
    emit("research: 1,000 results", "peak", peak, "MB", target=AIM_MB, **figures)


def reading(folder: str) -> None:
    if not Path(folder).is_dir():
        print(f"{folder} is not there: the speed of HTML is not measured", file=sys.stderr)
    else:
        figures = alone("html", folder)
        rate = figures["mb"] / figures["cpu"]
        emit("research: HTML", "indexed", rate, "MB/CPU s", target=AIM_HTML, **figures)
    figures = alone("documents", "")
    emit("research: PDF of 20 pages", "in a process", figures.pop("next") * 1000, "ms", **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same: it takes half a minute")
    parser.add_argument("--live", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--html", default=DOCUMENTATION, help="a folder of HTML to index")
    options = parser.parse_args()
    if options.live:
        what, *rest = options.live
        done = {
            "slow": lambda: slow(int(rest[0])),
            "many": many,
            "html": lambda: html(rest[0]),
            "documents": lambda: documents(rest[0]),
        }[what]()
        print(json.dumps(done))
        return
    reading(options.html)
    with tempfile.TemporaryDirectory() as empty, running(empty) as port:
        speed(port)


if __name__ == "__main__":
    main()
