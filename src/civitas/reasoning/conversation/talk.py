"""One thread of a conversation: where it stands, and the reply under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from civitas.errors import BudgetExceeded
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.exchange import Exchange, reason_of
from civitas.reasoning.conversation.record import as_it_ended, begun, emit_past, recall, stands
from civitas.reasoning.conversation.setup import Setup
from civitas.reasoning.conversation.state import Content, ConversationState, SavedTalk
from civitas.reasoning.record import NULL_RECORD, Record
from civitas.reasoning.reply import Reply
from civitas.reasoning.resume import ENDED, ended

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Part
    from civitas.reasoning.reply_request import Asked

__all__ = ["Talk"]


class Talk:
    """One thread of a conversation.

    Attributes:
        state: where it stands
        exchange: the reply under way, or None
        run: the key and the id of a run that is not over, or None
        since: what was said to it since that was stopped
    """

    __slots__ = ("_setup", "exchange", "run", "since", "state")

    def __init__(self, setup: Setup, state: ConversationState) -> None:
        self._setup = setup
        self.state = state
        self.exchange: Exchange | None = None
        self.run: tuple[str, str] | None = None
        self.since: list[Content] = []

    async def reply(self, asked: Asked, record: Record[SavedTalk] = NULL_RECORD) -> Reply:
        """Have the participants speak until it is over."""
        state, until = self.state, self._setup.until
        if record.state is None and not asked.resumed:
            state.begin()
            for content in (*asked.state.hear(), asked.content):
                state.add(None, content)
        if until is not None:
            until.begin(state.kept, "u")
        self.exchange = Exchange(self._setup, state, asked, record)
        try:
            return await self.exchange.go()
        finally:
            self.exchange, state.record = None, NULL_RECORD

    async def reply_recorded(self, asked: Asked, part: Part) -> Reply:
        """The same, recorded; or go on with what was recorded.

        Raises:
            RunMismatch: another program began the run
        """
        setup = self._setup
        record = begun(setup, part, asked)
        if record.state is not None:
            try:
                await recall(setup, record, asked.budget)
            except BudgetExceeded as error:
                if not ended(record):
                    reason = reason_of(error)
                    return Reply("", "", [], [], Usage(), reason, str(error), None, asked.run_id)
            await emit_past(setup, record, asked)
            state = stands(record, setup)
            if ended(record):
                self._be_at(state)
                return as_it_ended(record, asked.schema)
            since = self.since if self.run is not None and self.run[0] == record.key else []
            self.state = state
            for content in (*since, *asked.state.hear()):
                state.add(None, content)
                record.hear({"content": content, "known_to": []})
        self.run, self.since = (record.key, record.run_id), []
        reply = await self.reply(asked, record)
        if reply.stop_reason in ENDED:
            self.run = None
        return reply

    async def recall(self, record: Record[SavedTalk], budget: Budget | None) -> None:
        """Know what was said in a part of a run, as the participants do.

        Raises:
            BudgetExceeded: their budget does not reach for what they have spent
        """
        await recall(self._setup, record, budget)
        self.run = None if ended(record) else (record.key, record.run_id)
        self._be_at(stands(record, self._setup, last=True))

    def _be_at(self, state: ConversationState) -> None:
        """Stand where a reply ended, unless the thread has gone further since."""
        if state.transcript.count > self.state.transcript.count:
            self.state = state
