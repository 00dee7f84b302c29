"""Citizens drawn from stated distributions, in full or where a table has gaps.

Everything is drawn by `kernel/draw.py` from (seed, number of the citizen), so the same
arguments return the same citizens. The distributions and their sources:

* Homes are filled in order of id, each up to its capacity; ages, genders and kin are those of
  households (`people/household.py`, with its sources).
* Education of adults: 9 none, 28 secondary, 25 vocational, 24 bachelor, 14 master of 100 (U.S.
  Census Bureau 2021, Educational Attainment). `people/means.py` has occupations, pay and money.
* Of those aged 18–66, 75 of 100 have work (OECD 2023: 70 of 100 aged 15–64), as far as there are
  jobs; those aged 5–17 go to the nearest school with a free seat. Work follows the gravity model
  (Zipf 1946, "The P1 P2/D hypothesis"): of `OFFERS` jobs of the whole town, each as likely as any
  other, one by the weight 1 ÷ (metres + `NEAR`)².
* Relations: 800 in the household, with what one is to another in `kin`; besides, a small world of
  twelve neighbours by number, beyond the household, one of ten links rewired (Watts, Strogatz
  1998, Nature 393). Some five of all are close (700 or more) and fifteen dear (300 or more), the
  inner layers of personal networks (Zhou, Sornette, Hill, Dunbar 2005, "Discrete hierarchical
  organization of social group sizes", Proceedings of the Royal Society B 272); the outer ones come
  and go.
* Two or three interests, of 500 … 1000; opinions uniform from −1000 to 1000, as in models of
  bounded confidence (Deffuant et al. 2000); needs uniform from 600 to 1000. These are assumed.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from math import isqrt
from os import PathLike
from typing import Any, Final

from moothall.arguments import check_integer
from moothall.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.blocks import all_blocks
from moothall.society.blocks.columns import EDUCATION as EDUCATION
from moothall.society.blocks.columns import GENDERS, HOUSEHOLDS, OCCUPATIONS
from moothall.society.blocks.needs import NEEDS as NEEDS
from moothall.society.blocks.talk import TOPICS as TOPICS
from moothall.society.blocks.ties import KIN
from moothall.society.city.places import Places, needs
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.draw import Draws, hashed
from moothall.society.people import household as home_of
from moothall.society.people.margins import checked_margins, gathered
from moothall.society.people.means import DOLLARS, money_of, trades, usual_income
from moothall.society.people.table import IN_PROFILE
from moothall.society.services.firm import STAFF

FAR: Final = 10**14  # what weights are made from: they are whole, and 12 have fewer than 32 bits
_ANY: Final = float("inf")  # the capacity of a place without a limit
_EDUCATION_WEIGHTS = (9, 28, 25, 24, 14)
FRIENDS: Final = (720, 620, 450, 400, 350, 350)
"""The least strength of a friend by the number of `BESIDE` + 1, + 2, …; it is up to 199 more."""
BESIDE: Final = 3
JOBLESS: Final = 100
"""Of 1,000 adults up to 66 without work, who seeks it: 3.6 of 100 of the labour force were
unemployed in 2022 (Current Population Survey)."""
OFFERS: Final = 12
NEAR: Final = 1000
_WOMEN = (
    *("Ada", "Anna", "Carla", "Dana", "Elena", "Fatima", "Grace"),
    *("Hana", "Jana", "Lea", "Maria", "Rosa", "Tara", "Yuki"),
)
_MEN = (
    *("Amir", "Boris", "Chen", "David", "Emil", "Felix"),
    *("Ivan", "John", "Kofi", "Luis", "Noah", "Samir"),
)
_NAMES: Final = {"female": _WOMEN, "male": _MEN}


def make_people(
    city: Any,
    count: int,
    *,
    seed: int = 0,
    margins: Mapping[str, Mapping[Any, float]] | str | PathLike[str] | None = None,
) -> list[dict[str, Any]]:
    """Return citizens as plain data: `id`, `name` and the keys of a citizen's status.

    Args:
        city: the city where they live; None for none
        count: the number of citizens, 1 or more; their ids are 1 … count
        seed: the seed of the draws
        margins: how many there are of each value of an attribute, as a census has it: counts or
            shares, `{"age": {"0-17": 22, "18+": 78}}`; or a table with the columns `attribute`,
            `value` and `count`. Households are chosen for `age`, `gender`, `education` and
            `household`, also together, `"age, gender"`; another name is an attribute of your own

    Raises:
        ConfigError: the city has no homes, or not enough room, or people cannot meet the margins:
            a category is off by more than one of a hundred persons
    """
    check_integer("count", count, 1, None)
    rows = [{"id": number} for number in range(1, count + 1)]
    return completed(rows, city, seed=seed, margins=margins)


def completed(
    rows: Iterable[dict[str, Any]],
    city: Any = None,
    *,
    seed: int = 0,
    margins: Mapping[str, Mapping[Any, float]] | str | PathLike[str] | None = None,
) -> list[dict[str, Any]]:
    """Return citizens with missing data drawn, for example after `read_people`.

    Args:
        rows: citizens as `make_people` returns them; all but `id` may be missing
        city: the city where they live; None for none
        seed: the seed of the draws
        margins: as in `make_people`; what rows have is kept, and counts

    Raises:
        ConfigError: the city has no homes, or not enough room, or a row is not such a citizen
    """
    wanted = None if margins is None else checked_margins(margins)
    made = [copy.deepcopy(row) for row in rows]
    if none := [row for row in made if "id" not in row]:
        raise ConfigError(f"a citizen must have an 'id', got {none[0]!r:.80}")
    if flat := [name for row in made for name in row if name in IN_PROFILE]:
        raise ConfigError(f"{flat[0]!r} must be in a citizen's `profile`, as make_people has it")
    if city is not None:
        needs(city, Places, who="people", kinds=("home",))
        _house(made, city)
    if made:
        if wanted is None:
            households = _gather(made, seed)
        else:
            households = gathered(made, wanted, seed, _gather)
        for person in made:
            _draw(person, seed)
        if city is not None:
            _employ(made, city, seed)
            _seek(made, seed)
        for person in made:
            profile = person["profile"]
            profile.setdefault("income", DOLLARS * profile["skill"] if person["work"] else 0)
            person.setdefault("income", usual_income(profile["income"]))
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


def _gather(made: list[dict[str, Any]], seed: int) -> list[list[tuple[dict[str, Any], int]]]:
    """Draw what depends on the household; return each household's members and their roles."""
    numbers: dict[Any, int] = {}
    home = [numbers.setdefault(p.get("home"), len(numbers)) if p.get("home") else -1 for p in made]
    head, second, rank, size, order = home_of.households(np.array(home))
    ids = np.array([_word(person["id"]) for person in made], np.uint64)
    profiles = [person.setdefault("profile", {}) for person in made]
    age = np.array([int(each.get("age", -1)) for each in profiles])
    known = {name: code for code, name in enumerate(GENDERS)}
    gender = np.array([known.get(each.get("gender"), 0) for each in profiles])
    two = second != head  # alone, one has no partner whose age is known
    ages = (age, age[head], np.where(two, age[second], -1))
    genders = (gender, gender[head], np.where(two, gender[second], 0))
    given = (seed, ids, ids[head], rank, size)
    drawn_age, drawn_gender = home_of.composed(*given, ages, genders)
    kind, role = home_of.roles(seed, ids[head], rank, size)
    level = [Draws(seed, p["id"], 0).choice(_EDUCATION_WEIGHTS, "people.education") for p in made]
    for at, profile in enumerate(profiles):
        profile.setdefault("age", int(drawn_age[at]))
        profile.setdefault("gender", GENDERS[int(drawn_gender[at])])
        profile.setdefault("education", EDUCATION[level[at] if profile["age"] >= 18 else 0])
        profile.setdefault("household", HOUSEHOLDS[int(kind[at])])
    taught = [EDUCATION.index(e) if (e := p["education"]) in EDUCATION else -1 for p in profiles]
    skill, trade = trades(seed, ids, np.maximum(taught, 0))
    for at, profile in enumerate(profiles):
        profile.setdefault("skill", int(skill[at]) if taught[at] >= 0 else 1000)
        if profile["age"] >= 18:
            profile.setdefault("occupation", OCCUPATIONS[int(trade[at])])
    gathered: list[list[tuple[dict[str, Any], int]]] = []
    for at in order.tolist():
        if rank[at] == 0:
            gathered.append([])
        gathered[-1].append((made[at], int(role[at])))
    return gathered


def _word(id: Any) -> int:
    """Return what a citizen's draws are made from, as `Draws` takes it."""
    return hashed(id) if isinstance(id, str) else int(id)


def _draw(person: dict[str, Any], seed: int) -> None:
    """Draw what else a person lacks."""
    draws, profile = Draws(seed, person["id"], 0), person["profile"]
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
    person.setdefault("money", money * (profile["age"] >= 18))
    given = person.setdefault("needs", {})
    for need in NEEDS:
        given.setdefault(need, 600 + draws.below(401, f"people.{need}"))
    if "opinions" not in person:
        person["opinions"] = {
            topic: draws.below(2001, f"people.opinion.{topic}") - 1000 for topic in TOPICS
        }


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
    near = city.near if hasattr(city, "near") else None
    places = list(jobs)
    for person in made:
        place = person["work"]
        if place is not None:
            jobs[place] = jobs.get(place, 0) - 1
    sums = [*itertools.accumulate(max(0, jobs[place]) for place in places)]
    for person in made:
        age, draws = person["profile"]["age"], Draws(seed, person["id"], 0)
        if 5 <= age < 18 and near and seats and "school" not in person:
            found = (each.id for each in near(person["home"], "school", 20) if seats[each.id] > 0)
            person["school"] = next(found, None)
            if person["school"] is not None:
                seats[person["school"]] -= 1
        if not 18 <= age < 67 or person["work"] is not None or not near or not any(sums[-1:]):
            continue
        if draws.below(100, "people.employed") >= 75:
            continue
        shares = (draws.below(sums[-1], "people.offer", each) for each in range(OFFERS))
        offers = [places[bisect.bisect_right(sums, share)] for share in shares]
        weights = [
            (jobs[each] > 0) * FAR // (_apart(city, person["home"], each) + NEAR) ** 2
            for each in offers
        ]
        if sum(weights) == 0:
            person["work"] = next((place for place, left in jobs.items() if left > 0), None)
        else:
            person["work"] = offers[draws.choice(weights, "people.work")]
        if person["work"] is not None:
            jobs[person["work"]] -= 1


def _seek(made: list[dict[str, Any]], seed: int) -> None:
    """Mark who seeks work: whoever found none, and some others."""
    for person in made:
        if person["work"] is None and 18 <= person["profile"]["age"] < 67:
            draws = Draws(seed, person["id"], 0)
            wants = draws.below(100, "people.employed") < 75
            if wants or draws.below(1000, "people.jobless") < JOBLESS:
                person.setdefault("jobless", 0)


def _apart(city: Any, one: str, other: str) -> int:
    """Return the metres between two places as the crow flies; 0 where places have no position."""
    if not hasattr(city, "position"):
        return 0
    (x, y), (x2, y2) = city.position(one), city.position(other)
    return isqrt((x - x2) ** 2 + (y - y2) ** 2)


def _befriend(
    made: list[dict[str, Any]], households: list[list[tuple[dict[str, Any], int]]], seed: int
) -> None:
    """Draw relations and kin for persons without given relations."""
    drawn: dict[Any, dict[str, int]] = {}
    for person in made:
        if "relations" not in person:
            drawn[person["id"]] = person["relations"] = {}

    def link(one: dict[str, Any], other: dict[str, Any], strength: int) -> None:
        for person, friend in ((one, other), (other, one)):
            if person["id"] in drawn:
                drawn[person["id"]].setdefault(str(friend["id"]), strength)

    for household in households:
        for (one, role), (other, others) in itertools.combinations(household, 2):
            link(one, other, 800)
            ages = one["profile"]["age"], other["profile"]["age"]
            for person, kin in (
                (one, (other, int(home_of.kin_of(role, others, *ages)))),
                (other, (one, int(home_of.kin_of(others, role, *ages[::-1])))),
            ):
                if kin[1] and person["id"] in drawn:
                    person.setdefault("kin", {}).setdefault(str(kin[0]["id"]), KIN[kin[1]])
    count = len(made)
    for number, person in enumerate(made):
        draws = Draws(seed, person["id"], 0)
        for step, least in enumerate(FRIENDS, 1):
            to = (number + BESIDE + step) % count
            if draws.below(10, "people.rewired", step) == 0:
                to = draws.below(count, "people.friend", step)
            if to != number:
                link(person, made[to], least + draws.below(200, "people.strength", step))
