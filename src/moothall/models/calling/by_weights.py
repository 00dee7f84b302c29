"""Which form of calls weights do best with: a property of the weights, measured."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from moothall.models.calling.choice import OneCall
from moothall.models.calling.listed import SeveralCalls
from moothall.models.calling.program import ProgramOfCalls

Calls: TypeAlias = Literal["one", "list", "program"]
"""How a model in this process writes calls: one, which it must choose; a list; a program."""

FORMS: Final[dict[str, type[OneCall]]] = {
    "one": OneCall,
    "list": SeveralCalls,
    "program": ProgramOfCalls,
}
# By the name in the weights' own header; benchmarks/minds measures them.
_OF_WEIGHTS: Final = (
    (re.compile(r"smollm2[ -]135m", re.IGNORECASE), "one"),
    (re.compile(r"code", re.IGNORECASE), "program"),
)


def form_of(name: str) -> str:
    """Return the form of calls of weights that call themselves by this name."""
    return next((form for pattern, form in _OF_WEIGHTS if pattern.search(name)), "list")
