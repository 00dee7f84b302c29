"""An orchestrator of one's own on the record: two fetches, a model, an action that is approved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from journal.program import RUN, Counting, Effects, main, watch
from moothall import Journal, ScriptedModel
from moothall.build import APPENDED, StepHandle, recorded
from moothall.models.protocol import ModelReply

URLS = ("one", "two")


# -- the orchestrator ------------------------------------------------------------------------------


@dataclass
class Digest:
    pages: list[str] = field(default_factory=list, metadata=APPENDED)
    summary: str = ""


async def digest(journal: Journal | None, run_id: str, world: World) -> Digest:
    program = {"urls": URLS}
    async with recorded(journal, run_id, "Digest", "me", Digest, program=program) as record:
        state = record.state or Digest()
        if record.over is not None:
            return state

        async def fetch(url: str, step: StepHandle) -> bytes:
            await step.begins({"url": url})
            return await world.fetch(url)

        async def ask(step: StepHandle) -> ModelReply:
            await step.begins()
            return await world.ask(state.pages)

        async def pay(step: StepHandle) -> str:
            await world.hook("pre")
            if not await step.permitted("pay 5", world.approve):
                return "refused"
            await step.begins({"amount": 5})
            return await world.pay(5)

        if not state.pages:
            steps = (record.step(f"fetch.{u}", partial(fetch, u), of=bytes) for u in URLS)
            state.pages += [sha256(page).hexdigest() for page in await asyncio.gather(*steps)]
            record.save(state)
        answer = await record.step("ask", ask, of=ModelReply)
        paid = await record.step("pay", pay, outcome="ask", action="pay")
        state.summary = f"{answer.text} {paid}"
        record.save(state)
        await record.end("done", text=state.summary)
        return state


# -- what it works on ------------------------------------------------------------------------------


class World:
    """Pages, a model, a person and an account; each effect is noted outside."""

    def __init__(self, note: Callable[[str], None], size: int) -> None:
        self._note = note
        self._size = size
        self.model = ScriptedModel(["Two pages."])

    async def _do(self, what: str) -> None:
        self._note(f"begin {what}")
        await asyncio.sleep(0)
        self._note(f"end {what}")

    async def fetch(self, url: str) -> bytes:
        await self._do(f"fetch {url}")
        return url.encode() * self._size

    async def ask(self, pages: list[str]) -> ModelReply:
        await self._do("ask")
        return await self.model.complete([{"role": "user", "content": " ".join(pages)}])

    async def hook(self, name: str) -> None:
        await self._do(f"hook {name}")

    async def approve(self) -> bool:
        await self._do("approve")
        return True

    async def pay(self, amount: int) -> str:
        await self._do("pay")
        return f"paid {amount}"


def do(job: dict[str, Any]) -> None:
    """Begin the run, or go on with it; or be killed meanwhile."""
    folder = Path(job["folder"])
    commit = job.get("commit")
    watch(("journal",), None if commit is None else tuple(commit))
    effects = Effects(folder / "effects", job.get("effect"))
    with Journal(folder / "journal") as journal:
        state = asyncio.run(digest(journal, RUN, World(effects.note, job.get("size", 400_000))))
    said = {"pages": state.pages, "summary": state.summary, "commits": Counting.commits}
    (folder / "reply.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(do)
