"""Links by which a run is read: who has a link's token sees this run until a moment, or its end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from typing_extensions import TypedDict

from moothall.foundation.errors import ConfigError
from moothall.journal.kinds.entry_kinds import EntryKind, NotesBeside, register

_MAX_DAYS: Final = 365.0
_DAY_S: Final = 86_400.0
_TOKEN_BYTES: Final = 32


class ShareData(TypedDict):
    """The data of its entry: the hash of the token, and until when it opens the run."""

    token_sha256: str
    until: float


def _line(data: dict[str, Any]) -> str:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(data["until"]))
    return f"shared by a link until {at}" if data["until"] else "a link to it was withdrawn"


SHARE: Final = register(EntryKind("share", ShareData, _line))
"""The kind of its entries: of those of one token, the last holds; 0 withdraws it."""


class Share(NamedTuple):
    """A link that opens a run: its number among the run's, and until when, in seconds since 1970.

    The token is known only to who was given the link.
    """

    number: int
    until: float


class _NotedRuns(Protocol):
    @property
    def held_runs(self) -> NotesBeside: ...

    def entries(self, run_id: str) -> Iterable[Any]: ...


class RunShares:
    """The links to runs of a journal, which has hashes of their tokens alone.

    A hash is of the run, too: a copy of the run has no links.
    """

    def __init__(self, journal: _NotedRuns) -> None:
        self._journal = journal

    def add(self, run_id: str, days: float) -> str:
        """Return the token of a new link to a run at rest, which opens it for some days.

        Raises:
            ConfigError: the days are none, or more than 365
            NoSuchRun: there is no run of that id
            RunHeld: a process works on it
        """
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= _MAX_DAYS:
            raise ConfigError(f"days must be above 0 and at most {_MAX_DAYS:.0f}, got {days!r:.80}")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._note(run_id, _hash(run_id, token), time.time() + days * _DAY_S)
        return token

    def withdraw(self, run_id: str, number: int) -> None:
        """Have a link open its run no longer. ConfigError: there is no such link."""
        hashes = [each for each in self._links(run_id).items() if each[1].number == number]
        if not hashes:
            raise ConfigError(f"run {run_id!r} has no link {number} that opens it")
        self._note(run_id, hashes[0][0], 0.0)

    def open_ones(self, run_id: str) -> list[Share]:
        """Return the links that open a run now, the oldest first."""
        return [*self._links(run_id).values()]

    def opens(self, run_id: str, token: str) -> bool:
        """Return whether a link opens a run now. NoSuchRun: there is none."""
        token_hash = _hash(run_id, token)
        return any(secrets.compare_digest(each, token_hash) for each in self._links(run_id))

    def _note(self, run_id: str, token_hash: str, until: float) -> None:
        data = {"token_sha256": token_hash, "until": until}
        self._journal.held_runs.note_beside(run_id, SHARE, data)

    def _links(self, run_id: str) -> dict[str, Share]:
        """Return the links that are neither withdrawn nor over, by the hashes of their tokens."""
        links: dict[str, Share] = {}
        for each in self._journal.entries(run_id):
            if each.path == SHARE.path:
                token_hash, until = each.data["token_sha256"], each.data["until"]
                number = links[token_hash].number if token_hash in links else len(links) + 1
                links[token_hash] = Share(number, until)
        now = time.time()
        return {token_hash: each for token_hash, each in links.items() if each.until > now}


def _hash(run_id: str, token: str) -> str:
    return sha256(f"{token} {run_id}".encode("utf-8", "surrogatepass")).hexdigest()
