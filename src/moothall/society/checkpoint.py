"""The state of a society between two steps, as JSON: for `state_dict` and the journal."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from moothall import ConfigError, Memory, StateError
from moothall.build import APPENDED, Record, RecordedAgent
from moothall.society.arguments import claim_parts, owners_of
from moothall.society.clock import Clock
from moothall.society.column_state import (
    array_rows,
    arrays_of,
    ids_of,
    network_of,
    put_answers,
    read_arrays,
    renumbered,
    restore_columns,
)
from moothall.society.kernel.kept import (
    check_unkept,
    digests_of,
    load_states,
    owners_of_agent,
    states_of,
)
from moothall.society.kernel.router import SentItem, SocietyMailbox
from moothall.society.kernel.wants import answer_from_json, answer_json, id_order
from moothall.society.population.life import take_mailbox
from moothall.society.society_step import Steps

KIND: Final = "Society"
VERSION: Final = 1
_NO_MAIL: Final[dict[str, Any]] = {"answers": [], "mail": []}  # a row's is in columns
_CHUNK_AGENTS: Final = 500  # stored in the journal under one hash; an unchanged part once


@dataclass
class SocietyState:
    """The state of a run: data of no agent (`head`), and the agents in parts, all by hash."""

    first: int = 0
    step: int = 0
    prompts: str = "0"  # `CitizenModelCalls.prompts_hash`, as hexadecimal digits
    head: str = ""
    ended: bool = False  # by `until`, before the last step
    parts: list[str] = field(default_factory=list)
    columns: list[list[Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    # Given during the run.
    interventions: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)


def society_state(society: Steps) -> dict[str, Any]:
    """Return the state that belongs to no single agent."""
    digests, network = note_digests(society), society.population.later_network
    return {
        "kind": KIND,
        "format": VERSION,
        "seed": society.seed,
        "has_population": society.population.is_given,
        "step": society.number,
        "clock": society.clock.as_json(),
        "services": society.books.state_dict(),
        **society.history(),
        "changed": society.changed.state_dict(),
        "sent": [each.as_json() for each in society.router.sent],
        "nodes": None if network is None else network.nodes_json(),
        **states_of(owners_of(society), digests),
    }


def note_digests(society: Steps) -> dict[tuple[str, str], object]:
    """Note, before the first step, all that no state has, which no step may change; return it."""
    if society.first_digests is not None:
        return society.first_digests
    for mailbox in society.mailboxes:
        mailbox.first_digests = digests_of(owners_of_agent(mailbox.agent, mailbox.id))
    society.first_digests = digests_of(owners_of(society))
    return society.first_digests


def check_parts(society: Any) -> None:
    """Check, after the first step of a recorded run, that its states have all that has changed."""
    if society.number != 1 or society.journal is None:
        return
    check_unkept(owners_of(society), note_digests(society))
    for mailbox in society.mailboxes:
        check_unkept(owners_of_agent(mailbox.agent, mailbox.id), mailbox.first_digests)


def as_bytes(data: object, label: str) -> bytes:
    """Return JSON data as bytes. Raises StateError if it is not JSON data."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise StateError(f"{label} cannot be written as JSON: {error}") from error


def agents_as_bytes(agents: Iterable[dict[str, Any]]) -> bytes:
    """Return the states of agents as bytes; an error names the agent that has no JSON form."""
    parts = [as_bytes(each, f"the state of agent {each['id']!r}") for each in agents]
    return b"[" + b",".join(parts) + b"]"


_decode: Final = partial(base64.b64decode, validate=True)


def state_of(society: Steps) -> dict[str, Any]:
    """Return a society's whole state as JSON data."""
    state: dict[str, object] = json.loads(
        as_bytes(society_state(society), "the state of the society")
    )
    state["agents"] = json.loads(agents_as_bytes(map(agent_json, _mailboxes_to_save(society))))
    state["columns"] = array_rows(arrays_of(society), lambda part: base64.b64encode(part).decode())
    return state


def _mailboxes_to_save(society: Steps) -> list[SocietyMailbox]:
    """Return the mailboxes of agents, and of rows that have more than columns say."""
    return [each for each in society.mailboxes if not each.is_row or _has_more(each)]


def _has_more(mailbox: SocietyMailbox) -> bool:
    check_unkept(owners_of_agent(mailbox.agent, mailbox.id), mailbox.first_digests)
    memory = cast(Any, mailbox.agent).memory
    return bool(memory.stream or memory.status.extras())


def save(society: Steps, record: Record[SocietyState], state: SocietyState) -> None:
    """Save a society's state; the agents in parts, each stored once by its hash."""
    mailboxes = _mailboxes_to_save(society)
    state.step = society.number
    state.prompts = f"{society.model_calls.prompts_hash:x}"
    state.head = record.keep(as_bytes(society_state(society), "the state of the society"))
    state.parts = [
        record.keep(agents_as_bytes(map(agent_json, mailboxes[start : start + _CHUNK_AGENTS])))
        for start in range(0, len(mailboxes), _CHUNK_AGENTS)
    ]
    state.columns = array_rows(arrays_of(society), record.keep)
    record.save(state)


def restore(society: Steps, record: Record[SocietyState], state: SocietyState) -> None:
    """Restore a society's state from a record."""
    data = json.loads(record.stored_value(state.head))
    data["agents"] = [
        each for part in state.parts for each in json.loads(record.stored_value(part))
    ]
    data["columns"] = state.columns
    load(society, data, record.stored_value)
    society.model_calls.prompts_hash = int(state.prompts, 16)


def load(society: Steps, data: object, read_part: Callable[[str], bytes] = _decode) -> None:
    """Load a state into a society built in the same way; StateError if it is of another."""
    state = RecordedAgent.checked_state(data, KIND, VERSION)
    try:
        _load(society, state, read_part)
    except StateError:
        raise
    except ConfigError as error:
        raise StateError(f"the state does not fit the society: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise StateError(f"the state of the Society is damaged: {error!r:.300}") from error


def _load(society: Steps, data: dict[str, Any], read_part: Callable[[str], bytes]) -> None:
    if data["seed"] != society.seed:
        raise StateError(f"the state is of seed {data['seed']}, and the society's is otherwise")
    if type(data["step"]) is not int or data["step"] < 0:
        raise ValueError(f"step must be 0 or more, got {data['step']!r:.40}")
    population, arrays = society.population, read_arrays(data.get("columns") or [], read_part)
    _check_columns(population, arrays, has_population=data.get("has_population", bool(arrays)))
    arrays = renumbered(population, arrays)
    saved_ids = ids_of(arrays)
    society.changed.check_state(data["changed"])
    ids = [str(each["id"]) for each in data["agents"]]
    rows = {str(each["id"]) for each in data["agents"] if each.get("row")}
    society.make_agents([id for id in ids if id not in rows] if arrays else None)
    society.take(rows)
    mailboxes = {each.id: each for each in society.mailboxes}
    unknown = sorted(set(ids) - set(mailboxes), key=id_order)
    if unknown:
        raise StateError(
            f"the state has agents that the society has not: {', '.join(unknown[:5])}: add them "
            "(or promote them) first; where they joined during a recorded run, resume a fork: "
            "journal.fork(run_id)"
        )
    for id, each in zip(ids, data["agents"], strict=True):
        classes = mailboxes[id].classes
        if (saved_classes := each.get("classes", classes)) != classes:
            raise StateError(
                f"agent {id!r} of the state is of {saved_classes}, and the society's is of "
                f"{classes}: make, promote or `replace` it as there first; where a recorded run "
                "had it, resume a fork"
            )
    were_rows = []
    for id in [id for id, each in mailboxes.items() if id not in ids and not each.is_row]:
        if id not in saved_ids:
            society.detach(mailboxes[id])  # it had left
        elif population.is_given:
            population.demote_row(population.row_of(id))
        else:
            were_rows.append(mailboxes[id])
    society.broken = "a state was loaded in part"
    society.forget_step()
    population = society.population  # without those that had left
    if arrays:
        restore_columns(population, arrays)
    else:  # columns were not in the states of agents
        _settle_agents(society, data["agents"])
    population.network = network_of(population, arrays, data["nodes"])
    for id, each in mailboxes.items():
        if each.is_row and population.find_row(id) is None:
            society.detach(each)  # it had left
        elif each in were_rows or (each.is_row and id not in ids):
            cast(Any, each.agent).memory.load_state_dict({"status": {}, "stream": []})
    society.clock = Clock(*data["clock"])
    society.number = data["step"]
    society.load_history(data)
    router = society.router
    router.sent = [SentItem.of_json(each) for each in data["sent"]]
    society.changed.load_state_dict(data["changed"])
    society.city = society.changed.city()
    society.books = society.new_books()
    if society.number:  # what the last step took; the next one may be of another length
        society.books.seconds = society.clock.seconds_ago(1)
    if arrays:
        put_answers(society.books, arrays)
    for each in were_rows:
        each.wants = None
        take_mailbox(society, each.agent, population.row_of(each.id))
    for id, each in zip(ids, data["agents"], strict=True):
        mailbox = mailboxes[id]
        mailbox.wants = None
        mailbox.mail = [SentItem.of_json(sent) for sent in each["mail"]]
        mailbox.answers = [answer_from_json(answer) for answer in each["answers"]]
        agent: Any = mailbox.agent
        if "agent" in each:
            agent.load_state_dict(each["agent"])
        elif "memory" in each:
            Memory.restore(agent.memory, each["memory"], id)
        load_states(owners_of_agent(mailbox.agent, mailbox.id), each)
        if mailbox.is_row:
            continue
        society.enter_books(mailbox)
    claim_parts(society, with_state=True)
    load_states({**owners_of(society), "the places": society.city}, data)
    society.books.load_state_dict(data["services"])
    society.broken = ""


def _check_columns(population: Any, arrays: dict[str, Any], *, has_population: bool) -> None:
    """Raise StateError for columns of a user's population, where there is none, or of none."""
    names = {each for each in arrays if each.startswith("column.")}
    is_given = population.is_given
    if has_population != is_given and names != {f"column.{each}" for each in population.arrays}:
        words = "no Population, and the society has one"
        if not is_given:
            words = "a Population, and the society has none"
        raise StateError(f"the state is of {words}: make it as there")


def _settle_agents(society: Steps, agents: list[dict[str, Any]]) -> None:
    """Put agents whose statuses say all into their places, with their money."""
    for each in agents:
        status = (each.get("memory") or {}).get("status") or {}
        if "money" in status:
            moving = status.get("moving") or {}
            for place in (status["place"], moving.get("to"), moving.get("from")):
                society.population.place_number(place)  # raises ConfigError
            society.books.write_settled(str(each["id"]), status)


def agent_json(mailbox: SocietyMailbox) -> dict[str, Any]:
    """Return the state of an agent."""
    agent = mailbox.agent
    data: dict[str, object] = {"id": mailbox.id, "classes": mailbox.classes}
    if mailbox.is_row:
        return {**data, "row": True, "memory": Memory.state_of(agent.memory)} | _NO_MAIL
    state_dict = getattr(agent, "state_dict", None)
    if callable(state_dict):
        data["agent"] = state_dict()
    elif agent.memory is not None:
        data["memory"] = Memory.state_of(agent.memory)
    owners = owners_of_agent(agent, mailbox.id)
    states = states_of(owners, mailbox.first_digests)
    states["kept"] = {key: each for key, each in states["kept"].items() if each}
    data |= {name: each for name, each in states.items() if each}
    data["answers"] = [answer_json(each) for each in mailbox.answers]
    data["mail"] = [each.as_json() for each in mailbox.mail]
    return data
