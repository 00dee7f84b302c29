"""`Later`: an action returns it if its result comes later, an approver if it decides later."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from moothall.foundation.arguments import check_name, check_text
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, to_json

Moment: TypeAlias = float | timedelta | datetime
"""Seconds or a timedelta from now on; or a datetime, in local time if it has no zone."""

_NO_DEFAULT: Final[Any] = object()
_MAX_S: Final = 1e10
_RESERVED_KEY: Final = re.compile(
    "[0-9a-f]{64}|(doubt|operator):.*|(moment|wait)-[0-9a-f]{16}", re.DOTALL
)
"""The forms of moothall's own keys: of approvals and questions, of calls in doubt, of moments, and
of a result, beside the name that the action gives it."""


class Later(BaseException):
    """A result that comes later. An action returns or raises it; an approver returns it.

    The reply then ends with the reason `waiting`, and the run waits in its journal; nothing of it
    is left in the process. `journal.answer(run_id, key, value)` gives the result, in any process.
    Then the run is resumed. `Later(until=…)` without a key waits for that moment; its result is
    None. An approver gives no key: the key of an approval is its hash.

    It is a `BaseException`, so `except Exception` in an action does not catch it.

    Args:
        key: the name of the result, best unique in its run: of what several calls wait for under
            one name, each is answered by the key of its own that `journal.waiting` lists
        until: when the wait is over: seconds or a timedelta from now on, or a datetime
        default: the result if none has come by then; without a default, that is an error
        remind: how often somebody is reminded: seconds or a timedelta; None never
        who: the names of those who may answer; empty for anybody
        text: what the run waits for, in words

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        until: Moment | None = None,
        default: Any = _NO_DEFAULT,
        remind: float | timedelta | None = None,
        who: str | Iterable[str] = (),
        text: str = "",
    ) -> None:
        if key is not None:
            check_text("Later: key=", key)
            if is_reserved_key(key):
                raise ConfigError(
                    f"Later: the key {key!r:.80} has the form of an approval's hash, or of a call "
                    "in doubt or a moment: give another"
                )
        if not isinstance(text, str):
            raise ConfigError(f"Later: text= must be a text, got {text!r:.80}")
        self.key: str | None = key
        self.until: float | None = None if until is None else epoch_seconds(until)
        self.remind: float | None = None if remind is None else seconds_of(remind, "remind")
        self.who: tuple[str, ...] = names_of(who)
        self.text: str = text
        self.question_data: dict[str, Any] = {"text": text}  # what is asked, as entries say it
        self.has_default: bool = default is not _NO_DEFAULT
        try:
            self.default: Any = to_json(default) if self.has_default else None
        except NotJSON as error:
            raise ConfigError(f"Later: default= is not JSON: {error}") from error
        # An action asks a person: the question, and how often the action has asked it before.
        self.question: tuple[str, int] | None = None
        self.asks_caller = False  # whether a door also asks the caller who began the run
        super().__init__(text or key or "later")

    @property
    def details(self) -> dict[str, Any]:
        """What the journal keeps of it."""
        parts = {"who": [*self.who], **self.question_data}
        details = {name: part for name, part in parts.items() if part}
        details |= {"default": self.default} if self.has_default else {}
        details |= {"of_caller": True} if self.asks_caller else {}
        return {"until": self.until, "remind": self.remind} | details

    @property
    def misplaced_error(self) -> ConfigError:
        """The error of a function that is no action and raises it."""
        return ConfigError(
            f"Later({self.key!r}) was raised by a function that is no action: only the result of "
            "an action, or the decision of an approver, can come later"
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        return Later, (), {**self.__dict__, "args": self.args}


def is_reserved_key(key: str) -> bool:
    """Return whether a key has the form of moothall's own keys, which no action may use."""
    return _RESERVED_KEY.fullmatch(key) is not None


def seconds_of(length: object, name: str) -> float:
    """Return a length of time in seconds; ConfigError for other values."""
    if isinstance(length, timedelta):
        length = length.total_seconds()
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 < length <= _MAX_S:
        raise ConfigError(f"{name}= must be seconds above 0 or a timedelta, got {length!r:.80}")
    return float(length)


def epoch_seconds(moment: Moment) -> float:
    """Return a moment in seconds since 1970; ConfigError for other values."""
    now, seconds = time.time(), moment
    if isinstance(moment, datetime):
        seconds = moment.timestamp() - now
    elif isinstance(moment, timedelta):
        seconds = moment.total_seconds()
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not -math.inf < seconds <= _MAX_S
    ):
        raise ConfigError(
            f"until= must be seconds from now on, at most {_MAX_S:,.0f}, a timedelta or a "
            f"datetime, got {moment!r:.80}"
        )
    return moment.timestamp() if isinstance(moment, datetime) else now + max(seconds, 0.0)


def names_of(names_or_one: object) -> tuple[str, ...]:
    """Return the names of those who may answer; ConfigError for other values."""
    given_names = (names_or_one,) if isinstance(names_or_one, str) else names_or_one
    if not isinstance(given_names, Iterable) or isinstance(given_names, dict):
        raise ConfigError(f"who= must be a name or several, got {names_or_one!r:.80}")
    names = tuple(given_names)
    for name in names:
        check_name("who=", name)
    return names
