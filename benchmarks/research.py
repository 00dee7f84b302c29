"""How well research answers questions from real documentation, and what its citations are worth.

    python -m benchmarks.research [--quick] [--published] [FORM ...]

The text is Debian's `python3-doc` (its version is printed); the questions are those of
`benchmarks/data/questions.jsonl`. A question is answered if a cited passage of a right page has an
answer; `by the first` counts those whose first passage has one. Four forms, each with three
iterations for each question, by itself:

- `plain`: ten passages of a bare FTS5 table of the same passages, the question's words joined by OR
- `folder`: the extractive form with `search_folder`
- `web`: the extractive form with `search_web` and `visit_page` on loopback (docweb.py)
- `scripted`: `search_folder`, and a scripted model in the place of a capable one (scripted.py)

A citation is `resolved` if its passage is stored, has the hash that it is said to have, and its
paragraphs stand in this order in the file or page as it is served now, compared by letters and
digits without moothall' own reader of HTML, which leaves out what stands beside the text. It is
`supported` if `moothall.research.citations.fault` finds nothing wrong. `of_missed` is how many of
the questions are answered that plain search does not answer. Intervals are Wilson's, of 95 %.

The questions are of the half `tune`, 20 of them with `--quick`; `--published` takes the other half,
which nothing was ever changed by. JSON lines on stdout, at last a table on stderr.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.citations import wilson
from benchmarks.docweb import running
from benchmarks.judging import Outcome, Question, documentation, is_answer, judged, questions
from benchmarks.measure import emit
from benchmarks.scripted import Scripted
from moothall.research import Researcher, search_folder, search_web, visit_page

FORMS = ("plain", "folder", "web", "scripted")
ITERATIONS = 3
RESULTS = 24
PLAIN = 10
PLANT_EVERY = 5
AIM_FOUND, AIM_MISSED = ">= 0.9", ">= 0.3333"


def researched(question: Question, model: Any, tools: list[Any]) -> tuple[Researcher, Outcome]:
    start = time.perf_counter()
    researcher = Researcher("researcher", model, [question.question], tools, ITERATIONS)
    report = researcher.report_sync()
    return researcher, judged(question, researcher, report, time.perf_counter() - start)


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
        rows = self._plain.execute(
            f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {PLAIN}",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchall()
        seconds = time.perf_counter() - start
        found = [self._passages[number - 1] for (number,) in rows]
        right = [
            place
            for place, (path, _, _, text) in enumerate(found, 1)
            if is_answer(question, f"file:///{path.decode()}", text)
        ]
        return Outcome(bool(right), rank=right[0] if right else 0, seconds=seconds)

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
        outcome.caught = any(said == model.planted for said, _ in researcher.workbench.unsupported)
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
    first = ranks.count(1)
    row = [form, f"{answered} of {count} ({low:.2f}–{high:.2f})", f"{first} of {count}"]
    if form == "plain":
        say("rank", statistics.median(ranks or [0]), "place", first=first)
        say("seconds", statistics.mean(seconds), "s", median=statistics.median(seconds))
        rank = f"{statistics.median(ranks or [0]):g}"
        return [*row, "", "", "", "", "", rank, "", "", f"{statistics.mean(seconds):.3f}", ""]
    missed = [each for each, other in zip(outcomes, plain, strict=True) if not other.answered]
    found = sum(each.answered for each in missed)
    lost = len(plain) - len(missed) - (answered - found)
    of_low, of_high = wilson(found, len(missed) or 1)
    more: dict[str, Any] = {"low": of_low, "high": of_high, "of": len(missed)}
    more |= {"mcnemar_b": found, "mcnemar_c": lost, "target": AIM_MISSED if missed else None}
    say("of_missed", found / max(len(missed), 1), "share", **more)
    cited = total("citations")
    quoted = [each.quoted for each in outcomes if each.quoted]
    say("quoted", len(quoted) / count, "share", first=quoted.count(1))
    say("refused", sum(not each.citations for each in outcomes) / count, "share")
    say("read", total("read") / count, "share", of=count)
    say("resolved", total("resolved") / max(cited, 1), "share", of=cited, target=">= 1")
    say("supported", total("supported") / max(cited, 1), "share", of=cited)
    say("marked", total("marked") / count, "sentences")
    say("rank", statistics.median(ranks or [0]), "place", first=first)
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
        f"{len(quoted)} of {count}",
        f"{quoted.count(1)} of {count}",
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
    *("form", "answered", "by the first", "in a quote", "in the first quote"),
    *("of what plain missed", "resolved", "supported", "median rank", "pages", "iterations"),
    *("seconds", "tokens"),
)


def show(rows: list[list[str]]) -> None:
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 questions")
    parser.add_argument("--published", action="store_true", help="the half kept for this figure")
    parser.add_argument("--verbose", action="store_true", help="each question's outcome, on stderr")
    parser.add_argument("--index", metavar="FILE", help="where the index is, to be used again")
    parser.add_argument("forms", nargs="*", metavar="FORM", help=", ".join(FORMS))
    options = parser.parse_args()
    unknown = sorted(set(options.forms) - set(FORMS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(FORMS)}")
    logging.getLogger("moothall").setLevel(logging.ERROR)
    os.environ["MOOTHALL_OFFLINE"] = "1"  # the pages have links to everywhere
    docs, version = documentation()
    split = "published" if options.published else "tune"
    asked = questions(split)[: 20 if options.quick else None]
    rows: list[list[str]] = []
    plain: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name, running(docs) as port:
        forms = Forms(docs, Path(options.index or Path(name, "docs.db")), port)
        more = {"passages": forms.passages, "text": version, "split": split}
        emit("research: index", "search_folder", forms.index_s, "s", **more)
        for form in FORMS:
            if form != "plain" and options.forms and form not in options.forms:
                continue
            outcomes = []
            for question in asked:
                outcomes.append(getattr(forms, form)(question))
                if options.verbose:
                    print(form, question.id, asdict(outcomes[-1]), file=sys.stderr)
            plain = plain or outcomes
            rows.append(told(form, outcomes, plain))
    if len(rows) > 1:
        print(f"{version}, {split}, {len(asked)} questions", file=sys.stderr)
        show(rows)


if __name__ == "__main__":
    main()
