"""A process that is killed while it pays: its run is in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.program import Effects, main
from moothall import Call, Journal, ModelReply, ReActAgent, ScriptedModel, Usage, action

RUN = "killed"


def teller(journal: Journal, pay: Any) -> ReActAgent:
    """Pays, and says so."""

    @action
    def transfer(coins: int) -> str:
        """Move some coins."""
        pay("begin transfer")
        return f"moved {coins}"

    calls = (Call("1", "transfer", {"coins": 3}),)
    script = [ModelReply("", calls, Usage(10, 5)), ModelReply("All is moved.", (), Usage(20, 5))]
    return ReActAgent("teller", ScriptedModel(script), actions=[transfer], journal=journal)


def do(job: dict[str, Any]) -> None:
    """Begin the run, and be killed at its payment."""
    effects = Effects(Path(job["folder"]) / "effects", "begin transfer")
    with Journal(job["journal"]) as journal:
        teller(journal, effects.note).reply_sync("Move the coins.", run_id=RUN)


if __name__ == "__main__":
    main(do)
