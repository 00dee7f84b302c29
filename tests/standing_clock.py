"""A clock for budgets that stands still, so that what comes before a deadline is in time."""

from __future__ import annotations


class StandingClock:
    """No time passes until it is over.

    A call, an action or a function still has no longer than its budget's seconds: that is counted
    by the loop, from when it begins.
    """

    def __init__(self) -> None:
        self._time = 0.0

    def now(self) -> float:
        """Seconds since some moment."""
        return self._time

    def over(self) -> None:
        """Have every budget's seconds be over."""
        self._time = 1e9
