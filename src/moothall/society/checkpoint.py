"""The state of a society between two steps, as JSON: for `state_dict` and the journal."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.actions.message import Envelope
from moothall.agents.replies.record import APPENDED, Record
from moothall.agents.replies.state import memory_state, restore_memory
from moothall.foundation.errors import StateError
from moothall.foundation.lazily import is_ours
from moothall.society.arguments import free_services
from moothall.society.arrays import np
from moothall.society.city.network import Network
from moothall.society.clock import Clock
from moothall.society.columns.want_table import Table
from moothall.society.kernel.router import Sent, SocietyMailbox
from moothall.society.kernel.variables import (
    by_number,
    load_states,
    of_agent,
    says_itself,
    states_of,
    unwritten,
)
from moothall.society.kernel.wants import answer_json, answer_of_json, id_order, kind_named
from moothall.society.population.changing import settle_ids
from moothall.society.population.messages import PARTS, Messages
from moothall.society.population.population import Population
from moothall.society.steps import Steps

KIND: Final = "Society"
VERSION: Final = 2
_PART: Final = 1 << 18  # entries of an array stored under one hash
_CHUNK: Final = 500  # agents stored in the journal under one hash; an unchanged part is stored once


@dataclass
class SocietyState:
    """The state of a run: data of no agent (`head`), and the agents in parts, all by hash."""

    first: int = 0
    step: int = 0
    prompts: str = "0"  # `Asking.prompts`, as hexadecimal digits
    head: str = ""
    ended: bool = False  # by `until`, before the last step
    parts: list[str] = field(default_factory=list)
    columns: list[list[Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)
    # Given during the run.
    interventions: list[dict[str, Any]] = field(default_factory=list, metadata=APPENDED)


def head_of(society: Steps) -> dict[str, Any]:
    """Return the state that belongs to no single agent."""
    clock, population = society.clock, society.population
    first = begin(society) if society.unwritten is None else society.unwritten
    network = None if population is None else population.network
    known = None if population is None else population.first_network
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
        "nodes": network.nodes_json() if network is not None and network is not known else None,
        **states_of(owners_of(society), first),
    }


def owners_of(society: Steps) -> dict[str, Any]:
    """Return all that may keep something between two steps, but agents and their blocks."""
    population = society.population
    services = society.services.items()
    made: dict[str, Any] = {f"service {id!r}": s for id, s in services if not says_itself(s)}
    if population is not None:
        made |= by_number(population.blocks)
        made |= {f"metric {name!r}": each for name, each in population.metrics.items()}
        made["the network"] = population.network
    made |= {"facts": society.facts, "the places": society.changed.own_city()}
    return {**made, "the society": society}


def begin(society: Steps) -> dict[tuple[str, str], int]:
    """Note, before the first step, all that no state can have: no step may change it."""
    for mailbox in society.mailboxes:
        mailbox.unwritten = unwritten(of_agent(mailbox.agent, mailbox.id))
    society.unwritten = unwritten(owners_of(society))
    return society.unwritten


def as_bytes(data: Any, what: str) -> bytes:
    """Return JSON data as bytes. Raises StateError if it is not JSON data."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} cannot be written as JSON: {error}") from error


def agents_as_bytes(mailboxes: list[SocietyMailbox]) -> bytes:
    """Return agents as bytes; an error names the agent that has no JSON form."""
    made = [as_bytes(_agent_json(each), f"the state of agent {each.id!r}") for each in mailboxes]
    return b"[" + b",".join(made) + b"]"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def state_of(society: Steps, mailboxes: list[SocietyMailbox] | None = None) -> dict[str, Any]:
    """Return a society's whole state as JSON data; with `mailboxes`, that of agents for rows."""
    made: dict[str, Any] = json.loads(as_bytes(head_of(society), "the state of the society"))
    made["agents"] = json.loads(agents_as_bytes(mailboxes or society.mailboxes))
    if society.population is not None and mailboxes is None:
        made["columns"] = _written(_arrays_of(society), _encoded)
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
        state.columns = _written(_arrays_of(society), record.keep)
    record.save(state)


def restore(society: Steps, record: Record[SocietyState], state: SocietyState) -> None:
    """Restore a society's state from a record."""
    given = json.loads(record.kept(state.head))
    given["agents"] = [each for part in state.parts for each in json.loads(record.kept(part))]
    given["columns"] = state.columns
    load(society, given, record.kept)
    society._asking.prompts = int(state.prompts, 16)


def load(society: Steps, given: Any, kept: Callable[[str], bytes] = _decoded) -> None:
    """Load a state into a society built in the same way; StateError if it is of another."""
    if not isinstance(given, dict) or given.get("kind") != KIND:
        raise StateError("this is not a state of a Society")
    if given.get("version") != VERSION:
        raise StateError(
            f"this state of a Society is of version {given.get('version')!r:.80}; this moothall "
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
    if type(given["step"]) is not int or given["step"] < 0:
        raise ValueError(f"step must be 0 or more, got {given['step']!r:.40}")
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
    arrays = _read(given.get("columns") or [], kept) if population is not None else {}
    for id in set(mailboxes) - set(ids):
        if population is not None and (row := population._row(id)) is not None:
            population._demote(row)  # it was a row
        else:
            society._detach(mailboxes[id])  # it had left
    society._broken = "a state was loaded in part"
    if population is not None:
        _put(population, arrays)
        population.network = _network_of(population, arrays, given["nodes"])
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
        _put_answers(society.books, arrays)
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
        load_states(of_agent(mailbox.agent, mailbox.id), each)
        society.enter_books(mailbox)
    load_states(owners_of(society), given)
    society.city = society.changed.city()
    society.books.load_state_dict(given["services"])
    free_services(society.services)
    society._broken = ""


def _agent_json(mailbox: SocietyMailbox) -> dict[str, Any]:
    agent = mailbox.agent
    made: dict[str, Any] = {"id": mailbox.id}
    own = getattr(agent, "state_dict", None)
    if callable(own):
        made["agent"] = own()
    elif agent.memory is not None:
        made["memory"] = memory_state(agent.memory)
    owners = of_agent(agent, mailbox.id)
    kept = states_of(owners, mailbox.unwritten)
    kept["variables"] = {
        key: each
        for key, each in kept["variables"].items()
        if each or not is_ours(type(owners[key]))
    }
    made |= {what: each for what, each in kept.items() if each}
    made["answers"] = [answer_json(each) for each in mailbox.answers]
    made["mail"] = [_sent_json(each) for each in mailbox.mail]
    return made


def _sent_json(sent: Sent) -> list[Any]:
    return [[*sent.envelope], sent.kind, sent.answers]


def _sent_of_json(given: Any) -> Sent:
    parts, kind, answers = given
    return Sent(Envelope(*parts), kind, answers)


# -- the columns of a population -------------------------------------------------------------------


def _arrays_of(society: Steps) -> dict[str, Any]:
    """Return the complete state of a population between two steps, as arrays by name."""
    population: Any = society.population
    books: Any = society.books
    made = {
        f"column.{name}": _used(values) if population.declared[name].slots else values
        for name, values in population.columns.items()
    }
    for kind, table in books.answers.items():
        at = f"answer.{kind.__name__}"
        made |= {f"{at}.{name}": values for name, values in table.fields.items()}
        made |= {f"{at}.": table.sender, f"{at}.=": table.reason, f"{at}.#": table.value}
    if books.messages is not None:
        made |= {f"message.{name}": getattr(books.messages, name) for name in PARTS}
    made |= {f"layer.{name}": values for name, values in population.layers.items()}
    if population.network is not None and population.network is not population.first_network:
        starts, others = population.network.links
        made |= {"network.starts": starts, "network.others": others}
    if population.ids is not population.first_ids:
        made |= {"ids": population.ids, "next_id": np.array([population.next_id], "uint64")}
    strangers = json.dumps(population.strangers).encode()
    return made | {"strangers": np.frombuffer(strangers, "uint8")}


def _used(values: Any) -> Any:
    """Return a column without its trailing unused slots."""
    last = values.shape[1]
    while last > 1 and not values[:, last - 1].any():
        last -= 1
    return values[:, :last]


def _put(population: Population, arrays: dict[str, Any]) -> None:
    """Restore saved columns into a population. Raises StateError: they are of another."""
    population.note_change()
    saved = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("column.")}
    strange = set(saved) ^ set(population.arrays)
    if strange:
        raise StateError(f"the state and the population differ by the column {min(strange)!r}")
    _put_ids(population, arrays)
    for name, own in population.arrays.items():
        given = saved[name]
        if len(given) != len(own) or given.dtype != own.dtype:
            raise StateError(
                f"column {name!r} of the state is {given.dtype} of shape {given.shape}, and the "
                f"population's {own.dtype} of shape {own.shape}"
            )
    layers = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("layer.")}
    if set(layers) != set(population.layers):
        raise StateError(f"the state has the layers {[*layers]}, and the population others")
    for name, given in layers.items():
        population.layers[name] = given
    for name, given in saved.items():
        own = population.arrays[name]
        if given.shape == own.shape:
            own[...] = given
        elif population.declared[name].slots and given.shape[1] <= own.shape[1]:
            own[:, : given.shape[1]] = given
            if own[:, given.shape[1] :].any():  # written only then: it may take no memory
                own[:, given.shape[1] :] = 0
        else:
            population.arrays[name] = given.copy()  # a column of several values has grown


def _network_of(population: Population, arrays: dict[str, Any], nodes: Any) -> Network | None:
    """Return the network of a state: the first one, or one that a step has put in its place."""
    if "network.starts" not in arrays:
        return population.first_network
    return Network.of_json(nodes, arrays["network.starts"], arrays["network.others"])


def _put_ids(population: Population, arrays: dict[str, Any]) -> None:
    """Restore who there is in a population, where some have come or left."""
    first = population.first_ids
    ids = arrays["ids"].copy() if "ids" in arrays else first
    next_id = arrays["next_id"][0] if "ids" in arrays else first[-1] + np.uint64(1)
    population.next_id = int(next_id)
    if ids is population.ids:
        return
    if len(ids) != len(population):
        population.arrays = {
            name: column.new_array(len(ids)) for name, column in population.declared.items()
        }
    settle_ids(population, ids)


def _put_answers(books: Any, arrays: dict[str, Any]) -> None:
    """Restore saved answers and messages into books."""
    tables: dict[str, dict[str, Any]] = {}
    if "message.receiver" in arrays:
        books.messages = Messages(*(arrays[f"message.{name}"] for name in PARTS))
    books.population.strangers = json.loads(arrays["strangers"].tobytes())
    for name, values in arrays.items():
        what, _, rest = name.partition(".")
        if what == "answer":
            kind, _, part = rest.partition(".")
            tables.setdefault(kind, {})[part] = values
    books.answers = {
        kind: Table(kind, parts.pop(""), parts, parts.pop("="), parts.pop("#"))
        for kind, parts in ((kind_named(name), parts) for name, parts in tables.items())
    }


def _written(arrays: dict[str, Any], keep: Callable[[bytes], str]) -> list[list[Any]]:
    """Return each array as its name, dtype, shape and parts, which `keep` gives a text for."""
    made: list[list[Any]] = []
    for name, values in arrays.items():
        parts = [
            keep(values[at : at + _PART].tobytes()) for at in range(0, max(1, len(values)), _PART)
        ]
        made.append([name, values.dtype.str, list(values.shape), parts])
    return made


def _read(given: Iterable[list[Any]], kept: Callable[[str], bytes]) -> dict[str, Any]:
    """Read arrays that `_written` wrote."""
    made = {}
    for name, dtype, shape, parts in given:
        kind = np.dtype(dtype)
        if kind.kind not in "biuf":
            raise ValueError(f"the type of column {name!r:.80} is {dtype!r:.40}")
        values = np.frombuffer(b"".join(kept(part) for part in parts), kind)
        made[str(name)] = values.reshape([int(length) for length in shape])
    return made
