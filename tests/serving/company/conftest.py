"""A folder with agents that die in each way, and companies made of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from moothall import Agent
from moothall.serving import Company

T = TypeVar("T")

WAIT_S = 30

PROGRAM = '''
import asyncio
import threading

from moothall import Agent, ModelReply, ReActAgent, ScriptedModel, action

made: dict[str, int] = {}
LET_GO = threading.Event()
HOLDING = threading.Event()


class Clerk(Agent):
    """Dies when it is told to."""

    concurrency = 4

    def __init__(self, id, fails_to_come=0, greeting="hello"):
        super().__init__(id)
        made[self.id] = made.get(self.id, 0) + 1
        self.number = made[self.id]
        self.fails_to_come = fails_to_come
        self.greeting = greeting
        self.dying = asyncio.Event()

    async def after_add(self):
        if 1 < self.number <= 1 + self.fails_to_come:
            raise OSError("no way in")

    async def background(self):
        await self.dying.wait()
        raise RuntimeError("no luck")

    @action(idempotent=True)
    async def which(self) -> int:
        """Return which one it is, from 1."""
        return self.number

    @action
    async def greet(self) -> str:
        """Greet."""
        return self.greeting

    @action
    async def fail(self) -> None:
        """Raise."""
        raise ValueError("only this action")

    @action
    async def die(self) -> None:
        """End its background work by an exception."""
        self.dying.set()

    @action
    async def leave(self) -> None:
        """Leave the space."""
        self.space.remove(self)

    @action
    async def hold(self, seconds: float = 1.0) -> str:
        """Wait."""
        HOLDING.set()
        await asyncio.to_thread(LET_GO.wait, seconds)
        return "held"


class Echo:
    name = "echo"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply("yes")


class Recorder(ReActAgent):
    """Says yes, has each reply in the company's journal, and dies when it is told to."""

    def __init__(self, id):
        super().__init__(id, Echo())
        self.dying = asyncio.Event()

    async def background(self):
        await self.dying.wait()
        raise RuntimeError("no luck")


def clerk():
    return Clerk("Clerk")


def talker(id):
    return ReActAgent(id, ScriptedModel(["Good morning."]))


told = []
given_up = told.append
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose module `program` of agents is this test's own."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "program.py").write_text(PROGRAM)
    yield tmp_path
    sys.modules.pop("program", None)


MakeCompany = Callable[..., Company]


@pytest.fixture
def make_company(folder: Path) -> MakeCompany:
    """Makes the company of a file's text."""

    def make(text: str, **environment: str) -> Company:
        (folder / "company.yaml").write_text(text)
        return Company.from_yaml(folder / "company.yaml", environment=environment)

    return make


def live(
    company: Company, work: Callable[[Agent], Coroutine[Any, Any, T]], within: float = WAIT_S
) -> T:
    """Start a company, and do some work with an agent `me` beside its agents."""

    async def main() -> T:
        async with company:
            me = await asyncio.to_thread(company.space.add, Agent("me"))
            return await work(me)

    return asyncio.run(asyncio.wait_for(main(), within))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that other threads bring about."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event here
        await asyncio.sleep(0.005)


def value(metrics: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples that have these labels."""
    found = 0.0
    for line in metrics.splitlines():
        sample, _, number = line.rpartition(" ")
        if sample.partition("{")[0] == name and all(
            f'{key}="{each}"' in sample for key, each in labels.items()
        ):
            found += float(number)
    return found
