"""The argument `journal=`: a journal, or the path of one."""

from __future__ import annotations

import os

from moothall.foundation.errors import ConfigError
from moothall.journal.journal import Journal


def as_journal(given: Journal | str | os.PathLike[str], whose: str) -> Journal:
    """Return a journal, opened if it is given as a path."""
    if isinstance(given, Journal):
        return given
    if isinstance(given, str | os.PathLike):
        return Journal(given)
    raise ConfigError(f"{whose}: journal= must be a Journal or the path of one, got {given!r:.80}")
