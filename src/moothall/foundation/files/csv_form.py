"""What a CSV file states of its own form."""

from __future__ import annotations

import re
from typing import Final

_STATED: Final = re.compile(r"\"?sep=([^\r\n\"])\"?\s*")


def stated_delimiter(line: str) -> str | None:
    """Return what a first line such as `sep=;` says that divides the cells; it is no row."""
    found = _STATED.fullmatch(line)
    return found and found[1]
