"""Replay: what a run came to, told again from its record alone."""

from __future__ import annotations

import importlib
from typing import Any, Final, TypeAlias

from civitas.errors import StateError
from civitas.journal.run import Part, ReadPart

# By whom the runs of each class of agents are told: the module has `replayed(part)`. These modules
# build on the journal and come after it, so they are only named.
_TOLD_BY: Final = {
    "ReActAgent": "civitas.reasoning.loop.recording",
    "DualActAgent": "civitas.reasoning.dualact.progress",
    "Conversation": "civitas.reasoning.conversation.record",
    "Researcher": "civitas.research.recording",
}


RecordedPart: TypeAlias = Part | ReadPart
"""A part of a run, as far as it is read."""


def reply_of(part: RecordedPart) -> Any:
    """What a part of a run came to, put together from what was recorded."""
    begun = next((entry.data for entry in part.past if entry.kind == "begun"), {})
    module = _TOLD_BY.get(str(begun.get("kind")))
    if module is not None:
        return importlib.import_module(module).replayed(part)
    found: dict[str, Any] = {"begun": begun, "state": {}, "over": None}
    for entry in part.past:
        found["over"] = entry.data if entry.kind == "over" else None
        if entry.kind == "state":
            found["state"] |= entry.data["state"]
            for name, items in entry.data["appended"].items():
                found["state"][name] = [*found["state"].get(name, []), *items]
    if found["over"] is None:
        raise StateError(
            f"run {part.run_id!r} has not ended: call its agent with this run_id to go on with it"
        )
    return found
