"""An approver's decisions, in one table, and the error for a call that they do not permit."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from moothall.actions.approval.later import Later
from moothall.actions.approval.request import ApprovalRequest
from moothall.foundation.errors import ConfigError, InvalidArguments, NotPermitted
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.foundation.text import printable

logger: logging.Logger = logging.getLogger("moothall.approval")


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


Decision: TypeAlias = bool | Refused | Always | AlwaysInRun | ChangedArgs | Later
"""An approver's decision: True, `Always()`, `AlwaysInRun()` and `ChangedArgs(…)` permit; `Later()`
says that the decision comes later; anything else refuses."""


class DecisionKind(NamedTuple):
    """What terminals, cards, commands, doors and journals know of a kind of decision.

    Its `scope` says what it permits: the call; in its thread, the values from outside that `holds`
    returns; in its run, all calls for which `holds` returns the same key.
    """

    type: type[Any]
    key: str  # of its JSON form
    read: Callable[[Any], Any]  # returns the decision for the value of that key; None for no such
    write: Callable[[Any], Any]  # returns its JSON form
    takes_reason: bool = True  # whether `permitted` may stand beside its key
    word: str = ""  # by which a person chooses it; empty for what no word says
    label: str = ""  # of its button
    outcome: str = "permitted"  # what has become of a call then
    for_callers: bool = False  # whether doors offer it
    scope: Literal["call", "thread", "run"] = "call"
    holds: Callable[[ApprovalRequest], tuple[str, ...]] = lambda request: ()
    # What it is for a request: a permission that does not fit it may refuse.
    for_request: Callable[[Any, ApprovalRequest], Decision] = lambda each, request: each


def _args_json(changed: ChangedArgs) -> dict[str, Any]:
    try:
        return {"args": to_json(changed.args)}
    except NotJSON as error:
        raise ConfigError(f"the arguments of ChangedArgs are not JSON: {error}") from error


def _changed_or_refused(changed: ChangedArgs, request: ApprovalRequest) -> Decision:
    """Return a permission with other arguments once these are checked, else a refusal."""
    if changed.args == request.args:
        return True
    if request.check is None:
        return Refused("the arguments of this call cannot be changed")
    try:
        request.check(changed.args)
    except InvalidArguments as error:
        return Refused(f"the approver gave wrong arguments: {error}")
    return changed


def _action_in_run(request: ApprovalRequest) -> tuple[str, ...]:
    """Return the hash of what stays the same: all that a person saw of a call but its arguments."""
    is_of_run = request.run_id is not None and request.check is not None
    if not is_of_run or request.note or request.outside:
        return ()
    parts = [request.run_id, request.agent, request.action, {**request.facts}]
    return (hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),)


class DecisionKinds(tuple[DecisionKind, ...]):
    """The kinds of decision: what an answer is, permits and is recorded as."""

    def kind_of(self, decision: object) -> DecisionKind | None:
        """Return the kind of a decision; None for `Later` and what is no decision."""
        return next((kind for kind in self if isinstance(decision, kind.type)), None)

    def scope_of(self, decision: object) -> str:
        """Return the scope of a decision; of what is none, its call."""
        kind = self.kind_of(decision)
        return "call" if kind is None else kind.scope

    def outcome_of(self, decision: object) -> str:
        """Return in words what has become of a call that is decided so."""
        kind = self.kind_of(decision)
        return kind.outcome if kind is not None and decision else "refused"

    def choices_for(self, request: ApprovalRequest) -> dict[str, DecisionKind]:
        """Return by word the kinds that a person may choose for a request, instead of yes."""
        return {kind.word: kind for kind in self if kind.word and kind.holds(request)}

    def decide(self, request: ApprovalRequest, answer: object) -> Decision:
        """Return what an answer decides about a request: what is no decision refuses."""
        kind = self.kind_of(answer)
        if kind is None or not isinstance(answer, Decision):
            return answer if isinstance(answer, Later) else False
        has_more = not kind.word or kind.holds(request)
        return kind.for_request(answer, request) if has_more else True

    def keys_in_run(self, request: ApprovalRequest, decision: object = None) -> tuple[str, ...]:
        """Return by what a decision permits later calls in the run; without one, any that can."""
        kinds = (each for each in self if decision is None or isinstance(decision, each.type))
        return tuple(key for kind in kinds if kind.scope == "run" for key in kind.holds(request))

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
            f"the answer to an approval must be {_FORMS} "
            f'(as JSON: {{"permitted": "…"}}, {{"refused": "…"}}), got {decision!r:.80}'
        )

    def read(self, data: Any) -> Decision:
        """Return the decision in JSON data; other data refuses."""
        if not isinstance(data, Mapping):
            return data is True
        for kind in reversed(self):  # `permitted`, which may stand beside others, last
            if kind.key in data:
                rest = {key: value for key, value in data.items() if key != kind.key}
                decision: Decision | None = kind.read(data[kind.key])
                is_whole = not rest or (kind.takes_reason and self.read(rest) is True)
                return False if decision is None or not is_whole else decision
        return False

    def entry_of(self, decision: object, request: ApprovalRequest | None) -> dict[str, Any]:
        """Return what a journal keeps of a permission besides its call: what else it permits."""
        if self.scope_of(decision) == "call":
            return {}
        allowed = () if request is None else self.keys_in_run(request, decision)
        return {**self.to_json(decision), **({"allowed": [*allowed]} if allowed else {})}

    def read_entry(self, entry: Mapping[str, Any]) -> Decision:
        """Return the permission that an entry of a journal states; True for its call alone."""
        kinds = (kind for kind in self if kind.scope != "call" and kind.key in entry)
        decisions = (kind.read(entry[kind.key]) for kind in kinds)
        return next((each for each in decisions if each is not None), True)


DECISION_KINDS: Final = DecisionKinds(
    (
        DecisionKind(
            bool,
            "permitted",
            lambda value: True if isinstance(value, str) else None,
            lambda decision: decision,
            takes_reason=False,
        ),
        DecisionKind(
            Refused,
            "refused",
            lambda value: Refused(value) if isinstance(value, str) else None,
            lambda decision: {"refused": decision.reason} if decision.reason else False,
            takes_reason=False,
        ),
        DecisionKind(
            Always,
            "always",
            lambda value: Always() if value is True else None,
            lambda decision: {"always": True},
            takes_reason=False,
            word="always",
            label="These values always, in this thread",
            outcome="permitted for the thread",
            scope="thread",
            holds=lambda request: request.outside,
        ),
        DecisionKind(
            AlwaysInRun,
            "always_in_run",
            lambda value: AlwaysInRun() if value is True else None,
            lambda decision: {"always_in_run": True},
            word="run",
            label="Always in this run",
            outcome="permitted always in this run",
            for_callers=True,
            scope="run",
            holds=_action_in_run,
        ),
        DecisionKind(
            ChangedArgs,
            "args",
            lambda value: ChangedArgs(value) if isinstance(value, dict) else None,
            _args_json,
            outcome="permitted with other arguments",
            for_request=_changed_or_refused,
        ),
    )
)
"""To add a kind of decision, write its class, its row here, and its name in `Decision`."""

_FORMS: Final = "True, False, " + ", ".join(
    f"{kind.type.__name__}({'…' if fields(kind.type) else ''})" for kind in DECISION_KINDS[1:]
)
ANSWERS: Final = f"{_FORMS} or Later()"
"""What an approver may answer, in words."""


def not_permitted(where: str, decision: object) -> NotPermitted:
    """Return the error for a call that was not permitted."""
    if isinstance(decision, Later):
        decision = Refused("it would wait for its approval, which needs a reply with a journal=")
    if not isinstance(decision, bool | Refused):  # an agent's own `request_permission` gave it
        logger.warning('"%s" is refused: an answer must be %s, got %.80r', where, ANSWERS, decision)
    why = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
    return NotPermitted(f'"{where}" not permitted{why}')
