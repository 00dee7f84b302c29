"""How well research answers questions from real documentation, and what its citations are worth.

    python -m benchmarks.research [--quick] [--published] [FORM ...]

The text is Debian's `python3-doc` (its version is printed); the questions are those of
`benchmarks/data/questions.jsonl`. A question is answered if a cited passage of a right page has an
answer. Four forms, each with three iterations for each question, by itself:

- `plain`: the best passage of a bare FTS5 table over the same passages, its words joined by OR
- `folder`: the extractive form with `search_folder`
- `web`: the extractive form with `search_web` and `visit_page` on loopback (docweb.py)
- `scripted`: `search_folder`, and a scripted model in the place of a capable one (scripted.py)

A citation is `resolved` if its passage is stored, has the hash that it is said to have, and stands
in the file or page as it is served now, compared by letters and digits without civitas' own reader
of HTML. It is `supported` if `civitas.research.citations.fault` finds nothing wrong. `of_missed` is
how many of the questions are answered that plain search does not answer. Intervals are Wilson's,
of 95 %. Then speed: 20 pages of 0.2 s each, and a run of 1,000 results.

The questions are of the half `tune`, 20 of them with `--quick`; `--published` takes the other half,
which nothing was ever changed by. JSON lines on stdout, at last a table on stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks.citations import wilson
from benchmarks.docweb import text_of
from benchmarks.measure import emit
from benchmarks.memory import peak_mb
from benchmarks.scripted import Scripted, folded
from civitas.block import Block
from civitas.research import (
    Passage,
    Report,
    Researcher,
    ResearchTask,
    Resource,
    search_folder,
    search_web,
    visit_page,
)
from civitas.research.citations import fault
from civitas.research.evidence import BETWEEN

QUESTIONS = Path(__file__).parent / "data" / "questions.jsonl"
FORMS = ("plain", "folder", "web", "scripted")
ITERATIONS = 3
RESULTS = 24
PLANT_EVERY = 5
AIM_FOUND, AIM_MISSED = 0.9, 1 / 3
SLOW_PAGES, SLOW_S, AT_ONCE = 20, 0.2, 4
MANY, CHARS = 1000, 10_000


@dataclass(frozen=True)
class Question:
    """A question, what its answers say, and the pages that they are on."""

    id: str
    question: str
    answers: list[str]
    pages: list[str]


@dataclass
class Outcome:
    """What a form made of a question; counts of its citations."""

    answered: bool
    rank: int = 0
    read: bool = False
    citations: int = 0
    resolved: int = 0
    supported: int = 0
    pages: int = 0
    iterations: int = 0
    seconds: float = 0.0
    tokens: int = 0
    planted: int = 0
    caught: int = 0


def documentation() -> tuple[Path, str]:
    """Where the newest python3-doc is, and which version."""

    named = re.compile(r"python3\.(\d+)")
    places = [each.parent for each in Path("/usr/share/doc").glob("python3.*/html/index.html")]
    found = {int(name[1]): each for each in places if (name := named.fullmatch(each.parent.name))}
    if not found:
        sys.exit(
            "benchmarks.research reads Debian's python3-doc, which is not installed: "
            "apt-get install --no-install-recommends python3-doc"
        )
    folder = found[max(found)]
    package = f"{folder.parent.name}-doc"
    command = ["dpkg-query", "--show", "--showformat=${Package} ${Version}", package]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return folder.resolve(), done.stdout.strip() or folder.parent.name


def questions(split: str) -> list[Question]:
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    return [
        Question(*(row[name] for name in ("id", "question", "answers", "pages")))
        for row in rows
        if row["split"] == split
    ]


# -- judging a report ------------------------------------------------------------------------------


def is_answer(question: Question, url: str, text: str) -> bool:
    """Whether a passage of a right page has an answer."""
    path = unquote(urlsplit(url).path)
    on_page = any(path.endswith(f"/{page}") for page in question.pages)
    return on_page and any(folded(answer) in folded(text) for answer in question.answers)


def bare(text: str) -> str:
    """A text's letters and digits."""
    return "".join(character for character in text if character.isalnum())


@lru_cache(maxsize=1000)
def served(url: str) -> str:
    """What stands in a page or file now."""
    with urllib.request.urlopen(url) as answer:
        return bare(text_of(answer.read().decode("utf-8", "replace")))


def is_resolved(passage: Passage, stored: dict[int, Passage]) -> bool:
    digest = sha256(passage.text.encode()).hexdigest()
    return (
        passage in stored.values()
        and passage.sha256 == digest
        and bare(passage.text) in served(passage.url.partition("#")[0])
    )


def judged(question: Question, researcher: Researcher, report: Report, seconds: float) -> Outcome:
    """What a report is worth."""
    cited = [each.passage for each in report.citations]
    at = [n for n, each in enumerate(cited, 1) if is_answer(question, each.url, each.text)]
    together: dict[str, list[Passage]] = {}
    for each in report.citations:
        together.setdefault(each.sentence, []).append(each.passage)
    supported = 0
    for each in report.citations:
        alone = fault(each.sentence, each.passage.text, each.passage.title) is None
        texts = BETWEEN.join(one.text for one in together[each.sentence])
        titles = "\n".join(one.title for one in together[each.sentence])
        supported += alone or fault(each.sentence, texts, titles) is None
    known = researcher.known_passages()
    return Outcome(
        answered=bool(at),
        rank=at[0] if at else 0,
        read=any(is_answer(question, each.url, each.text) for each in known),
        citations=len(cited),
        resolved=sum(is_resolved(each, researcher.numbered) for each in cited),
        supported=supported,
        pages=sum(bool(each.visited) for each in researcher.resources.get_all()),
        iterations=report.iterations,
        seconds=seconds,
        tokens=report.usage.input_tokens + report.usage.output_tokens,
    )


def researched(question: Question, model: Any, tools: list[Any]) -> tuple[Researcher, Outcome]:
    start = time.perf_counter()
    researcher = Researcher("researcher", model, [question.question], tools, ITERATIONS)
    report = researcher.report_sync()
    return researcher, judged(question, researcher, report, time.perf_counter() - start)


# -- the forms -------------------------------------------------------------------------------------


class Forms:
    """Asks each form a question; they share an index of the documentation, made beforehand."""

    def __init__(self, docs: Path, index: Path, port: int) -> None:
        self._web = f"http://127.0.0.1:{port}"
        self._folder = search_folder(docs, index=index, pattern="*.html", results=RESULTS)
        start = time.perf_counter()
        self._folder.execute(query="nothing")
        self.index_s = time.perf_counter() - start
        stored = sqlite3.connect(index)
        self._passages = stored.execute(
            "SELECT files.path, files.title, passages.title, passages.text FROM passages "
            "JOIN files ON files.number = passages.file ORDER BY passages.number"
        ).fetchall()
        stored.close()
        self._plain = sqlite3.connect(":memory:")
        self._plain.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (title, text, tokenize = 'porter unicode61')"
        )
        self._plain.executemany(
            "INSERT INTO words VALUES (? || ' ' || ?, ?)", (each[1:] for each in self._passages)
        )
        self._planting = 0

    @property
    def passages(self) -> int:
        return len(self._passages)

    def plain(self, question: Question) -> Outcome:
        start = time.perf_counter()
        words = dict.fromkeys(re.findall(r"\w+", question.question.lower()))
        row = self._plain.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 1",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchone()
        seconds = time.perf_counter() - start
        path, _, _, text = self._passages[row[0] - 1]
        answered = is_answer(question, f"file:///{path.decode()}", text)
        return Outcome(answered, rank=int(answered), seconds=seconds)

    def folder(self, question: Question) -> Outcome:
        return researched(question, None, [self._folder])[1]

    def web(self, question: Question) -> Outcome:
        tools = [search_web(searxng=self._web), visit_page(allow_hosts=["127.0.0.1"])]
        before = self._given()
        start = time.perf_counter()
        researcher = Researcher("researcher", None, [question.question], tools, ITERATIONS)
        report = researcher.report_sync()
        seconds, pages = time.perf_counter() - start, self._given() - before
        outcome = judged(question, researcher, report, seconds)
        outcome.pages = pages
        return outcome

    def scripted(self, question: Question) -> Outcome:
        titles, wordings = [], [question.question]
        sections: list[str] = []
        for path, title, section, text in self._passages:
            name = path.decode()
            if name in question.pages:
                titles.append(title)
                if is_answer(question, f"file:///{name}", text):
                    sections.append(f"{title.partition(' — ')[0]} {section}")
        titles = list(dict.fromkeys(titles))
        wordings += [f"{each} {question.question}" for each in titles[:1]]
        wordings += list(dict.fromkeys(sections))[:1]
        self._planting += 1
        model = Scripted(
            question.question, question.answers, titles, wordings, not self._planting % PLANT_EVERY
        )
        researcher, outcome = researched(question, model, [self._folder])
        outcome.planted = bool(model.planted)
        outcome.caught = any(said == model.planted for said, _ in researcher.unsupported)
        return outcome

    def _given(self) -> int:
        with urllib.request.urlopen(f"{self._web}/count") as answer:
            return int(answer.read())


# -- figures ---------------------------------------------------------------------------------------


def told(form: str, outcomes: list[Outcome], plain: list[Outcome]) -> list[str]:
    """Print the figures of a form; gives its row of the table."""

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in outcomes)

    def say(metric: str, value: float, unit: str, **more: Any) -> None:
        emit(f"research: {metric}", form, value, unit, **more)

    count, answered = len(outcomes), total("answered")
    low, high = wilson(answered, count)
    say("answered", answered / count, "share", low=low, high=high, target=AIM_FOUND, of=count)
    ranks = [each.rank for each in outcomes if each.answered]
    seconds = [each.seconds for each in outcomes]
    row = [form, f"{answered} of {count} ({low:.2f}–{high:.2f})"]
    if form == "plain":
        say("seconds", statistics.mean(seconds), "s", median=statistics.median(seconds))
        return [*row, "", "", "", "1", "", "", f"{statistics.mean(seconds):.3f}", ""]
    missed = [each for each, other in zip(outcomes, plain, strict=True) if not other.answered]
    found = sum(each.answered for each in missed)
    lost = len(plain) - len(missed) - (answered - found)
    of_low, of_high = wilson(found, len(missed) or 1)
    say(
        "of_missed",
        found / max(len(missed), 1),
        "share",
        **{"low": of_low, "high": of_high, "of": len(missed), "target": AIM_MISSED},
        **{"mcnemar_b": found, "mcnemar_c": lost},
    )
    cited = total("citations")
    say("read", total("read") / count, "share", of=count)
    say("resolved", total("resolved") / max(cited, 1), "share", of=cited, target=1.0)
    say("supported", total("supported") / max(cited, 1), "share", of=cited)
    say("rank", statistics.median(ranks or [0]), "place", first=ranks.count(1))
    say("pages", total("pages") / count, "pages")
    say("iterations", total("iterations") / count, "iterations")
    say("seconds", statistics.mean(seconds), "s", median=statistics.median(seconds))
    say("tokens", total("tokens") / count, "tokens")
    if total("planted"):
        say("planted", total("caught") / total("planted"), "share", of=total("planted"))
    if form == "scripted":
        at = [each.iterations for each in outcomes if each.answered]
        for number in range(1, ITERATIONS + 1):
            within = sum(each <= number for each in at)
            say(f"within {number}", within / count, "share", of=count)
    return [
        *row,
        f"{found} of {len(missed)} ({of_low:.2f}–{of_high:.2f})",
        f"{total('resolved')} of {cited}",
        f"{total('supported')} of {cited}",
        f"{statistics.median(ranks or [0]):g}",
        f"{total('pages') / count:.1f}",
        f"{total('iterations') / count:.1f}",
        f"{statistics.mean(seconds):.2f}",
        f"{total('tokens') / count:.0f}",
    ]


COLUMNS = (
    *("form", "answered", "of what plain missed", "resolved", "supported", "median rank", "pages"),
    *("iterations", "seconds", "tokens"),
)


def show(rows: list[list[str]]) -> None:
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |", file=sys.stderr)


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """A server in a process of its own, by the port that it prints."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


# -- speed -----------------------------------------------------------------------------------------


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
    urls = [f"http://127.0.0.1:{port}/slow/{number}" for number in range(SLOW_PAGES)]
    tasks = [ResearchTask("visit_page", {"url": url}, "to be read") for url in urls]
    researcher = Researcher(
        "researcher",
        None,
        ["slowness"],
        [visit_page(allow_hosts=["127.0.0.1"], per_host=AT_ONCE)],
        iterations=1,
        plan=Fixed(lambda _: tasks),
        max_tasks=SLOW_PAGES,
    )
    start = time.perf_counter()
    researcher.report_sync()
    read = sum(bool(each.visited) for each in researcher.resources.get_all())
    assert read == SLOW_PAGES, f"{read} pages of {SLOW_PAGES} were read"
    return {"seconds": time.perf_counter() - start}


def many() -> dict[str, float]:
    """A run whose tools give MANY resources of CHARS characters, in five iterations."""
    from benchmarks.folder import texts

    text, per_call = texts(5), MANY // 25

    def find(part: int) -> list[Resource]:
        """Find what there is."""
        numbers = range(part * per_call, (part + 1) * per_call)
        return [
            Resource(
                f"https://example.org/{number}",
                f"Page {number}",
                True,
                "\n\n".join(f"{text(80)}." for _ in range(18))[:CHARS],
            )
            for number in numbers
        ]

    def tasks(iteration: int) -> list[ResearchTask]:
        parts = range((iteration - 1) * 5, iteration * 5)
        return [ResearchTask("find", {"part": part}, "more") for part in parts]

    researcher = Researcher(
        "researcher", None, [text(5)], [find], iterations=5, target=1.0, plan=Fixed(tasks)
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


def alone(*arguments: str) -> dict[str, float]:
    """What a measurement gives in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.research", "--live", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def speed(port: int) -> None:
    ideal = math.ceil(SLOW_PAGES / AT_ONCE) * SLOW_S
    taken = [alone("slow", str(port))["seconds"] for _ in range(3)]
    seconds = statistics.median(taken)
    more = {"limit": ideal, "ratio": seconds / ideal, "target": 1.3}
    emit("research: 20 slow pages", f"{AT_ONCE} at once", seconds, "s", **more)
    figures = alone("many")
    peak = figures.pop("peak")
    emit("research: 1,000 results", "peak", peak, "MB", target=500, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 questions")
    parser.add_argument("--published", action="store_true", help="the half kept for this figure")
    parser.add_argument("--verbose", action="store_true", help="each question's outcome, on stderr")
    parser.add_argument("--index", metavar="FILE", help="where the index is, to be used again")
    parser.add_argument("--live", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("forms", nargs="*", metavar="FORM", help=", ".join((*FORMS, "speed")))
    options = parser.parse_args()
    logging.getLogger("civitas").setLevel(logging.ERROR)
    if options.live:
        print(json.dumps(slow(int(options.live[1])) if len(options.live) > 1 else many()))
        return
    unknown = sorted(set(options.forms) - {*FORMS, "speed"})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join((*FORMS, 'speed'))}")
    docs, version = documentation()
    split = "published" if options.published else "tune"
    asked = questions(split)[: 20 if options.quick else None]
    wanted = options.forms or (*FORMS, "speed")
    rows, plain = [], []
    with tempfile.TemporaryDirectory() as name:
        with running([sys.executable, "-m", "benchmarks.docweb", str(docs)]) as port:
            forms = Forms(docs, Path(options.index or Path(name, "docs.db")), port)
            more = {"passages": forms.passages, "text": version, "split": split}
            emit("research: index", "search_folder", forms.index_s, "s", **more)
            for form in FORMS:
                if form != "plain" and form not in wanted:
                    continue
                outcomes = []
                for question in asked:
                    outcomes.append(getattr(forms, form)(question))
                    if options.verbose:
                        print(form, question.id, asdict(outcomes[-1]), file=sys.stderr)
                plain = plain or outcomes
                rows.append(told(form, outcomes, plain))
            if "speed" in wanted:
                speed(port)
    if len(rows) > 1:
        print(f"{version}, {split}, {len(asked)} questions", file=sys.stderr)
        show(rows)


if __name__ == "__main__":
    main()
