"""How far research has come: its state between two iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

from civitas.models.protocol import Usage
from civitas.reasoning.record import APPENDED
from civitas.reasoning.reply import StopReason
from civitas.research.findings import Objective, Passage, ResearchTask, Resource


@dataclass
class Progress:
    """The state of research: enough to go on with it in another process."""

    task: str = ""
    objectives: list[Objective] = field(default_factory=list)  # the given ones
    generated: list[Objective] = field(default_factory=list)  # those that Evaluate made of them
    iteration: int = 0  # so many are over
    done: list[ResearchTask] = field(default_factory=list, metadata=APPENDED)
    changes: list[Resource] = field(default_factory=list, metadata=APPENDED)  # of the pool
    passages: list[Passage] = field(default_factory=list, metadata=APPENDED)  # number 1 first
    narrative: str = ""  # as Markdown, its footnotes numbers of `passages`
    citations: list[tuple[int, str]] = field(default_factory=list)  # the number and the sentence
    unsupported: list[tuple[str, str]] = field(default_factory=list)  # sentences, each with why
    uncited: int = 0  # so many sentences have no footnote
    remark: str = ""
    told: list[str] = field(default_factory=list, metadata=APPENDED)  # what was said to it
    usage: Usage = field(default_factory=Usage)
    fresh: int = 0  # so many resources the last iteration read that were not read before
    stop: StopReason | None = None
    detail: str = ""
