"""Reports without a model, and what their quotes show: words in order, marked or not."""

from __future__ import annotations

from pathlib import Path

from moothall import Researcher
from moothall.actions import Action
from moothall.research import Report, Resource, search_folder


def unmarked(text: str) -> str:
    """Return a text without the marks of a quote and of code, in one line."""
    for sign in ("**", "`", "“", "”", '"'):
        text = text.replace(sign, "")
    return " ".join(text.replace(" … ", " ").split())


def shows(sentence: str, quote: str) -> bool:
    """Return whether a quote shows some words, of which `…` leaves some out."""
    said, at = unmarked(sentence), 0
    for part in quote.split(" … "):
        found = said.find(unmarked(part).strip(" …"), at)
        if found < 0:
            return False
        at = found
    return True


def quotes_in(report: Report) -> str:
    """Return all that a report quotes, without marks."""
    return " ".join(unmarked(each.sentence) for each in report.citations)


def report_of(text: str, *questions: str, title: str = "Manual") -> Report:
    def look(query: str) -> Resource:
        """Look into a text.

        Args:
            query: words
        """
        return Resource("https://manual.test/", title, True, text)

    return Researcher("r", None, questions, [Action.of(look)]).report_sync()


def report_on(folder: Path, files: dict[str, str], *questions: str, **options: int) -> Report:
    """A report of what the files of a folder say."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    tools = [search_folder(folder, index=folder.with_suffix(".db"), **options)]
    return Researcher("r", None, questions, tools).report_sync()
