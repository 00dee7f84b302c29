"""Find the weights of `moothall.research.extractive.answering` from questions with known answers.

    python -m benchmarks.answers_fit FOLDER [--indexes FOLDER]

FOLDER has the corpora of `benchmarks.answers`, and `python`, the folder of python3-doc if its
questions shall count too. Only the split `develop` of answers.jsonl and the half `tune` of
questions.jsonl are used, and the definitions over moothall's own docs. WEIGHTS maximize the
likelihood of the sentences that answer among all of a question's (a softmax over them, with a
penalty on large weights); LIKELY separates questions that have an answer from those that have none,
to which each question asked of another corpus is added with a small weight. The last lines leave
one corpus out at a time, and say how many of its questions the weights of the others answer in the
first quote, and in any.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import OWN, RESULTS, SIX, Question, questions
from benchmarks.judging import QUESTIONS as OLDER
from moothall.research import Passage, Researcher, search_folder
from moothall.research.extractive import answering
from moothall.research.extractive.asked import Asked
from moothall.research.extractive.facts import Candidate, candidates
from moothall.research.relevance import Index

PENALTY = 0.02


class Asking:
    """A question, what was read for it, and which of the sentences answer it."""

    def __init__(self, question: Question, read: list[Passage], root: Path) -> None:
        self.question = question
        self.index = Index(read)
        self.asked = Asked(self.index, question.question)
        self.candidates: list[Candidate] = [*candidates(self.index, self.asked)]
        names = [*self.candidates[0].facts] if self.candidates else []
        self.names = names
        self.facts = np.array([[each.facts[name] for name in names] for each in self.candidates])
        self.right = np.array([self._answers(each, root) for each in self.candidates], bool)

    def _answers(self, each: Candidate, root: Path) -> bool:
        from urllib.parse import unquote, urlsplit

        path = unquote(urlsplit(each.passage.url).path).removeprefix(str(root)).lstrip("/")
        text = each.passage.text[slice(*each.window)]
        lead = each.passage.text[slice(*each.lead)] if each.lead else ""
        return self.question.is_answer(path, f"{lead} … {text}")


def weights(asked: list[Asking], names: list[str]) -> dict[str, float]:
    useful = [each for each in asked if each.right.any()]
    found, first, second = (np.zeros(len(names)) for _ in range(3))
    for step in range(400):
        slope = -PENALTY * found
        for each in useful:
            scores = each.facts @ found
            share = np.exp(scores - scores.max())
            share /= share.sum()
            of_right = share * each.right
            slope += each.facts.T @ (of_right / (of_right.sum() + 1e-12) - share) / len(useful)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        found += 0.15 * first / (np.sqrt(second) + 1e-6) / (1 + step / 200)
    return {name: round(float(value), 2) for name, value in zip(names, found, strict=True)}


def likely(rows: list[tuple[dict[str, float], bool, float]]) -> dict[str, float]:
    names = [*next(facts for facts, _, _ in rows if facts)]
    names = [each for each in names if each not in ("unbound", "silent")]  # by hand; a rule
    kept = [row for row in rows if row[0]]
    given = np.array([[facts[name] for name in names] for facts, _, _ in kept])
    is_right = np.array([right for _, right, _ in kept], float)
    counts = np.array([count for _, _, count in kept])
    found = np.zeros(len(names))
    for _ in range(6000):
        chance = 1 / (1 + np.exp(-given @ found))
        found += 0.5 * (given.T @ (counts * (is_right - chance)) / counts.sum() - 0.002 * found)
    return {name: round(float(value), 2) for name, value in zip(names, found, strict=True)}


def hits(asked: list[Asking], root: Path) -> tuple[int, int]:
    first = found = 0
    for each in asked:
        quotes = answering.chosen(each.index, each.asked)
        right = [is_right(each.question, quote, root) for _, quote in quotes]
        first += right[:1] == [True]
        found += any(right)
    return first, found


def is_right(question: Question, quote: answering.Quote, root: Path) -> bool:
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(quote.passage.url).path).split(f"/{root.name}/{question.corpus}/")[-1]
    return question.is_answer(path, f"{quote.text} {quote.code}")


def use(of_sentences: dict[str, float], of_answers: dict[str, float] | None = None) -> None:
    answering.WEIGHTS.clear()
    answering.WEIGHTS.update(of_sentences)
    if of_answers is not None:
        answering.LIKELY.clear()
        answering.LIKELY.update(of_answers)


def older(corpus: str) -> list[Question]:
    """The questions about python3-doc, as those of answers.jsonl."""
    made = []
    for row in map(json.loads, OLDER.read_text("utf-8").splitlines()):
        if row["split"] == "tune":
            said = [re.escape(" ".join(each.split())) for each in row["answers"]]
            made += [
                Question(f"{row['id']}-{page}", "develop", corpus, row["question"], said, page)
                for page in row["pages"][:1]
            ]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--indexes", type=Path, required=True)
    parser.add_argument("--loco", action="store_true", help="leave one corpus out at a time")
    options = parser.parse_args()
    logging.getLogger("moothall").setLevel(logging.ERROR)
    folder: Path = options.folder.resolve()
    six = list(SIX)
    names = [each for each in (*six, *OWN, "python") if (folder / each).is_dir()]
    tools = {
        each: search_folder(folder / each, index=options.indexes / f"{each}.db", results=RESULTS)
        for each in names
    }

    def asking(question: Question, corpus: str) -> Asking:
        researcher = Researcher("r", None, [question.question], [tools[corpus]], 3)
        researcher.report_sync()
        return Asking(question, researcher.workbench.known_passages(), folder / corpus)

    every = questions("develop") + (older("python") if "python" in names else [])
    every += [each for each in questions("definitions") if each.corpus in OWN]
    own = [asking(each, each.corpus) for each in every]
    others = []
    for place, each in enumerate(every):
        if each.answers:
            there = [name for name in six if name != each.corpus]
            wrong = Question(each.id, "", "", each.question, [], "*")
            others.append(asking(wrong, there[place % len(there)]))
    fact_names = next(each.names for each in own if each.names)
    of_sentences = weights(own, fact_names)
    use(of_sentences)

    def row(each: Asking, count: float) -> tuple[dict[str, float], bool, float]:
        chosen = [one for one, _ in answering.chosen(each.index, each.asked)]
        facts = answering.facts_of_chosen(each.index, each.asked, chosen)
        return facts, bool(each.question.answers), count

    rows = [
        row(
            each,
            2.0 if not each.question.answers else 0.5 if each.question.corpus == "python" else 1.0,
        )
        for each in own
    ] + [row(each, 0.3) for each in others]
    of_answers = {**likely(rows), "unbound": answering.LIKELY["unbound"]}
    use(of_sentences, of_answers)
    print("WEIGHTS", json.dumps(of_sentences, indent=1))
    print("LIKELY", json.dumps(of_answers, indent=1))
    said: dict[str, Any] = {}
    for name in names:
        mine = [each for each in own if each.question.corpus == name and each.question.answers]
        said[name] = (len(mine), *hits(mine, folder))
    print("all", said)

    def refused(rows: list[Asking]) -> list[float]:
        made = ([one for one, _ in answering.chosen(e.index, e.asked)] for e in rows)
        pairs = zip(rows, made, strict=True)
        return sorted(round(answering.likelihood(e.index, e.asked, one), 2) for e, one in pairs)

    print("has none", refused([each for each in own if not each.question.answers]))
    print("elsewhere", refused(others))
    print(
        "has one", refused([e for e in own if e.question.answers and e.question.corpus != "python"])
    )
    print("python", refused([e for e in own if e.question.corpus == "python"]))
    if options.loco:
        for name in names:
            use(weights([each for each in own if each.question.corpus != name], fact_names))
            mine = [each for each in own if each.question.corpus == name and each.question.answers]
            print("without", name, len(mine), *hits(mine, folder), flush=True)


if __name__ == "__main__":
    main()
