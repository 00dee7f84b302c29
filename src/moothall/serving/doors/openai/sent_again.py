"""Requests that a client sends again by itself, since it got no answer: they have one run."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from moothall import ConversationalAgent
from moothall.build import json_text
from moothall.journal import Journal, RunView
from moothall.serving.doors.checks import Scope, in_thread
from moothall.serving.doors.served_agents import Served

IS_AGAIN: Final = "header:retry"
"""Under what name a request's body has whether its client has sent it before."""
DIGEST: Final = "request"
"""Under what name the beginning of a run has the digest of its request."""
_RECENT_S: Final = 3600.0
"""How long ago a request was sent first, at most: a client waits for ten minutes, three times."""
_MAX_ANSWERED: Final = 10_000


def is_sent_again(scope: Scope) -> bool:
    """Return whether a client says that it has sent a request before: OpenAI's packages do."""
    counts = [value for name, value in scope["headers"] if name == b"x-stainless-retry-count"]
    return counts not in ([], [b"0"])


class SentRequests:
    """Finds the run of a request that is sent again: a restart, a proxy or a limit cut it off.

    The first run may have acted already, so it goes on. Without a journal a new one begins.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._awaited: set[str] = set()  # the runs for whose replies clients wait here
        self._answered: dict[str, None] = {}  # the last ones whose clients have their answers

    def digest(self, agent: ConversationalAgent, sender: str, body: Mapping[str, Any]) -> str:
        """Return what a request and the same one sent again share; empty without a journal."""
        if self._served.journal_of(str(agent.id)) is None:
            return ""
        text = json_text([sender, {name: each for name, each in body.items() if name != IS_AGAIN}])
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]

    @contextmanager
    def awaiting(self, run_id: str) -> Iterator[None]:
        """Note in the `with` block that a client waits, and then that it has its answer."""
        self._awaited.add(run_id)
        try:
            yield
        except asyncio.CancelledError:  # it has left
            raise
        except BaseException:
            self._answered[run_id] = None
            raise
        else:
            self._answered[run_id] = None
        finally:
            self._awaited.discard(run_id)
            while len(self._answered) > _MAX_ANSWERED:
                del self._answered[next(iter(self._answered))]

    async def earlier_run(
        self, agent: ConversationalAgent, sender: str, body: Mapping[str, Any], digest: str
    ) -> str | None:
        """Return the run of a request that was sent before, once nobody works on it, or None."""
        journal = self._served.journal_of(str(agent.id))
        if journal is None or not body.get(IS_AGAIN):
            return None
        run_id: str | None = await in_thread(self._find, journal, str(agent.id), sender, digest)
        if run_id is not None:  # perhaps it is still being cancelled, or goes on already
            async for _ in journal.follow(run_id):
                pass
        return run_id

    def _find(self, journal: Journal, agent: str, sender: str, digest: str) -> str | None:
        since = time.time() - _RECENT_S
        for run in journal.runs(agent=agent, thread=sender, since=since, sort="-began"):
            may_be = run.id.rpartition(".")[2].startswith(digest[:8])
            if not may_be or run.id in self._awaited or run.id in self._answered:
                continue
            if RunView(journal, run).begun_with(DIGEST) == digest:
                return run.id
        return None
