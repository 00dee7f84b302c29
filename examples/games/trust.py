"""The trust game: what one sends is tripled; the other returns as much of it as it likes.

After Berg, Dickhaut, McCabe 1995, "Trust, reciprocity, and social history", Games and Economic
Behavior 10: both have ten points at first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from players import GameBlock, group_of, mean

from moothall.society import Society

HAVE = 10


class TrustBlock(GameBlock):
    name = "TrustBlock"
    description = "Sends points that are tripled, or returns some of them"

    async def forward(self) -> None:
        status, step = self.status, self.perceived.step
        if status["role"] == "sender" and step == 0:
            task = (
                f"You and another have {HAVE} points each. Say how many of yours you send to the "
                "other. They are tripled on the way. Then the other may return some of them to "
                "you, or none. You keep what you do not send."
            )
            status["sent"] = await self.choose(task, HAVE, max(range(HAVE + 1), key=self._worth))
            self.tell(status["sent"])
        elif status["role"] == "returner" and self.moves and self.moves[0]:
            (sent,) = self.moves
            got = 3 * sent
            task = (
                f"You and another had {HAVE} points each. The other has sent you some, and they "
                "were tripled on the way. Say how many of these you return; you keep the rest."
            )
            best = max(
                range(got + 1),
                key=lambda back: self.feels(HAVE + got - back, HAVE - sent + back),
            )
            status["sent"], status["returned"] = sent, await self.choose(task, got, best, got=got)

    def _worth(self, sent: int) -> float:
        """Return what sending is worth: the other makes all equal, or returns nothing."""
        kind = self.status["belief"]
        equal = self.feels(HAVE + sent, HAVE + sent)
        return kind * equal + (1 - kind) * self.feels(HAVE - sent, HAVE + 3 * sent)


def trust(
    seed: int,
    *,
    citizens: int = 100,
    error: int = 100,
    llm: Any = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Pairs of a sender and a returner; `error` is how often of 1,000 a player errs."""

    def status(place: int, draws: Any) -> dict[str, Any]:
        return {"role": ("sender", "returner")[place], "sent": None, "returned": None}

    options: Any = {"error": error, "llm": llm, "answers": answers, "folder": folder}
    return group_of(TrustBlock, seed, citizens, 2, status, **options)


def sent(society: Society) -> float | None:
    """The mean share of their points that senders send."""
    senders = [each.status for each in society.agents if each.status["role"] == "sender"]
    found = mean(each["sent"] for each in senders)
    return None if found is None else found / HAVE


def senders(society: Society) -> float | None:
    """The share of senders who send anything."""
    given = [e.status["sent"] for e in society.agents if e.status["role"] == "sender"]
    return mean(None if each is None else float(each > 0) for each in given)


def returned(society: Society) -> float | None:
    """The mean share of what they got that returners return."""
    known = [each.status for each in society.agents if each.status["returned"] is not None]
    return mean(each["returned"] / (3 * each["sent"]) for each in known)
