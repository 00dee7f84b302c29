"""The parts of a run: of its agent, and of those that work on its behalf; and their replies."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from moothall.foundation.errors import StateError
from moothall.journal.commits import OpenRun
from moothall.journal.entry import ROOT, Entry, begin_data_of, subpath


class RunPart:
    """One part of an open run: that of its agent, or of an agent that works on its behalf."""

    __slots__ = ("past_entries", "path", "run")

    def __init__(self, run: OpenRun, path: str = ROOT) -> None:
        self.run: OpenRun = run
        self.path: str = path
        # From before the run was opened.
        self.past_entries: list[Entry] = run.past_entries.get(path, [])

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def key(self) -> str:
        """The key of this part, unique among the parts of all runs in all journals."""
        return f"{self.run.key}/{self.path}"

    def part(self, name: str) -> RunPart:
        """The part, such as `H1` or `R1/ID`, of an agent that works on this one's behalf."""
        return RunPart(self.run, subpath(self.path, name))

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Note an entry, as JSON data; it is written with the next commit."""
        self.run.note(self.path, kind, data)

    async def commit(self) -> None:
        """Write what was noted, in all parts of the run. When this returns, it is in the file."""
        await self.run.commit()

    def end(self, state: str) -> None:
        """Set the state of the run, as its outline shows it; written with the next commit."""
        self.run.state = state

    def close(self) -> None:
        """Let others work on the run. Entries that are noted and not committed are dropped."""
        self.run.close()


# By class of agent: the module whose `replayed_reply(run_id, entries)` rebuilds a run. These
# modules import the journal, so they are only named here.
_REPLAY_MODULES: Final = {
    "ReActAgent": "moothall.agents.loop.recording",
    "DualActAgent": "moothall.agents.dualact.dual_act_state",
    "Conversation": "moothall.agents.conversation.conversation_record",
    "Researcher": "moothall.research.recording",
}


def reply_of(run_id: str, entries: Sequence[Entry]) -> Any:
    """Return the reply of a run, rebuilt from its entries; StateError before its end."""
    if (end := Entry.end_of(entries)) is None:
        raise StateError(
            f"run {run_id!r} has not ended: call its agent with this run_id to resume it"
        )
    start = begin_data_of(entries) or {}
    module = _REPLAY_MODULES.get(str(start.get("kind")))
    if module is not None:
        return importlib.import_module(module).replayed_reply(run_id, entries)
    return {"begun": start, "state": Entry.state_in(entries) or {}, "over": end.data}
