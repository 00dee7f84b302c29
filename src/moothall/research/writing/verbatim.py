"""Show texts in Markdown as they stand: titles, and the quotes of a report that no model wrote."""

from __future__ import annotations

import re
from typing import Final

from moothall.build import one_line
from moothall.research.findings import Citation
from moothall.research.writing.safe_markdown import safe_markdown

_ESCAPED: Final = re.compile(r"([\\\[\]<>`*_]|&(?=#?\w+;))")
_SPAN: Final = r"(\[\^\d+\^\]|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`))"  # footnotes and code
_OPENS: Final = r"<(?=[A-Za-z/!?])(?![^\s<>]+[@:])"  # no address
# What Markdown would not show as it stands in a quote: `*args`, `__init__`, `<div>`.
_CHANGED_SIGNS: Final = re.compile(
    rf"{_SPAN}|(`|(?<!\s)\*|\*(?!\s)|(?<![^\W_])_|_(?![^\W_])|\\(?=[!-/:-@\[-`{{-~])|&(?=#?\w+;)"
    rf"|{_OPENS})"
)
_CHANGED_OF_MARKDOWN: Final = re.compile(rf"{_SPAN}|(?<!\\)({_OPENS})")


def is_markdown(url: str) -> bool:
    """Return whether a file is Markdown, whose marks stay in quotes."""
    return url.partition("#")[0].lower().endswith((".md", ".markdown", ".ipynb"))


def as_text(text: str) -> str:
    """Return a text in one line, as Markdown that shows it as it is."""
    return safe_markdown(_ESCAPED.sub(r"\\\1", one_line(text, 10_000)))


def verbatim(narrative: str, citations: list[Citation]) -> str:
    """Escape what Markdown would change in topics and quotes; Markdown files keep their marks."""
    markdown_notes = {f"[^{c.number}^]" for c in citations if is_markdown(c.passage.url)}
    lines = narrative.split("\n")
    for at, line in enumerate(lines):
        if line.startswith(("## ", "### ")):
            marks, _, title = line.partition(" ")
            lines[at] = f"{marks} {as_text(title)}"
            continue
        pattern = (
            _CHANGED_OF_MARKDOWN if line.rpartition(" ")[2] in markdown_notes else _CHANGED_SIGNS
        )
        pieces = line.split("**")
        # The sentence that is marked in its quote; other stars are the source's.
        is_marked = len(pieces) == 3 and pieces[0][-1:] in "“ " and pieces[2][:1] in "” "
        parts = pieces if is_marked else [line]
        parts = [pattern.sub(lambda match: match[1] or f"\\{match[3]}", each) for each in parts]
        lines[at] = "**".join(parts)
    return "\n".join(lines)
