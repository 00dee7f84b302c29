"""How far research has come: its state between two iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

from civitas.models.protocol import Usage
from civitas.reasoning.record import APPENDED
from civitas.reasoning.reply import StopReason
from civitas.research.findings import Objective, Passage, ResearchTask, Resource


@dataclass
class Progress:
    """The state of research: enough to go on with it in another process.

    Attributes:
        task: what it was asked
        objectives: the given ones, with the expertise reached
        generated: the smaller ones that Evaluate made of them
        iteration: how many iterations are over
        done: the tasks that were executed
        changes: what was added to the pool of resources, one after the other
        passages: those that were given a number, number 1 first
        narrative: the narrative as Markdown, its footnotes numbers of `passages`
        citations: each footnote that its passage bears out: the number and the sentence
        unsupported: sentences whose passages do not bear them out, each with why
        uncited: how many sentences have no footnote
        remark: what Evaluate remarked
        told: what was said to the researcher meanwhile
        usage: the tokens that it took
        fresh: how many resources the last iteration read that were not read before
        stop: why it is over
        detail: more on that
    """

    task: str = ""
    objectives: list[Objective] = field(default_factory=list)
    generated: list[Objective] = field(default_factory=list)
    iteration: int = 0
    done: list[ResearchTask] = field(default_factory=list, metadata=APPENDED)
    changes: list[Resource] = field(default_factory=list, metadata=APPENDED)
    passages: list[Passage] = field(default_factory=list, metadata=APPENDED)
    narrative: str = ""
    citations: list[tuple[int, str]] = field(default_factory=list)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    uncited: int = 0
    remark: str = ""
    told: list[str] = field(default_factory=list, metadata=APPENDED)
    usage: Usage = field(default_factory=Usage)
    fresh: int = 0
    stop: StopReason | None = None
    detail: str = ""
