"""Approvers by rules: patterns of agent, action and arguments permit or refuse a call."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moothall.actions.approval.approval import Approver, answer, approve, check_approver
from moothall.actions.approval.decision import ANSWER_FORMS, DECISION_KINDS, Decision
from moothall.actions.approval.request import ApprovalRequest, Question
from moothall.foundation.errors import ConfigError, DefinitionError


@dataclass(frozen=True, slots=True)
class Rule:
    """Permits matching requests, or refuses them with `permit=False`.

    Each pattern is a shell pattern (`*`, `?`, `[…]`) that must match the whole text, including
    case. An argument that is not a string is matched as its JSON.

    Attributes:
        agent: pattern of the agent's id
        action: pattern of the action's name
        args: patterns by argument name; all these arguments must exist and match
        facts: patterns by the name of a fact of the action, likewise
        permit: the decision for a match; `Refused("…")` refuses with a reason

    Raises:
        ConfigError: a pattern is not a text, or the decision is not a `Decision`
    """

    agent: str = "*"
    action: str = "*"
    args: Mapping[str, str] | None = None
    permit: Decision = True
    facts: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        patterns: list[tuple[str, object]] = [("agent", self.agent), ("action", self.action)]
        for option, patterns_by_name in (("args", self.args), ("facts", self.facts)):
            if patterns_by_name is not None and not isinstance(patterns_by_name, Mapping):
                raise ConfigError(
                    f"Rule: {option}= must be patterns by name, got {patterns_by_name!r:.80}"
                )
            patterns += (patterns_by_name or {}).items()
        for name, pattern in patterns:
            if not isinstance(pattern, str):
                raise ConfigError(f"Rule: the pattern of {name} must be a text, got {pattern!r}")
        if not isinstance(self.permit, Decision):
            raise ConfigError(f"Rule: permit= must be {ANSWER_FORMS}, got {self.permit!r:.80}")

    def matches(self, request: ApprovalRequest) -> bool:
        """Return whether the rule matches this request."""
        texts_and_patterns = [(request.agent, self.agent), (request.action, self.action)]
        for patterns, values in ((self.args, request.args), (self.facts, request.facts)):
            for name, pattern in (patterns or {}).items():
                if name not in values:
                    return False
                value = values[name]
                if not isinstance(value, str):
                    value = json.dumps(value, sort_keys=True, ensure_ascii=False)
                texts_and_patterns.append((value, pattern))
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in texts_and_patterns)


class RuleApprover:
    """Decides by the first matching rule; without one, `otherwise` decides or it is refused.

    Raises:
        DefinitionError: a rule or an approver has the wrong type
    """

    def __init__(self, rules: Iterable[Rule], otherwise: Approver | None = None) -> None:
        if isinstance(rules, str | Mapping) or not isinstance(rules, Iterable):
            raise ConfigError(f"RuleApprover takes a list of rules, got {rules!r:.80}")
        self.rules: tuple[Rule, ...] = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise DefinitionError(f"RuleApprover takes Rule(…), got {rule!r}")
        if otherwise is not None:
            check_approver(otherwise, "RuleApprover", "otherwise")
        self.otherwise = otherwise

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Return the first matching rule's decision."""
        for rule in self.rules:
            if rule.matches(request) and not (request.note and DECISION_KINDS.permits(rule.permit)):
                return rule.permit
        return await approve(self.otherwise, request)

    async def answer(self, question: Question) -> str:
        """Return the answer of `otherwise`, since rules have no answers."""
        return await answer(self.otherwise, question)
