"""A society in a process of its own, which is killed, and what it paid for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet  # noqa: F401 - here once, and not in each process that is forked

from journal.program import RUN, Counting, Effects, main, watch
from moothall import Journal, ScriptedModel
from moothall.models.protocol import ModelReply
from moothall.society import Intervention, Society
from society.life import Bank, Busy, busy, state_of, town


class Asks(Busy):
    """Asks a model now and then."""

    model_asked = True


class Paid(ScriptedModel):
    """Repeats what it was asked; each answer is noted outside."""

    def __init__(self, effects: Effects) -> None:
        super().__init__(())
        self._effects = effects

    async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
        asked = messages[-1]["content"]
        self._effects.note(f"answer {asked}")
        return ModelReply(f"you said {asked}")


def do(job: dict[str, Any]) -> None:
    """Begin the run, or go on with it; or be killed meanwhile."""
    folder = Path(job["folder"])
    commit = job.get("commit")
    watch(("journal",), None if commit is None else tuple(commit))
    effects = Effects(folder / "effects", job.get("effect"))
    with (
        Journal(folder / "journal") as journal,
        Society(
            busy(5, Asks),
            town(),
            seed=5,
            model=Paid(effects),
            journal=journal,
            services=[Bank()],
        ) as society,
    ):

        def live(row: dict[str, Any]) -> None:
            with (folder / "told").open("a") as told:
                told.write(f"{row['step']}\n")
            if row["step"] == 0 and not effects.has("intervened"):
                society.intervene(Intervention(1, status={"mood": "low"}))
                effects.note("intervened")  # from now on the journal alone has it

        out = folder / "out" if job["out"] else None
        options: Any = {"save_every": 2, "progress": live, "out": out}
        rows = asyncio.run(society.run(steps=4, run_id=RUN, **options))
        said = {
            "state": hashlib.sha256(state_of(society)).hexdigest(),
            "rows": rows,
            "tables": {} if out is None else {p.name: p.read_text("latin1") for p in out.iterdir()},
            "commits": Counting.commits,
        }
    (folder / "reply.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(do)
