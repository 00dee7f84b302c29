"""The contents of a journal: entries, in order, and an outline of each run."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from moothall.actions.approval import ApprovalRequest, Question
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.facts import NO_FACTS, Facts, facts_in_words
from moothall.foundation.arguments import none_of
from moothall.foundation.errors import ConfigError, JournalError
from moothall.foundation.text import cut, display, escaped, escaped_json
from moothall.journal.attributes import RecordedAttributes

ROOT = ""
"""The path of a run's own part."""

RESUME = "resume"
"""What a person decides about a run that stopped: a process with its agent resumes it."""


class _WaitKind(NamedTuple):
    words: str  # what is waited for
    by_person: bool = False  # whether a person answers it
    is_bound: bool = False  # whether its key is a hash that is bound to the run
    is_text: bool = False  # whether the answer is a text
    # Returns an answer as JSON data; raises ConfigError for what is none, with the key.
    checked: Callable[[str, Any], Any] = lambda key, answer: answer


def _text_answer(key: str, answer: Any) -> Any:
    if not isinstance(answer, str | None):
        raise ConfigError(
            f"the answer to the question {key!r} must be a text, or None for no answer, got "
            f"{answer!r:.80}"
        )
    return answer


def _no_answer(key: str, answer: Any) -> Any:
    if answer is not None:
        raise ConfigError(
            f"the moment {key!r} has no result: its answer is None, got {answer!r:.80}"
        )
    return answer


KINDS: Final = {
    "approval": _WaitKind(
        "the approval of {call}{more}",
        True,
        True,
        checked=lambda key, value: DECISION_KINDS.to_json(value),
    ),
    "question": _WaitKind("an answer to {text}", True, True, True, _text_answer),
    "result": _WaitKind("the result {key} of {call}{more}"),
    "moment": _WaitKind("a moment, for {call}{more}", checked=_no_answer),
    "doubt": _WaitKind("a decision about {call}, whose outcome is unknown", by_person=True),
}
"""The kinds of waits."""


class RunDamaged(JournalError):
    """What a journal has of a run is not what was written; its other runs can be used."""


def kinds_of(kind: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the kinds of waits that are wanted; ConfigError for a word that is none."""
    kinds = (*KINDS,) if kind is None else (kind,) if isinstance(kind, str) else tuple(kind)
    for each in kinds:
        if each not in KINDS:
            raise none_of("kind=", [*KINDS], each)
    return kinds


_AHEAD_S: Final = 60.0
"""Seconds. If a moment lies further ahead of the clock, the clock was wrong."""
_EXCERPT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened in a run.

    Attributes:
        sequence: its place in the run, from 1 without gaps
        path: which part of the run it belongs to: empty for the run's own agent, such as `R1/coder`
            for an agent that works on its behalf
        kind: what happened, such as `begun`, `started` or `ended`
        at: when, in seconds since 1970
        data: the details, as JSON data
    """

    sequence: int
    path: str
    kind: str
    at: float
    data: dict[str, Any]


FIRST: Final = 8
"""Among so many entries is the beginning of a run's own part."""


def begun_of(entries: Iterable[Entry]) -> dict[str, Any] | None:
    """Return what a run's own part began with; None before it has."""
    return next((each.data for each in entries if not each.path and each.kind == "begun"), None)


@dataclass(frozen=True, slots=True)
class Outline(RecordedAttributes):
    """One run of a journal, in short.

    Attributes:
        id: the run's id
        kind: the class of its agent, such as `ReActAgent`
        agent: the id of its agent
        task: the beginning of the text that it was asked; the first entry of the run's own agent
            has the whole text
        began: when, in seconds since 1970
        changed: when the last entry was written, likewise
        entries: how many there are
        state: `running` while a process works on it; `waiting` while that waits for a person, or
            while the run waits in the journal for an answer, a result or a moment; `in_doubt` if it
            was cut off during an action, so that a person has to decide; `stopped` if its process
            ended otherwise and recorded no end; else the reason for which the run ended, such as
            `done`
        forked_from: the id of the run that it was forked from, or None
        thread: the id of the conversation that it belongs to; None for the agent's own
        tokens: how many tokens its model calls took; a fork counts only its own
        usd: what they cost in US dollars, as far as their prices are known
        model_calls: how often a model was asked
        actions: how many calls of actions have started
        seconds: for how long processes worked on it
        held: whether a process works on it, even if that waits for a person

    Its tags, and what else the caller says of it, are those of `RecordedAttributes`.
    """

    id: str
    kind: str
    agent: str
    task: str
    began: float
    changed: float
    entries: int
    state: str
    forked_from: str | None = None
    thread: str | None = None
    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    seconds: float = 0.0
    held: bool = False

    @property
    def under_way(self) -> bool:
        """Whether a process works on it, even if that waits for a person."""
        return self.state == "running" or self.held

    def _repr_html_(self) -> str:
        return display.facts(
            {
                "run": self.id,
                "agent": f"{self.agent} ({self.kind})",
                "task": self.task,
                "state": self.state,
                "began": stamp(self.began),
                "changed": stamp(self.changed),
                "entries": self.entries,
                "tokens": self.tokens,
                "US dollars": f"{self.usd:.4g}",
                "forked from": self.forked_from,
            }
            | self.attributes_in_words()
        )


class Outlines(list[Outline]):
    """The runs of a journal, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (each.id, each.agent, each.task, each.state, stamp(each.changed), each.entries)
            for each in self
        ]
        return display.table(
            ("run", "agent", "task", "state", "changed", "entries"), rows, len(rows)
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """What runs have spent together.

    Attributes:
        runs: how many runs
        tokens: how many tokens their model calls took
        usd: what they cost in US dollars, as far as their prices are known
        model_calls: how often models were asked
        actions: how many calls of actions have started
        seconds: for how long processes worked on them
    """

    runs: int = 0
    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    seconds: float = 0.0


def copied(entries: Sequence[Entry], key: str) -> Iterator[dict[str, Any]]:
    """Yield the data that the entries have in a copy of their run."""
    count: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for entry in entries:
        count[entry.path] += 1
        if entry.kind == "state":
            messages[entry.path] += len(entry.data["appended"].get("messages", ()))
    for entry in entries:
        if entry.kind != "begun":
            yield entry.data
            continue
        # The program that resumes the copy sets the fingerprint. The entry also says how much of
        # the part is copied: memories and budgets know that much by the other run's key.
        path = entry.path
        other = {"key": f"{key}/{path}", "messages": messages[path], "entries": count[path]}
        before = entry.data.get("copied", [])
        yield {**entry.data, "fingerprint": None, "copied": [*before, other]}


@dataclass(frozen=True, slots=True)
class Wait:
    """What a call of a run waits for.

    Attributes:
        run: the id of the run
        key: the key by which it is answered; the key of an approval is its hash, that of a result
            its name, or a key of its own once several calls of the run have asked under that name
        kind: `approval`, `question` (to a person), `result` (from outside), `moment`, or `doubt`:
            a call whose outcome is unknown
        agent: the id of the run's agent
        thread: the id of the conversation; None for the agent's own
        path: the part of the run; empty for that of the run's own agent
        step: the call, such as `2.0`: the first of the second answer
        action: the action's name; `decide` for a question to H of a dual act
        args: its arguments
        origins: the recorded origins of the arguments' values
        text: what is asked, in words; may be empty
        who: the names of those who may answer; if it is empty, anybody may
        since: when it was asked, in seconds since 1970
        until: when the wait is over, likewise; None for never
        answer: the answer, as JSON data; None until it is given
        by: who gave the answer; None if it is not known
        answered: when, in seconds since 1970; None until then
        call: the id of the call in the messages; empty for none
        asks_caller: whether a door also asks the caller who began the run
        remind: how often somebody is reminded, in seconds; None for never
        name: the key that the action gave its `Later`; empty for what is no result
        facts: what the action's program says of it, by name: `@action(facts=…)`
    """

    run: str
    key: str
    kind: str
    agent: str
    thread: str | None
    path: str
    step: str
    action: str
    args: dict[str, Any]
    origins: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    who: tuple[str, ...] = ()
    since: float = 0.0
    until: float | None = None
    answer: Any = None
    by: str | None = None
    answered: float | None = None
    call: str = ""
    asks_caller: bool = False
    remind: float | None = None
    name: str = ""
    facts: Facts = field(default_factory=dict)

    @property
    def ahead(self) -> bool:
        """Whether it began at a time that lies ahead of the clock: the clock was wrong then."""
        return self.since > time.time() + _AHEAD_S

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self) | {"who": [*self.who]}

    def __str__(self) -> str:
        askees = f", by {' or '.join(map(escaped, self.who))}" if self.who else ""
        deadline = "" if self.until is None else f", until {stamp(self.until)}"
        ahead = ", which lies ahead of the clock" if self.ahead else ""
        return f"{waits_for(self)}{askees}, since {stamp(self.since)}{ahead}{deadline}"


def request_of(wait: Wait) -> ApprovalRequest | Question:
    """Return what an approver would be asked: a call that waits for approval, or a question."""
    agent = wait.path.rpartition("/")[2] or wait.agent  # a member of a group asks in its part
    if wait.kind != "approval":
        return Question(agent, wait.text, wait.run)
    return ApprovalRequest(
        *(agent, wait.action, wait.args, agent, {}, wait.run, wait.thread, wait.text),
        check=lambda args: None,  # the run checks them
        facts=wait.facts,
    )


def stamp(at: float) -> str:
    """Return a moment as people read it, in local time."""
    return datetime.fromtimestamp(at).isoformat(" ", "seconds")


def waits_for(wait: Wait) -> str:
    """Return what is waited for, in words."""
    about = (wait.action, wait.args, wait.text, wait.name or wait.key, wait.facts)
    return in_words(wait.kind, *about)


def in_words(
    kind: str,
    action: str = "",
    args: Any = None,
    text: str = "",
    key: str = "",
    facts: Facts = NO_FACTS,
) -> str:
    """Return what a wait of this kind is for, in words."""
    call = escaped(cut(call_line(action, args), _EXCERPT_CHARS)) + facts_in_words(facts)
    more = f" [{escaped(cut(text, _EXCERPT_CHARS))}]" if text else ""
    if kind == "person":
        return escaped(text)
    words = {"call": call, "more": more, "key": repr(escaped(key))}
    return KINDS[kind].words.format_map(words | {"text": escaped_json(cut(text, _EXCERPT_CHARS))})


def wait_of(data: dict[str, Any], **details: Any) -> Wait:
    """Return the wait that an entry records."""
    return Wait(
        key=data["wait"],
        kind=data["kind"],
        action=data.get("action", ""),
        args=data.get("args", {}),
        origins=data.get("origins", {}),
        text=data.get("text", ""),
        who=tuple(data.get("who", ())),
        until=data.get("until"),
        call=data.get("call", ""),
        asks_caller=data.get("of_caller", False),
        remind=data.get("remind"),
        name=data.get("name", data["wait"] if data["kind"] == "result" else ""),
        facts=data.get("facts", {}),
        **details,
    )


def call_line(name: str, args: Any) -> str:
    """Return a call of an action in words, such as `pay(coins=3)`."""
    if isinstance(args, str):  # as the model wrote them
        try:
            args = json.loads(args)
        except ValueError:
            pass
    if not isinstance(args, dict):
        return f"{name}({'' if args is None else escaped_json(args)})"
    return f"{name}({', '.join(f'{k}={escaped_json(v)}' for k, v in args.items())})"
