"""A model that plays a capable one in research: it knows its subject, and reads what it is shown.

It stands for a model that knows Python: asked again, it searches with the words that the right
page and section have for the matter, as one would who knows what the thing is called. It is no
measure of any model, but of what the loop makes of a good one, and of what becomes of its mistakes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from moothall.memory.bounded import estimate_tokens
from moothall.models import ModelReply, Usage
from moothall.research.sentences import sentence_spans

_SOURCE = re.compile(
    r"^Source \[\^(\d+)\^\], called (\"[^\n]*\"):\n((?:\| [^\n]*(?:\n|\Z))*)", re.MULTILINE
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\w)")
_SPAN = 3
"""An answer is looked for in so many sentences side by side."""


def folded(text: str) -> str:
    """As answers are compared: whatever the case and the white space."""
    return " ".join(text.split()).casefold()


class Scripted:
    """Plans searches, quotes the sentence that answers, and says how well it is answered.

    Args:
        question: the objective
        answers: what the right sentence has, any of them
        titles: of the right pages
        wordings: what to search for, one after the other, while no source had an answer
        plants: whether a wrong sentence stands beside the right one

    Attributes:
        planted: the wrong sentence; empty before there is one
    """

    name = "scripted"
    context_tokens = 32_000

    def __init__(
        self,
        question: str,
        answers: list[str],
        titles: list[str],
        wordings: list[str],
        plants: bool,
    ) -> None:
        self._question = question
        self._answers = [folded(each) for each in answers]
        self._titles = titles
        self._wordings = wordings
        self._plants = plants
        self._asked = 0
        self._lines: list[str] = []
        self.planted = ""

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: Any = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """An answer to the prompt of Plan, Narrate or Evaluate."""
        prompt = "\n".join(str(each["content"]) for each in messages)
        if schema is None:
            text = self._narrative(prompt)
        elif "tasks" in schema["properties"]:
            text = json.dumps({"tasks": self._tasks()})
        else:
            known = bool(self._lines) and self._lines[0] in prompt  # its footnote was left to it
            reached = 1.0 if known else 0.2
            told = "It is answered." if known else "Search with the subject's own words."
            text = json.dumps(
                {
                    "objectives": [{"topic": self._question, "expertise": reached}],
                    "generated_objectives": [],
                    "remark": told,
                }
            )
        return ModelReply(text, usage=Usage(estimate_tokens(prompt), estimate_tokens(text)))

    def _tasks(self) -> list[dict[str, Any]]:
        queries = [*self._wordings[self._asked : self._asked + 1]] if not self._lines else []
        self._asked += 1
        return [
            {"tool": "search_folder", "args": {"query": query}, "reasoning": "what it is called"}
            for query in queries
        ]

    def _narrative(self, prompt: str) -> str:
        if not self._lines:
            for number, title, text in _SOURCE.findall(prompt):
                if any(json.loads(title).startswith(each) for each in self._titles):
                    self._read(number, re.sub(r"^\| ", "", text, flags=re.MULTILINE))
                if self._lines:
                    break
        return "\n\n".join(self._lines) or "Nothing is known yet."

    def _read(self, number: str, text: str) -> None:
        """Quote what answers, if a source has it."""
        spans = sentence_spans(text) or [(0, len(text))]
        for length in range(1, _SPAN + 1):
            for first in range(len(spans) - length + 1):
                said = text[spans[first][0] : spans[first + length - 1][1]]
                if any(each in folded(said) for each in self._answers):
                    quoted = " ".join(said.split())
                    self._lines.append(f"- “{quoted}” [^{number}^]")
                    if self._plants:
                        self.planted = _changed(text)
                        self._lines.append(f"- {self.planted} [^{number}^]")
                    return


def _changed(source: str) -> str:
    """A sentence of a source with a number that the source does not have anywhere."""
    wrong = next(str(each) for each in range(4217, 9999) if str(each) not in source)
    said = [" ".join(source[start:end].split()) for start, end in sentence_spans(source)] or [
        source
    ]
    for each in said:
        changed, count = _NUMBER.subn(wrong, each, count=1)
        if count:
            return changed
    return f"{max(said, key=len).rstrip('.:;!? ')} for {wrong} seconds."
