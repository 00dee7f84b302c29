"""The state of a society between two steps, as JSON: for `state_dict` and the journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from civitas.clock import Clock
from civitas.errors import StateError
from civitas.message import Envelope
from civitas.reasoning.record import APPENDED, Record
from civitas.reasoning.state import memory_state, restore_memory
from civitas.society.population.state import (
    arrays_of,
    as_text,
    of_text,
    put,
    put_answers,
    read,
    written,
)
from civitas.society.router import Sent, SocietyMailbox
from civitas.society.wants import answer_json, answer_of_json, id_order

if TYPE_CHECKING:
    from civitas.society.steps import Steps

KIND: Final = "Society"
VERSION: Final = 1
_CHUNK: Final = 500
"""Agents stored in the journal under one hash; an unchanged part is stored once."""


@dataclass
class SocietyState:
    """The state of a run: data of no agent (`head`), and the agents in parts, all by hash.

    `interventions` are those given during the run.
    """

    first: int = 0
    step: int = 0
    prompts: str = "0"  # `Asking.prompts`, as hexadecimal digits
    head: str = ""
    parts: list[str] = field(default_factory=list)
    columns: list[list[Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    interventions: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)


def head_of(society: Steps) -> dict[str, Any]:
    """Return the state that belongs to no single agent."""
    clock = society.clock
    return {
        "kind": KIND,
        "version": VERSION,
        "seed": society.seed,
        "step": society.number,
        "clock": [clock.start.isoformat(), clock.step_s, clock.index, clock.before],
        "services": society.books.state_dict(),
        "news": list(society.news),
        "changed": society.changed.state_dict(),
        "sent": [_sent_json(each) for each in society.router.sent],
    }


def as_bytes(data: Any, what: str) -> bytes:
    """Return JSON data as bytes. Raises StateError if it is not JSON data."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} cannot be written as JSON: {error}") from error


def agents_as_bytes(mailboxes: list[SocietyMailbox]) -> bytes:
    """Return agents as bytes; an error names the agent that has no JSON form."""
    made = [_agent_json(mailbox) for mailbox in mailboxes]
    try:
        return as_bytes(made, "the state")
    except StateError:
        for mailbox, each in zip(mailboxes, made, strict=True):
            as_bytes(each, f"the state of agent {mailbox.id!r}")
        raise


def state_of(society: Steps) -> dict[str, Any]:
    """Return a society's whole state, as JSON data that shares nothing with it."""
    made: dict[str, Any] = json.loads(as_bytes(head_of(society), "the state of the society"))
    made["agents"] = json.loads(agents_as_bytes(society.mailboxes))
    if society.population is not None:
        made["columns"] = written(arrays_of(society.population, society.row_books), as_text)
    return made


def save(society: Steps, record: Record[SocietyState], state: SocietyState) -> None:
    """Save a society's state; the agents in parts, each stored once by its hash."""
    mailboxes = society.mailboxes
    state.step = society.number
    state.prompts = f"{society._asking.prompts:x}"
    state.head = record.keep(as_bytes(head_of(society), "the state of the society"))
    state.parts = [
        record.keep(agents_as_bytes(mailboxes[at : at + _CHUNK]))
        for at in range(0, len(mailboxes), _CHUNK)
    ]
    if society.population is not None:
        state.columns = written(arrays_of(society.population, society.row_books), record.keep)
    record.save(state)


def restore(society: Steps, record: Record[SocietyState], state: SocietyState) -> None:
    """Restore a society's state from a record."""
    given = json.loads(record.kept(state.head))
    given["agents"] = [each for part in state.parts for each in json.loads(record.kept(part))]
    given["columns"] = state.columns
    load(society, given, record.kept)
    society._asking.prompts = int(state.prompts, 16)


def load(society: Steps, given: Any, kept: Callable[[str], bytes] = of_text) -> None:
    """Load a state into a society built in the same way; StateError if it is of another."""
    if not isinstance(given, dict) or given.get("kind") != KIND:
        raise StateError("this is not a state of a Society")
    if given.get("version") != VERSION:
        raise StateError(
            f"this state of a Society is of version {given.get('version')!r:.80}; this civitas "
            f"reads version {VERSION}"
        )
    try:
        _load(society, given, kept)
    except StateError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise StateError(f"the state of the Society is damaged: {error!r:.300}") from error


def _load(society: Steps, given: dict[str, Any], kept: Callable[[str], bytes]) -> None:
    if given["seed"] != society.seed:
        raise StateError(f"the state is of seed {given['seed']}, and the society's is otherwise")
    mailboxes = {mailbox.id: mailbox for mailbox in society.mailboxes}
    ids = [str(each["id"]) for each in given["agents"]]
    strange = sorted(set(ids) - set(mailboxes), key=id_order)
    if strange:
        raise StateError(
            f"the state has agents that the society has not: {', '.join(strange[:5])}: add them "
            "(or promote them) first; where they joined during a recorded run, resume a fork: "
            "journal.fork(run_id)"
        )
    population = society.population
    arrays = read(given.get("columns") or [], kept) if population is not None else {}
    for id in set(mailboxes) - set(ids):
        if population is not None and (row := population._row(id)) is not None:
            population._demote(row)  # it was a row
        else:
            society._detach(mailboxes[id])  # it had left
    society._broken = "a state was loaded in part"
    if population is not None:
        put(population, arrays)
    society.clock = Clock(*given["clock"])
    society.number = given["step"]
    society.news = list(given["news"])
    router = society.router
    router.sent = [_sent_of_json(each) for each in given["sent"]]
    society.changed.load_state_dict(given["changed"])
    society.city = society.changed.city()
    society.books = society.new_books()
    society.books.seconds = society.clock.step_s
    if population is not None:
        put_answers(society.row_books, arrays)
    for id, each in zip(ids, given["agents"], strict=True):
        mailbox = mailboxes[id]
        mailbox.wants = None
        mailbox.mail = [_sent_of_json(sent) for sent in each["mail"]]
        mailbox.answers = [answer_of_json(answer) for answer in each["answers"]]
        agent: Any = mailbox.agent
        if "agent" in each:
            agent.load_state_dict(each["agent"])
        elif "memory" in each:
            restore_memory(agent.memory, each["memory"], id)
        for number, state in each.get("blocks", {}).items():
            agent.blocks[int(number)].load_state_dict(state)
        society.enter_books(mailbox)
    society.books.load_state_dict(given["services"])
    society._broken = ""


def _agent_json(mailbox: SocietyMailbox) -> dict[str, Any]:
    agent = mailbox.agent
    made: dict[str, Any] = {"id": mailbox.id}
    own = getattr(agent, "state_dict", None)
    if callable(own):
        made["agent"] = own()
    elif agent.memory is not None:
        made["memory"] = memory_state(agent.memory)
    blocks = {
        str(number): block.state_dict()
        for number, block in enumerate(agent.blocks)
        if hasattr(block, "state_dict")
    }
    if blocks:
        made["blocks"] = blocks
    made["answers"] = [answer_json(each) for each in mailbox.answers]
    made["mail"] = [_sent_json(each) for each in mailbox.mail]
    return made


def _sent_json(sent: Sent) -> list[Any]:
    return [[*sent.envelope], sent.kind, sent.answers]


def _sent_of_json(given: Any) -> Sent:
    parts, kind, answers = given
    envelope = Envelope(*parts)
    return Sent(id_order(envelope.sender), envelope, kind, answers)
