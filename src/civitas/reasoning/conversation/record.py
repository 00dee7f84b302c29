"""A conversation as it is recorded: who was told what, what is known again, what is replayed."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from civitas.errors import BudgetExceeded
from civitas.jsonvalue import Unreadable
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.setup import Setup
from civitas.reasoning.conversation.state import (
    MAX_STEPS,
    ConversationState,
    TurnEnded,
    TurnStarted,
)
from civitas.reasoning.group import in_thread
from civitas.reasoning.loop.recording import catch_up_models, note_known
from civitas.reasoning.prompts import deep_json
from civitas.reasoning.read_record import ReadRecord, of_group
from civitas.reasoning.record import Record, dumped, loaded
from civitas.reasoning.reply import Reply, Stop
from civitas.reasoning.reply_request import AnswerSchema
from civitas.reasoning.replying import observing
from civitas.reasoning.resume import ENDED, Marks, begin, ended, not_ended
from civitas.text import log_failure

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Part
    from civitas.journal.replay import RecordedPart
    from civitas.reasoning.reply_request import Asked

logger = logging.getLogger("civitas.reasoning")

KIND = "Conversation"
_MARKS = Marks()


def begun(
    setup: Setup, part: Part, asked: Asked, budget: Budget | None
) -> Record[ConversationState]:
    """The record of a conversation, begun or resumed."""
    record = Record(part, ConversationState)
    wanted = asked.wanted()
    schema = None if wanted is None else wanted.json
    if schema is None and asked.resumed and record.begun is not None:
        schema = record.begun["schema"]  # `resume` need not name it again
    begin(record, asked, KIND, setup.id, schema, program_of(setup))
    model = getattr(setup.next, "model", None)
    if model is not None:
        record.committed = lambda: note_known(record, model, budget)
    return record


def program_of(setup: Setup) -> dict[str, Any]:
    """What a conversation and its participants do, whatever they are asked."""
    return of_group(
        setup.agents.values(),
        agent=[KIND, setup.id],
        agents=list(setup.agents),
        next=setup.next.described(),
        until=None if setup.until is None else str(setup.until),
        max_turns=setup.max_turns,
        stop_if_failed=setup.stop_if_failed,
    )


def stand(state: ConversationState, record: Record[ConversationState], setup: Setup) -> None:
    """Have a recorded state go on in this process, with what was heard after it."""
    state.check(setup.agents, f"run {record.run_id!r}")
    state.max_kept, state.record = setup.max_kept, record
    if state is record.state:
        for each in record.heard:
            state.add(None, each["content"], known_to=each["known_to"])


async def resumed(
    setup: Setup, record: Record[ConversationState], asked: Asked, budget: Budget | None
) -> Reply | None:
    """Know what was done in a run that goes on; its reply, if it ends here."""
    assert record.state is not None
    try:
        await recall(setup, record, budget)
    except BudgetExceeded as error:
        if not ended(record):
            stop = Stop.at_limit(error)
            why = (stop.reason, stop.detail, None, asked.run_id)
            return Reply("", "", [], [], Usage(), *why)
    await emit_past(setup, record, asked)
    stand(record.state, record, setup)
    return as_it_ended(record, asked.schema) if ended(record) else None


def over(
    record: Record[ConversationState], state: ConversationState, reply: Reply
) -> dict[str, Any]:
    """What is recorded of the end.

    A turn that was stopped is taken again when the run goes on, so that what came of it until then
    is no state: it stands in the end alone.
    """
    about = {"detail": reply.detail, "text": reply.text, "value": reply.value}
    if reply.stop_reason not in ENDED:
        return {**about, "saved": {**dumped(state), "steps": deep_json(state.steps)}}
    record.save(state)
    return about


def at_end(record: ReadRecord[ConversationState]) -> ConversationState:
    """The state at the end of a run; where it was cut off, after its last turn."""
    if record.over is not None and "saved" in record.over:
        return loaded(ConversationState, record.over["saved"], f"run {record.run_id!r}")
    return record.state or ConversationState()


async def recall(setup: Setup, record: Record[ConversationState], budget: Budget | None) -> None:
    """Have the model that chooses, and who keeps a record, know what they did and were told."""
    thread = None if record.begun is None else record.begun["thread"]
    counts: Counter[str] = Counter()
    for entry in record.entries():
        data, told = entry.data, told_to(entry.data.get("key", ""))
        agent: Any = setup.agents.get(told or data.get("agent", ""))
        if not getattr(agent, "_records", False):
            continue
        if entry.kind == "started" and "part" in data:
            await agent._recall(record.member(data["part"], data["agent"]), budget)
        elif entry.kind == "ended" and told:
            known_as = (f"{record.key}/told/{told}", counts[told])  # as an older civitas counted
            counts[told] += 1
            once = data.get("about", {}).get("once", known_as)
            try:
                await tell(agent, data["result"], thread, tuple(once))
            except Exception as error:
                about = f"participant {agent.id!r} of {setup.id!r} failed to observe"
                log_failure(logger, about, error)
    model = getattr(setup.next, "model", None)
    if model is not None:
        catch_up_models(record, model, model, budget)


def told_to(key: str) -> str:
    """Whom a step of this key told something; empty if it is another step."""
    return key.split(".", 2)[2] if key.startswith("told.") else ""


async def tell(
    agent: Any, message: dict[str, Any], thread: str | None, once: tuple[str, int] | None
) -> None:
    """Have a participant observe a message; one of a run once, whoever tells it in this process."""
    if once is not None:
        run, place = once
        if _MARKS.get(agent, run) > place:
            return
        # Before it is told: what breaks off in the middle is not told twice.
        _MARKS.set(agent, run, place + 1)
    with observing(once):
        given = agent.observe(message, **in_thread(agent.observe, thread))
        if inspect.isawaitable(given):
            await given


async def emit_past(setup: Setup, record: Record[ConversationState], asked: Asked) -> None:
    """Give whoever watches the turns of the process before."""
    emit: Any = asked.emit
    if emit is None:
        return
    of = (asked.run_id, asked.thread)
    emitted: int | None = None  # the number of the last utterance; None before the first state
    for entry in record.entries():
        if entry.kind != "state":
            continue
        state = loaded(ConversationState, entry.data["state"], f"run {record.run_id!r}")
        new = [each for each in state.said if emitted is not None and each.number > emitted]
        emitted = state.said[-1].number if state.said else emitted or 0
        for number, utterance in enumerate(new, state.turns - len(new) + 1):
            assert utterance.speaker is not None
            await emit(TurnStarted(setup.id, utterance.speaker, number, *of))
            await emit(TurnEnded(setup.id, utterance.speaker, number, utterance, *of))


def as_it_ended(record: ReadRecord[ConversationState], schema: Any = None) -> Reply:
    """The reply that a run ended with, its value as the type that is asked for."""
    assert record.over is not None
    state, end = at_end(record), record.over
    value = end["value"]
    if schema is not None and end["reason"] == "done":
        try:
            value = AnswerSchema(schema).read(end["text"])
        except Unreadable:
            pass  # a terminal action gave it
    why = (end["reason"], end["detail"], None, record.run_id)
    return Reply(end["text"], value, state.messages, state.steps[-MAX_STEPS:], state.usage, *why)


def replayed(part: RecordedPart) -> Reply:
    """The reply that a run ended with."""
    record = ReadRecord(part, ConversationState)
    if record.over is None:
        raise not_ended(part.run_id)
    return as_it_ended(record)
