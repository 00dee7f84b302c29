"""A tab of the studio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from courier.rounds import deliver
from moothall import ConfigError
from moothall.studio import Field, PageForm, Studio, Tab


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
            raise ConfigError("the places are empty: say where to deliver", argument="places")
        journal = self.studio.journal
        return self.studio.jobs.run(name, lambda: deliver(journal, name, places.split()))
