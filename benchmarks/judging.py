"""Questions with known answers over Debian's python3-doc, and what a report is worth by them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchmarks.docweb import text_of
from benchmarks.scripted import folded
from moothall.research import Passage, Report, Researcher
from moothall.research.citations import fault
from moothall.research.citations.comparison import SEPARATOR

QUESTIONS = Path(__file__).parent / "data" / "questions.jsonl"


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
    quoted: int = 0  # the place of the first quote with an answer; 0 for none
    read: bool = False
    citations: int = 0
    resolved: int = 0
    supported: int = 0
    marked: int = 0
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


_MARK = re.compile(r"<a [^>]*footnote-reference[^>]*>.*?</a>", re.DOTALL)


def bare(text: str) -> str:
    """A text's letters and digits."""
    return "".join(character for character in text if character.isalnum())


@lru_cache(maxsize=1000)
def served(url: str) -> str:
    """What stands in a page or file now, without the marks of its footnotes."""
    with urllib.request.urlopen(url) as answer:
        return bare(text_of(_MARK.sub("", answer.read().decode("utf-8", "replace"))))


def is_resolved(passage: Passage, stored: dict[int, Passage]) -> bool:
    digest = sha256(passage.text.encode()).hexdigest()
    if passage not in stored.values() or passage.sha256 != digest:
        return False
    page, at = served(passage.url.partition("#")[0]), 0
    for paragraph in map(bare, passage.text.split("\n\n")):
        at = page.find(paragraph, at)
        if at < 0:
            return False
        at += len(paragraph)
    return True


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
        texts = SEPARATOR.join(one.text for one in together[each.sentence])
        titles = "\n".join(one.title for one in together[each.sentence])
        supported += alone or fault(each.sentence, texts, titles) is None
    said = list(dict.fromkeys((each.passage.url, each.sentence) for each in report.citations))
    quoted = [n for n, (url, text) in enumerate(said, 1) if is_answer(question, url, text)]
    known = researcher.workbench.known_passages()
    return Outcome(
        answered=bool(at),
        rank=at[0] if at else 0,
        quoted=quoted[0] if quoted else 0,
        read=any(is_answer(question, each.url, each.text) for each in known),
        citations=len(cited),
        resolved=sum(is_resolved(each, researcher.workbench.passages_by_number) for each in cited),
        supported=supported,
        marked=len(report.unsupported),
        pages=sum(bool(each.visited) for each in researcher.resources.get_all()),
        iterations=report.iterations,
        seconds=seconds,
        tokens=report.usage.input_tokens + report.usage.output_tokens,
    )
