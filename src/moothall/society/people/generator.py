"""Citizens drawn from stated distributions, in full or where a table has gaps.

Everything is drawn by `kernel/draw.py` from (seed, number of the citizen), so the same
arguments return the same citizens. The distributions and their sources:

* Homes, work and schools are given by `people/assignment.py`; ages, genders and kin are those of
  households (`people/household.py`); `people/means.py` has occupations, pay and money. Their
  constants, with the sources, are those of `PeopleParams`.
* Of those aged 18–66 most have work, as far as there are jobs; those aged 5–17 go to a school.
* Relations: 800 in the household, with what one is to another in `kin`; besides, a small world of
  twelve neighbours by number, beyond the household. The outer layers come and go.
* Two or three interests, of 500 … 1000; opinions uniform from −1000 to 1000, as in models of
  bounded confidence (Deffuant et al. 2000); needs uniform from 600 to 1000. These are assumed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any, Final

from moothall import ConfigError
from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.blocks import all_blocks
from moothall.society.blocks.columns import EDUCATION as EDUCATION
from moothall.society.blocks.columns import GENDERS, HOUSEHOLDS
from moothall.society.blocks.needs import NEEDS as NEEDS
from moothall.society.blocks.talk_block import TOPICS as TOPICS
from moothall.society.blocks.ties import KIN, KIN_BIT, STRENGTH
from moothall.society.city.places import Places, needs
from moothall.society.columns.register import Register
from moothall.society.columns.row_part import Moment
from moothall.society.columns.rows import Rows
from moothall.society.kernel.citizen import CitizenAgent, CitizenAgentParams, CitizenMemory
from moothall.society.kernel.draw import Draws, choices, id_words
from moothall.society.kernel.perception import View
from moothall.society.people import assignment
from moothall.society.people import household as home_of
from moothall.society.people.margins import Households, checked_margins, households_within
from moothall.society.people.means import (
    ATTRIBUTES,
    Members,
    incomes_of,
    money_of,
    set_incomes,
    skills,
    skills_by_income,
    sought_since,
)
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams
from moothall.society.people.sample import sample_persons
from moothall.society.people.table import PROFILE_COLUMNS

_WOMEN_NAMES = (
    *("Ada", "Anna", "Carla", "Dana", "Elena", "Fatima", "Grace"),
    *("Hana", "Jana", "Lea", "Maria", "Rosa", "Tara", "Yuki"),
)
_MEN_NAMES = (
    *("Amir", "Boris", "Chen", "David", "Emil", "Felix"),
    *("Ivan", "John", "Kofi", "Luis", "Noah", "Samir"),
)
_NAMES: Final = {"female": _WOMEN_NAMES, "male": _MEN_NAMES}
Persons = list[dict[str, Any]]


def make_people(
    city: Places | None,
    count: int,
    *,
    seed: int = 0,
    margins: Mapping[str, Mapping[object, float]] | str | PathLike[str] | None = None,
    params: PeopleParams = USUAL_PEOPLE,
) -> list[dict[str, Any]]:
    """Return citizens as plain data: `id`, `name` and the keys of a citizen's status.

    Args:
        city: the city where they live; None for none
        count: the number of citizens, 1 or more; their ids are 1 … count
        seed: the seed of the draws
        margins: how many there are of each value of an attribute, as a census has it: counts or
            shares, `{"age": {"0-17": 22, "18+": 78}}`; or a table with the columns `attribute`,
            `value` and `count`. Households are chosen for `age`, `gender`, `education`,
            `household`, `cars` and `bicycles`, also together, `"age, gender"`; another name is an
            attribute of your own, also together with these
        params: the constants that they are drawn from, those of the United States if left out

    Raises:
        ConfigError: the city has no homes, or not enough room, or people cannot meet the margins:
            a category is off by more than one of a hundred persons
    """
    check_integer("count", count, 1, None)
    rows = [{"id": number} for number in range(1, count + 1)]
    return completed(rows, city, seed=seed, margins=margins, params=params)


def completed(
    rows: Iterable[dict[str, Any]],
    city: Places | None = None,
    *,
    count: int | None = None,
    seed: int = 0,
    margins: Mapping[str, Mapping[object, float]] | str | PathLike[str] | None = None,
    params: PeopleParams = USUAL_PEOPLE,
) -> list[dict[str, Any]]:
    """Return citizens with missing data drawn, for example after `read_people`.

    Args:
        rows: citizens as `make_people` returns them; all but `id` may be missing. Who has the same
            `household_id` in the profile, or whole number as `household`, lives in one home, and is
            kin
        city: the city where they live; None for none
        count: draw so many of the rows, a sample, by whole households, each in proportion to its
            members' `weight`; they have new ids. Left out: the rows themselves
        seed: the seed of the draws
        margins: as in `make_people`; what rows have is kept, and counts. With `count`, margins of
            what all rows have, also of an attribute of your own, choose the households
        params: as in `make_people`

    Raises:
        ConfigError: the city has no homes, or not enough room, or a row is not such a citizen
    """
    if not isinstance(params, PeopleParams):
        raise ConfigError(f"params= must be PeopleParams(…), got {params!r:.80}")
    targets = None if margins is None else checked_margins(margins)
    persons = [copy.deepcopy(row) for row in _rows(rows)]
    for person in persons:
        profile = person.get("profile") or {}
        number = profile.get("household")
        if type(number) is int or (type(number) is float and number.is_integer()):
            profile.setdefault("household_id", int(profile.pop("household")))
    if count is not None:
        persons, targets = sample_persons(persons, count, seed, targets)
    if flat := [name for row in persons for name in row if name in PROFILE_COLUMNS]:
        raise ConfigError(f"{flat[0]!r} must be in a citizen's `profile`, as make_people has it")
    if city is not None:
        needs(city, Places, who="people", kinds=("home",))
        register = Register(id_words(each["id"] for each in persons), city, (), seed, None)
        _give_homes(persons, register)
    if persons:
        if targets is None:
            households = _gather(persons, seed, params)
        else:
            households = households_within(persons, targets, seed, partial(_gather, params=params))
        for person in persons:
            _draw_rest(person, seed, params)
        if city is not None:
            _employ(persons, city, register, params)
            _mark_jobless(persons, seed, params)
        set_incomes(persons, params)
        _befriend(persons, households, seed, params)
    return persons


@dataclass(frozen=True)
class CitizenDraw:
    """How many citizens a society draws, with which blocks and parameters of theirs."""

    count: int
    blocks: Callable[[], Iterable[Any]] = all_blocks
    agent_params: CitizenAgentParams = field(default_factory=CitizenAgentParams)


def citizens(
    rows: Iterable[dict[str, Any]],
    blocks: Callable[[], Iterable[Any]] | None = None,
    *,
    citizen: type[CitizenAgent] = CitizenAgent,
    **options: Any,
) -> list[CitizenAgent]:
    """Return an agent for each citizen.

    Args:
        rows: citizens as `make_people` and `completed` return them; they are copied, so that
            several societies may begin with the same rows
        blocks: returns the blocks of one citizen; all of `moothall.society.blocks` if left out
        citizen: the class of the agents, such as one with a `memory_config` of its own
        options: options of `CitizenAgent`: `toolbox=`, `agent_params=`, …

    Raises:
        ConfigError: `citizen` is no class of `CitizenAgent`, `blocks` no function, or a row is not
            such a citizen
    """
    if not (isinstance(citizen, type) and issubclass(citizen, CitizenAgent)):
        raise ConfigError(f"citizen= must be a class of CitizenAgent, got {citizen!r:.80}")
    make = all_blocks if blocks is None else blocks
    if not callable(make):
        expected = "a function that returns new blocks, such as all_blocks"
        raise ConfigError(f"blocks= must be {expected}, got {blocks!r:.80}")
    agents = []
    for row in _rows(rows):
        memory = CitizenMemory({k: _copy_of(v) for k, v in row.items() if k not in ("id", "name")})
        agents.append(citizen(row["id"], row.get("name"), memory=memory, blocks=make(), **options))
    return agents


def _rows(rows: Any) -> list[dict[str, Any]]:
    """Return citizens as a list of dicts, each with an id."""
    persons = [*rows] if isinstance(rows, Iterable) else [rows]
    for row in persons:
        if not isinstance(row, dict) or "id" not in row:
            raise ConfigError(f"a citizen must have an 'id', in a dict, got {row!r:.80}")
    return persons


def _copy_of(value: object) -> Any:
    """Return a copy of dicts and lists; `copy.deepcopy` takes ten times as long."""
    if type(value) is dict:
        return {key: _copy_of(each) for key, each in value.items()}
    return [_copy_of(each) for each in value] if type(value) is list else value


# -- the draws -------------------------------------------------------------------------------------


def _gather(persons: Persons, seed: int, params: PeopleParams) -> Households:
    """Draw what depends on the household; return each household's members and their roles."""
    head, second, rank, size, order = _living_together(persons)
    ids = id_words(person["id"] for person in persons)
    profiles = [person.setdefault("profile", {}) for person in persons]
    age = np.array([int(each.get("age", -1)) for each in profiles])
    gender_codes = {name: code for code, name in enumerate(GENDERS)}
    gender = np.array([gender_codes.get(each.get("gender"), 0) for each in profiles])
    has_partner = second != head  # alone, one has no partner whose age is known
    ages = (age, age[head], np.where(has_partner, age[second], -1))
    genders = (gender, gender[head], np.where(has_partner, gender[second], 0))
    household_args = (seed, ids, ids[head], rank, size)
    drawn_age, drawn_gender = home_of.household_members(params, *household_args, ages, genders)
    kind, role = home_of.roles(params, seed, ids[head], rank, size)
    given_ids = _household_numbers(persons)
    if given_ids is not None:
        living = home_of.households(_homes(persons), given_ids, drawn_age)
        home_of.set_roles_by_age(living, given_ids, drawn_age, drawn_gender, kind, role)
        rank, order = living[2], living[4]
    levels = choices(params.education, seed, ids, 0, "people.education")
    for index, profile in enumerate(profiles):
        profile.setdefault("age", int(drawn_age[index]))
        profile.setdefault("gender", GENDERS[int(drawn_gender[index])])
        profile.setdefault("education", EDUCATION[levels[index] if profile["age"] >= 18 else 0])
        profile.setdefault("household", HOUSEHOLDS[int(kind[index])])
    taught = [EDUCATION.index(e) if (e := p["education"]) in EDUCATION else -1 for p in profiles]
    ages_now, educated = np.array([p["age"] for p in profiles]), np.maximum(taught, 0)
    skill = np.where(np.array(taught) >= 0, skills(params, seed, ids, educated), 1000)
    skill = skills_by_income(params, skill, ages_now, incomes_of(persons))
    members = Members(ids, ages_now, educated, ids[head], size)
    attributes = [
        (name, each.words, each.draw(params, seed, members).tolist())
        for name, each in ATTRIBUTES.items()
    ]
    for index, profile in enumerate(profiles):
        profile.setdefault("skill", int(skill[index]))
        for name, words, codes in attributes:
            value = words[codes[index]] if words else codes[index]
            if value is not None:
                profile.setdefault(name, value)
    households: Households = []
    for index in order.tolist():
        if rank[index] == 0:
            households.append([])
        households[-1].append((persons[index], int(role[index])))
    return households


def _living_together(persons: Persons) -> tuple[Array, Array, Array, Array, Array]:
    """Return who belongs to whose household, as `household.households`."""
    if (household := _household_numbers(persons)) is None:
        return home_of.households(_homes(persons))
    age = np.array([int(person.get("profile", {}).get("age", -1)) for person in persons])
    return home_of.households(_homes(persons), household, age)


def _homes(persons: Persons) -> Array:
    return _as_numbers([person.get("home") or None for person in persons])


def _household_numbers(persons: Persons) -> Array | None:
    """Return the number of each one's household in a table, −1 without one; None: all without."""
    numbers = _as_numbers([person.get("profile", {}).get("household_id") for person in persons])
    return numbers if numbers.max(initial=-1) >= 0 else None


def _as_numbers(values: list[Any]) -> Array:
    numbers = {None: -1}
    return np.array([numbers.setdefault(each, len(numbers) - 1) for each in values], np.int64)


def _draw_rest(person: dict[str, Any], seed: int, params: PeopleParams) -> None:
    """Draw what else a person lacks."""
    draws, profile = Draws(seed, person["id"], 0), person["profile"]
    if "interests" not in profile:
        interest_count = 2 + draws.below(2, "people.interests")
        profile["interests"] = {
            TOPICS[draws.below(len(TOPICS), "people.topic", each)]: 500
            + draws.below(501, "people.interest", each)
            for each in range(interest_count)
        }
    person.setdefault("name", name_of(draws, profile["gender"]))
    person.setdefault("home", None)
    person.setdefault("work", None)
    money = money_of(draws.uniform("people.u"), draws.uniform("people.v"), params)
    person.setdefault("money", money * (profile["age"] >= 18))
    needs = person.setdefault("needs", {})
    for need in NEEDS:
        needs.setdefault(need, 600 + draws.below(401, f"people.{need}"))
    if "opinions" not in person:
        person["opinions"] = {
            topic: draws.below(2001, f"people.opinion.{topic}") - 1000 for topic in TOPICS
        }


def name_of(draws: Draws, gender: str | None) -> str:
    """Return a first name; any if there is no gender."""
    names = _NAMES.get(gender or "", _WOMEN_NAMES + _MEN_NAMES)
    return names[draws.below(len(names), "people.name")]


def _give_homes(persons: Persons, register: Register) -> None:
    """Give homes to persons without one."""
    place_numbers: Any = register.place_numbers
    homes_given = np.array([place_numbers.get(each.get("home"), -1) for each in persons], np.int64)
    occupied = assignment.homes_taken(register, homes_given)
    household = _household_numbers(persons)
    if household is not None:
        _give_household_homes(persons, household, occupied, register)
    homeless = [person for person in persons if person.get("home") is None]
    if not homeless:
        return
    homes = assignment.homes_of(register, len(homeless), occupied).tolist()
    if len(homes) < len(homeless):
        id = homeless[len(homes)]["id"]
        raise ConfigError(f"citizen {id} finds no home: the city's homes are full")
    for person, home in zip(homeless, homes, strict=True):
        person["home"] = register.places[home]


def _give_household_homes(
    persons: Persons, household: Array, occupied: Array, register: Register
) -> None:
    """Give each household of a table one home: that of a member who has one, else a free one."""
    homes_given = np.array([register.place_number(each.get("home")) for each in persons])
    homes = assignment.homes_of_households(register, household, homes_given, occupied)
    for index in np.flatnonzero((homes_given < 0) & (household >= 0)).tolist():
        persons[index]["home"] = register.places[homes[index]]


def _employ(persons: Persons, city: Any, register: Register, params: PeopleParams) -> None:
    """Give adults work and children schools."""
    if not hasattr(city, "near"):
        return
    places = register.places
    place_numbers: Any = register.place_numbers
    arrays = register.arrays
    arrays["age"] = np.array([int(person["profile"]["age"]) for person in persons])
    for name in ("home", "work", "school"):
        numbers = (place_numbers.get(person.get(name), -1) for person in persons)
        arrays[name] = np.array([*numbers], np.int32)
    is_jobless = np.array([person["work"] is None for person in persons])
    untaught = np.array(["school" not in person for person in persons])
    rows = Rows(register, Moment(View(city=city)), 0, len(persons), {})
    assignment.warn_of_small_places(register, arrays["work"], arrays["school"])
    assignment.employ(rows, is_jobless, params, incomes_of(persons))
    assignment.enrol(rows, untaught)
    pupils = untaught & (arrays["age"] >= 5) & (arrays["age"] < 18) & bool(city.by_kind("school"))
    for index in np.flatnonzero(is_jobless & (arrays["work"] >= 0)).tolist():
        persons[index]["work"] = places[arrays["work"][index]]
    for index in np.flatnonzero(pupils).tolist():
        school = int(arrays["school"][index])
        persons[index]["school"] = None if school < 0 else places[school]


def _mark_jobless(persons: Persons, seed: int, params: PeopleParams) -> None:
    """Mark who seeks work, and since when: all who found none, and some others."""
    ids = id_words(person["id"] for person in persons)
    since = sought_since(params, seed, ids).tolist()
    seeks = assignment.seeks_work(seed, ids, params, incomes_of(persons)).tolist()
    for person, day, is_seeking in zip(persons, since, seeks, strict=True):
        if is_seeking and person["work"] is None and 18 <= person["profile"]["age"] < 67:
            person.setdefault("jobless", day)


def _befriend(persons: Persons, households: Any, seed: int, params: PeopleParams) -> None:
    """Draw relations and kin for persons without given relations."""
    living, role = _living_together(persons), np.zeros(len(persons), np.int64)
    role[living[-1]] = [role for household in households for _, role in household]
    ids = id_words(person["id"] for person in persons)
    age = np.array([int(person["profile"]["age"]) for person in persons])
    has_none = ["relations" not in person for person in persons]
    for person in persons:
        person.setdefault("relations", {})
    for parts in home_of.links(params, seed, ids, living, role, age, _household_numbers(persons)):
        for first, other, there, back in zip(*(each.tolist() for each in parts), strict=True):
            for index, friend, bond in ((first, other, there), (other, first, back)):
                if has_none[index]:
                    person, id = persons[index], str(persons[friend]["id"])
                    person["relations"].setdefault(id, bond & STRENGTH)
                    if bond > STRENGTH:
                        person.setdefault("kin", {}).setdefault(id, KIN[bond >> KIN_BIT])
