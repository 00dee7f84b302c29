"""Checks of a society's arguments: its citizens, its services, and the length of a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from moothall import Agent, ConfigError, DuplicateAgent
from moothall.build import check_function, check_integer, check_text, counted, is_ours
from moothall.society.arrays import kind_in_words, sha256_of
from moothall.society.clock import DAY_S
from moothall.society.kernel.commit import Service
from moothall.society.kernel.facts import Facts
from moothall.society.kernel.kept import (
    TOKEN_ATTRIBUTE,
    blocks_by_number,
    has_own_state_dict,
    root_of,
    state_hash,
    title_of,
)
from moothall.society.kernel.wants import Want, id_order
from moothall.society.people import generator
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams
from moothall.society.people.table import read_people
from moothall.society.population.population import Population

logger: logging.Logger = logging.getLogger("moothall.society")

_MAX_CITIZENS: Final = 10_000_000  # as many as a city is made for
_PART_RULES: Final = {
    "city": ("a City, a Network, a Grid, or an object with `ids` and `kind`", "ids"),
    "engine": ("an engine, such as LocalEngine()", "run_rows"),
    "budget": ("a Budget", "reserve"),
    "facts": ("Facts, a dict, or a function of the Clock", "items", "__call__"),
}


def check_parts(limits: Mapping[str, object], **parts: object) -> None:
    """Check that limits are above 0, and that parts have a method of their kind."""
    for name, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise ConfigError(f"{name} must be above 0, got {limit!r:.80}")
    for name, part in parts.items():
        expected, *methods = _PART_RULES[name]
        is_valid = not isinstance(part, type) and any(hasattr(part, each) for each in methods)
        if part is not None and not is_valid:
            raise ConfigError(f"{name}= must be {expected}, got {part!r:.80}")
        if name == "facts" and isinstance(part, Mapping):
            Facts(part)
        if "__call__" in methods and callable(part):
            check_function(f"{name}=", part, "clock")


def count_steps(length: int, days: float | None, steps: int | None) -> int:
    """Return the number of steps, of `length` seconds, of a run."""
    if steps is not None and days is not None:
        raise ConfigError("days and steps are given: give one of them")
    if steps is not None:
        check_integer("steps", steps, 0, None)
        return steps
    days = 1 if days is None else days
    if isinstance(days, bool) or not isinstance(days, int | float) or not 0 <= days < 1e7:
        raise ConfigError(f"days must be a number, 0 or more, got {days!r:.80}")
    count = round(days * DAY_S / length, 6)  # 0.35 days are 504 minutes
    if count != int(count):
        raise ConfigError(f"{days} days are not a whole number of steps of {length} s")
    return int(count)


def listed(citizens: Any) -> Any:
    """Return citizens, agents that come one by one in a tuple."""
    is_table = isinstance(citizens, str | bytes | PathLike | Mapping) or hasattr(citizens, "to_csv")
    is_whole = isinstance(citizens, Population | generator.CitizenDraw) or is_table
    return tuple(citizens) if isinstance(citizens, Iterable) and not is_whole else citizens


def agents_from(
    citizens: object, city: Any, seed: int, people: PeopleParams = USUAL_PEOPLE
) -> Iterable[Agent]:
    """Return the citizens as agents: the given agents, or drawn citizens with all blocks."""
    if not isinstance(people, PeopleParams):
        raise ConfigError(f"people= must be PeopleParams(…), got {people!r:.80}")
    if type(citizens) is int and 0 <= citizens <= _MAX_CITIZENS:
        if not citizens:
            return ()
        citizens = generator.CitizenDraw(citizens)
    if isinstance(citizens, generator.CitizenDraw):
        rows = generator.make_people(city, citizens.count, seed=seed, params=people)
        return generator.citizens(rows, citizens.blocks, agent_params=citizens.agent_params)
    if isinstance(citizens, str | PathLike):
        rows = read_people(Path(citizens), city)
        _warn_of_unknown_relations(rows, Path(citizens).name)
        return generator.citizens(generator.completed(rows, city, seed=seed, params=people))
    is_frame = hasattr(citizens, "to_csv")
    if is_frame or isinstance(citizens, bytes | dict) or not isinstance(citizens, Iterable):
        expected = f"agents, a number from 0 to {_MAX_CITIZENS:,}, or the path of a table"
        raise ConfigError(f"citizens must be {expected}, got {kind_in_words(citizens)}")
    agents: tuple[Any, ...] = tuple(citizens)
    if any(isinstance(each, Mapping) for each in agents):
        hint = "citizens(completed(rows, city)) of moothall.society makes agents of rows"
        raise ConfigError(f"citizens must be agents, and has rows of a table: {hint}")
    if people is not USUAL_PEOPLE:
        raise ConfigError(
            "people= is for citizens that are drawn: give it to make_people, or to the Population"
        )
    return agents


def _warn_of_unknown_relations(rows: Iterable[Mapping[str, Any]], source: str) -> None:
    """Log relations to citizens that a table does not have."""
    rows = tuple(rows)
    ids = {str(each["id"]) for each in rows}
    unknown = [(r["id"], to) for r in rows for to in r.get("relations", ()) if to not in ids]
    if unknown:
        logger.warning(
            "%s: %s of citizens to others that it does not have, such as of %r to %r: what they "
            "say to these reaches nobody",
            source,
            counted(len(unknown), "relation"),
            *unknown[0],
        )


def city_and_seed_of(population: Population, city: object, seed: int) -> tuple[Any, int]:
    """Return the city and the seed of a society whose citizens are a population."""
    if city not in (None, population.city):
        raise ConfigError("city= and the population's are two: give it to the Population")
    if seed not in (0, population.seed):
        raise ConfigError(f"seed={seed}, and the population's is {population.seed}: give it there")
    return population.city, population.seed


def program_of(agents: Iterable[tuple[str, Any]], city: Any) -> dict[str, Any]:
    """Return what must be equal in agents and places for a society to resume a run."""
    texts: dict[int, str] = {}

    def part_text(part: object, params: object) -> str:
        if not isinstance(params, BaseModel):
            return type(part).__name__
        if id(params) not in texts:  # which very many blocks share
            own_params = params.model_dump(mode="json", exclude_defaults=True)
            texts[id(params)] = json.dumps(own_params) if own_params else ""
        return f"{type(part).__name__}{texts[id(params)]}"

    links = [sha256_of(each) for each in getattr(city, "links", ())]  # of a Network
    return {
        "agents": [
            [
                id,
                part_text(agent, agent.params_or_none),
                *(part_text(block, getattr(block, "params", None)) for block in agent.blocks),
            ]
            for id, agent in agents
        ],
        "city": None if city is None else [type(city).__name__, list(city.ids()), *links],
        "places": getattr(city, "digest", None),
    }


def settings_of(service: Service) -> dict[str, Any]:
    """Return what our classes were given for a service, but its id and what its state has."""
    kinds = [each for each in type(service).__mro__ if is_ours(each)]
    names = dict.fromkeys(name for each in kinds for name in signature(each).parameters)
    attributes = vars(service)
    return {name: attributes[name] for name in names if name in attributes and name != "id"}


def check_places(services: Mapping[str, Service], city: object) -> None:
    """Check that services stand where the city has a place, not that of another city."""
    place_by_service = {service.id: service.place for service in services.values() if service.place}
    places = (
        set(city.ids())
        if place_by_service and hasattr(city, "ids")
        else {*place_by_service.values()}
    )
    for id, place in place_by_service.items():
        if place not in places:
            raise ConfigError(
                f"service {id!r} is at {place!r}, which the city has not: make services for the "
                "same city, as make_economy(city) does"
            )


_SERVICE_METHODS: Final = {
    "settle": ("books", "sender", "want"),
    "settle_rows": ("books", "table", "entries"),
    "after_step": ("books",),
}
"""The methods of a service that a society calls, with what they take."""


def checked_services(services: Iterable[Service]) -> dict[str, Service]:
    """Return the services by id, in id order."""
    by_id: dict[str, Service] = {}
    services = [*services] if isinstance(services, Iterable) else [services]
    for service in services:
        if not isinstance(service, Service):
            raise ConfigError(f"services= must be a list of Services, got {service!r:.80}")
        check_text("a service's id", service.id)
        if service.id == "city":
            raise ConfigError("a service must not have the id 'city': wants to move go there")
        kinds = service.takes if isinstance(service.takes, tuple | list) else (None,)
        if not all(isinstance(kind, type) and issubclass(kind, Want) for kind in kinds):
            rule = f"must be kinds of wants, such as (Buy,), got {service.takes!r:.80}"
            raise ConfigError(f"service {service.id!r}: takes {rule}")
        for name, takes in _SERVICE_METHODS.items():
            method = getattr(service, name, None)
            check_function(
                f"service {service.id!r}: {name}", method, *takes, plain=True, optional=True
            )
    for service in sorted(services, key=lambda each: id_order(each.id)):
        if by_id.setdefault(service.id, service) is not service:
            raise DuplicateAgent(f"two services have the id {service.id!r}, and ids are unique")
    return by_id


def owners_of(society: Any) -> dict[str, Any]:
    """Return all that may keep something between two steps, but agents and their blocks."""
    services = society.services.items()
    owners = {f"service {id!r}": each for id, each in services if not has_own_state_dict(each)}
    return {**owners, **_other_parts(society), "the society": society}


def _other_parts(society: Any) -> dict[str, Any]:
    """Return what is neither a service nor the society, of the owners."""
    owners: dict[str, Any] = {}
    population = society.population
    owners |= blocks_by_number(population.blocks)
    owners |= {f"metric {name!r}": each for name, each in population.metrics.items()}
    if population.network is not None:
        owners["the network"] = population.network
    return {**owners, "facts": society.facts, "the places": society.changed.own_city()}


def claim_parts(society: Any, *, with_state: bool = False) -> None:
    """Have a society begin with all that it lives with, which keeps what it had.

    What lived in another society needs the state of it, `with_state`, or must have kept nothing
    there.
    """
    services, token = [*society.services.values()], society.token
    for service in services:
        if not with_state and vars(service).get(TOKEN_ATTRIBUTE, token) is not token:
            raise ConfigError(
                f"service {service.id!r} has lived in another society, and keeps what it had: make "
                "services for each society, as make_economy(…) does"
            )
    for key, owner in _other_parts(society).items():
        root = root_of(owner)  # of a method, which may be that of a service
        attributes: Any = getattr(root, "__dict__", None)
        if isinstance(root, Service) or root is society or type(attributes) is not dict:
            continue
        old_token, first_hash = attributes.get(TOKEN_ATTRIBUTE) or (None, state_hash(owner))
        if old_token is token:
            continue
        if not with_state and old_token is not None and state_hash(owner) != first_hash:
            raise ConfigError(
                f"{title_of(key, owner)} has lived in another society, and keeps what it had: make "
                "another for each society"
            )
        attributes[TOKEN_ATTRIBUTE] = token, first_hash
    for service in services:
        vars(service)[TOKEN_ATTRIBUTE] = token
    rows_id = id(society.books.population)
    if any(vars(each)["_register_id"] != rows_id for each in services):
        society.books.keep_rows()  # a society that was made later had them keep its own
