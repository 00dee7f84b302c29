"""When and how often a request is made again: what a status and a server's headers say."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST_WAIT_S = 120.0
"""The longest wait, in seconds, that a server may ask for; a longer one is not waited for."""

_LONGEST_BACKOFF_S = 8.0


def is_transient(status: int) -> bool:
    """Return whether a status is transient, so that a retry may succeed."""
    return status in (408, 409, 429) or status >= 500


def wants_retry(headers: Mapping[str, str]) -> bool | None:
    """Return whether a server asks for the same request again; None if it does not say."""
    answer = headers.get("x-should-retry", "").strip().lower()
    return answer == "true" if answer in ("true", "false") else None


def tries_note(tries: int) -> str:
    """Return how often a request was made, as the end of an error's text."""
    return f"; tried {tries} times" if tries > 1 else ""


def backoff_s(attempt: int) -> float:
    """Return how many seconds to wait after a failed attempt, the first being 0."""
    # Random, so that many that failed together do not retry at the same moment.
    wait_s: float = min(0.5 * 2**attempt, _LONGEST_BACKOFF_S)
    return wait_s * random.uniform(0.75, 1)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait; None if it does not say."""
    for field, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        header = headers.get(field) or ""
        try:
            wait_s = float(header) * unit_s
        except ValueError:
            try:
                date = parsedate_to_datetime(header)
                date = date if date.tzinfo else date.replace(tzinfo=UTC)  # as all dates of HTTP
                wait_s = date.timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if wait_s >= 0:
            return wait_s
    return None
