"""The documentation reads at speed: short sentences, the subject first, nouns for things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]))
LINES = {"README.md": 90}  # any other page: 400
WORDS = 40  # of a sentence
# Of 1,000 words of a page, how many may be participles such as "told", which tend to stand for
# nouns ("what was told"); three on any page.
PARTICIPLES = 6
FRONTED = re.compile(r"Of (?!course)[^,;:]*, |At an? [^,;:]*, ")


def passages(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs, list items and cells of a page, each with its line, without its code."""
    fence, start, held = "", 0, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ticks = re.match(r"\s*(`{3,})", line)
        hidden = bool(fence or ticks)
        if ticks and (not fence or line.strip() == fence):
            fence = "" if fence else ticks[1]
        row = not hidden and line.lstrip().startswith("|")
        if hidden or row or re.match(r"\s*(?:$|<|#+ |[-*] |\d+\. )", line):
            if held:
                yield start, held
            held = ""
        if row:
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line))
        elif not hidden and not re.match(r"\s*(?:$|<|#+ )", line):
            start = start if held else number
            held = f"{held} {line.strip()}".strip()


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a page: a link is its words, a piece of code one word."""
    for number, passage in passages(text):
        plain = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", passage)
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        plain = re.sub(r"(`+)(?!`).+?\1", "`code`", plain)
        yield from ((number, each) for each in re.split(r"(?<=[.!?])[)*”\"]*\s+", plain))


def words(sentence: str) -> list[str]:
    return re.findall(r"[\w`]\S*", sentence)


def faults(text: str) -> list[str]:
    """What a page has that is read twice: the line, what is wrong, and how it begins."""
    found, participles, total = [], [], 0
    for number, each in sentences(text):
        total += len(words(each))
        if len(words(each)) > WORDS:
            found.append(f"{number}: a sentence of {len(words(each))} words: {each[:60]} …")
        if FRONTED.match(each.strip()):
            found.append(f"{number}: the subject comes late: {each[:60]} …")
        participles += [
            f"{number}: {one}" for one in re.findall(r"\b(?:told|said|made|found)\b", each)
        ]
    if len(participles) > max(3, PARTICIPLES * total / 1000):
        found.append(f"{len(participles)} participles: {', '.join(participles)}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_short_and_has_short_sentences_with_the_subject_first(page: Path) -> None:
    text = page.read_text()
    assert len(text.splitlines()) <= LINES.get(page.name, 400)
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    (
        ("word " * 41 + "end.", "a sentence of 42 words"),
        ("- " + "word " * 39 + "end. " + "word " * 39 + "end.", ""),
        ("| a |\n| " + "word " * 45 + "|", "a sentence of 45 words"),
        ("```python\n" + "word " * 45 + "\n```", ""),
        ("Of a file, the name counts.", "the subject comes late"),
        ("A name of a file, which counts.", ""),
        ("It was told. It said so. It is made. It is found.", "4 participles"),
    ),
)
def test_prose_is_judged_by_its_sentences(text: str, fault: str) -> None:
    assert fault in "; ".join(faults(text))
    assert bool(faults(text)) is bool(fault)
