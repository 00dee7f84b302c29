"""An orchestrator whose rounds survive kill -9, with its command and its tab of the studio.

An installed package adds them by the entry points `moothall.commands`, `moothall.tabs` and
`moothall.kinds` (docs/build.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import click

from moothall import Journal
from moothall.build import APPENDED, StepHandle, Stop, recorded
from moothall.cli.build import interruptible, journal_option
from moothall.studio import Field, PageForm, Tab


@dataclass
class Round:
    """What has been delivered, as far as the round is."""

    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


@dataclass
class Outcome:
    """How a round ended."""

    stop_reason: str
    text: str


def stopped(stop: Stop) -> Outcome:
    return Outcome(stop.reason, stop.detail)


async def deliver(journal: Journal, run_id: str, places: str = "") -> str:
    """Deliver at each place once; a resumed round has its places as its task."""
    places = places or journal.run(run_id).task
    async with recorded(journal, run_id, "Courier", "bo", Round, task=places) as record:
        if record.is_over:
            return str(record.over["text"])
        state = record.state or Round()

        async def deliver_all() -> Outcome:
            for place in places.split()[len(state.delivered) :]:

                async def ring(step: StepHandle, place: str = place) -> str:
                    print("rang at", place)  # that it begins is in the file
                    return place

                key = f"ring.{len(state.delivered)}"
                rung = await record.effect(key, ring, args={"place": place}, action="ring")
                state.delivered.append(rung or f"{place}?")  # None: a person skipped it
                record.save(state)
            return Outcome("done", f"{len(state.delivered)} delivered")

        outcome = await record.run_to_end(deliver_all, lambda ended: {"text": ended.text}, stopped)
        return outcome.text


@click.command()
@click.argument("run_id")
@click.argument("places")
@journal_option("The journal.")
def command(run_id: str, places: str, journal: str | None) -> None:
    """Deliver at PLACES in the round RUN_ID."""
    with Journal(journal or "rounds.db") as rounds:
        click.echo(interruptible(deliver(rounds, run_id, places)))


class CourierTab(Tab):
    """Begins rounds, which the page lists, stops and resumes."""

    name, title = "courier", "Courier"

    def __init__(self, studio: Any) -> None:
        self.studio = studio

    def forms(self) -> list[PageForm]:
        fields = [Field("name", "Name"), Field("places", "Places")]
        return [PageForm(name="new", title="New round", fields=fields, start=self.start)]

    def start(self, name: str, places: str) -> Any:
        return self.studio.jobs.run(
            name, lambda: deliver(self.studio.journal, name, places), "Courier"
        )


if __name__ == "__main__":
    command(["r1", "home shop"])
