"""Citizens drawn from stated distributions, in full or where a table has gaps.

Everything is drawn by `kernel/draw.py` from (seed, number of the citizen), so the same
arguments return the same citizens. The distributions and their sources:

* Homes are filled in order of id, each up to its capacity. The first two of a household are
  adults, and three of ten others. Adults by age: 18–24, 25–34, … 85–94 in 12, 18, 16, 16, 17, 13,
  6, 2 of 100; children 0–17 evenly (U.S. Census 2020, rounded).
* Education of adults: 9 none, 28 secondary, 25 vocational, 24 bachelor, 14 master of 100 (U.S.
  Census Bureau 2021, Educational Attainment). Skill, in thousandths of the usual hourly wage, by
  education: 592, 765, 880, 1262, 1550 (Bureau of Labor Statistics 2021, median weekly earnings).
* Of those aged 18–66, 75 of 100 have work (OECD 2023: 70 of 100 aged 15–64), as far as there are
  jobs; those aged 5–17 go to the nearest school with a free seat. Work follows the gravity
  model among the 20 nearest places of each kind: free jobs ÷ (seconds + 300)² (Zipf 1946, "The
  P1 P2/D hypothesis").
* Money is lognormal, of median 5,300 and mean 41,600 dollars, cut at 1,000,000 (transaction
  accounts, Survey of Consumer Finances 2019, Bhutta et al. 2020).
* Relations: 800 in the household; besides, a small world of four neighbours by number, one of ten
  links rewired (Watts, Strogatz 1998, Nature 393), of 300 … 699.
* Two or three interests, of 500 … 1000; opinions uniform from −1000 to 1000, as in models of
  bounded confidence (Deffuant et al. 2000); needs uniform from 600 to 1000. These are assumed.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

from moothall.arguments import check_integer
from moothall.errors import ConfigError
from moothall.society import math
from moothall.society.blocks import all_blocks
from moothall.society.blocks.columns import EDUCATION as EDUCATION
from moothall.society.blocks.needs import NEEDS as NEEDS
from moothall.society.blocks.talk import TOPICS as TOPICS
from moothall.society.city.places import Places, needs
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.draw import Draws
from moothall.society.services.firm import STAFF

IN_PROFILE: Final = ("age", "skill", "gender", "education", "interests")
SKILL: Final = (592, 765, 880, 1262, 1550)
_ANY: Final = float("inf")  # the capacity of a place without a limit
_AGES = (18, 25, 35, 45, 55, 65, 75, 85)
_AGE_WEIGHTS = (12, 18, 16, 16, 17, 13, 6, 2)
_EDUCATION_WEIGHTS = (9, 28, 25, 24, 14)
_WOMEN = (
    *("Ada", "Anna", "Carla", "Dana", "Elena", "Fatima", "Grace"),
    *("Hana", "Jana", "Lea", "Maria", "Rosa", "Tara", "Yuki"),
)
_MEN = (
    *("Amir", "Boris", "Chen", "David", "Emil", "Felix"),
    *("Ivan", "John", "Kofi", "Luis", "Noah", "Samir"),
)
_NAMES: Final = {"female": _WOMEN, "male": _MEN}


def make_people(city: Any, count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return citizens as plain data: `id`, `name` and the keys of a citizen's status.

    Args:
        city: the city where they live; None for none
        count: the number of citizens, 1 or more; their ids are 1 … count
        seed: the seed of the draws

    Raises:
        ConfigError: the city has no homes, or not enough room
    """
    check_integer("count", count, 1, None)
    return completed([{"id": number} for number in range(1, count + 1)], city, seed=seed)


def completed(
    rows: Iterable[dict[str, Any]], city: Any = None, *, seed: int = 0
) -> list[dict[str, Any]]:
    """Return citizens with missing data drawn, for example after `read_people`.

    Args:
        rows: citizens as `make_people` returns them; all but `id` may be missing
        city: the city where they live; None for none
        seed: the seed of the draws

    Raises:
        ConfigError: the city has no homes, or not enough room, or a row is not such a citizen
    """
    made = [copy.deepcopy(row) for row in rows]
    if none := [row for row in made if "id" not in row]:
        raise ConfigError(f"a citizen must have an 'id', got {none[0]!r:.80}")
    if flat := [name for row in made for name in row if name in IN_PROFILE]:
        raise ConfigError(f"{flat[0]!r} must be in a citizen's `profile`, as make_people has it")
    if city is not None:
        needs(city, Places, who="people", kinds=("home",))
        _house(made, city)
    households: dict[str, list[dict[str, Any]]] = {}
    for person in made:
        households.setdefault(person.get("home") or f"alone:{person['id']}", []).append(person)
    for household in households.values():
        for rank, person in enumerate(household):
            _draw(person, rank, seed)
    if city is not None:
        _employ(made, city, seed)
    _befriend(made, households, seed)
    return made


def citizens(
    rows: Iterable[dict[str, Any]],
    blocks: Callable[[], Iterable[Any]] | None = None,
    **options: Any,
) -> list[CitizenAgent]:
    """Return an agent for each citizen.

    Args:
        rows: citizens as `make_people` and `completed` return them
        blocks: returns the blocks of one citizen; all of `moothall.society.blocks` if left out
        options: options of `CitizenAgent`: `toolbox=`, `agent_params=`, …
    """
    make = all_blocks if blocks is None else blocks
    made = []
    for row in rows:
        memory = CitizenMemory({k: each for k, each in row.items() if k not in ("id", "name")})
        one = CitizenAgent(row["id"], row.get("name"), memory=memory, blocks=make(), **options)
        made.append(one)
    return made


# -- the draws -------------------------------------------------------------------------------------


def _draw(person: dict[str, Any], rank: int, seed: int) -> None:
    """Draw a person's missing data; `rank` is the person's index in the household."""
    draws = Draws(seed, person["id"], 0)
    profile = person.setdefault("profile", {})
    if "age" not in profile:
        if rank < 2 or draws.below(10, "people.adult") < 3:
            group = draws.choice(_AGE_WEIGHTS, "people.age")
            years = 7 if group == 0 else 10
            profile["age"] = _AGES[group] + draws.below(years, "people.years")
        else:
            profile["age"] = draws.below(18, "people.years")
    adult = profile["age"] >= 18
    profile.setdefault("gender", ("female", "male")[draws.below(2, "people.gender")])
    level = draws.choice(_EDUCATION_WEIGHTS, "people.education") if adult else 0
    education = profile.setdefault("education", EDUCATION[level])
    skill = SKILL[EDUCATION.index(education)] if education in EDUCATION else 1000
    profile.setdefault("skill", skill)
    if "interests" not in profile:
        some = 2 + draws.below(2, "people.interests")
        profile["interests"] = {
            TOPICS[draws.below(len(TOPICS), "people.topic", each)]: 500
            + draws.below(501, "people.interest", each)
            for each in range(some)
        }
    names = _NAMES.get(profile["gender"], _WOMEN + _MEN)
    person.setdefault("name", names[draws.below(len(names), "people.name")])
    person.setdefault("home", None)
    person.setdefault("work", None)
    money = money_of(draws.uniform("people.u"), draws.uniform("people.v"))
    person.setdefault("money", money * adult)
    given = person.setdefault("needs", {})
    for need in NEEDS:
        given.setdefault(need, 600 + draws.below(401, f"people.{need}"))
    if "opinions" not in person:
        person["opinions"] = {
            topic: draws.below(2001, f"people.opinion.{topic}") - 1000 for topic in TOPICS
        }


def money_of(u: Any, v: Any) -> Any:
    """Return lognormal cents, of median 530,000 and mean 4,160,000, from two uniform numbers.

    Two arrays give an int64 array.

    The deviation is √(2 ln(mean ÷ median)) = 2.03; the normal number is by Box and Muller (1958).
    """
    normal = math.sqrt(-2 * math.log(1 - u)) * math.cos(6.283185307179586 * v)
    cents = math.minimum(530_000 * math.exp(2.03 * normal), 100_000_000)
    return int(cents) if isinstance(cents, float) else cents.astype("int64")


def _house(made: list[dict[str, Any]], city: Any) -> None:
    """Assign homes, in order of id, to persons without a home."""
    room = {home: _holds(city, home) for home in city.by_kind("home")}
    for person in made:
        home = person.get("home")
        if home in room:
            if not room[home]:
                raise ConfigError(f"citizen {person['id']}: home {home!r} is full")
            room[home] -= 1
    homes, at = list(room), 0
    for person in made:
        if person.get("home") is not None:
            continue
        while at < len(homes) and not room[homes[at]]:
            at += 1
        if at == len(homes):
            raise ConfigError(f"citizen {person['id']} finds no home: the city's homes are full")
        home = person["home"] = homes[at]
        room[home] -= 1
        if room[home] == _ANY:
            at = (at + 1) % len(homes)  # homes without a capacity are filled in turn


def _holds(city: Any, place: str) -> float:
    """Return the capacity of a place; `_ANY` without a limit."""
    holds = city.capacity(place) if hasattr(city, "capacity") else None
    return _ANY if holds is None else holds


def _employ(made: list[dict[str, Any]], city: Any, seed: int) -> None:
    """Assign work to adults and schools to children, in order."""
    jobs: dict[str, int] = {}
    seats: dict[str, float] = {}
    for kind, staff in STAFF.items():
        for place in city.by_kind(kind):
            holds = _holds(city, place)
            jobs[place] = 10 if holds == _ANY else max(1, int(holds) * staff // 1000)
            if kind == "school":
                seats[place] = min(len(made), holds - jobs[place])
    kinds = [kind for kind in STAFF if city.by_kind(kind)]
    near = city.near if hasattr(city, "near") else None
    for person in made:
        place = person["work"]
        if place is not None:
            jobs[place] = jobs.get(place, 0) - 1
    for person in made:
        age, draws = person["profile"]["age"], Draws(seed, person["id"], 0)
        if 5 <= age < 18 and near and seats and "school" not in person:
            found = (each.id for each in near(person["home"], "school", 20) if seats[each.id] > 0)
            person["school"] = next(found, None)
            if person["school"] is not None:
                seats[person["school"]] -= 1
        if not 18 <= age < 67 or person["work"] is not None or not near:
            continue
        if draws.below(100, "people.employed") >= 75:
            continue
        reach = [each for kind in kinds for each in near(person["home"], kind, 20)]
        weights = [max(0, jobs[each.id]) * 10**9 // (each.seconds + 300) ** 2 for each in reach]
        if sum(weights) == 0:
            person["work"] = next((place for place, left in jobs.items() if left > 0), None)
        else:
            by = max(0, sum(weights).bit_length() - 32)  # a draw takes a sum of at most 2³²
            weights = [weight >> by for weight in weights]
            person["work"] = reach[draws.choice(weights, "people.work")].id
        if person["work"] is not None:
            jobs[person["work"]] -= 1


def _befriend(
    made: list[dict[str, Any]], households: dict[str, list[dict[str, Any]]], seed: int
) -> None:
    """Draw relations for persons without given relations."""
    drawn: dict[Any, dict[str, int]] = {}
    for person in made:
        if "relations" not in person:
            drawn[person["id"]] = person["relations"] = {}

    def link(one: dict[str, Any], other: dict[str, Any], strength: int) -> None:
        for person, friend in ((one, other), (other, one)):
            if person["id"] in drawn:
                drawn[person["id"]].setdefault(str(friend["id"]), strength)

    for household in households.values():
        for one, other in itertools.combinations(household, 2):
            link(one, other, 800)
    count = len(made)
    for number, person in enumerate(made):
        draws = Draws(seed, person["id"], 0)
        for step in (1, 2):
            to = (number + step) % count
            if draws.below(10, "people.rewired", step) == 0:
                to = draws.below(count, "people.friend", step)
            if to != number:
                link(person, made[to], 300 + draws.below(400, "people.strength", step))
