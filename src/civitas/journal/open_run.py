"""A run that this process works on: what is noted of it until it is written."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable

from civitas.journal.commits import Batch, Commits, until
from civitas.journal.entry import Entry
from civitas.journal.file import Place

__all__ = ["OpenRun"]


class OpenRun:
    """A run that this process works on.

    Attributes:
        id: its id
        key: what memories know it by
        number: its number in the file
        place: where it ends
        past: what was recorded before it was opened, by part
        state: how it stands, to be written with the next commit; None while it is worked on
        stored_state: what the file has
        broken: why something could not be written; then nothing more is
    """

    __slots__ = (
        "_closed",
        "_commits",
        "_give_back",
        "_guard",
        "_noted",
        "_others",
        "_under_way",
        "broken",
        "id",
        "key",
        "number",
        "past",
        "place",
        "state",
        "stored_state",
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
        self._give_back = give_back
        self._guard = threading.Lock()
        self._noted: list[tuple[str, str, str]] = []
        self._under_way = 0  # batches that are being written
        self._others: concurrent.futures.Future[None] | None = None
        self._closed = False
        self.broken: BaseException | None = None
        self.number = number
        self.id = id
        self.key = key
        self.place = place
        self.past = past
        self.state: str | None = None
        self.stored_state: str | None = ""  # not known, so the first commit writes it

    def note(self, path: str, kind: str, data: str) -> None:
        """Add an entry to the next commit."""
        with self._guard:
            self._noted.append((path, kind, data))

    async def commit(self) -> None:
        """See `Record.commit`."""
        batch, others = self._taken()
        if batch is not None:
            await self._commits.commit(batch)
        elif others is not None:
            await until(others)

    def commit_now(self) -> None:
        """See `Record.commit_now`."""
        batch, others = self._taken()
        if batch is not None:
            self._commits.commit_now(batch)
        elif others is not None:
            others.result()

    def _taken(self) -> tuple[Batch | None, concurrent.futures.Future[None] | None]:
        """What is to be written; if that is nothing, what tells when others have written theirs.

        Theirs may be what was noted here: parts of a run commit together.
        """
        with self._guard:
            if self.broken is not None:
                # What comes after something that could not be written must not stand without it.
                raise self.broken
            noted, self._noted = self._noted, []
            if noted:
                self._under_way += 1
                return Batch(self, noted, self.state), None
            if not self._under_way:
                return None, None
            if self._others is None:
                self._others = concurrent.futures.Future()
            return None, self._others

    def wrote(self, failure: BaseException | None) -> None:
        """Say that a batch was written, or why it was not."""
        with self._guard:
            if failure is not None:
                self.broken = failure
            self._under_way -= 1
            if self._under_way or self._others is None:
                return
            others, self._others = self._others, None
        if self.broken is None:
            others.set_result(None)
        else:
            others.set_exception(self.broken)

    def close(self) -> None:
        """Give the lease back."""
        if not self._closed:
            self._closed = True
            self._give_back(self.number)
