"""An approver's decisions, in one table, and the error for a call that they do not permit."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from moothall.actions.approval.later import Later
from moothall.actions.approval.request import ApprovalRequest
from moothall.foundation.errors import ConfigError, InvalidArguments, NotPermitted
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.foundation.text import printable

logger: logging.Logger = logging.getLogger("moothall.actions")


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal with a reason in words, used instead of False; the caller gets the reason."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise ConfigError(f"Refused: the reason must be a text, got {self.reason!r:.80}")

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Always:
    """A permission, used instead of True, that also holds for the values of `request.outside`.

    In the request's thread these values are not asked about again, for the same parameter of the
    same action. For a request without such values it is the same as True.
    """


@dataclass(frozen=True, slots=True)
class AlwaysInRun:
    """A permission, used instead of True, that also holds for the rest of the run.

    Later calls of the same action of the same agent in this run are not asked about, whatever their
    arguments. Those are that have a `note`, such as a value from outside, or whose action has other
    `facts`. For a request with a note, or of no run, it is the same as True.
    """


@dataclass(frozen=True, slots=True)
class NeverInRun:
    """A refusal, used instead of False, that also holds for the rest of the run.

    The calls that `AlwaysInRun` would permit unasked are refused unasked.
    """

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ChangedArgs:
    """A permission, used instead of True, of the call with other arguments.

    It is for a request that has a `check`, such as a call of a run: the arguments are checked by
    the action's schema, the journal records them and which ones they replace, and the model is
    told. For any other request it refuses.

    Attributes:
        args: all arguments of the call
    """

    args: dict[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.args, dict):
            raise ConfigError(f"ChangedArgs: args must be a dict, got {self.args!r:.80}")


Decision: TypeAlias = bool | Refused | Always | AlwaysInRun | NeverInRun | ChangedArgs | Later
"""An approver's decision: True, `Always()`, `AlwaysInRun()` and `ChangedArgs(…)` permit; `Later()`
says that the decision comes later; anything else refuses."""


class DecisionKind:
    """What terminals, cards, commands, doors and journals know of a kind of decision.

    Its `scope` says what it decides about: the call; in its thread, the values from outside that
    `holds` returns, which it permits; in its run, all calls for which `holds` returns the same key.
    """

    type: type[Any]
    key: str  # of its JSON form
    permits: bool = True
    takes_reason: bool = False  # whether `permitted` may stand beside its key
    word: str = ""  # by which a person chooses it; empty for what no word says
    label: str = ""  # of its button
    outcome: str = "permitted"  # what has become of a call then
    for_callers: bool = False  # whether doors, and commands, offer it
    scope: Literal["call", "thread", "run"] = "call"

    def read(self, value: Any) -> Any:
        """Return the decision for the value of its key in JSON data; None if it is no such."""
        return self.type() if value is True else None

    def write(self, decision: Any) -> Any:
        """Return a decision as JSON data."""
        return {self.key: True}

    def holds(self, request: ApprovalRequest) -> tuple[str, ...]:
        """Return by what it decides about more than the call of a request."""
        return ()

    def for_request(self, decision: Any, request: ApprovalRequest) -> Decision:
        """Return what a decision is for a request: a permission that does not fit may refuse."""
        result: Decision = decision
        return result

    def of_call(self) -> Decision:
        """Return what is left of it for a call once it is noted for what else it holds."""
        return True if self.permits else Refused(self.outcome)

    def reads(self, value: Any) -> bool:
        """Return whether a value of its key is one of its decisions."""
        return self.read(value) is not None

    def keys_in_run(self, request: ApprovalRequest) -> tuple[str, ...]:
        """Return by what it holds for later calls in the run: a refusal by keys of its own."""
        keys = self.holds(request) if self.scope == "run" else ()
        return keys if self.permits else tuple(f"not {key}" for key in keys)


class _YesOrNo(DecisionKind):
    type, key = bool, "permitted"

    def read(self, value: Any) -> Any:
        return True if isinstance(value, str) else None

    def write(self, decision: Any) -> Any:
        return decision


class _WithReason(DecisionKind):
    type, key, permits, outcome = Refused, "refused", False, "refused"

    def read(self, value: Any) -> Any:
        return Refused(value) if isinstance(value, str) else None

    def write(self, decision: Any) -> Any:
        return {"refused": decision.reason} if decision.reason else False


class _OfThread(DecisionKind):
    type, key, word, scope = Always, "always", "always", "thread"
    label, outcome = "These values always, in this thread", "permitted for the thread"

    def holds(self, request: ApprovalRequest) -> tuple[str, ...]:
        return request.outside


class _OfRun(DecisionKind):
    type: type[Any] = AlwaysInRun
    key, word, scope = "always_in_run", "run", "run"
    takes_reason = for_callers = True
    label, outcome = "Always in this run", "permitted always in this run"

    def holds(self, request: ApprovalRequest) -> tuple[str, ...]:
        """Return the hash of what stays the same: all that a person saw but the arguments."""
        is_of_run = request.run_id is not None and request.check is not None
        if not is_of_run or request.note or request.outside:
            return ()
        parts = [request.run_id, request.agent, request.action, {**request.facts}]
        return (hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),)


class _NotInRun(_OfRun):
    type, key, word, permits, takes_reason = NeverInRun, "never_in_run", "never", False, False
    label, outcome = "Never in this run", "refused for the rest of the run"


class _WithOtherArgs(DecisionKind):
    type, key, takes_reason = ChangedArgs, "args", True
    outcome = "permitted with other arguments"

    def read(self, value: Any) -> Any:
        return ChangedArgs(value) if isinstance(value, dict) else None

    def write(self, decision: Any) -> Any:
        try:
            return {"args": to_json(decision.args)}
        except NotJSON as error:
            raise ConfigError(f"the arguments of ChangedArgs are not JSON: {error}") from error

    def for_request(self, decision: Any, request: ApprovalRequest) -> Decision:
        """Return the permission once the new arguments are checked, else a refusal."""
        if decision.args == request.args:
            return True
        if request.check is None:
            return Refused("the arguments of this call cannot be changed")
        try:
            request.check(decision.args)
        except InvalidArguments as error:
            return Refused(f"the approver gave wrong arguments: {error}")
        changed: ChangedArgs = decision
        return changed


DECISION_ENTRIES: Final = ("refused", "permitted")
"""The kinds of a journal's entries that keep what a decision permits, or refuses for longer."""


class DecisionKinds(tuple[DecisionKind, ...]):
    """The kinds of decision: what an answer is, permits and is recorded as."""

    def kind_of(self, decision: object) -> DecisionKind | None:
        """Return the kind of a decision; None for `Later` and what is no decision."""
        return next((kind for kind in self if isinstance(decision, kind.type)), None)

    def scope_of(self, decision: object) -> str:
        """Return the scope of a decision; of what is none, its call."""
        kind = self.kind_of(decision)
        return "call" if kind is None else kind.scope

    def permits(self, decision: object) -> bool:
        """Return whether a decision permits its call."""
        kind = self.kind_of(decision)
        return kind is not None and kind.permits and decision is not False

    def outcome_of(self, decision: object) -> str:
        """Return in words what has become of a call that is decided so."""
        kind = self.kind_of(decision)
        return "refused" if kind is None or decision is False else kind.outcome

    def of_call(self, decision: Decision) -> Decision:
        """Return what a decision says of its call alone."""
        kind = self.kind_of(decision)
        return decision if kind is None or kind.scope == "call" else kind.of_call()

    def choices_for(self, request: ApprovalRequest) -> dict[str, DecisionKind]:
        """Return by word the kinds that a person may choose for a request, instead of yes."""
        return {kind.word: kind for kind in self if kind.word and kind.holds(request)}

    def decision_for(self, request: ApprovalRequest, answer: object) -> Decision:
        """Return what an answer decides about a request: what is no decision refuses."""
        kind = self.kind_of(answer)
        if kind is None:
            return answer if isinstance(answer, Later) else False
        fits_request = not kind.word or kind.holds(request)
        return kind.for_request(answer, request) if fits_request else kind.permits

    def keys_in_run(self, request: ApprovalRequest, decision: object) -> tuple[str, ...]:
        """Return by what a decision holds for later calls in the run."""
        kind = self.kind_of(decision)
        return () if kind is None else kind.keys_in_run(request)

    def decided_in_run(self, request: ApprovalRequest, keys: Container[str]) -> Decision | None:
        """Return what earlier decisions in the run, by their keys, say of a request; None for no.

        Of several, one that refuses counts.
        """
        for kind in sorted(self, key=lambda each: each.permits):
            if any(key in keys for key in kind.keys_in_run(request)):
                return kind.of_call()
        return None

    def to_json(self, decision: object) -> Any:
        """Return a decision as JSON data: the answer to an approval that waits in a journal.

        Raises:
            ConfigError: it is no decision
        """
        kind = self.kind_of(decision)
        if kind is not None:
            return kind.write(decision)
        if self.read(decision) is not False:
            return decision
        raise ConfigError(
            f"the answer to an approval must be {_DECISION_FORMS} "
            f'(as JSON: {{"permitted": "…"}}, {{"refused": "…"}}), got {decision!r:.80}'
        )

    def read(self, data: Any) -> Decision:
        """Return the decision in JSON data; other data refuses."""
        if not isinstance(data, Mapping):
            return data is True
        for kind in reversed(self):  # `permitted`, which may stand beside others, last
            if kind.key in data:
                other_entries = {key: value for key, value in data.items() if key != kind.key}
                decision: Decision | None = kind.read(data[kind.key])
                is_whole = not other_entries or (
                    kind.takes_reason and self.read(other_entries) is True
                )
                return False if decision is None or not is_whole else decision
        return False

    def refusal_of(self, where: str, decision: object) -> NotPermitted:
        """Return the error for a call, `where`, that a decision does not permit."""
        if isinstance(decision, Later):
            text = "it would wait for its approval, which needs a reply with a journal= here"
            decision = Refused(text)
        if not isinstance(decision, bool | Refused):  # an agent's own `request_permission` gave it
            logger.warning(
                '"%s" is refused: an answer must be %s, got %.80r', where, ANSWER_FORMS, decision
            )
        reason_text = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
        return NotPermitted(f'"{where}" not permitted{reason_text}')

    def entry_of(
        self, decision: object, request: ApprovalRequest | None
    ) -> tuple[str, dict[str, Any]] | None:
        """Return the kind of a journal's entry, and what a decision holds for besides its call.

        None for what a journal keeps nothing of: a refusal of the call alone.
        """
        kind = self.kind_of(decision)
        if kind is None or kind.scope == "call":
            return ("permitted", {}) if decision is True else None
        keys = [] if request is None else [*kind.keys_in_run(request)]
        keys_by_name = {"allowed" if kind.permits else "refused": keys}
        return DECISION_ENTRIES[kind.permits], {**kind.write(decision), **keys_by_name}

    def keys_in_entry(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the keys of what the decision in an entry of a journal holds for in the run."""
        return (*entry.get("allowed", ()), *entry.get("refused", ()))

    def read_entry(self, entry: Mapping[str, Any]) -> Decision:
        """Return the decision that an entry of a journal states; True for its call alone."""
        permits = "refused" not in entry
        kinds = (kind for kind in self if kind.scope != "call" and kind.permits is permits)
        decisions = (kind.read(entry[kind.key]) for kind in kinds if kind.key in entry)
        return next((each for each in decisions if each is not None), permits)


DECISION_KINDS: Final = DecisionKinds(
    (_YesOrNo(), _WithReason(), _OfThread(), _OfRun(), _NotInRun(), _WithOtherArgs())
)
"""The kinds of decisions, as answers have them.

To add one, write its class, a subclass of `DecisionKind`, and name both here and in `Decision`.
"""

_DECISION_FORMS: Final = "True, False, " + ", ".join(
    f"{kind.type.__name__}({'…' if fields(kind.type) else ''})" for kind in DECISION_KINDS[1:]
)
ANSWER_FORMS: Final = f"{_DECISION_FORMS} or Later()"
"""What an approver may answer, in words."""
