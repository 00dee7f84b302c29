"""What a quote shows: its words in order, whatever of them is marked or stands around them."""

from __future__ import annotations

from moothall.research import Report


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
