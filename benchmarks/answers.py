"""Whether research without a model answers first, and says so where there is no answer.

    python -m benchmarks.answers FOLDER [--fetch] [--split SPLIT] [--corpus NAME ...] [--verbose]

The text is that of Debian's documentation packages, in six corpora: `git`, `sqlite`, `postgres`,
`policy`, `guides` (the administrator's handbook, the references of developers and users, the guide
for maintainers, apt's) and `apache`. FOLDER has a folder for each; `--fetch` downloads the packages
with apt-get and fills it. The questions are those of `data/answers.jsonl`, written from sections
drawn at random before the ranking was changed: a question, patterns of its answer, and the files
that may answer it. Some have no answer in their corpus.

Two forms: `plain` is one `SELECT … ORDER BY bm25 LIMIT 10` over a bare FTS5 table of the same
passages, the question's words joined by OR; its first passage counts whole and, as "any quote",
within 900 characters of it. `extractive` is `Researcher(None, [question],
[search_folder(results=24)], 3)`. A question is answered in the first quote, in any quote, or among
the passages cited. A report without a citation says that nothing was found; `nearest` counts those
whose passages, shown below that, have the answer.

The split `develop` is for changing things, `published` for docs/research-figures.md. The questions
of `unknown-develop` and `unknown` have no answer; the first are for changing things.
`definitions` has twenty questions such as `What is a purge?`, over moothall's own docs (changed by)
and over Varnish's (not). `kinds-develop` (Postfix, Nettle) and `kinds` (Valgrind, rsyslog) ask who,
when, why, where and how many, half of them without an answer; the first are for changing things.
`folders` asks 45 questions, nine without an answer, over files of three public repositories, which
`data/README.md` names and FOLDER has as `icam`, `onnx` and `siva`; `folders-2` asks 45 more over
`aswf`, `gdc` and `bods`, and `folders-3`, in a person's own words, over `osgeo`, `openaps` and
`gnucash`.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchmarks.citations import wilson
from benchmarks.measure import emit
from moothall.research import Passage, Report, Researcher, search_folder

QUESTIONS = Path(__file__).parent / "data" / "answers.jsonl"
SPLITS = (
    *("develop", "published", "definitions", "unknown-develop", "unknown"),
    *("kinds-develop", "kinds", "folders", "folders-2", "folders-3"),
)
ITERATIONS = 3
RESULTS = 24
PLAIN = 10
WINDOW = 900  # characters of the first passage, where it has most of the question's words
REPOSITORIES = (
    "icam",
    "onnx",
    "siva",
    "aswf",
    "gdc",
    "bods",
    "osgeo",
    "openaps",
    "gnucash",
)  # corpora that nothing here downloads
_DOC = "usr/share/doc"
PACKAGES = {  # the corpus, the package, which of its folders
    "git": {"git-doc": f"{_DOC}/git-doc"},
    "sqlite": {"sqlite3-doc": f"{_DOC}/sqlite3"},
    "postgres": {"postgresql-doc-15": f"{_DOC}/postgresql-doc-15/html"},
    "policy": {"debian-policy": f"{_DOC}/debian-policy"},
    "guides": {
        "debian-handbook": f"{_DOC}/debian-handbook/html/en-US",
        "developers-reference": "usr/share/developers-reference",
        "debian-reference-en": "usr/share/debian-reference",
        "maint-guide": f"{_DOC}/maint-guide/html",
        "apt-doc": f"{_DOC}/apt-doc",
    },
    "apache": {"apache2-doc": f"{_DOC}/apache2-doc/manual/en"},
    "varnish": {"varnish-doc": f"{_DOC}/varnish/html"},
    "bash": {"bash-doc": f"{_DOC}/bash"},
    "zsh": {"zsh-doc": f"{_DOC}/zsh-common/html"},
    "mutt": {"mutt": f"{_DOC}/mutt"},
    "haproxy": {"haproxy-doc": f"{_DOC}/haproxy"},
    "vim": {"vim-doc": f"{_DOC}/vim"},
    "postfix": {"postfix-doc": f"{_DOC}/postfix/html"},
    "nettle": {"nettle-dev": f"{_DOC}/nettle-dev"},
    "valgrind": {"valgrind": f"{_DOC}/valgrind/html"},
    "rsyslog": {"rsyslog-doc": f"{_DOC}/rsyslog-doc/html"},
}
SIX = ("git", "sqlite", "postgres", "policy", "guides", "apache")
OWN = {"docs": Path(__file__).resolve().parent.parent / "docs"}
FOREIGN = re.compile(r"\.(?!en\b)[a-z]{2}(?:-[a-z]{2})?\.(?:html|text)")  # in other languages


@dataclass(frozen=True)
class Question:
    """A question over a corpus; one without answers has none there."""

    id: str
    split: str
    corpus: str
    question: str
    answers: list[str]
    pages: str

    def is_answer(self, path: str, text: str) -> bool:
        """Whether a text of a file answers it."""
        return fnmatchcase(path, self.pages) and any(
            re.search(answer, " ".join(text.replace("**", "").split()), re.IGNORECASE)
            for answer in self.answers
        )


@dataclass
class Outcome:
    """What a form made of a question."""

    first: bool = False
    any: bool = False
    passages: bool = False
    quotes: int = 0
    said_nothing: bool = False
    nearest: bool = False
    expertise: float = 0.0
    seconds: float = 0.0
    shown: list[str] = field(default_factory=list)


def questions(split: str) -> list[Question]:
    rows = map(json.loads, QUESTIONS.read_text("utf-8").splitlines())
    return [each for each in (Question(**row) for row in rows) if each.split == split]


def fetch(folder: Path) -> None:
    """Download the packages with apt-get, and copy their documentation."""
    with tempfile.TemporaryDirectory() as name:
        debs = [each for packages in PACKAGES.values() for each in packages]
        subprocess.run(["apt-get", "download", *debs], cwd=name, check=True)
        for corpus, packages in PACKAGES.items():
            for package, inside in packages.items():
                (deb,) = Path(name).glob(f"{package}_*.deb")
                out = Path(name, package)
                subprocess.run(["dpkg-deb", "-x", str(deb), str(out)], check=True)
                target = folder / corpus / package if len(packages) > 1 else folder / corpus
                shutil.copytree(
                    out / inside, target, dirs_exist_ok=True, ignore_dangling_symlinks=True
                )
                foreign = [each for each in target.rglob("*") if FOREIGN.search(each.name)]
                for each in foreign:
                    if each.is_dir():
                        shutil.rmtree(each)
                    else:
                        each.unlink(missing_ok=True)
        for corpus, own in OWN.items():
            shutil.copytree(own, folder / corpus, dirs_exist_ok=True)
        for each in [*folder.rglob("*.txt.gz")]:
            subprocess.run(["gunzip", "-f", str(each)], check=True)


class Corpus:
    """A folder of documentation with its index, and a bare FTS5 table of the same passages."""

    def __init__(self, folder: Path, index: Path) -> None:
        self._root = str(folder.resolve())
        self.search = search_folder(folder, index=index, results=RESULTS)
        start = time.process_time()
        self.search.execute(query="nothing")
        self.index_s = time.process_time() - start
        stored = sqlite3.connect(index)
        self._passages = stored.execute(
            "SELECT files.path, files.title || ' ' || passages.title, passages.text FROM passages "
            "JOIN files ON files.number = passages.file ORDER BY passages.number"
        ).fetchall()
        stored.close()
        self._plain = sqlite3.connect(":memory:")
        self._plain.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (title, text, tokenize = 'porter unicode61')"
        )
        self._plain.executemany(
            "INSERT INTO words VALUES (?, ?)", (each[1:] for each in self._passages)
        )

    @property
    def passages(self) -> int:
        return len(self._passages)

    def path(self, passage: Passage) -> str:
        """A passage's file below the corpus."""
        return unquote(urlsplit(passage.url).path).removeprefix(self._root).lstrip("/")

    def plain(self, question: Question) -> Outcome:
        start = time.process_time()
        words = dict.fromkeys(re.findall(r"\w+", question.question.lower()))
        rows = self._plain.execute(
            f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT {PLAIN}",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchall()
        seconds = time.process_time() - start
        found = [self._passages[row - 1] for (row,) in rows]
        right = [question.is_answer(path.decode(), text) for path, _, text in found]
        shown = bool(found) and question.is_answer(
            found[0][0].decode(), window(found[0][2], set(words))
        )
        return Outcome(
            *(right[:1] == [True], shown, any(right)), quotes=len(found), seconds=seconds
        )

    def extractive(self, question: Question) -> Outcome:
        start = time.process_time()
        researcher = Researcher("r", None, [question.question], [self.search], ITERATIONS)
        report = researcher.report_sync()
        return self._judged(question, report, time.process_time() - start)

    def _judged(self, question: Question, report: Report, seconds: float) -> Outcome:
        quotes: dict[str, bool] = {}
        passages = False
        for each in report.citations:
            path = self.path(each.passage)
            right = question.is_answer(path, each.sentence)
            quotes[each.sentence] = quotes.get(each.sentence, False) or right
            passages = passages or question.is_answer(path, each.passage.text)
        right = [*quotes.values()]
        return Outcome(
            first=right[:1] == [True],
            any=any(right),
            passages=passages,
            quotes=len(right),
            said_nothing=not right,
            nearest=not right and self._is_nearest(question, report),
            expertise=report.objectives[0].expertise,
            seconds=seconds,
            shown=list(quotes),
        )

    def _is_nearest(self, question: Question, report: Report) -> bool:
        """Whether a passage that is shown without being cited answers a question."""
        shown = re.findall(r"^- (“.*”) – .*`file://([^`#]*).*`$", report.markdown, re.MULTILINE)
        paths = [unquote(path).removeprefix(self._root).lstrip("/") for _, path in shown]
        return any(map(question.is_answer, paths, (text for text, _ in shown)))


def window(text: str, words: set[str]) -> str:
    """The part of a passage that has most of some words."""
    starts = range(0, max(1, len(text) - WINDOW + 1), 50)
    parts = [text[at : at + WINDOW] for at in starts]
    return max(parts, key=lambda part: len(words & {*re.findall(r"\w+", part.lower())}))


def told(form: str, asked: list[Question], outcomes: list[Outcome]) -> list[str]:
    """Print the figures of a form; gives its row of the table."""
    pairs = [*zip(asked, outcomes, strict=True)]
    known = [outcome for question, outcome in pairs if question.answers]
    none = [outcome for question, outcome in pairs if not question.answers]
    row = [form]
    share_of_first = sum(each.first for each in known) / max(len(known), 1)
    for name in ("first", "any", "passages"):
        count = sum(getattr(each, name) for each in known)
        low, high = wilson(count, len(known) or 1)
        share = count / max(len(known), 1)
        emit(f"answers: {name}", form, share, "share", of=len(known), low=low, high=high)
        row.append(f"{count} of {len(known)} ({low:.2f}–{high:.2f})")
    if form == "plain":
        row.extend(("10", "", "", ""))
    else:
        refused = sum(each.said_nothing for each in none)
        wrongly = sum(each.said_nothing for each in known)
        nearest = sum(each.nearest for each in known)
        quotes = sum(each.quotes for each in known) / max(len(known), 1)
        expertise = sum(each.expertise for each in known) / max(len(known), 1)
        emit("answers: expertise", form, expertise, "mean", first=share_of_first)
        emit("answers: not found, rightly", form, refused / max(len(none), 1), "share")
        emit("answers: not found, wrongly", form, wrongly / max(len(known), 1), "share")
        emit("answers: quotes", form, quotes, "quotes", most=max(each.quotes for each in outcomes))
        row.extend(
            (
                f"{quotes:.1f}",
                f"{refused} of {len(none)}",
                f"{wrongly} of {len(known)}",
                str(nearest),
            ),
        )
    seconds = sum(each.seconds for each in outcomes) / len(outcomes)
    emit("answers: seconds", form, seconds, "CPU s")
    return [*row, f"{seconds:.2f}"]


COLUMNS = (
    *("form", "in the first quote", "in any quote", "among the passages", "quotes"),
    *("not found, rightly", "not found, wrongly", "of these shown as nearest", "CPU seconds"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the corpora are")
    parser.add_argument("--fetch", action="store_true", help="download the corpora first")
    parser.add_argument("--split", default="develop", choices=SPLITS)
    names = [*PACKAGES, *OWN, *REPOSITORIES]
    parser.add_argument("--corpus", nargs="*", default=names, choices=names)
    parser.add_argument("--indexes", type=Path, help="where the indexes are, to be used again")
    parser.add_argument("--verbose", action="store_true", help="each question, on stderr")
    options = parser.parse_args()
    logging.getLogger("moothall").setLevel(logging.ERROR)
    if options.fetch:
        fetch(options.folder)
    asked = [each for each in questions(options.split) if each.corpus in options.corpus]
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        where = options.indexes or Path(name)
        corpora = {
            each: Corpus(options.folder / each, where / f"{each}.db")
            for each in options.corpus
            if any(question.corpus == each for question in asked)
        }
        for name, corpus in corpora.items():
            emit("answers: index", name, corpus.index_s, "CPU s", passages=corpus.passages)
        for question in asked:
            for form in ("plain", "extractive"):
                outcome: Outcome = getattr(corpora[question.corpus], form)(question)
                outcomes[form].append(outcome)
            if options.verbose:
                marks = "".join(
                    "+" if each else "-" for each in (outcome.first, outcome.any, outcome.passages)
                )
                plain = "+" if outcomes["plain"][-1].passages else "-"
                print(
                    f"\n{question.id} {marks} plain {plain} {outcome.expertise:.2f} "
                    f"{question.question} {question.answers}",
                    *outcome.shown,
                    sep="\n   ",
                    file=sys.stderr,
                )
    rows = [told(form, asked, found) for form, found in outcomes.items()]
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |", file=sys.stderr)


if __name__ == "__main__":
    main()
