"""Periods after which a limit is renewed: days and months of UTC."""

from __future__ import annotations

import time
from datetime import date, timedelta
from typing import Final, Literal, TypeAlias

from moothall.errors import ConfigError
from moothall.text import excerpt

Per: TypeAlias = Literal["day", "month"]
_FORMATS: Final = {"day": "%Y-%m-%d", "month": "%Y-%m"}


def checked_per(per: Per | None) -> Per | None:
    """Check `per=`."""
    if per is not None and (not isinstance(per, str) or per not in _FORMATS):
        raise ConfigError(f"Budget: per= must be 'day' or 'month', got {excerpt(per)}")
    return per


def period_at(per: Per, seconds: float) -> str:
    """Return the period of a moment, in seconds since 1970: `2026-07-02` or `2026-07`."""
    return time.strftime(_FORMATS[per], time.gmtime(seconds))


def is_period(text: object) -> bool:
    """Return whether this is a period, or empty."""
    if text == "":
        return True
    try:
        return isinstance(text, str) and bool(_first_day(text))
    except ValueError:
        return False


def renewal(period: str) -> str:
    """Return when the period after this one begins, for an error."""
    begins = _first_day(period)
    if len(period) > len("2026-07"):
        after = begins + timedelta(days=1)
    else:
        after = (begins + timedelta(days=31)).replace(day=1)
    return f"{after.isoformat()} at 00:00 UTC"


def _first_day(period: str) -> date:
    return date.fromisoformat(period if len(period) > len("2026-07") else f"{period}-01")
