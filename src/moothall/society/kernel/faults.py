"""What fails in code of one's own: each mistake is told once, with its place, then counted."""

from __future__ import annotations

import logging
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moothall.foundation.text import one_line

logger: logging.Logger = logging.getLogger("moothall.society")

_KINDS: Final = 100  # the mistakes that are told apart
_NOT_OWN: Final = (
    str(Path(__file__).parents[2]),
    *(sysconfig.get_path(each) for each in ("purelib", "platlib", "stdlib", "platstdlib")),
)


@dataclass(slots=True)
class Fault:
    """A mistake: the first step in which somebody met it, who, what happened, and how often."""

    step: int
    who: str
    what: str
    count: int = 0

    def __str__(self) -> str:
        often = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"step {self.step}, {self.who}: {self.what}{often}"


class Faults:
    """The failures of a society's citizens and services.

    Attributes:
        found: the mistakes, by where they were made
        now: the failures of this step: the sort key, who and what
        told: whether the log has each mistake, once; a cell of an experiment reports them itself
    """

    def __init__(self) -> None:
        self.found: dict[str, Fault] = {}
        self.now: list[tuple[tuple[Any, ...], str, str]] = []
        self.told: bool = True
        self._said: int = 0

    def add(
        self, rank: tuple[Any, ...], who: str, step: int, what: str, how: str = "", place: str = ""
    ) -> None:
        """Count a failure; tell the first of its mistake, if `how` says in which words."""
        self.now.append((rank, who, what))
        # Its text may name the citizen: a place is the same for all.
        key = f"{place}, {what.partition(':')[0]}" if place else what
        fault = self.found.get(key)
        if fault is None:
            key = key if len(self.found) < _KINDS else "others"
            fault = self.found.setdefault(key, Fault(step, who, what))
            if fault.count == 0 and self.told and how:
                logger.warning("%s in step %d: %s", how, step, what)
        fault.count += 1

    def add_service(self, id: str, step: int, how: str, error: BaseException) -> None:
        """Count a failure of a service."""
        (what, place), who = described(error), f"service {id!r}"
        self.add((2, 0, id), who, step, what, f"{who} {how}", place)
        logger.debug("%s, step %d", who, step, exc_info=error)

    def tell_counts(self) -> None:
        """Tell how often each mistake was met that was met again since this was called last."""
        many = sum(each.count for each in self.found.values())
        if self.told and many > self._said:
            for each in self.found.values():
                if each.count > 1:
                    logger.warning("since step %d: %d times %s", each.step, each.count, each.what)
        self._said = many


def described(error: BaseException) -> tuple[str, str]:
    """Return an exception in one line with its place, and the place: file, line, function."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(_NOT_OWN)]
    notes = [*getattr(error, "__notes__", ())]
    place = ""
    if own:
        place = f"{Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name}"
    said = "; ".join([*notes, *([place] if place else [])])
    return one_line(f"{type(error).__name__}: {error}{f' ({said})' if said else ''}", 1000), place
