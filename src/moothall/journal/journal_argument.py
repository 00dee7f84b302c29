"""The argument `journal=`: a journal, or the path of one."""

from __future__ import annotations

import os

from moothall.foundation.errors import ConfigError
from moothall.journal.journal import Journal


def as_journal(journal: Journal | str | os.PathLike[str], owner: str) -> Journal:
    """Return a journal, opened if it is given as a path."""
    if isinstance(journal, Journal):
        return journal
    if isinstance(journal, str | os.PathLike):
        return Journal(journal)
    raise ConfigError(
        f"{owner}: journal= must be a Journal or the path of one, got {journal!r:.80}"
    )
