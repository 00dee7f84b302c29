"""An orchestrator whose rounds go on after a crash, tagged by their places, and its command."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from moothall import Journal, Later
from moothall.build import APPENDED, StepHandle, recorded
from moothall.cli.build import interruptible, journal_option, make_journal


@dataclass
class Round:
    """The state of a round."""

    places: list[str] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


async def deliver(journal: Journal, run_id: str, places: list[str] | None = None) -> None:
    """Deliver at each place once; without places, go on with a recorded round."""
    about: Any = {"task": "deliver", "tags": {"to": " ".join(places)} if places else None}
    async with recorded(journal, run_id, "Courier", "bo", Round, **about) as record:
        if record.is_over:
            return
        state = record.state or Round(places or [])
        record.save(state)
        for place in state.places[len(state.delivered) :]:

            async def ring(step: StepHandle, place: str = place) -> str | Later:
                if place == "desk":
                    return Later("signature")
                await step.begins({"place": place})
                print("rang at", place, flush=True)
                if os.environ.get("DIES_AT") == place:
                    os.kill(os.getpid(), signal.SIGKILL)
                if place == "nobody":
                    await asyncio.Event().wait()  # nobody opens
                return place

            options: Mapping[str, Any] = {"outcome": "ask", "action": "ring"}
            state.delivered.append(str(await record.step(f"ring.{place}", ring, **options)))
            record.save(state)
        await record.end("done", text=" ".join(state.delivered))


@click.command()
@click.argument("name")
@click.argument("places", nargs=-1)
@journal_option("The journal.")
def command(name: str, places: tuple[str, ...], journal: str | None) -> None:
    """Deliver at PLACES in the round NAME."""
    with make_journal(journal) as store:
        interruptible(deliver(store, name, [*places]))
        click.echo(f"round {name}: {store.run(name).state}")
