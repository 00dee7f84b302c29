"""An approver's decision, and the error for a call that it does not permit."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from moothall.actions.approval.later import Later
from moothall.actions.approval.request import Check
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


Decision: TypeAlias = bool | Refused | Always | ChangedArgs | Later
"""An approver's decision: True, `Always()` and `ChangedArgs(…)` permit; `Later()` says that the
decision comes later; anything else refuses."""

ANSWERS: Final = "True, False, Refused(…), Always(), ChangedArgs(…) or Later()"
"""What an approver may answer, in words."""


def changed_or_refused(changed: ChangedArgs, args: dict[str, Any], check: Check | None) -> Decision:
    """Return a permission with other arguments once these are checked, else a refusal."""
    if changed.args == args:
        return True
    if check is None:
        return Refused("the arguments of this call cannot be changed")
    try:
        check(changed.args)
    except InvalidArguments as error:
        return Refused(f"the approver gave wrong arguments: {error}")
    return changed


def not_permitted(where: str, decision: object) -> NotPermitted:
    """Return the error for a call that was not permitted."""
    if isinstance(decision, Later):
        decision = Refused("it would wait for its approval, which needs a reply with a journal=")
    if not isinstance(decision, bool | Refused):  # an agent's own `request_permission` gave it
        logger.warning('"%s" is refused: an answer must be %s, got %.80r', where, ANSWERS, decision)
    why = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
    return NotPermitted(f'"{where}" not permitted{why}')


def decision_json(decision: object) -> Any:
    """Return a decision as JSON data: the answer to an approval that waits in a journal.

    Raises:
        ConfigError: it is no decision
    """
    if isinstance(decision, Refused):
        return {"refused": decision.reason} if decision.reason else False
    if isinstance(decision, Always):
        return {"always": True}
    if isinstance(decision, ChangedArgs):
        try:
            return {"args": to_json(decision.args)}
        except NotJSON as error:
            raise ConfigError(f"the arguments of ChangedArgs are not JSON: {error}") from error
    if isinstance(decision, bool) or decision_of(decision) is not False:
        return decision
    raise ConfigError(f"the answer to an approval must be {_FORMS}, got {decision!r:.80}")


_FORMS: Final = (
    "True, False, Refused(…), Always() or ChangedArgs(…) "
    '(as JSON: {"permitted": "…"}, {"refused": "…"})'
)


def decision_of(data: Any) -> Decision:
    """Return the decision in JSON data; other data refuses."""
    match data:
        case True:
            return True
        case {"permitted": str(), **rest} if not rest:
            return True
        case {"refused": str(reason), **rest} if not rest:
            return Refused(reason)
        case {"always": True, **rest} if not rest:
            return Always()
        case {"args": dict(args), **rest} if not rest or decision_of(rest) is True:
            return ChangedArgs(args)
    return False
