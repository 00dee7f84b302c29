"""What a CSV file states of its own form."""

from __future__ import annotations

import re
from typing import Final

_SEP_LINE: Final = re.compile(r"\"?sep=([^\r\n\"])\"?\s*")


def stated_delimiter(line: str) -> str | None:
    """Return what a first line such as `sep=;` says that divides the cells; it is no row."""
    match = _SEP_LINE.fullmatch(line)
    return match and match[1]
