"""The runs of commands other than `civitas act`, and how each goes on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from civitas.cli.options import Recorded
from civitas.orders.order import ResearchOrder, order_of
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
