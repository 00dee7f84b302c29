"""A dual act as it is recorded: what it begins with, what its members know, what is replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from civitas.jsonvalue import Unreadable
from civitas.reasoning.dualact.progress import DualActReply, Progress
from civitas.reasoning.dualact.review import described
from civitas.reasoning.events import ConclusionReached, DecisionMade
from civitas.reasoning.read_record import ReadRecord, of_group
from civitas.reasoning.record import Record, dumped, loaded
from civitas.reasoning.reply_request import AnswerSchema
from civitas.reasoning.resume import ENDED, begin, ended, members_of, not_ended

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Part
    from civitas.journal.replay import RecordedPart
    from civitas.reasoning.dualact.config import Pair
    from civitas.reasoning.reply_request import Asked

KIND = "DualActAgent"


def begun(agent: Pair, part: Part, asked: Asked) -> Record[Progress]:
    """The record of a dual act, begun or gone on with."""
    record = Record(part, Progress)
    wanted = asked.wanted()
    schema = None if wanted is None else wanted.json
    begin(record, asked, KIND, str(agent.id), schema, program_of(agent))
    progress = record.state
    if progress is not None:
        progress.run_id = part.run_id  # in a copy it is that of the other
        progress.want(asked.schema)
        if wanted is not None:
            several = len(agent.config.reactives) > 1
            progress.values[:] = [_typed(each, wanted, several) for each in progress.values]
    return record


def over(record: Record[Progress], progress: Progress, reply: DualActReply) -> dict[str, Any]:
    """What is recorded of the end.

    A turn that was stopped is taken again when the run goes on, so that what came of it until then
    is no state: it stands in the end alone.
    """
    if reply.stop_reason in ENDED:
        record.save(progress)
    about = {"detail": reply.detail, "text": reply.text, "value": reply.value}
    return about if reply.stop_reason in ENDED else {**about, "progress": dumped(progress)}


def emit_past(agent: Pair, progress: Progress, emit: Callable[[Any], Any]) -> None:
    """Tell whoever looks on what was decided and concluded in the process before."""
    id, of = str(agent.id), (progress.run_id, progress.thread)
    rounds: list[list[Any]] = [
        [DecisionMade(id, n, each, True, *of) for n, each in enumerate(progress.decisions, 1)],
        [
            ConclusionReached(id, n, each, True, *of)
            for n, each in enumerate(progress.conclusions, 1)
        ],
    ]
    if agent.config.first == "reactive":
        rounds.reverse()
    for number in range(max(map(len, rounds))):
        for each in rounds:
            if number < len(each):
                emit(each[number])


def program_of(agent: Pair) -> dict[str, Any]:
    """What a dual act and its members do, whatever they are asked."""
    config = agent.config
    return of_group(
        agent._agents,
        agent=[KIND, str(agent.id)],
        human=str(config.human.id),
        reactive=[str(each.id) for each in config.reactives],
        human_decision_prompt=config.human_decision_prompt,
        reactive_task_prompt=config.reactive_task_prompt,
        conclusion_format_prompt=config.conclusion_format_prompt,
        first=config.first,
        review=described(config.review),
        shared_memory=config.shared_memory,
    )


async def recall(agent: Pair, part: Part, budget: Budget | None) -> None:
    """Have the members of a dual act know what they did in it, within the budget of this reply."""
    members = {str(each.id): each for each in agent._agents}
    for name, id in members_of(part.past).items():
        member = members.get(id)
        if member is not None and getattr(member, "_records", False):
            await member._recall(part.part(name), budget)


def replayed(part: RecordedPart) -> DualActReply:
    """The reply that a run ended with."""
    record = ReadRecord(part, Progress)
    if record.over is None:
        raise not_ended(part.run_id)
    progress = record.state or Progress()
    if not ended(record):
        progress = loaded(Progress, record.over["progress"], f"run {part.run_id!r}")
    progress.run_id = part.run_id
    return progress.reply([], None)


def _typed(value: Any, wanted: AnswerSchema, several: bool) -> Any:
    """A value that was recorded as JSON, as the type that was asked for."""
    if value is None:
        return None
    if several and isinstance(value, dict):
        return {id: _typed(each, wanted, False) for id, each in value.items()}
    try:
        return wanted.read(json.dumps(value))
    except Unreadable:
        return value
