"""Whether an answer repeats what its author was shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

COPIED_WORDS: Final = 40
"""How many words in a row make a copy: an answer quotes less at once."""
_MIN_WORDS: Final = 3
"""An example with fewer words, such as a name or yes, may be the answer too."""
_CASE: Final = re.compile(r"^Now ", re.MULTILINE)
_WORD: Final = re.compile(r"\w+")


def copied_stretch(answer: str, texts: Iterable[str]) -> str:
    """Return the first stretch of `COPIED_WORDS` words that stands in a shown text, else ""."""
    stretches = frozenset(_stretches(answer))
    copied = (each for text in texts for each in _stretches(text) if each in stretches)
    return " ".join(next(copied, ()))


def _stretches(text: str) -> Iterator[tuple[str, ...]]:
    """Yield each `COPIED_WORDS` words in a row."""
    words = text.split()
    for start in range(len(words) - COPIED_WORDS + 1):
        yield tuple(words[start : start + COPIED_WORDS])


def copied_example(answer: str, prompt: str) -> str:
    """Return the first text of an answer that is one of an example in its prompt, else ""."""
    examples = _examples(prompt)
    return next((text for text in _texts(answer) if _words_in(text) in examples), "")


@lru_cache(maxsize=64)
def _examples(prompt: str) -> frozenset[tuple[str, ...]]:
    """Return the texts, as words, of JSON in the lines of a prompt, or behind `- `.

    From a line on that begins with "Now", the case follows. A text that the rest of the prompt has,
    too, is not an example's own: it may be the answer.
    """
    head, case = _CASE.split(prompt, 1) if _CASE.search(prompt) else (prompt, "")
    lines = [(case, ""), *map(_split_example, head.splitlines())]
    examples = {_words_in(text) for _, example in lines for text in _texts(example)}
    rest = f" {' '.join(_words_in(' '.join(text for text, _ in lines)))} "
    return frozenset(
        each for each in examples if len(each) >= _MIN_WORDS and f" {' '.join(each)} " not in rest
    )


def _split_example(line: str) -> tuple[str, str]:
    """Return what stands before the example of a line, and the example."""
    if line.startswith(("{", "[", "- ")):
        return "", line
    text, brace, end = line.partition(' {"')
    try:
        json.loads(brace + end)
    except (ValueError, RecursionError):
        return line, ""
    return text, brace + end


def _texts(text: str) -> Iterator[str]:
    """Yield the texts in a JSON value; the lines of any other text."""
    try:
        yield from _leaves(json.loads(text))
    except (ValueError, RecursionError):
        yield from (line.strip().removeprefix("- ") for line in text.splitlines())


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _words_in(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
