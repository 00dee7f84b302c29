"""Durations in a company's file, such as `10m`."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, Field

from moothall.build import excerpt

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def seconds(value: object) -> float:
    """Return a duration, such as `10m`, `1h30m`, `250ms` or a number of seconds, in seconds."""
    if type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise ValueError(
            "must be a duration, such as 10m, 1h30m, 250ms or a number of seconds, "
            f"got {excerpt(value)}"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))


Seconds: TypeAlias = Annotated[float, BeforeValidator(seconds), Field(ge=0, le=1e8)]
PositiveSeconds: TypeAlias = Annotated[float, BeforeValidator(seconds), Field(gt=0, le=1e8)]
