"""A message that spreads among friends, and a platform that stops senders or cuts connections.

Who hears it is stirred by it, and the more so the more it arouses; who is stirred passes it on
(Berger, Milkman 2012, "What makes online content viral?", Journal of Marketing Research 49: content
of high arousal is shared more), and calms down with time. The platform finds a share of what is
passed on, and suspends the account (node) or cuts the connection (edge), as in AgentSociety.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moothall import action
from moothall.actions.signature.schema import object_schema
from moothall.society import CitizenAgent, CitizenMemory, Draws, Network, Society
from moothall.society.blocks import CitizenBlock
from moothall.society.experiments.models import model_of

TEXTS = {
    "neutral": (250, "The town hall has published the minutes of its last meeting."),
    "inflammatory": (800, "They knew that a woman was kept in chains, and they looked away!"),
}
"""How much a message arouses, in thousandths, and what it says."""
CALM = 700
"""So many thousandths of a feeling are left after a step."""


class ShareBlock(CitizenBlock):
    name = "ShareBlock"
    description = "Is stirred by what it hears, and passes it on"

    async def before_forward(self) -> None:
        status = self.status
        status["stirred"] = status["stirred"] * CALM // 1000
        heard = [each for each in self.perceived.messages if each["action"]["name"] == "share"]
        if heard:
            status["knows"] = True
            arousal = heard[0]["action"]["args"]["arousal"]
            left = 1000 - status["stirred"]
            status["stirred"] += left * arousal * status["sensitive"] // 1_000_000

    def fits(self, context: object) -> float:
        return 1.0 if self.status["knows"] else 0.0

    async def forward(self) -> None:
        status, draws = self.status, self.draws
        # The mechanism is ablated where one shares by a habit that has nothing to do with feeling.
        chance = status["stirred"] // 3 if status["feels"] else 60
        shares = draws.below(1000, "share") < chance
        if self.llm is not None:
            answer = await self.decide(
                f"You have read: {status['text']!r} Say whether you pass it on to a friend.",
                object_schema(share={"type": "boolean"}),
            )
            shares = shares if answer is None else answer["share"]
        if not shares:
            return
        arousal = status["arousal"]
        for friend in status["friends"]:
            if draws.below(2, f"share.{friend}"):
                args = {"arousal": arousal}
                self.agent.send({"to": friend, "action": {"name": "share", "args": args}})


class Reader(CitizenAgent):
    @action(idempotent=True)
    async def share(self, arousal: int) -> None:
        """Read what somebody has passed on."""


class Platform:
    """Finds a share of the messages that arouse, and stops who sends them, or where they went."""

    def __init__(self, stops: str, found: int, seed: int) -> None:
        self._stops, self._found, self._seed = stops, found, seed
        self._suspended: set[str] = set()
        self._cut: set[tuple[str, str]] = set()
        self._number = 0

    def look(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message["action"]["name"] != "share":
            return message
        sender, to = message["from"], message["to"]
        if sender in self._suspended or (sender, to) in self._cut:
            return None
        self._number += 1
        if message["action"]["args"]["arousal"] >= 500 and self._finds():
            if self._stops == "node":
                self._suspended.add(sender)
            elif self._stops == "edge":
                self._cut |= {(sender, to), (to, sender)}
        return message

    def _finds(self) -> bool:
        return Draws(self._seed, self._number, 0).below(1000, "platform") < self._found


def society(
    seed: int,
    *,
    citizens: int = 100,
    message: str = "inflammatory",
    stops: str = "",
    found: int = 300,
    feels: bool = True,
    first: int = 3,
    friends: int = 6,
    llm: str | None = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """Citizens on a small-world network, of whom some have read a message.

    Args:
        message: `neutral` or `inflammatory`
        stops: what the platform does: `node`, `edge`, or nothing
        found: how many of 1000 messages it finds
        feels: whether one passes on by feeling; the mechanism is ablated without
        first: how many have read it at first
        friends: how many friends one has
    """
    network = Network.small_world(citizens, neighbours=friends, seed=seed)
    arousal, text = TEXTS[message]
    agents = []
    for number in range(citizens):
        draws = Draws(seed, number, 0)
        first_reader = number % (citizens // first) == 0
        status = {
            "sensitive": 500 + draws.below(501, "share.sensitive"),
            "knows": first_reader,
            "stirred": arousal if first_reader else 0,
            "feels": feels,
            "arousal": arousal,
            "text": text,
            "friends": [each.id for each in network.near(str(number), limit=friends)],
        }
        agents.append(Reader(number, memory=CitizenMemory(status), blocks=[ShareBlock()]))
    model = model_of(llm, None if answers is None else folder / answers, folder)
    made = Society(agents, seed=seed, model=model, model_timeout_s=600)
    if stops:
        made.intercept(Platform(stops, found, seed).look)
    return made


def reach(society: Society) -> float:
    """The share of citizens who know the message."""
    return sum(each.memory.status["knows"] for each in society.agents) / len(society.agents)


def feeling(society: Society) -> float:
    """How stirred citizens are on average, 0 to 1."""
    stirred = [each.memory.status["stirred"] for each in society.agents]
    return sum(stirred) / len(stirred) / 1000
