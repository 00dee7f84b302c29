"""A recorded run that goes on from one of its answers."""

from __future__ import annotations

from typing import Any

from moothall import ConfigError, StateError
from moothall.build import check_integer
from moothall.evals.frozen_world import FrozenWorld
from moothall.journal import Journal


class Replay(FrozenWorld):
    """A recorded run that goes on from one of its answers, with another model or prompt.

    The answers before are the record's, and so are their calls. It writes nothing to the journal of
    the run, unlike `journal.fork`.

    Args:
        journal: the journal of the run, or its path
        run_id: the run's id; it is over, and that of a `ReActAgent`
        at: the number of the first new answer, from 1
        **options: what `FrozenWorld` takes, such as `model=` and `system_prompt=`

    Raises:
        ConfigError: `at` is no number of an answer of the run
    """

    def __init__(self, journal: Journal | str, run_id: str, *, at: int = 1, **options: Any) -> None:
        super().__init__(journal, run_id, **options)
        assert self.view is not None
        if self.view.outline.kind != "ReActAgent":
            raise StateError(f"run {run_id!r} is of a {self.view.outline.kind}, not a ReActAgent")
        check_integer("at=", at)
        if at > (count := len(self.view.answers.get("", ()))):
            raise ConfigError(f"at= must be from 1 to {count}, the answers of the run, got {at}")
        self._at = at
