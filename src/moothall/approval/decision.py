"""An approver's decision, and the error for a call that it does not permit."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TypeAlias

from moothall.errors import ConfigError, NotPermitted
from moothall.text import printable

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


Decision: TypeAlias = bool | Refused | Always
"""An approver's decision: True and `Always()` permit; anything else refuses."""


def not_permitted(where: str, decision: object) -> NotPermitted:
    """Return the error for a call that was not permitted."""
    if not isinstance(decision, bool | Refused):  # an agent's own `request_permission` gave it
        template = '"%s" is refused: an answer must be True, False or Refused, got %.80r'
        logger.warning(template, where, decision)
    why = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
    return NotPermitted(f'"{where}" not permitted{why}')
