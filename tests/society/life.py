"""Citizens and services that the tests of societies have live, by rules that use all there is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

from moothall import Agent, action
from moothall.society import (
    Answer,
    Books,
    CitizenAgent,
    CitizenMemory,
    LocalEngine,
    Move,
    Pay,
    Save,
    Service,
    Society,
    Want,
)


class Places:
    """A few places, each ten minutes from every other; `capacities` says how many they hold."""

    def __init__(self, **capacities: int | None) -> None:
        self.capacities = capacities

    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(self.capacities))

    def capacity(self, place: str) -> int | None:
        return self.capacities[place]

    def seconds(self, a: str, b: str, mode: str | None = None) -> int | None:
        return None if mode == "swim" else 3000 if mode == "crawl" else 600


class Bank(Service):
    """Keeps what is brought."""

    takes = (Save,)

    def __init__(self, id: str = "bank", money: int = 0) -> None:
        super().__init__(id, None, money)
        self.deposits: dict[str, int] = {}

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        assert isinstance(want, Save)
        reason = books.pay(sender, self.id, want.cents)
        if reason:
            return Answer(want, False, reason)
        self.deposits[sender] = self.deposits.get(sender, 0) + want.cents
        return Answer(want, True, value=self.deposits[sender])

    def state_dict(self) -> dict[str, Any]:
        return {"deposits": self.deposits}

    def load_state_dict(self, given: dict[str, Any]) -> None:
        self.deposits = given["deposits"]


class Busy(CitizenAgent):
    """Does a bit of everything, by its draws, and remembers what it perceives."""

    model_asked = False

    async def forward(self) -> None:
        seen = self.perceived
        for message in seen.messages:
            self.memory.note(seen.step, f"{message['from']}: {message['action']}")
        for answer in seen.answers:
            self.memory.note(seen.step, f"{answer.want} {answer.done} {answer.reason}")
        self.memory.note(seen.step, f"at {seen.place} with {seen.here}")
        many = self.draws.below(20, "many")
        to = str(self.draws.below(many + 1, "to"))
        self.send(
            {"to": to, "action": {"name": "say", "args": {"content": f"{many} of {self.id}"}}}
        )
        self.want(Pay(to, 1 + self.draws.below(30, "cents")))
        place = "abc"[self.draws.below(3, "place")]
        if seen.place != place:
            self.want(Move(place))
        if many % 3 == 0:
            self.send({"to": "bank", "action": {"name": "save", "args": {"cents": many + 1}}})
        if self.model_asked and self.llm is not None and many % 2:
            answer = await self.llm.complete(
                [{"role": "user", "content": f"{self.id} {seen.step}"}]
            )
            self.memory.note(seen.step, answer.text)


class Shuffled(LocalEngine):
    """Runs the turns of each step in an order of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    async def run(self, mailboxes: Iterable[Any], router: Any) -> None:
        mixed = list(mailboxes)
        self._random.shuffle(mixed)
        await super().run(mixed, router)


def busy(count: int, kind: type[CitizenAgent] = Busy) -> list[CitizenAgent]:
    """So many citizens of a kind, with money and a home."""
    return [
        kind(number, memory=CitizenMemory({"money": 100, "home": "abc"[number % 3]}))
        for number in range(count)
    ]


def town() -> Places:
    return Places(a=8, b=None, c=9)


def state_of(society: Society) -> bytes:
    """All that a society is, as bytes."""
    return json.dumps(society.state_dict()).encode()


class Noting(Agent):
    """Keeps in `heard` what it is told, in its order."""

    def __init__(self, id: str | int, **options: Any) -> None:
        super().__init__(id, **options)
        self.heard: list[tuple[str, str, Any]] = []

    def note(self) -> None:
        message = self.current_message
        assert message is not None
        self.heard.append((message["from"], message["action"]["name"], message["action"]["args"]))

    @action
    async def say(self, content: str) -> None:
        self.note()

    @action
    async def double(self, number: int) -> int:
        self.note()
        return 2 * number

    @action
    async def fail(self) -> None:
        raise ValueError("no")

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        self.note()

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        self.note()


def said(to: str | int, name: str = "say", /, **args: Any) -> dict[str, Any]:
    """A message."""
    return {"to": to, "action": {"name": name, "args": args}}


def living(forward: Any, id: str | int = 1, **status: Any) -> CitizenAgent:
    """A citizen whose step is a function of it, plain or async."""

    class Living(CitizenAgent):
        async def forward(self) -> Any:
            given = forward(self)
            return await given if hasattr(given, "__await__") else given

    return Living(id, memory=CitizenMemory(status))
