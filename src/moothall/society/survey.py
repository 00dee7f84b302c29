"""Surveys: typed questions to citizens, and their answers by rule or by a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from typing import Any, ClassVar, Final, NamedTuple

from moothall import ConfigError
from moothall.build import check_function, object_schema, one_line
from moothall.society.kernel.faults import fault_in_words
from moothall.society.kernel.intervention import checked_list
from moothall.society.kernel.mind import (
    best_known,
    jobless_time,
    profile_of,
    recall_events,
    recent_talks,
)
from moothall.society.kernel.perception import RULES, Perception, item_in_words

_MAX_TEXT: Final = 1_500  # characters of a text answer: at 512 tokens a local model is cut off
_MEMORY_TOKENS: Final = 1_000  # the tokens of what it remembers that a citizen's model is shown
_HIDDEN_NAMES: Final = (
    *("kin", "plan", "relations", "talks", "visits"),  # the prompt has them in words
    # What the blocks keep for themselves says nothing of the person.
    *("day", "earned", "fallbacks", "faded", "mended", "now", "paid_day"),
    *("plan_duty", "plan_home", "purse", "reflected", "tour", "along"),
    *(
        "income",
        "jobless",
    ),  # income of a day; `profile` has a year's, and "jobless" is said in words
)
_WORD_ORDER: Final = (
    *("age", "gender", "education", "household", "skill", "occupation", "values"),
    *("", "interests", "income"),
)


@dataclass(frozen=True, slots=True)
class Respondent:
    """A citizen as a survey's rule sees it: copies, so that answering changes nothing.

    Attributes:
        id: the citizen's id, as it is addressed
        name: its name; empty for none
        status: its own state
        stream: the events that it remembers, the oldest first
        perceived: what it perceives now
    """

    id: str
    name: str
    status: dict[str, Any]
    stream: list[Any]
    perceived: Perception


class AnswerMeasure(NamedTuple):
    """What an experiment measures of the answers to a question: the mean of a number of each."""

    number_in: Callable[[Any], float]  # an answer
    is_share: bool = False  # whether that is 0 or 1


class AnswerKind(NamedTuple):
    """What questions, experiments and pages know of a kind of answer."""

    expected: str  # in an error, with the choices as {}
    schema: Callable[[Question], dict[str, Any]]
    fits: Callable[[Question, object], bool]  # whether a value is one, but for the bounds
    # By name; of what cannot be measured there is none.
    measures: Callable[[Question], Mapping[str, AnswerMeasure]]
    has_choices: bool = False
    has_bounds: bool = False
    label: str = ""  # on a page; empty for one that a page does not offer
    offered: Callable[[Question], Sequence[object]] = (
        lambda question: ()
    )  # as a page counts answers
    # The answer that stands for a share, from 0 to 1, of a need or an opinion.
    by_share: Callable[[Question, float], object] = lambda question, share: None


def _mean(question: Question) -> dict[str, AnswerMeasure]:
    return {question.id: AnswerMeasure(float)}


def _share(question: Question) -> dict[str, AnswerMeasure]:
    return {question.id: AnswerMeasure(float, is_share=True)}


def _share_of_each_choice(question: Question) -> dict[str, AnswerMeasure]:
    return {
        f"{question.id}={choice}": AnswerMeasure(partial(eq, choice), is_share=True)
        for choice in question.choices
    }


def _nearest_choice(question: Question, share: float) -> str:
    choices = question.choices
    return choices[min(int(share * len(choices)), len(choices) - 1)]


_ANSWER_KINDS: Final = {
    "scale": AnswerKind(
        "a whole number",
        lambda question: {"type": "integer"},
        lambda question, value: type(value) is int,
        _mean,
        has_bounds=True,
        label="a scale from 1 to 5",
        offered=lambda question: range(1, 6),
        by_share=lambda question, share: 1 + round(share * 4),
    ),
    "yes_no": AnswerKind(
        "true or false",
        lambda question: {"type": "boolean"},
        lambda question, value: type(value) is bool,
        _share,
        label="yes or no",
        offered=lambda question: (True, False),
        by_share=lambda question, share: share >= 0.5,
    ),
    "choice": AnswerKind(
        "one of {}",
        lambda question: {"enum": list(question.choices)},
        lambda question, value: isinstance(value, str) and value in question.choices,
        _share_of_each_choice,
        has_choices=True,
        label="a choice",
        offered=lambda question: question.choices,
        by_share=_nearest_choice,
    ),
    "number": AnswerKind(
        "a number",
        lambda question: {"type": "number"},
        lambda question, value: _is_number(value),
        _mean,
        has_bounds=True,
    ),
    "text": AnswerKind(
        "a text",
        lambda question: {"type": "string", "minLength": 1, "maxLength": _MAX_TEXT},
        lambda question, value: (
            isinstance(value, str) and 0 < len(value.strip()) <= len(value) <= _MAX_TEXT
        ),
        lambda question: {},
    ),
}
"""The kinds of answers, by the name that a question gives."""


@dataclass(frozen=True)
class Question:
    """A question whose answers are of one type.

    Args:
        id: the id of the question, which its answers name
        text: the question
        kind: `scale` (a whole number from `low` to `high`; 1 to 5 if left out), `choice` (one of
            `choices`), `number` (from `low` to `high`, where they are given), `text` (1 to 1,500
            characters) or `yes_no` (a boolean)
        choices: the texts to choose from
        low: the lowest answer
        high: the highest answer
        by: the rule: a plain function of a `Respondent` that returns the answer if no model does;
            None for no rule

    Raises:
        ConfigError: an argument is wrong
    """

    id: str
    text: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    by: Callable[[Respondent], object] | None = None

    kinds: ClassVar[Mapping[str, AnswerKind]] = _ANSWER_KINDS

    def __post_init__(self) -> None:
        for name in ("id", "text"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"a question's {name} must be a text, got {value!r:.80}")
        label = f"question {self.id!r}"
        if not isinstance(self.kind, str) or self.kind not in self.kinds:
            raise ConfigError(
                f"{label}: kind must be one of {(*self.kinds,)}, got {self.kind!r:.80}"
            )
        kind = self.kinds[self.kind]
        choices = (
            ()
            if isinstance(self.choices, str)
            else tuple(checked_list(self.choices, f"{label}: choices"))
        )
        if not all(isinstance(each, str) for each in choices):
            raise ConfigError(f"{label}: choices must be texts, got {choices!r:.80}")
        if kind.has_choices != bool(choices) or len(set(choices)) != len(choices):
            names = " or ".join(repr(name) for name, each in self.kinds.items() if each.has_choices)
            raise ConfigError(
                f"{label}: choices= must be given for kind={names} alone, each choice once"
            )
        object.__setattr__(self, "choices", choices)
        if self.kind == "scale":
            object.__setattr__(self, "low", 1 if self.low is None else self.low)
            object.__setattr__(self, "high", 5 if self.high is None else self.high)
        bounds = [each for each in (self.low, self.high) if each is not None]
        if bounds and not kind.has_bounds:
            raise ConfigError(f"{label}: low and high must be of scale or number, got {self.kind}")
        if self.kind == "scale" and not all(type(each) is int for each in bounds):
            raise ConfigError(f"{label}: low and high must be whole numbers")
        if not all(map(_is_number, bounds)):
            raise ConfigError(f"{label}: low and high must be numbers")
        if len(bounds) == 2 and bounds[0] >= bounds[1]:
            raise ConfigError(f"{label}: low must be below high, got {bounds[0]} and {bounds[1]}")
        check_function(f"{label}: by", self.by, "respondent", plain=True, optional=True)

    @property
    def measures(self) -> Mapping[str, AnswerMeasure]:
        """What an experiment measures of its answers, by name."""
        return self.kinds[self.kind].measures(self)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        bounds = {"minimum": self.low, "maximum": self.high}
        limits = {name: bound for name, bound in bounds.items() if bound is not None}
        return {"description": self.text, **self.kinds[self.kind].schema(self), **limits}

    def fault(self, value: Any) -> str:
        """Return what is wrong with an answer; empty if nothing is."""
        low, high = self.low, self.high
        if self.kinds[self.kind].fits(self, value) and not (
            (low is not None and value < low) or (high is not None and value > high)
        ):
            return ""
        bounds = "".join(f" {w} {at}" for w, at in (("from", low), ("to", high)) if at is not None)
        expected = self.kinds[self.kind].expected.format(", ".join(self.choices))
        return f"{self.id}: must be {expected}{bounds}, got {one_line(repr(value), 80)}"

    def by_rule(self, respondent: Respondent) -> tuple[object, str]:
        """Return the rule's answer and "", or None and why there is no usable answer."""
        if self.by is None:
            return None, f"{self.id}: the question has no rule, `by`"
        try:
            value = self.by(respondent)
        except Exception as error:  # a rule that fails must not stop the others
            return None, f"{self.id}: the rule failed: {fault_in_words(error)[0]}"
        fault = self.fault(value)
        return (None, f"the rule's answer: {fault}") if fault else (value, "")


class SurveyAnswer(NamedTuple):
    """The answer of a citizen.

    Attributes:
        citizen: its id, as it is addressed
        question: the question's id
        value: the answer; None without one
        source: `model`, `rule`, or `none`
        reason: why the citizen's model did not answer, and why there is no answer
        step: the number of the next step
    """

    citizen: str
    question: str
    value: Any
    source: str
    reason: str
    step: int


class Interview(str):
    """An answer in an interview: a text with `source` and `reason`, as in `SurveyAnswer`."""

    source: str
    reason: str

    def __new__(cls, text: str, source: str, reason: str) -> Interview:
        """Return a text with its source."""
        interview = super().__new__(cls, text)
        interview.source, interview.reason = source, reason
        return interview


@dataclass(frozen=True)
class Survey:
    """Questions that citizens are asked together.

    Args:
        name: its name
        questions: the questions; their ids are unique

    Raises:
        ConfigError: an argument is wrong
    """

    name: str
    questions: Sequence[Question]

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", tuple(checked_list(self.questions, "questions")))
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"a survey's name must be a text, got {self.name!r:.80}")
        title = f"survey {self.name!r}"
        if not self.questions or not all(isinstance(each, Question) for each in self.questions):
            raise ConfigError(f"{title}: questions must be one Question or more")
        if len({each.id for each in self.questions}) != len(self.questions):
            raise ConfigError(f"{title}: two questions have the same id")

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of all answers of a citizen."""
        return object_schema(**{each.id: each.schema for each in self.questions})

    def prompt(self, respondent: Respondent, rules: str = RULES) -> list[dict[str, Any]]:
        """Return the prompt for a citizen's model; `rules` are said before the task."""
        name = respondent.name or f"citizen {respondent.id}"
        status, perceived = respondent.status, respondent.perceived
        subject = " ".join(each.text for each in self.questions)
        context = {
            "you": {
                "name": name,
                **{k: v for k, v in status.items() if k not in _HIDDEN_NAMES},
                **({"profile": profile_of(status)} if status.get("profile") else {}),
                **jobless_time(status, perceived),
            },
            "people you know": best_known(
                perceived, status.get("relations") or {}, status.get("kin") or {}
            ),
            "conversations": recent_talks(perceived),
            "you remember": recall_events(respondent.stream, perceived, subject, _MEMORY_TOKENS),
            "questions": {each.id: each.text for each in self.questions},
        }
        task = (
            "Answer the questions as that citizen would. What it remembers is what it did, said "
            "and heard: it tells of nothing else, and says so if it does not know."
        )
        return perceived.prompt(task, self.schema, {k: v for k, v in context.items() if v}, rules)


@dataclass
class SurveyState:
    """The answers of a survey in a journal: each is a list in the order of `SurveyAnswer`."""

    answers: list[list[Any]] = field(default_factory=list)


def describe_itself(respondent: Respondent) -> str:
    """Return what a citizen says of itself by rule: its state, money, needs and plan."""
    status, perceived = respondent.status, respondent.perceived
    parts = [f"I am {respondent.name or respondent.id}"]
    profile = profile_of(status)
    moving, needs = (status.get(name) or {} for name in ("moving", "needs"))
    if profile:
        keys = sorted(profile, key=_word_position)  # a row's status has another order
        words = {k: ", ".join(v) if isinstance(v := profile[k], dict) else v for k in keys}
        if isinstance(profile.get("skill"), int):
            words["skill"] = _percent(profile["skill"])
        parts.append(", ".join(f"{key}: {value}" for key, value in words.items()))
    if perceived.place is not None:
        parts.append(f"I am at {perceived.place}")
    elif moving:
        parts.append(f"I am on the way to {moving['to']}")
    if "money" in status:
        parts.append(f"I have {status['money'] / 100:,.2f}")
    if needs:
        levels = ", ".join(f"{key} {_percent(value)}" for key, value in needs.items())
        parts.append(f"How far my needs are met: {levels}")
    if respondent.stream:
        event = respondent.stream[-1]
        parts.append(f"I remember: {event[1] if isinstance(event, list) else event.get('content')}")
    plan = (status.get("plan") or [])[status.get("now") or 0 :]
    parts.append(f"My plan: {'; '.join(map(item_in_words, plan)) or 'none'}")
    sentence = ". ".join(each.rstrip(".") for each in parts)
    return one_line(f"(by rule, not by a model: this is how it is) {sentence}.", _MAX_TEXT)


def _word_position(name: str) -> int:
    """Return where a part of a profile is said; attributes of one's own stand in the middle."""
    return _WORD_ORDER.index(name if name in _WORD_ORDER else "")


def _percent(thousandths: int) -> str:
    return f"{thousandths / 10:.0f} %"


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))
