"""The data of research: objectives, resources, tasks, results, findings and progress."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from moothall import ConfigError, DefinitionError, StopReason, Usage
from moothall.build import APPENDED, one_line


@dataclass
class Objective:
    """Something to find out.

    Attributes:
        topic: what to find out, in words
        expertise: how well it is understood, from 0 to 1

    Raises:
        DefinitionError: the topic is not a text, or is empty, or the expertise is not from 0 to
            1; also if one is set later
    """

    topic: str
    expertise: float = 0.0

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "topic" and (not isinstance(value, str) or not value.strip()):
            raise ConfigError(f"an objective's topic must be a text, got {value!r:.80}")
        if name == "expertise":
            value = checked_expertise(value, self.topic)
        super().__setattr__(name, value)


def checked_expertise(value: Any, topic: str) -> float:
    """Return an expertise, from 0 to 1; anything else raises DefinitionError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(
            f"objective {topic!r:.80}: expertise must be from 0 to 1, got {value!r:.80}"
        )
    return float(value)


def objectives_of(value: Any, id: str | int) -> list[Objective]:
    """Return the objectives that a researcher was given, each topic once."""
    items = [value] if isinstance(value, str | Objective) else value
    if not isinstance(items, Iterable):
        raise ConfigError(
            f"agent {id!r}: objectives= must be texts or objectives, got {value!r:.80}"
        )
    objectives = [each if isinstance(each, Objective) else Objective(each) for each in items]
    return list({each.topic: each for each in objectives}.values())


@dataclass(frozen=True)
class Publication:
    """What is known of a work that was published, for lists of references.

    Attributes:
        authors: their names: `Stone, Ada`, or as the source has them
        published: the day, month or year, as ISO 8601: `2024-05-01`, `2024-05` or `2024`
        doi: its DOI, such as `10.1000/182`; empty if none is known
        journal: the journal, book or site that it is part of; empty if none is known
    """

    authors: tuple[str, ...] = ()
    published: str = ""
    doi: str = ""
    journal: str = ""


@dataclass
class Section:
    """Where a part of a resource's content begins.

    Attributes:
        start: the index of its first character in the content
        anchor: what follows `#` in the URL of that part, such as `page=3`; empty for none
        title: its name for readers: its headings, or `page 3`
        fetched_at: when it was read, if later than the resource's other parts
    """

    start: int
    anchor: str = ""
    title: str = ""
    fetched_at: str | None = None


def is_place(title: str) -> bool:
    """Return whether a section's title only says where it is, such as `page 3`."""
    kind, _, number = title.partition(" ")
    return kind in ("page", "line", "row") and number.isdecimal()


@dataclass
class Resource:
    """A page, a document or anything else that can be read.

    Attributes:
        url: its URL; `file:` for a file on this machine
        description: what it is about: its title, or what a search engine says of it
        visited: whether it was read
        content: its text, once it was read
        sections: where the parts of the content begin, in order; empty for a single part
        fetched_at: when it was read, as ISO 8601 with its offset; None if it was not
        publication: its authors, date and DOI, where they are known
        objective: the topic that it was found for; empty for all of them
    """

    url: str
    description: str | None = None
    visited: bool | None = False
    content: str | None = None
    sections: list[Section] = field(default_factory=list)
    fetched_at: str | None = None
    publication: Publication | None = None
    objective: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Passage:
    """A piece of a resource's text as it was read; footnotes cite it.

    Attributes:
        url: its URL, with the part of the resource after `#`
        text: its text, word for word
        fetched_at: when it was read, as ISO 8601
        sha256: the hash of the text as UTF-8, in hex
        title: the titles of the resource and of the part
        publication: the authors, date and DOI of the resource, where they are known
        page: the title of the resource alone
    """

    url: str
    text: str
    fetched_at: str
    sha256: str
    title: str = ""
    publication: Publication | None = None
    page: str = ""

    @classmethod
    def of(
        cls,
        url: str,
        text: str,
        fetched_at: str,
        title: str = "",
        publication: Publication | None = None,
        page: str = "",
    ) -> Passage:
        """Return a passage with the hash of its text; by default `title` begins with `page`."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        page = page or title.partition(" – ")[0]
        return cls(url, text, fetched_at, digest, title, publication, page)


@dataclass
class ResearchTask:
    """One call of a tool that Plan wants.

    Attributes:
        tool: the name of the tool
        args: its arguments
        reasoning: why Plan wants the call
        objective: the topic that it is for; empty for all of them
    """

    tool: str
    args: dict[str, Any]
    reasoning: str
    objective: str = field(default="", kw_only=True)

    @property
    def key(self) -> str:
        """The call as a text; two tasks of one key are the same call."""
        return f"{self.tool} {json.dumps(self.args, sort_keys=True, default=str)}"


@dataclass
class ResearchResult(ResearchTask):
    """The result of a task.

    Attributes:
        result: what the tool returned, as JSON data; None if it failed
        citation: the URL of what was read; None if there is nothing to cite
        error: why the tool failed; None if it did not
        resources: what the tool found and read, for Update to add to the pool
        missing: what it could not read, or not whole
        has_raised: whether the tool was called and raised: a later iteration may try it once more
    """

    result: Any = None
    citation: str | None = None
    error: str | None = None
    resources: list[Resource] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    has_raised: bool = False


@dataclass
class Narrative:
    """The report so far.

    Attributes:
        markdown: the text, with footnotes `[^1^]`
    """

    markdown: str


@dataclass
class Findings:
    """The findings of Evaluate, for the next iteration.

    Attributes:
        narrative: the narrative that was evaluated
        remark: what to improve, and what to keep doing
        generated_objectives: smaller objectives that lead to the given ones
    """

    narrative: str
    remark: str
    generated_objectives: list[Objective]


# By the step: the type of its results, a field that is checked, and whether there is one alone.
_RESULT_TYPES: dict[str, tuple[type[Any], str, type[Any], bool]] = {
    "plan": (ResearchTask, "args", dict, False),
    "research": (ResearchResult, "args", dict, False),
    "narrate": (Narrative, "markdown", str, True),
    "evaluate": (Findings, "remark", str, True),
}


def check_result(step: str, result: Any) -> None:
    """Raise DefinitionError if a user's step returned neither its kind of result nor None."""
    if result is None or step not in _RESULT_TYPES:
        return
    result_type, field_name, field_type, is_one = _RESULT_TYPES[step]
    results = [result] if is_one else result
    is_list = isinstance(results, list | tuple)
    if not (is_list and all(isinstance(each, result_type) for each in results)):
        expected = f"a {result_type.__name__}" if is_one else f"a list of {result_type.__name__}s"
        raise DefinitionError(f"{step}= must return {expected}, got {result!r:.80}")
    for value in (getattr(item, field_name) for item in results):
        if not isinstance(value, field_type):
            expected = f"{result_type.__name__}s whose {field_name} is a {field_type.__name__}"
            raise DefinitionError(f"{step}= must return {expected}, got {value!r:.80}")


SupportLabel: TypeAlias = Literal["supported", "partly", "unsupported", "not checked"]


@dataclass(frozen=True)
class Support:
    """Whether a passage supports a sentence.

    Attributes:
        label: `supported` if the passage has the sentence word for word, or a model says so;
            `partly` if a model says so; `unsupported` if the passage lacks quoted words, a number,
            a date or a name of the sentence, or a model says so; else `not checked`: nobody has
            compared what the two mean
        window: the neighbouring sentences of the passage, at most three, that have most of the
            sentence's words
        why: what speaks against it, in words; empty if nothing does
        probability: how probable a model holds it, from 0 to 1; None without one
        overlap: the share of the sentence's words that the passage has, from 0 to 1
        judge: `exact` for the package's own checks, `model` for a model
    """

    label: SupportLabel
    window: str = ""
    why: str = ""
    probability: float | None = None
    overlap: float = 0.0
    judge: Literal["exact", "model"] = "exact"


@dataclass(frozen=True)
class Citation:
    """A sentence of a report, and a passage that it cites.

    Attributes:
        number: the number of the footnote, from 1
        sentence: the sentence, without its footnotes
        passage: the passage that it cites
        support: whether it supports the sentence; None if nobody has looked
    """

    number: int
    sentence: str
    passage: Passage
    support: Support | None = None

    @property
    def window(self) -> str:
        """The neighbouring sentences of the passage, at most three, that it rests on."""
        return "" if self.support is None else self.support.window


@dataclass
class Heading:
    """A section of a report's outline.

    Attributes:
        heading: its heading; empty for what stands before the first
        about: what it is about, in words
    """

    heading: str
    about: str = ""


@dataclass
class Progress:
    """The state of research: enough to resume it in another process."""

    objectives: list[Objective] = field(default_factory=list)  # the given ones
    generated: list[Objective] = field(default_factory=list)  # the smaller ones of Evaluate
    iteration: int = 0  # how many iterations are over
    done: list[ResearchTask] = field(default_factory=list, metadata=APPENDED)
    changes: list[Resource] = field(default_factory=list, metadata=APPENDED)  # of the pool
    passages: list[Passage] = field(default_factory=list, metadata=APPENDED)  # number 1 first
    narrative: str = ""  # as Markdown; its footnotes number `passages`
    citations: list[tuple[int, str]] = field(default_factory=list)  # the number and the sentence
    supports: list[Support] = field(default_factory=list)  # of each of `citations`
    unjudged: int = 0  # sentences that the judging model did not judge
    unsupported: list[tuple[str, str]] = field(default_factory=list)  # with the reasons
    uncited: int = 0  # how many sentences have no footnote
    contradictions: list[tuple[str, str, str]] = field(default_factory=list)  # of a judge
    remark: str = ""
    unanswered: list[str] = field(default_factory=list)  # parts of the objectives, as a model says
    estimated: bool = False  # whether the expertise is of the rules, which is shown to nobody
    told: list[str] = field(default_factory=list, metadata=APPENDED)  # by the user, meanwhile
    outline: list[Heading] = field(default_factory=list)  # of a report that is written by section
    notes: list[str] = field(default_factory=list, metadata=APPENDED)  # for the foot
    usage: Usage = field(default_factory=Usage)
    used: dict[str, Usage] = field(default_factory=dict)  # the same by model
    fresh: int = 0  # how often the last iteration read what no other had
    stop: StopReason | None = None
    detail: str = ""
    title: str = ""  # of the report, if one was given
    failed: dict[str, str] = field(default_factory=dict)  # by the keys of tasks: what failed, why

    def note_faults(self, results: Iterable[ResearchResult]) -> None:
        """Note which tasks have failed, and why, and what others could not read."""
        for each in results:
            self.failed.pop(each.key, None)
            if each.has_raised:
                self.failed[each.key] = one_line(each.error or "", 200)
            self.notes += [text for text in each.missing if text not in self.notes]


class ProgressView:
    """What researchers and workbenches say of their `progress`."""

    if TYPE_CHECKING:

        @property
        def progress(self) -> Progress:
            """What is known."""
            ...

    @property
    def objectives(self) -> list[Objective]:
        """The given objectives, with the expertise reached."""
        return self.progress.objectives

    @property
    def generated(self) -> list[Objective]:
        """The smaller objectives that Evaluate derived from the given ones."""
        return self.progress.generated

    @property
    def narrative(self) -> Narrative:
        """The latest narrative."""
        return Narrative(self.progress.narrative)

    @property
    def findings(self) -> Findings | None:
        """What the last Evaluate found; None before the first."""
        progress = self.progress
        findings = Findings(progress.narrative, progress.remark, progress.generated)
        return findings if progress.iteration else None

    @property
    def done(self) -> list[ResearchTask]:
        """The tasks that were done in all iterations."""
        return self.progress.done

    @property
    def unsupported(self) -> list[tuple[str, str]]:
        """Sentences that their sources do not support, each with the reason."""
        return self.progress.unsupported
