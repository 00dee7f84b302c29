"""A conversation as it is recorded: who was told what, what is known again, what is replayed."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from civitas.jsonvalue import Unreadable
from civitas.reasoning.conversation.setup import Setup
from civitas.reasoning.conversation.state import (
    MAX_STEPS,
    ConversationState,
    TurnEnded,
    TurnStarted,
    Utterance,
)
from civitas.reasoning.group import in_thread
from civitas.reasoning.loop.recording import catch_up_models, note_known
from civitas.reasoning.prompts import deep_json
from civitas.reasoning.read_record import ReadRecord, of_group
from civitas.reasoning.record import Record, dumped, loaded
from civitas.reasoning.reply import Reply
from civitas.reasoning.reply_request import AnswerSchema
from civitas.reasoning.replying import observing
from civitas.reasoning.resume import ENDED, Marks, begin, not_ended
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
    told = Told(record, setup)
    thread = None if record.begun is None else record.begun["thread"]
    for entry in record.entries():
        data = entry.data
        name = data.get("part")
        agent: Any = setup.agents.get(data["agent"] if name else told.whom(data.get("key", "")))
        if not getattr(agent, "_records", False):
            continue
        if name and entry.kind == "started":
            await agent._recall(record.member(name, data["agent"]), budget)
        elif not name and entry.kind == "ended":
            once = told.untold(agent, data["key"])
            try:
                if once is not None:
                    await tell(agent, data["result"], thread, once)
            except Exception as error:
                about = f"participant {agent.id!r} of {setup.id!r} failed to observe"
                log_failure(logger, about, error)
    model = getattr(setup.next, "model", None)
    if model is not None:
        catch_up_models(record, model, model, budget)


class Told:
    """What the participants of a conversation are told in a run: each thing once.

    It is recorded before they are told it. In another process, those that keep a record are told
    again what their memories may lack.
    """

    def __init__(self, record: Record[ConversationState], setup: Setup) -> None:
        self._record = record
        self._agents = setup.agents
        self._places: dict[str, tuple[str, str, int]] = {}  # whom, by what key, which of them
        self._counts: Counter[str] = Counter()
        self._new: set[str] = set()  # recorded, and not yet told
        copied = (record.begun or {}).get("copied", ())
        for number, entry in enumerate(record.entries()):
            key = entry.data.get("key", "")
            if entry.kind == "ended" and key.startswith("told."):
                of = (each["key"] for each in copied if number < each["entries"])
                self._place(key, key.split(".", 2)[2], next(of, record.key))

    def _place(self, key: str, id: str, run: str) -> None:
        self._places[key] = (id, f"{run}/told/{id}", self._counts[id])
        self._counts[id] += 1

    def whom(self, key: str) -> str:
        """Whom a recorded step told something; empty if it is another step."""
        return self._places[key][0] if key in self._places else ""

    def note(self, id: str, utterance: Utterance, message: dict[str, Any]) -> None:
        """Note that a participant is about to be told something, unless it was before."""
        key = f"told.{utterance.number}.{id}"
        if key not in self._places:
            self._place(key, id, self._record.key)
            self._new.add(key)
            self._record.mark(key, message)

    async def commit(self) -> None:
        """Write down what was noted."""
        if self._new:
            await self._record.commit()

    def due(self, id: str, utterance: Utterance) -> tuple[str, int] | None:
        """As which message of which run a participant is to observe something; None if it did."""
        key = f"told.{utterance.number}.{id}"
        if key not in self._new:
            return None
        self._new.discard(key)
        return self.untold(self._agents[id], key)

    def untold(self, agent: Any, key: str) -> tuple[str, int] | None:
        """The same, of what is recorded under a key."""
        _, run, place = self._places[key]
        if _MARKS.get(agent, run) > place:
            return None
        # Before it is told: what breaks off in the middle is not told twice.
        _MARKS.set(agent, run, place + 1)
        return run, place


async def tell(
    agent: Any, message: dict[str, Any], thread: str | None, once: tuple[str, int] | None
) -> None:
    """Have a participant observe a message, as this one of a run if it is of one."""
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
