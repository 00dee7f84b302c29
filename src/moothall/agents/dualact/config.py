"""How H and R of a dual act work together, and which conclusions are reviewed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from moothall.agents.decision import Conclusion
from moothall.agents.dualact.briefing import Briefing
from moothall.budget.limits import LIMITS
from moothall.foundation.arguments import check_boolean, check_integer, names_checked
from moothall.foundation.errors import ConfigError
from moothall.models.base import is_in_process

if TYPE_CHECKING:
    from moothall.agents.replies.checked_parts import Participant
    from moothall.budget import Budget


@dataclass(frozen=True, slots=True)
class Situation:
    """What a review rule decides by.

    Attributes:
        conclusion: R's latest conclusion
        before: R's earlier conclusions, in order
        budget: the budget that H and R share, or None
    """

    conclusion: Conclusion
    before: Sequence[Conclusion] = ()
    budget: Budget | None = None


class ReviewRule:
    """Decides whether H reviews a conclusion. Two rules combine with `|` and `&`."""

    name = "rule"

    def catches(self, situation: Situation) -> bool:
        """Return whether H reviews this conclusion."""
        raise NotImplementedError

    def __or__(self, other: ReviewRule) -> ReviewRule:
        return _combined_rule(any, "|", self, _checked_rule(other))

    def __and__(self, other: ReviewRule) -> ReviewRule:
        return _combined_rule(all, "&", self, _checked_rule(other))

    def __repr__(self) -> str:
        return self.name


class _ReviewFunction(ReviewRule):
    # Journals have it: a run is resumed by a rule whose class has the name of the recorded one.
    __qualname__ = "_Rule"

    def __init__(self, name: str, catches: Callable[[Situation], bool]) -> None:
        self.name = name
        self._catches = catches

    def catches(self, situation: Situation) -> bool:
        return self._catches(situation)


def _combined_rule(
    combine: Callable[[list[bool]], bool], sign: str, *rules: ReviewRule
) -> ReviewRule:
    name = "(" + f" {sign} ".join(rule.name for rule in rules) + ")"
    # Evaluate all rules, so that an error in one always shows.
    return _ReviewFunction(
        name, lambda situation: combine([rule.catches(situation) for rule in rules])
    )


def _has_failed(situation: Situation) -> bool:
    conclusion = situation.conclusion
    return conclusion.error is not None or any("error" in item for item in conclusion.evidence)


def _is_repetition(situation: Situation) -> bool:
    conclusion = situation.conclusion
    if conclusion.error is not None and conclusion.error.startswith("no_progress"):
        return True
    outcome = (conclusion.summary, conclusion.evidence)
    return any((each.summary, each.evidence) == outcome for each in situation.before)


every: Final[ReviewRule] = _ReviewFunction("every", lambda situation: True)
"""Review every conclusion."""
on_error: Final[ReviewRule] = _ReviewFunction("on_error", _has_failed)
"""Review conclusions of an R that did not finish by itself, or one of whose actions failed."""
no_progress: Final[ReviewRule] = _ReviewFunction("no_progress", _is_repetition)
"""Review conclusions that repeat an earlier one's text and evidence, or end as `no_progress`."""


def below_confidence(least: float) -> ReviewRule:
    """Review conclusions whose confidence is below this, or not stated.

    Raises:
        ConfigError: it is not a number from 0 to 1
    """
    least = _checked_share(least, "below_confidence")

    def is_unsure(situation: Situation) -> bool:
        confidence = situation.conclusion.confidence
        return confidence is None or confidence < least

    return _ReviewFunction(f"below_confidence({least:g})", is_unsure)


def after_budget_share(share: float) -> ReviewRule:
    """Review conclusions once this share of any limit of the budget is spent.

    Raises:
        ConfigError: it is not a number from 0 to 1
    """
    share = _checked_share(share, "after_budget_share")

    def is_spent(situation: Situation) -> bool:
        return situation.budget is not None and _spent_share(situation.budget) >= share

    return _ReviewFunction(f"after_budget_share({share:g})", is_spent)


Review: TypeAlias = Literal["every", "on_error", "no_progress"] | ReviewRule
"""A rule, or the name of one that takes no number."""

_RULES: Final = {rule.name: rule for rule in (every, on_error, no_progress)}


def review_rule(rule: Any) -> ReviewRule:
    """Return a rule as it is, or the rule of this name; rules that take a number have no name."""
    return _RULES[rule] if isinstance(rule, str) and rule in _RULES else _checked_rule(rule)


def _checked_rule(rule: Any) -> ReviewRule:
    if isinstance(rule, ReviewRule):
        return rule
    raise ConfigError(
        f"review= is {', '.join(map(repr, _RULES))}, below_confidence(x), after_budget_share(x) or "
        f"these combined, not {rule!r:.80}"
    )


def _checked_share(number: Any, label: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise ConfigError(f"{label} takes a number from 0 to 1, got {number!r:.80}")
    return float(number)


def _spent_share(budget: Budget) -> float:
    """Return the spent share, from 0 to 1, of the limit that is nearest."""
    spending, remaining = budget.spent, budget.left
    shares = [0.0]
    for limit in LIMITS:
        rest = getattr(remaining, limit.name)
        if rest is not None:
            spent_amount = getattr(spending, limit.name)
            shares.append(spent_amount / (spent_amount + rest) if spent_amount + rest > 0 else 1.0)
    return max(shares)


MAX_HR_LOOPS: Final = 5
"""How often R may run for one reply."""


class DualActParts(TypedDict, total=False):
    """The parts of a `DualActConfig`, as `DualActAgent` takes them; None stands for the default."""

    human: Participant | None
    reactive: Participant | Sequence[Participant] | None
    max_hr_loops: int | None
    human_decision_prompt: str | None
    reactive_task_prompt: str | None
    conclusion_format_prompt: str | None
    shared_memory: bool | None
    first: Literal["human", "reactive"] | None
    review: Review | None
    judging: Literal["at_once", "own_answer"] | None


DUAL_ACT_PARTS: Final = tuple(DualActParts.__annotations__)


@names_checked
@dataclass(slots=True)
class DualActConfig:
    """H and R of a dual act, and how they work together.

    Attributes:
        human: H, who decides: any conversational agent
        reactive: R, which executes: any conversational agent, or several that work side by side
        max_hr_loops: how often R may run
        human_decision_prompt: H's prompt about a conclusion, with the placeholders
            `{original_task}`, `{summary}`, `{steps}`, `{evidence}`, `{confidence}`
        reactive_task_prompt: R's prompt, with the placeholders `{instruction}`, `{focus_area}`,
            `{original_task}`
        conclusion_format_prompt: tells R how to conclude, with the placeholders `{instruction}` and
            `{original_task}`; by default it is told nothing
        shared_memory: whether H and R have one memory, R's
        first: who gets the task first: `human` for H, `reactive` for R
        review: which conclusions H reviews: `every`, or those that a rule catches; the others are
            accepted
        judging: how H's model judges: `at_once`, in one answer; or `own_answer`: it first answers
            from R's results, without R's words, then compares, and code decides. By default
            `own_answer` for a model in this process, unless there is a `human_decision_prompt`

    Raises:
        ConfigError: an argument is not valid
    """

    human: Any
    reactive: Any
    max_hr_loops: int = MAX_HR_LOOPS
    human_decision_prompt: str | None = None
    reactive_task_prompt: str | None = None
    conclusion_format_prompt: str | None = None
    shared_memory: bool = False
    first: Literal["human", "reactive"] = "human"
    review: Review = "every"
    judging: Literal["at_once", "own_answer"] | None = None

    def __post_init__(self) -> None:
        _check_agent(self.human, "human")
        if not self.reactives:
            raise ConfigError("reactive= is an empty list: there is nobody to execute anything")
        for agent in self.reactives:
            _check_agent(agent, "reactive")
        if any(agent is self.human for agent in self.reactives):
            raise ConfigError(
                f"human= and reactive= are the same agent, {self.human!r:.80}: make two, which may "
                "have one model"
            )
        names = [str(getattr(agent, "id", "")) for agent in self.reactives]
        if duplicates := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"reactive= has two agents of the id {duplicates[0]!r}, by which is known who "
                "concludes what"
            )
        check_integer("max_hr_loops=", self.max_hr_loops)
        if self.first not in ("human", "reactive"):
            raise ConfigError(f'first= must be "human" or "reactive", got {self.first!r:.80}')
        check_boolean("shared_memory=", self.shared_memory)
        if self.judging not in (None, "at_once", "own_answer"):
            fault = f'must be "at_once" or "own_answer", got {self.judging!r:.80}'
            raise ConfigError(f"judging= {fault}")
        if self.judging == "own_answer" and self.human_decision_prompt is not None:
            raise ConfigError(
                'judging="own_answer" asks its own questions: leave human_decision_prompt= out'
            )
        self.briefing()
        review_rule(self.review)
        if self.shared_memory:
            for agent in (self.human, *self.reactives):
                if not _has_memory(agent):
                    raise ConfigError(
                        f"shared_memory= needs agents with a memory, such as ReActAgent, and "
                        f"{agent!r:.80} has none"
                    )

    @property
    def reactives(self) -> list[Any]:
        """Return every R, as a list."""
        return list(self.reactive) if isinstance(self.reactive, list | tuple) else [self.reactive]

    @property
    def answers_first(self) -> bool:
        """Return whether H answers the task itself before it judges R's answer."""
        human = self.human
        if self.judging is not None or self.human_decision_prompt is not None:
            return self.judging == "own_answer"
        if getattr(human, "decides_in_words", False):
            return False
        return is_in_process(getattr(human, "model", None))

    def briefing(self) -> Briefing:
        """Return the prompts of H and R; ConfigError for one with an unknown placeholder."""
        return Briefing(
            self.human_decision_prompt, self.reactive_task_prompt, self.conclusion_format_prompt
        )


def as_config(config: DualActConfig | None, parts: dict[str, Any]) -> DualActConfig:
    """Return the given configuration, or one made from the given parts."""
    parts = {name: part for name, part in parts.items() if part is not None}
    if config is None:
        missing = " and ".join(f"{name}=" for name in ("human", "reactive") if name not in parts)
        if missing:
            raise ConfigError(f"DualActAgent needs {missing}, or a DualActConfig of both")
        return DualActConfig(**parts)
    if not isinstance(config, DualActConfig):
        raise ConfigError(
            f"DualActAgent takes a DualActConfig, or human= and reactive=, got {config!r:.80}"
        )
    if parts:
        raise ConfigError(f"DualActAgent has a config, which says {', '.join(parts)}: leave it out")
    return config


def _check_agent(agent: Any, label: str) -> None:
    if isinstance(agent, type) or not callable(getattr(agent, "reply", None)):
        raise ConfigError(
            f"{label}= needs an agent that replies, such as ReActAgent, got {agent!r:.80}"
        )


def _has_memory(agent: Any) -> bool:
    # A property is not read: of a ReActAgent it may load the model.
    class_attribute = getattr(type(agent), "memory", None)
    return isinstance(class_attribute, property) or getattr(agent, "memory", None) is not None
