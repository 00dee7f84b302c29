"""Periods of UTC after which a limit is renewed."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from moothall.foundation.errors import ConfigError
from moothall.foundation.text import excerpt

Per: TypeAlias = Literal["day", "month"]
PERIOD_KINDS: Final[tuple[Per, ...]] = get_args(Per)


class _PeriodForm(NamedTuple):
    format: str  # of its name, such as `2026-07`; the names of no two kinds are equally long
    first_day_suffix: str  # what makes its name that of its first day
    days: int  # the most that it has


_FORMS: Final[dict[Per, _PeriodForm]] = {
    "day": _PeriodForm("%Y-%m-%d", "", 1),
    "month": _PeriodForm("%Y-%m", "-01", 31),
}
_FORM_BY_LENGTH: Final = {
    len(time.strftime(form.format, time.gmtime(0))): form for form in _FORMS.values()
}


def checked_per(per: Per | None) -> Per | None:
    """Check `per=`."""
    if per is not None and (not isinstance(per, str) or per not in _FORMS):
        choices = " or ".join(map(repr, PERIOD_KINDS))
        raise ConfigError(f"Budget: per= must be {choices}, got {excerpt(per)}")
    return per


def period_at(per: Per, seconds: float) -> str:
    """Return the period of a moment, in seconds since 1970: `2026-07-02` or `2026-07`."""
    return time.strftime(_FORMS[per].format, time.gmtime(seconds))


def is_period(text: object) -> bool:
    """Return whether this is a period, or empty."""
    if text == "":
        return True
    try:
        return isinstance(text, str) and bool(_first_day(text))
    except (KeyError, ValueError):
        return False


def renewal_text(period: str) -> str:
    """Return when the period after this one begins, for an error."""
    form = _FORM_BY_LENGTH[len(period)]
    next_day = _first_day(period) + timedelta(days=form.days)
    return f"{_first_day(next_day.strftime(form.format)).isoformat()} at 00:00 UTC"


def period_start(period: str) -> float:
    """Return when a period began, in seconds since 1970."""
    return datetime.combine(_first_day(period), datetime.min.time(), UTC).timestamp()


def _first_day(period: str) -> date:
    return date.fromisoformat(period + _FORM_BY_LENGTH[len(period)].first_day_suffix)
