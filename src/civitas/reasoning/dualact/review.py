"""Which conclusions are reviewed: all of them, or those that a rule catches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import ConfigError
from civitas.reasoning.dualact.conclusions import Conclusion

if TYPE_CHECKING:
    from civitas.budget import Budget


@dataclass(frozen=True, slots=True)
class Situation:
    """What a rule looks at.

    Attributes:
        conclusion: the conclusion that R just came to
        before: those that it came to before, in order
        budget: what the two share, or None
    """

    conclusion: Conclusion
    before: Sequence[Conclusion] = ()
    budget: Budget | None = None


class ReviewRule:
    """Says of a conclusion whether H is to review it. Two combine with `|` and `&`."""

    name = "rule"

    def catches(self, situation: Situation) -> bool:
        """Whether H is to review this one."""
        raise NotImplementedError

    def __or__(self, other: ReviewRule) -> ReviewRule:
        return _Combined(any, "|", self, _rule(other))

    def __and__(self, other: ReviewRule) -> ReviewRule:
        return _Combined(all, "&", self, _rule(other))

    def __repr__(self) -> str:
        return self.name


class _Every(ReviewRule):
    name = "every"

    def catches(self, situation: Situation) -> bool:
        return True


class _OnError(ReviewRule):
    name = "on_error"

    def catches(self, situation: Situation) -> bool:
        conclusion = situation.conclusion
        return conclusion.error is not None or any("error" in item for item in conclusion.evidence)


class _NoProgress(ReviewRule):
    name = "no_progress"

    def catches(self, situation: Situation) -> bool:
        conclusion = situation.conclusion
        if conclusion.error is not None and conclusion.error.startswith("no_progress"):
            return True
        same = (conclusion.summary, conclusion.evidence)
        return any((each.summary, each.evidence) == same for each in situation.before)


class _BelowConfidence(ReviewRule):
    def __init__(self, least: float) -> None:
        self.least = _share(least, "below_confidence")
        self.name = f"below_confidence({least:g})"

    def catches(self, situation: Situation) -> bool:
        confidence = situation.conclusion.confidence
        return confidence is None or confidence < self.least


class _AfterBudgetShare(ReviewRule):
    def __init__(self, share: float) -> None:
        self.share = _share(share, "after_budget_share")
        self.name = f"after_budget_share({share:g})"

    def catches(self, situation: Situation) -> bool:
        return situation.budget is not None and _spent_share(situation.budget) >= self.share


class _Combined(ReviewRule):
    def __init__(self, how: Any, sign: str, *rules: ReviewRule) -> None:
        self._how = how
        self._rules = rules
        self.name = "(" + f" {sign} ".join(rule.name for rule in rules) + ")"

    def catches(self, situation: Situation) -> bool:
        # All are looked at: one that fails is not hidden behind another.
        return bool(self._how([rule.catches(situation) for rule in self._rules]))


every: Final[ReviewRule] = _Every()
"""Every conclusion."""
on_error: Final[ReviewRule] = _OnError()
"""Those of an R that came to no end of its own, or one of whose actions failed."""
no_progress: Final[ReviewRule] = _NoProgress()
"""Those that say and rest on the same as one before."""


def below_confidence(least: float) -> ReviewRule:
    """Those whose confidence is below this, or is not stated.

    Raises:
        ConfigError: it is no number from 0 to 1
    """
    return _BelowConfidence(least)


def after_budget_share(share: float) -> ReviewRule:
    """Those that come when so much of the budget, of whichever limit, is spent.

    Raises:
        ConfigError: it is no number from 0 to 1
    """
    return _AfterBudgetShare(share)


_NAMED: Final = {rule.name: rule for rule in (every, on_error, no_progress)}


def review_rule(given: Any) -> ReviewRule:
    """The rule that is meant: one, or the name of one that takes no number."""
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]
    return _rule(given)


def described(rule: str | ReviewRule) -> list[str]:
    """What a rule is, as JSON data: a run that is recorded goes on only with the same."""
    made = review_rule(rule)
    return [type(made).__qualname__, str(made.name)]


def _rule(given: Any) -> ReviewRule:
    if isinstance(given, ReviewRule):
        return given
    raise ConfigError(
        f"review= is {', '.join(map(repr, _NAMED))}, below_confidence(x), after_budget_share(x) or "
        f"these combined, not {given!r:.80}"
    )


def _share(number: Any, what: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise ConfigError(f"{what} takes a number from 0 to 1, not {number!r:.80}")
    return float(number)


def _spent_share(budget: Budget) -> float:
    """How much of it is spent, from 0 to 1, of the limit that is nearest."""
    spent, left = budget.spent, budget.left
    shares = [0.0]
    for name in ("tokens", "usd", "model_calls", "actions", "seconds"):
        rest = getattr(left, name)
        if rest is not None:
            had = getattr(spent, name)
            shares.append(had / (had + rest) if had + rest > 0 else 1.0)
    return max(shares)
