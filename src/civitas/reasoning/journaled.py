"""Agents that record their replies in a journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from civitas.journal import Journal


class Journaled:
    """An agent's part that has a journal, if it is given one."""

    id: str | int
    _journal: Journal | None = None

    @property
    def journal(self) -> Journal | None:
        """Where its replies are recorded, or None."""
        return self._journal

    @journal.setter
    def journal(self, journal: Journal | str | os.PathLike[str] | None) -> None:
        from civitas.journal.journal import as_journal

        self._journal = None if journal is None else as_journal(journal, f"agent {self.id!r}")
