"""A run that this process works on: what is noted of it, and committed before it is relied on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from civitas.journal.commits import Batch, Commits
from civitas.journal.entry import ROOT, Entry
from civitas.journal.file import Place


class OpenRun:
    """A run that this process works on.

    Attributes:
        id: its id
        key: what memories know it by
        file: the journal's file
        number: its number in it
        place: where it ends
        past: what was recorded before it was opened, by part
        state: how it stands, to be written with the next commit; None while it is worked on
        stored_state: what the file has
        broken: why something could not be written; then nothing more is
        noted: how many entries were noted since it was opened
        written: how many of these are in the file
    """

    __slots__ = (
        "_closed",
        "_commits",
        "_give_back",
        "_guard",
        "_kept",
        "_noted",
        "broken",
        "file",
        "id",
        "key",
        "noted",
        "number",
        "past",
        "place",
        "state",
        "stored_state",
        "written",
    )

    def __init__(
        self,
        commits: Commits,
        give_back: Callable[[int], None],
        number: int,
        id: str,
        key: str,
        place: Place,
        past: dict[str, list[Entry]],
    ) -> None:
        self._commits = commits
        self.file = commits.file
        self._give_back = give_back
        self._guard = threading.Lock()
        self._noted: list[tuple[str, str, str]] = []
        self._kept: dict[str, bytes] = {}
        self._closed = False
        self.broken: BaseException | None = None
        self.noted = 0
        self.written = 0
        self.number = number
        self.id = id
        self.key = key
        self.place = place
        self.past = past
        self.state: str | None = None
        self.stored_state: str | None = ""  # not known, so the first commit writes it

    def note(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Add an entry to the next commit."""
        text, kept = self._commits.file.encoded(data)
        with self._guard:
            self._noted.append((path, kind, text))
            self._kept.update(kept)
            self.noted += 1

    def keep(self, data: bytes) -> str:
        """Store a value with the next commit; gives its hash."""
        hash, kept = self._commits.file.keep(data)
        with self._guard:
            self._kept.update(kept)
        return hash

    def kept(self, hash: str) -> bytes:
        """A value that was stored."""
        with self._guard:
            found = self._kept.get(hash)
        return self._commits.file.kept(hash) if found is None else found

    async def commit(self, upto: int | None = None) -> None:
        """See `Part.commit`."""
        if self._has_to_write(upto):
            await self._commits.commit(self)

    def commit_now(self) -> None:
        """See `Part.commit_now`."""
        if self._has_to_write(None):
            self._commits.commit_now(self)

    def _has_to_write(self, upto: int | None) -> bool:
        with self._guard:
            if self.broken is not None:
                raise self.broken
            return self.written < (self.noted if upto is None else upto)

    def take(self) -> Batch:
        """All that was noted and is not written."""
        with self._guard:
            if self.broken is not None:
                raise self.broken
            batch = Batch(self._noted, self._kept, self.state)
            self._noted, self._kept = [], {}
            return batch

    def wrote(self, entries: int) -> None:
        """So many more entries are in the file."""
        with self._guard:
            self.written += entries

    def failed(self, failure: BaseException) -> None:
        """Write nothing more: what comes after what could not be written must not stand alone."""
        with self._guard:
            self.broken = failure

    def close(self) -> None:
        """Give the lease back, once."""
        with self._guard:
            closed, self._closed = self._closed, True
        if not closed:
            self._give_back(self.number)


class Part:
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
    def journal(self) -> str:
        """The path of the journal."""
        return str(self._run.file.path)

    @property
    def key(self) -> str:
        """What tells this part from all others, of this run and others, in whatever journal."""
        return f"{self._run.key}/{self.path}"

    def part(self, name: str) -> Part:
        """The part of an agent that works on this one's behalf.

        Args:
            name: such as `H1`, or `R1/ID`: what stands behind the first slash is quoted
        """
        return Part(self._run, below(self.path, name))

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Note something; it is written with the next commit.

        Raises:
            TypeError, ValueError: the data is not JSON
            JournalError: a large value of it cannot be written
        """
        self._run.note(self.path, kind, data)

    def keep(self, data: bytes) -> str:
        """Store a value once, by its hash, with the next commit; 1 MiB or more as a file at once.

        Returns:
            the sha256, in hexadecimal digits, by which `kept` finds it

        Raises:
            JournalError: it cannot be written
        """
        return self._run.keep(data)

    def kept(self, hash: str) -> bytes:
        """A value that was stored.

        Raises:
            JournalError: it is missing or damaged
        """
        return self._run.kept(hash)

    @property
    def broken(self) -> bool:
        """Whether something could not be written."""
        return self._run.broken is not None

    @property
    def noted(self) -> int:
        """How many entries were noted since the run was opened, in all of its parts."""
        return self._run.noted

    @property
    def written(self) -> int:
        """How many of these are in the file."""
        return self._run.written

    async def commit(self, upto: int | None = None) -> None:
        """Write what was noted, in all parts of the run. When this returns, it is in the file.

        Cancelled, it still waits for what it is writing; then that is in the file too, unless the
        part is `broken`.

        Args:
            upto: how many of the `noted` entries are waited for; all, if left out

        Raises:
            JournalError: it cannot be written; nothing was, and nothing more will be
        """
        await self._run.commit(upto)

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


class ReadPart:
    """One part of a run that is only read.

    Attributes:
        run_id: the id of the run
        path: which part
        past: what was recorded of it
    """

    __slots__ = ("_entries", "past", "path", "run_id")

    def __init__(self, run_id: str, entries: Iterable[Entry], path: str = ROOT) -> None:
        self.run_id = run_id
        self.path = path
        self._entries = list(entries)
        self.past = [entry for entry in self._entries if entry.path == path]

    def part(self, name: str) -> ReadPart:
        """The part of an agent that works on this one's behalf."""
        return ReadPart(self.run_id, self._entries, below(self.path, name))


def below(path: str, name: str) -> str:
    """The path of a part: an id with a slash in it stays one name, so no two parts share a path."""
    turn, slash, id = name.partition("/")
    name = f"{turn}{slash}{id.replace('%', '%25').replace('/', '%2F')}"
    return f"{path}/{name}" if path else name
