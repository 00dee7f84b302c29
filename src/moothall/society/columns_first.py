"""Drawn citizens by rules live in columns until somebody looks at an agent; then all are agents."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from moothall.society.blocks import all_blocks
from moothall.society.city.city import City
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.commit import Service
from moothall.society.kernel.draw import Draws
from moothall.society.people import drawn
from moothall.society.population.engine import LocalEngine
from moothall.society.population.life import answers_of
from moothall.society.population.messages import messages_of
from moothall.society.population.population import Population

MANY: Final = 1_000
"""Fewer citizens are agents from the start: a step of few costs less so."""


def in_columns(
    citizens: Any,
    city: Any,
    services: Mapping[str, Service],
    *,
    model: Any,
    engine: Any,
    journal: Any,
    facts: Any,
) -> bool:
    """Return whether the citizens of a society may live in columns, which nobody can tell."""
    shipped = (*services.values(), *([facts] if callable(facts) else []))
    return (
        type(citizens) is int
        and citizens >= MANY
        and type(city) is City
        and model is None
        and journal is None
        and (engine is None or (type(engine) is LocalEngine and engine.rows))
        and all(_is_shipped(each) for each in shipped)
    )


def _is_shipped(part: Any) -> bool:
    """Return whether a service, or a function of the clock, is none of the user's own."""
    part = getattr(part, "__self__", part)
    return type(part).__module__.startswith("moothall.")


def copies_of(services: Mapping[str, Service]) -> dict[str, dict[str, Any]]:
    """Return what services keep, before a population stores it in arrays."""
    same = {id(each): each for each in services.values()}
    return {id_: copy.deepcopy(vars(each), {**same}) for id_, each in services.items()}


def name_of(population: Population, row: int) -> str:
    """Return the name that a drawn citizen has as an agent."""
    column, codes = population.declared["gender"], population.arrays["gender"]
    gender = column.words[int(codes[row])]
    return drawn.name_of(Draws(population.seed, int(population.ids[row]), 0), gender)


def become_agents(society: Any, kept: Mapping[str, dict[str, Any]]) -> None:
    """Make all rows of a society's population agents, and their services those of agents.

    A citizen has the status, answers and messages of its row; its stream is empty.
    """
    population: Population = society.population
    old, number = society.books, society.number
    if number:
        agents = [
            CitizenAgent(
                row + 1,
                name_of(population, row),
                memory=CitizenMemory(population.status_of(row)),
                blocks=all_blocks(),
            )
            for row in range(len(population))
        ]
    else:
        given: Any = {"seed": population.seed, "params": population.people}
        made = drawn.make_people(population.city, len(population), **given)
        agents = drawn.citizens(made)
    had = [(answers_of(old, row), messages_of(society, row)) for row in range(len(agents))]
    state = old.state_dict()
    for id, service in society.services.items():
        vars(service).clear()
        vars(service).update(kept[id])
    population.society = society.population = None
    new = society.books = society.new_books()
    for name in ("step", "clock", "seconds", "travelled"):
        setattr(new, name, getattr(old, name))
    for agent, (answers, mail) in zip(agents, had, strict=True):
        mailbox = society._add(agent, society.router)
        mailbox.answers, mailbox.mail = answers, mail
    new.load_state_dict(state)
