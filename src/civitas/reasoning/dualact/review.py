"""Which conclusions are reviewed: all of them, or those that a rule catches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        return _combined(any, "|", self, _rule(other))

    def __and__(self, other: ReviewRule) -> ReviewRule:
        return _combined(all, "&", self, _rule(other))

    def __repr__(self) -> str:
        return self.name


class _Rule(ReviewRule):
    def __init__(self, name: str, catches: Callable[[Situation], bool]) -> None:
        self.name = name
        self._catches = catches

    def catches(self, situation: Situation) -> bool:
        return self._catches(situation)


def _combined(how: Callable[[list[bool]], bool], sign: str, *rules: ReviewRule) -> ReviewRule:
    name = "(" + f" {sign} ".join(rule.name for rule in rules) + ")"
    # All are looked at: one that fails is not hidden behind another.
    return _Rule(name, lambda situation: how([rule.catches(situation) for rule in rules]))


def _failed(situation: Situation) -> bool:
    conclusion = situation.conclusion
    return conclusion.error is not None or any("error" in item for item in conclusion.evidence)


def _repeats(situation: Situation) -> bool:
    conclusion = situation.conclusion
    if conclusion.error is not None and conclusion.error.startswith("no_progress"):
        return True
    same = (conclusion.summary, conclusion.evidence)
    return any((each.summary, each.evidence) == same for each in situation.before)


every: Final[ReviewRule] = _Rule("every", lambda situation: True)
"""Every conclusion."""
on_error: Final[ReviewRule] = _Rule("on_error", _failed)
"""Those of an R that came to no end of its own, or one of whose actions failed."""
no_progress: Final[ReviewRule] = _Rule("no_progress", _repeats)
"""Those that say and rest on the same as one before."""


def below_confidence(least: float) -> ReviewRule:
    """Those whose confidence is below this, or is not stated.

    Raises:
        ConfigError: it is no number from 0 to 1
    """
    least = _share(least, "below_confidence")

    def unsure(situation: Situation) -> bool:
        confidence = situation.conclusion.confidence
        return confidence is None or confidence < least

    return _Rule(f"below_confidence({least:g})", unsure)


def after_budget_share(share: float) -> ReviewRule:
    """Those that come when so much of the budget, of whichever limit, is spent.

    Raises:
        ConfigError: it is no number from 0 to 1
    """
    share = _share(share, "after_budget_share")

    def late(situation: Situation) -> bool:
        return situation.budget is not None and _spent_share(situation.budget) >= share

    return _Rule(f"after_budget_share({share:g})", late)


_NAMED: Final = {rule.name: rule for rule in (every, on_error, no_progress)}


def review_rule(given: Any) -> ReviewRule:
    """The rule that is meant: one, or the name of one that takes no number."""
    return _NAMED[given] if isinstance(given, str) and given in _NAMED else _rule(given)


def _rule(given: Any) -> ReviewRule:
    if isinstance(given, ReviewRule):
        return given
    raise ConfigError(
        f"review= is {', '.join(map(repr, _NAMED))}, below_confidence(x), after_budget_share(x) or "
        f"these combined, not {given!r:.80}"
    )


def _share(number: Any, what: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise ConfigError(f"{what} takes a number from 0 to 1, got {number!r:.80}")
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
