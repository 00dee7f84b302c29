"""The record of a conversation: restoring it in another process, and replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moothall.agents.conversation.conversation_state import MAX_STEPS, ConversationState
from moothall.agents.conversation.participants import Setup, restore_members
from moothall.agents.replies.events import TurnEnded, TurnStarted
from moothall.agents.replies.read_record import ReadRecord
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.agents.replies.resume import reply_at_end
from moothall.agents.replies.state import load_state
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.budget import Budget
    from moothall.journal import Entry


def prepare_state(
    state: ConversationState, record: Record[ConversationState], setup: Setup
) -> None:
    """Prepare a recorded state for this process, and add what was heard after it."""
    state.record = record
    state.check(setup.agents, f"run {record.run_id!r}")
    if state is record.state:
        for each in record.received:
            sources = each.get("outside", ())
            state.add(None, each["content"], known_to=each["known_to"], outside=sources)


async def restore_run(
    setup: Setup, record: Record[ConversationState], request: ReplyRequest, budget: Budget | None
) -> Reply | None:
    """Restore a resumed run; return its reply if it ends here, else None."""
    assert record.state is not None
    try:
        await restore_members(setup, record, budget)
    except Stop as stop:
        if not record.is_over:
            stop_fields = (stop.reason, stop.detail, stop.error, request.run_id)
            return Reply("", "", [], [], Usage(), *stop_fields)
    tell_past(setup, record, request)
    prepare_state(record.state, record, setup)
    return ended_reply(record, request.answer) if record.is_over else None


def state_at_end(record: ReadRecord[ConversationState]) -> ConversationState:
    """Return the state at the end of a run; of one that was cut off, after its last turn."""
    if record.over is not None and "saved" in record.over:
        return load_state(ConversationState, record.over["saved"], f"run {record.run_id!r}")
    return record.state or ConversationState()


def tell_past(setup: Setup, record: Record[ConversationState], request: ReplyRequest) -> None:
    """Emit the recorded turns as past events."""
    emit = request.emit
    if emit is None:
        return
    event_fields: dict[str, Any] = {"past": True, **request.run_fields}
    last_number: int | None = None  # the number of the last utterance; None before the first state
    for entry in record.entries():
        if entry.kind != "state":
            continue
        state = load_state(ConversationState, entry.data["state"], f"run {record.run_id!r}")
        utterances = [
            each
            for each in state.said
            if last_number is not None and each.number > last_number and each.speaker is not None
        ]
        last_number = state.said[-1].number if state.said else last_number or 0
        for number, utterance in enumerate(utterances, state.turns - len(utterances) + 1):
            turn = (setup.id, utterance.speaker or "", number)
            emit(TurnStarted(*turn, **event_fields))
            emit(TurnEnded(*turn, utterance, **event_fields))


def ended_reply(record: ReadRecord[ConversationState], schema: AnswerSchema | None = None) -> Reply:
    """Return the reply that a run ended with, its value as the requested type."""
    state = state_at_end(record)
    reply = reply_at_end(record, schema, state.messages, state.steps[-MAX_STEPS:], state.usage)
    return replace(reply, outside=(*state.outside,))


def replayed_reply(run_id: str, entries: Iterable[Entry]) -> Reply:
    """Return the reply that a run ended with."""
    return ended_reply(ReadRecord.read(run_id, entries, ConversationState))
