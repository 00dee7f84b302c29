"""What is remembered of a message that a space received, and what remembers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, Protocol

__all__ = ["ACCEPTED", "ENDED", "STARTED", "Entry", "Inbox"]

ACCEPTED: Final = 0
"""It is kept here, and acknowledged; it has not begun."""

STARTED: Final = 1
"""It was begun. If nobody is at it, nobody knows how far it came: it is in doubt."""

ENDED: Final = 2
"""It was handled."""


class Entry(NamedTuple):
    """What an inbox knows of a message.

    Attributes:
        key: the message's key, unique among senders
        state: `ACCEPTED`, `STARTED` or `ENDED`
        message: the message, where it was accepted (and so acknowledged) before it ran, until it
            ends
        answer: what is sent again when an ended one comes again; None: nothing
    """

    key: str
    state: Literal[0, 1, 2]
    message: bytes | None
    answer: bytes | None


class Inbox(Protocol):
    """What a space remembers of the messages to its agents.

    Its methods are called on one thread at a time, the space's loop. A message to several agents is
    remembered for each of them. What has ended stays ended.
    """

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""

    def look_up(self, key: str, agent: str) -> Entry | None:
        """What is known of a message to an agent; None: it never came."""

    def accept(self, key: str, agent: str, message: bytes) -> None:
        """Keep a message that is to be acknowledged before it runs, as of the return.

        One that was started keeps that state; of one accepted before, the first message is kept.

        Raises:
            InboxError: it could not be written, and is not accepted
        """

    def permit(self, key: str, agent: str, message: bytes) -> None:
        """Keep a message that was approved, in place of the one accepted before, as of the return.

        Raises:
            InboxError: it could not be written
        """

    def start(self, started: Iterable[tuple[str, str]]) -> None:
        """Record that messages begin to run: pairs of key and agent, as of the return.

        The ends that wait are written with it, in one transaction.

        Raises:
            InboxError: it could not be written; nothing of it is, and the ends go on waiting
        """

    def end(self, key: str, agent: str, answer: bytes | None) -> None:
        """Record that a message was handled: seen at once, written with what is next written.

        Args:
            key: the message's
            agent: whose it was
            answer: what is sent again when it comes again; None: nothing
        """

    def flush(self) -> None:
        """Write the ends that wait.

        Raises:
            InboxError: they could not be written, and go on waiting
        """

    def answered(self, key: str, agent: str) -> None:
        """Forget that the answer of an accepted message is to be sent: it is with the broker.

        Written with what is next written.
        """

    def unfinished(self, agent: str) -> list[Entry]:
        """What was accepted for an agent and has not ended, or whose answer is not `answered`.

        In the order accepted. The broker will not bring these again.
        """

    def forget(self, older_than: float, at_most: int = 10_000) -> int:
        """Remove entries that ended that many seconds ago or more, those that came first first.

        Args:
            older_than: seconds since the end
            at_most: so many at once; it looks at a bounded number too, and may leave some for later

        Returns:
            how many it removed
        """

    def close(self) -> None:
        """Write the ends that wait, and let go of the file. Again: nothing."""
