"""A run that is being worked on: what happens is noted, and committed before it is relied on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from civitas.journal.entry import ROOT, Entry
from civitas.journal.file import as_text

if TYPE_CHECKING:
    from civitas.journal.open_run import OpenRun

__all__ = ["Record"]


class Record:
    """One part of a run that is open: that of its agent, or of one that works on its behalf.

    Attributes:
        path: which part
        past: what was recorded of it before the run was opened
    """

    __slots__ = ("_run", "past", "path")

    def __init__(self, run: OpenRun, path: str = ROOT) -> None:
        self._run = run
        self.path = path
        self.past: list[Entry] = run.past.get(path, [])

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.id

    @property
    def key(self) -> str:
        """What tells this part from all others, of this run and others, in whatever journal."""
        return f"{self._run.key}/{self.path}"

    def part(self, name: str) -> Record:
        """The part of an agent that works on this one's behalf."""
        return Record(self._run, f"{self.path}/{name}" if self.path else name)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Note something; it is written with the next commit.

        Raises:
            TypeError, ValueError: the data is not JSON
        """
        self._run.note(self.path, kind, as_text(data))

    @property
    def broken(self) -> bool:
        """Whether something could not be written."""
        return self._run.broken is not None

    async def commit(self) -> None:
        """Write what was noted, in all parts of the run. When this returns, it is in the file.

        Cancelled, it still waits for what it is writing; then that is in the file too, unless the
        record is `broken`.

        Raises:
            JournalError: it cannot be written; nothing was, and nothing more will be
        """
        await self._run.commit()

    def commit_now(self) -> None:
        """The same, for where nothing can be awaited: the thread waits.

        Raises:
            JournalError: as `commit`
        """
        self._run.commit_now()

    def end(self, state: str) -> None:
        """Say how the run stands, for those who look at the journal; written with what is noted."""
        self._run.state = state

    def close(self) -> None:
        """Let others work on the run. What is noted and not committed is forgotten."""
        self._run.close()


Begin = Callable[[], Coroutine[Any, Any, Record]]
