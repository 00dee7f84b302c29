"""What fails in code of one's own: each mistake is told once, with its place, then counted."""

from __future__ import annotations

import logging
import sysconfig
import traceback
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

from moothall.build import one_line

logger: logging.Logger = logging.getLogger("moothall.society")

_MAX_FAULTS: Final = 100  # the mistakes that are told apart
_LIBRARY_PATHS: Final = (
    str(Path(__file__).parents[2]),
    *(sysconfig.get_path(each) for each in ("purelib", "platlib", "stdlib", "platstdlib")),
)


@dataclass(slots=True)
class Fault:
    """A mistake: the first step in which somebody met it, who, what happened, and how often."""

    step: int
    source: str
    text: str
    count: int = 0

    def __str__(self) -> str:
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"step {self.step}, {self.source}: {self.text}{times}"


class Faults:
    """The failures of a society's citizens and services.

    Attributes:
        by_key: the mistakes, by where they were made
        step_failures: those of this step: the sort key, who and what
        is_logged: whether the log has each mistake, once; an experiment reports them itself
    """

    def __init__(self) -> None:
        self.by_key: dict[str, Fault] = {}
        self.step_failures: list[tuple[tuple[Any, ...], str, str]] = []
        self.is_logged: bool = True
        self._logged_count: int = 0

    def add(
        self,
        rank: tuple[object, ...],
        source: str,
        step: int,
        text: str,
        manner: str = "",
        place: str = "",
    ) -> None:
        """Count a failure; tell the first of its mistake, if `manner` says in which words."""
        self.step_failures.append((rank, source, text))
        # Its text may name the citizen: a place is the same for all.
        key = f"{place}, {text.partition(':')[0]}" if place else text
        fault = self.by_key.get(key)
        if fault is None:
            key = key if len(self.by_key) < _MAX_FAULTS else "others"
            fault = self.by_key.setdefault(key, Fault(step, source, text))
            if fault.count == 0 and self.is_logged and manner:
                logger.warning("%s in step %d: %s", manner, step, text)
        fault.count += 1

    def add_service(self, id: str, step: int, manner: str, error: BaseException) -> None:
        """Count a failure of a service."""
        (text, place), source = fault_in_words(error), f"service {id!r}"
        self.add((2, 0, id), source, step, text, f"{source} {manner}", place)
        logger.debug("%s, step %d", source, step, exc_info=error)

    def state_dict(self) -> dict[str, list[Any]]:
        """Return the mistakes as JSON data."""
        return {key: [*astuple(each)] for key, each in self.by_key.items()}

    def load_state_dict(self, state: dict[str, list[Any]]) -> None:
        """Restore the mistakes, which the log has already."""
        self.by_key = {key: Fault(*each) for key, each in state.items()}
        self._logged_count = sum(each.count for each in self.by_key.values())

    def tell_counts(self) -> None:
        """Tell how often each mistake was met that was met again since this was called last."""
        total = sum(each.count for each in self.by_key.values())
        if self.is_logged and total > self._logged_count:
            for each in self.by_key.values():
                if each.count > 1:
                    logger.warning("since step %d: %d times %s", each.step, each.count, each.text)
        self._logged_count = total


def fault_in_words(error: BaseException) -> tuple[str, str]:
    """Return an exception in one line with its place, and the place: file, line, function."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [each for each in frames if not each.filename.startswith(_LIBRARY_PATHS)]
    notes = [*getattr(error, "__notes__", ())]
    place = ""
    if user_frames:
        frame = user_frames[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    details = "; ".join([*notes, *([place] if place else [])])
    return one_line(
        f"{type(error).__name__}: {error}{f' ({details})' if details else ''}", 1000
    ), place
