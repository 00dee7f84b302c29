"""How a command carries out its order: in a new run or one that goes on, recorded or not."""

from __future__ import annotations

import logging
import secrets
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import click

from civitas.cli.journal.describe import not_copied, refused_in_doubt
from civitas.cli.options import Recorded, is_named, usage
from civitas.orders.order import AnyOrder, ResearchOrder, order_of, without_keys
from civitas.reasoning.resume import ENDED

__all__ = ["RecordedResearch", "ResearchOrder", "order_of"]

_OPTIONS: Final = {"allow_hosts": "allow_host"}


@dataclass(frozen=True)
class RecordedResearch(Recorded):
    """A run of `civitas research` in a journal, which goes on with the same command.

    Attributes:
        order: what was ordered
    """

    order: ResearchOrder = field(kw_only=True)

    def ways(self, stop_reason: str, doubts: Sequence[int] = (1,)) -> list[tuple[str, str]]:
        """How to go on after it ended so: each in words, and the command."""
        if stop_reason == "in_doubt" or stop_reason in ENDED:
            return super().ways(stop_reason, doubts)
        words, more = "to go on with it", {}
        if stop_reason == "budget":
            # How much it will take, nobody knows.
            limits = ("max_usd", "max_tokens")
            more = {name: "N" for name in limits if getattr(self.order, name) is not None}
            words = "to go on with a higher limit N"
        return [(words, self._typed(more))]

    def _typed(self, other: dict[str, Any]) -> str:
        """The command that goes on with the run, as it is typed, with other options."""
        journal = self.path if self.named else None
        given = {**asdict(self.order), **other, "run_id": self.run_id, "journal": journal}
        options: list[str] = []
        for name, value in given.items():
            option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
            if name != "objectives" and value:
                for each in value if isinstance(value, list) else [value]:
                    options += [option] if each is True else [option, f"{each}"]
        objectives = given["objectives"]
        if any(each.startswith("-") for each in objectives):
            return shlex.join(("civitas", self.order.command, *options, "--", *objectives))
        return shlex.join(("civitas", self.order.command, *objectives, *options))


def recorded_of(order: AnyOrder, run_id: str, path: str, about: str = "") -> Recorded:
    """The run of an order in a journal."""
    if isinstance(order, ResearchOrder):
        return RecordedResearch(run_id, path, is_named(), about=about, order=order)
    return Recorded(run_id, path, is_named(), getattr(order, "max_tokens", None), about=about)


def carried_out(
    by: Callable[..., int], order: Any, journal: str | None, run_id: str | None, as_json: bool
) -> int:
    """Have an order carried out, recorded where a journal is named; give the exit code."""
    # What the library logs is in the reply, in words.
    logging.getLogger("civitas").addHandler(logging.NullHandler())
    if journal is None:
        if run_id is not None:
            raise click.UsageError("--run-id is for a run in a journal: give --journal too")
        return by(order, as_json)
    with usage():
        without_keys(order)
    from civitas.journal import Journal

    recorded = recorded_of(order, run_id or secrets.token_hex(8), journal)
    with Journal(journal) as found:
        if run_id is not None:
            not_copied(found, recorded)
            if refused_in_doubt(found, recorded, as_json):
                return 1
        return by(order, as_json, found, recorded)
