"""The turns of a dual act, from what it is asked to the reason to stop."""

from __future__ import annotations

from typing import Any

from civitas.errors import JournalError
from civitas.reasoning.dualact.human import decide
from civitas.reasoning.dualact.progress import DualActReply
from civitas.reasoning.dualact.reactive import act
from civitas.reasoning.dualact.recording import over
from civitas.reasoning.dualact.turn import Work
from civitas.reasoning.reply import Stop
from civitas.reasoning.resume import guarded


class Rounds(Work):
    """The turns of H and R on one task."""

    async def reply(self) -> DualActReply:
        """Turn after turn, until it is over."""
        progress = self.progress

        def failed(error: JournalError) -> DualActReply:
            progress.over("error", str(error))
            return progress.reply(self.messages, error)

        def cut_off(why: str) -> dict[str, Any]:
            progress.over("cancelled", why)
            return over(self.record, progress, progress.reply([], None))

        return await guarded(
            self.record,
            self._reply,
            lambda reply: over(self.record, progress, reply),
            cut_off,
            failed,
        )

    async def _reply(self) -> DualActReply:
        progress = self.progress
        error: BaseException | None = None
        try:
            while not progress.is_over:
                await (decide(self) if progress.turn == "human" else act(self))
                if not progress.is_over:
                    self.record.save(progress)
        except Stop as stop:
            error = stop.error
            progress.over(stop.reason, stop.detail)
        return progress.reply(self.messages, error)
