"""A package of another's: rounds of deliveries, with a tab, a command and their resuming."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from moothall import ConfigError, Journal, Later
from moothall.build import APPENDED, StepHandle, recorded
from moothall.cli.build import interruptible, journal_option, make_journal
from moothall.studio import Field, PageForm, Studio, Tab


@dataclass
class Round:
    """The state of a round."""

    places: list[str] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


async def deliver(journal: Journal, run_id: str, places: list[str] | None = None) -> None:
    """Deliver at each place once; without places, go on with a recorded round."""
    async with recorded(journal, run_id, "Courier", "bo", Round, task="deliver") as record:
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


class CourierTab(Tab):
    """Begins rounds, and lists them."""

    name = "courier"
    title = "Courier"
    script = Path(__file__).with_name("courier.js")

    def __init__(self, studio: Studio) -> None:
        self.studio = studio

    def routes(self, router: Any) -> None:
        """Add the list of rounds."""
        router.get("/rounds")(self.rounds)

    def rounds(self) -> list[dict[str, str]]:
        """Return the rounds of the journal."""
        runs = self.studio.journal.runs(kind="Courier")
        return [{"run": each.id, "state": each.state} for each in runs]

    def forms(self) -> list[PageForm]:
        """Return the form that begins a round."""
        fields = [Field("name", "Name"), Field("places", "Places", hint="home shop")]
        return [PageForm(name="new", title="New round", fields=fields, start=self.start)]

    def start(self, name: str, places: str) -> str:
        """Begin a round."""
        if not places:
            raise ConfigError("the places are empty: say where to deliver")
        journal = self.studio.journal
        return self.studio.jobs.run(name, lambda: deliver(journal, name, places.split()))


@click.command()
@click.argument("name")
@click.argument("places", nargs=-1)
@journal_option("The journal.")
def command(name: str, places: tuple[str, ...], journal: str | None) -> None:
    """Deliver at PLACES in the round NAME."""
    with make_journal(journal) as store:
        interruptible(deliver(store, name, [*places]))
        click.echo(f"round {name}: {store.run(name).state}")
