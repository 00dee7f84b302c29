"""What all rows share in a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from civitas.society.population.wants import Table
from civitas.society.wants import Want

_FINDING: Final = threading.RLock()


@dataclass
class Moment:
    """What all rows share in a step: the world as the step before left it.

    Attributes:
        step: the number of the step
        seconds: how long it is
        time: seconds since midnight when it begins
        clock: when it begins
        facts: what holds everywhere
        city: the places
        seen: copies of the columns that others may read, by name
        answers: what became of the wants of the step before, by kind
        messages: what was said in the step before, if blocks say anything
        feed: the feed of the society's services, if it has one
        found: what `once` has found
    """

    step: int = 0
    seconds: int = 900
    time: int = 0
    clock: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    city: Any = None
    seen: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[type[Want], Table] = field(default_factory=dict)
    messages: Any = None
    feed: Any = None
    found: dict[Any, Any] = field(default_factory=dict)

    def once(self, name: str, function: Callable[[], Any]) -> Any:
        """Return what a function gives, called once in a step for all parts of a population."""
        with _FINDING:
            if name not in self.found:
                self.found[name] = function()
            return self.found[name]
