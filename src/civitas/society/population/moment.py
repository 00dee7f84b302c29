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
    """What all rows share in a step: the world as the step before left it."""

    step: int = 0
    seconds: int = 900
    lasted: int = 900
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
