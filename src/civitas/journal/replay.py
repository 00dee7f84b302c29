"""Replay: a run told again from its record alone."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from civitas.errors import StateError
from civitas.journal.entry import Entry

__all__ = ["replayed"]

# By whom the runs of each class of agents are told: the module that also writes them down, which
# has `replayed(entries)`. They build on the journal and come after it, so they are only named.
_TOLD_BY: Final = {
    "ReActAgent": "civitas.reasoning.recording",
    "DualActAgent": "civitas.reasoning.dualact.recording",
    "Conversation": "civitas.reasoning.conversation.recording",
}


def replayed(run_id: str, kind: str, entries: Sequence[Entry]) -> Any:
    """The reply that a run ended with, put together from what was recorded.

    Raises:
        StateError: the run has not ended, or is of a kind that this civitas does not know
    """
    module = _TOLD_BY.get(kind)
    if module is None:
        raise StateError(f"run {run_id!r} is one of {kind!r}, which this civitas cannot replay")
    return importlib.import_module(module).replayed(run_id, entries)
