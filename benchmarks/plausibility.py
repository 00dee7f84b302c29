"""Stylized facts: what is measured in people and cities, beside what a drawn town does.

    python -m benchmarks.plausibility [--objects 1000] [--columns 100000] [--days 14] [--write]

Each fact has its source and the range that the source supports. The town lives from a Monday on, by
rules: as objects for a week, in columns for `--days`. What people do is looked at in the first
week, of `WATCHED` people or less. `--write` puts what is out of range
into docs/society-figures.md.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from moothall import Society
from moothall.society import (
    City,
    Firm,
    Population,
    all_blocks,
    citizens,
    make_economy,
    make_people,
)
from moothall.society.blocks.columns import ACTS, GENDERS, HOUSEHOLDS
from moothall.society.blocks.mobility_rows import MODES
from moothall.society.blocks.ties import KIN, KIN_BIT, STRENGTH
from moothall.society.columns.ledger import PENSION_AGE, pension_of

PAGE = Path(__file__).parent.parent / "docs" / "society-figures.md"
ALONE, COUPLE, LONE, THREE, _, FAMILY, _ = range(1, 1 + len(HOUSEHOLDS))
FEMALE, MALE = GENDERS.index("female"), GENDERS.index("male")
PARTNER, PARENT, CHILD = (KIN.index(each) for each in ("partner", "parent", "child"))
SLEEP, EAT, WORK, SOCIAL, SHOP, TRAVEL = (
    ACTS.index(each) for each in ("sleep", "eat", "work", "social", "shop", "travel")
)
DAY = 96
WATCHED = 10_000
REPORT = "Census Bureau, America's Families and Living Arrangements: 2022"
PEW = "Pew Research Center 2024, from the American Community Survey 2022"
ATUS = "Bureau of Labor Statistics, American Time Use Survey 2022"
JOURNEY = "Census Bureau 2004, Journey to Work: 2000"
CENSUS = "Census 2000, Summary File 3, table P31"
PEAKS = "American Time Use Survey 2003 to 2007, in Demo Memo, July 7, 2008"
READ = (
    *("home", "household", "gender", "age", "friends", "friendship", "work", "pay", "money"),
    *("school", "skill", "cars"),
)
TRAVEL_2022 = "National Household Travel Survey 2022"
TRAVEL_2001 = "National Household Travel Survey 2001, in Bureau of Transportation Statistics 2003"
POVERTY = "Census Bureau, Poverty in the United States: 2022"
THRESHOLDS = (0, 14_880, 18_900, 23_280, 29_950, 35_510, 40_160, 45_690, 50_670)
"""Poverty thresholds of households of 1, 2, … persons, dollars a year: the means of 2022, assumed.

The Census Bureau's are 48, by size and age: in 2021 13,788 of one below 65, 27,479 of two and two
children (Center for Poverty and Inequality Research, Davis).
"""
MILE = 1609
LAYERS = "Zhou, Sornette, Hill, Dunbar 2005, Proceedings of the Royal Society B 272"
JOLTS = "Bureau of Labor Statistics, Job Openings and Labor Turnover, July 2022"


class Town:
    """What a town was, and what those watched did in each step of the first week."""

    def __init__(self, columns: dict[str, Any], city: City) -> None:
        self.city = city
        self.first = {name: np.array(columns[name]) for name in READ}
        every = max(1, len(columns["age"]) // WATCHED)
        self.watched = slice(None, None, every)
        self.seen = {name: values[self.watched] for name, values in self.first.items()}
        self.acts: list[Any] = []
        self.places: list[Any] = []
        self.going: list[Any] = []
        self.modes: list[Any] = []
        self.before = self.first["home"].copy()
        self.outings = self.accompanied = 0
        self.counts: list[dict[str, int]] = []
        self.empty: list[float] = []
        self.last: dict[str, Any] = {}
        self.steps = 0

    def saw(self, act: Any, place: Any, going: Any, mode: Any, society: Society) -> None:
        """Keep a step."""
        self.steps += 1
        self._look_at_children(np.array(place, np.int64))
        if self.steps <= 7 * DAY:
            self.acts.append(np.array(act, np.uint8)[self.watched])
            self.places.append(np.array(place, np.int32)[self.watched])
            self.going.append(np.array(going, np.int32)[self.watched])
            self.modes.append(np.array(mode, np.uint8)[self.watched])
        if self.steps % DAY == 0:
            self.counts.append(society.services["labour"].counts)  # type: ignore[attr-defined]
            sellers = [f for f in society.services.values() if isinstance(f, Firm) and f.sells]
            self.empty.append(float(np.mean([not each.stock for each in sellers])))

    def ended(self, columns: dict[str, Any]) -> None:
        """Keep the end, and join the steps."""
        self.last = {name: np.array(columns[name]) for name in ("friends", "friendship")}
        self.act, self.place = np.array(self.acts), np.array(self.places)
        self.to, self.mode = np.array(self.going), np.array(self.modes)
        self.acts, self.places, self.going, self.modes = [], [], [], []

    def _look_at_children(self, place: Any) -> None:
        """Count the ways of children under 12, but to and from school, and those with an adult."""
        home, age, school = (self.first[name] for name in ("home", "age", "school"))
        arrives = (place >= 0) & (place != self.before)
        children = arrives & (age < 12) & (place != school) & (self.before != school)
        many = len(self.city.ids())
        way = (home.astype(np.int64) * many + self.before) * many + place
        self.outings += int(children.sum())
        self.accompanied += int(np.isin(way[children], way[arrives & (age >= 18)]).sum())
        self.before = np.where(place >= 0, place, self.before)

    # -- what the facts are computed from ----------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        return self.first[name]

    def kin(self, what: int) -> tuple[Any, Any]:
        """Persons, and who is that to each, as rows."""
        kinds = self["friendship"] >> KIN_BIT
        who, slot = np.nonzero(kinds == what)
        return who, self["friends"][who, slot] - 1

    def homes(self) -> Any:
        """One person of each household."""
        return np.unique(self["home"], return_index=True)[1]

    def share_of_homes(self, *kinds: int) -> float:
        return float(np.isin(self["household"][self.homes()], kinds).mean())

    def gaps(self) -> Any:
        """How much older each husband is than his wife."""
        who, other = self.kin(PARTNER)
        of = (self["gender"][who] == MALE) & (self["gender"][other] == FEMALE)
        age = self["age"].astype(int)
        return (age[who] - age[other])[of]

    def couples_of_one_gender(self) -> float:
        who, other = self.kin(PARTNER)
        same = self["gender"][who] == self["gender"][other]
        return float(same.sum() / 2 / len(self.homes()))

    def with_other_parent(self, gender: int) -> float:
        child, parent = self.kin(PARENT)
        young = (self["age"][child] < 18) & (self["gender"][parent] == gender)
        return float(np.isin(np.unique(parent[young]), self.kin(PARTNER)[0]).mean())

    def with_parents(self) -> float:
        young = np.flatnonzero((self["age"] >= 18) & (self["age"] < 25))
        return float(np.isin(young, self.kin(PARENT)[0]).mean())

    def hours(self, act: int) -> float:
        """Hours a day of those of 15 and older."""
        return float((self.act[:, self.seen["age"] >= 15] == act).mean() * 24)

    def days(self, act: int) -> Any:
        """Steps of an act, by day and person."""
        return (self.act == act).reshape(7, DAY, -1).sum(axis=1)

    def worked(self) -> Any:
        """Steps of work by day and person, of those with work."""
        return self.days(WORK)[:, self.seen["work"] >= 0]

    def away(self) -> float:
        """Who was not at the workplace, of those who worked on a day."""
        of = self.seen["work"] >= 0
        works = (self.act[:, of] == WORK).reshape(7, DAY, -1)
        there = works & (self.place[:, of] == self.seen["work"][of]).reshape(7, DAY, -1)
        return float(1 - there.any(axis=1).sum() / works.any(axis=1).sum())

    def arrives(self) -> Any:
        """The steps of the day in which people begin work at the workplace, but night shifts'."""
        of = np.flatnonzero(self.seen["work"] >= 0)
        there = (self.place[:, of] == self.seen["work"][of]) & (self.act[:, of] == WORK)
        there = there.reshape(7, DAY, -1)
        return there.argmax(axis=1)[there.any(axis=1) & ~there[:, 0]]

    def at(self, act: int, step: int) -> float:
        """Who does that in a step of the day, of those of 15 and older, on an average day."""
        return float((self.act[step::DAY, self.seen["age"] >= 15] == act).mean())

    def employed_at(self, step: int) -> float:
        """Who works in a step of a weekday, at the workplace or at home, of those with work."""
        return float((self.act[step : 5 * DAY : DAY, self.seen["work"] >= 0] == WORK).mean())

    def trips(self) -> tuple[float, float]:
        """Trips a person and day, and who makes one on a day."""
        start = np.vstack([self.seen["home"][None], self.place[:-1]])
        known = np.where(start < 0, -1, start)
        moved = (self.place >= 0) & (self.place != known)
        moved = moved.reshape(7, DAY, -1)
        return float(moved.sum() / 7 / moved.shape[2]), float(moved.any(axis=1).mean())

    def by_mode(self, mode: str, least: int = 12, most: float = np.inf, cars: int = 9) -> float:
        """The share of a mode, of ways of who is so old, of so many metres, with so many cars."""
        start = np.vstack([self.seen["home"][None], self.place[:-1]]).astype(np.int64)
        for step in range(1, len(start)):
            start[step] = np.where(start[step] < 0, start[step - 1], start[step])
        step, who = np.nonzero((self.place >= 0) & (self.place != start))
        of = (self.seen["age"][who] >= least) & (self.seen["cars"][who] <= cars)
        step, who = step[of], who[of]
        ends = start[step, who], self.place[step, who].astype(np.int64)
        seconds = self.city.ways_rows(*ends, ["walk"])[:, 0]
        near = seconds * 1.4 <= most
        return float((self.mode[step, who][near] == 1 + MODES.index(mode)).mean())

    def poor(self, oldest: int = 0) -> float:
        """Who lives in a household below its poverty threshold, of those of an age or older."""
        of = self.first
        old = (of["work"] < 0) & (of["age"] >= PENSION_AGE)
        pension = pension_of(of["skill"].astype(np.int64), 2500) * old * 365 / 100
        income = np.bincount(of["home"], of["pay"] + pension)
        size = np.minimum(np.bincount(of["home"]), len(THRESHOLDS) - 1)
        poor = (income < np.array(THRESHOLDS)[size])[of["home"]]
        return float(poor[of["age"] >= oldest].mean())

    def commute(self) -> float:
        """Minutes to work by the fastest mode, in the mean."""
        of = np.flatnonzero(self.seen["work"] >= 0)
        modes = [mode.name for mode in self.city.modes]
        ways = self.city.ways_rows(
            self.seen["home"][of].astype(np.int64), self.seen["work"][of].astype(np.int64), modes
        )
        return float(np.where(ways < 0, 1 << 40, ways).min(axis=1).mean() / 60)

    def layer(self, least: int) -> float:
        """Relations of at least a strength, at the end."""
        strength = self.last["friendship"] & STRENGTH
        return float(((self.last["friends"] != 0) & (strength >= least)).sum(axis=1).mean())

    def a_month(self, what: str) -> float:
        """A count of the labour market by job, in 30 days."""
        total = sum(each[what] for each in self.counts)
        return float(30 * total / len(self.counts) / max(1, self.counts[-1]["employed"]))

    def jobless(self) -> float:
        last = self.counts[-1]
        return float(last["jobless"] / (last["jobless"] + last["employed"]))


class Fact(NamedTuple):
    """A stylized fact: what is measured elsewhere, and how it is measured here."""

    name: str
    source: str
    found: str
    low: float
    high: float
    ours: Callable[[Town], float]


def _percent(what: Callable[[Town], Any]) -> Callable[[Town], float]:
    return lambda town: 100 * float(what(town))


def _between(low: int, high: int) -> Callable[[Town], float]:
    return _percent(lambda t: ((t.arrives() * 900 >= low) & (t.arrives() * 900 < high)).mean())


FACTS = (
    Fact("household size, persons", "Census Bureau 2020", "2.53", 2.38, 2.68,
         lambda t: len(t["home"]) / len(t.homes())),
    Fact("households of one person, %", REPORT, "29", 27, 31,
         _percent(lambda t: t.share_of_homes(ALONE))),
    Fact("households with a couple, %", REPORT, "47 married, others besides", 47, 57,
         _percent(lambda t: t.share_of_homes(COUPLE, FAMILY, THREE))),
    Fact("households of a lone parent, %", REPORT, "16, with other families", 11, 17,
         _percent(lambda t: t.share_of_homes(LONE))),
    Fact("women of those who live alone, %", REPORT, "55 (16 of 29)", 51, 59,
         _percent(lambda t: (t["gender"][t["household"] == ALONE] == FEMALE).mean())),
    Fact("couples of one gender, % of households", "Census Bureau 2021", "0.9", 0.5, 1.4,
         _percent(lambda t: t.couples_of_one_gender())),
    Fact("husband older than wife, years", PEW, "2.2", 1.8, 2.6, lambda t: float(t.gaps().mean())),
    Fact("couples within two years of age, %", PEW, "51", 47, 55,
         _percent(lambda t: (abs(t.gaps()) <= 2).mean())),
    Fact("husbands older by three years or more, %", PEW, "40", 36, 44,
         _percent(lambda t: (t.gaps() >= 3).mean())),
    Fact("wives older by three years or more, %", PEW, "10", 7, 13,
         _percent(lambda t: (t.gaps() <= -3).mean())),
    Fact("mothers who live with the other parent, %", REPORT, "74", 69, 79,
         _percent(lambda t: t.with_other_parent(FEMALE))),
    Fact("fathers who live with the other parent, %", REPORT, "91", 86, 96,
         _percent(lambda t: t.with_other_parent(MALE))),
    Fact("18 to 24 who live with parents, %", REPORT, "56 (57, 55)", 50, 62,
         _percent(lambda t: t.with_parents())),
    Fact("below 18, %", "Census 2020", "22", 20, 24, _percent(lambda t: (t["age"] < 18).mean())),
    Fact("65 and older, %", "Census 2020", "17", 15, 19,
         _percent(lambda t: (t["age"] >= 65).mean())),
    Fact("sleep, hours a day", ATUS, "9.02", 8.5, 9.5, lambda t: t.hours(SLEEP)),
    Fact("eating and drinking, hours a day", ATUS, "1.23", 1.0, 1.5, lambda t: t.hours(EAT)),
    Fact("socializing, hours a day", ATUS, "0.57", 0.4, 0.8, lambda t: t.hours(SOCIAL)),
    Fact("work on days worked, hours", ATUS, "7.69", 7.2, 8.2,
         lambda t: float(t.worked()[t.worked() > 0].mean() / 4)),
    Fact("employed who work on a weekday, %", f"{ATUS[:-4]}2012", "83", 79, 87,
         _percent(lambda t: (t.worked()[:5] > 0).mean())),
    Fact("employed who work on a day of a weekend, %", f"{ATUS[:-4]}2012", "34", 29, 39,
         _percent(lambda t: (t.worked()[5:] > 0).mean())),
    Fact("not at the workplace on days worked, %", ATUS, "31 (69 are)", 26, 36,
         _percent(lambda t: t.away())),
    Fact("at work from 7:00 to 8:59, % of those who go", CENSUS, "52 leave 6:30 to 8:29", 47, 59,
         _between(25_200, 32_400)),
    Fact("at work before 7:00, % of those who go", CENSUS, "20 leave before 6:30", 15, 25,
         _between(0, 25_200)),
    Fact("at work from noon on, % of those who go", CENSUS, "14 leave from noon on", 9, 18,
         _between(43_200, 86_400)),
    Fact("working at 11:00, % of 15 and older", PEAKS, "31", 27, 35,
         _percent(lambda t: t.at(WORK, 44))),
    Fact("employed who work at noon of a weekday, %", "follows from the rows above and below",
         "55 to 65", 50, 68, _percent(lambda t: t.employed_at(48))),
    Fact("asleep at 3:00, % of 15 and older", PEAKS, "94", 91, 97,
         _percent(lambda t: t.at(SLEEP, 12))),
    Fact("eating at noon, % of 15 and older", PEAKS, "18", 13, 23,
         _percent(lambda t: t.at(EAT, 48))),
    Fact("employed, % of all", "Current Population Survey 2022", "47", 44, 50,
         _percent(lambda t: (t["work"] >= 0).mean())),
    Fact("way to work, minutes", JOURNEY, "26", 20, 32, lambda t: t.commute()),
    Fact("trips a person and day", "National Household Travel Survey 2022, 2017", "2.3, 3.4",
         2.2, 3.5, lambda t: t.trips()[0]),
    Fact("who travels on a day, %", "National Household Travel Survey 2017", "83 to 88", 80, 90,
         _percent(lambda t: t.trips()[1])),
    Fact("trips by car, %", TRAVEL_2022, "nine of ten (2017: 83)", 81, 91,
         _percent(lambda t: t.by_mode("drive"))),
    Fact("trips on foot, %", TRAVEL_2022, "6.9 (2017: 10.5)", 6, 12,
         _percent(lambda t: t.by_mode("walk"))),
    Fact("trips by bus or train, %", TRAVEL_2022, "1.4 (2017: 2.5)", 1, 3.2,
         _percent(lambda t: t.by_mode("transit"))),
    Fact("trips by bicycle, %", TRAVEL_2022, "0.9", 0.5, 1.3,
         _percent(lambda t: t.by_mode("cycle"))),
    Fact("on foot, % of trips without a car at home", TRAVEL_2001, "37", 31, 43,
         _percent(lambda t: t.by_mode("walk", cars=0))),
    Fact("on foot, % of adults' trips of at most a mile",
         "Ham, Macera, Lindley 2005, Preventing Chronic Disease 2", "21 (1995: 17)", 15, 24,
         _percent(lambda t: t.by_mode("walk", 18, MILE))),
    Fact("under 12 with a grown-up of their home, % of trips but to school",
         "Shaw et al. 2013, Children's independent mobility",
         "75 at primary school may not come home alone (England 2010)", 75, 100,
         _percent(lambda t: t.accompanied / max(1, t.outings))),
    Fact("poor, % of all", POVERTY, "11.5, 12.4", 10, 14, _percent(lambda t: t.poor())),
    Fact("poor, % of 65 and older", POVERTY, "10.2", 8.5, 12, _percent(lambda t: t.poor(65))),
    Fact("closest relations, persons", LAYERS, "3 to 5", 3, 5.9, lambda t: t.layer(700)),
    Fact("close relations, persons", LAYERS, "9 to 15", 9, 15, lambda t: t.layer(300)),
    Fact("relations, persons", LAYERS, "30 to 45", 30, 45, lambda t: t.layer(1)),
    Fact("pay of a year of full work, median, dollars",
         "Bureau of Labor Statistics, Current Population Survey 2021, table 54",
         "51,900 (998 a week)", 47_000, 57_000,
         lambda t: float(np.median(t["pay"][t["pay"] > 0]))),
    Fact("money at hand of adults, median, dollars", "Survey of Consumer Finances 2019", "5,300",
         4_500, 6_100, lambda t: float(np.median(t["money"][t["age"] >= 18]) / 100)),
    Fact("hires a month, % of jobs", JOLTS, "4.2", 3.0, 5.2,
         _percent(lambda t: t.a_month("hired"))),
    Fact("jobs that end in a month, %", JOLTS, "3.9", 3.0, 5.0,
         _percent(lambda t: t.a_month("left"))),
    Fact("unemployed, % of the labour force", "Current Population Survey 2022", "3.6", 2.6, 5.0,
         _percent(lambda t: t.jobless())),
    Fact("sold out, % of shops", "Gruen, Corsten, Bharadwaj 2002, Retail Out-of-Stocks", "8.3",
         0, 12, _percent(lambda t: np.mean(t.empty))),
)  # fmt: skip


async def in_columns(count: int, days: int, seed: int) -> Town:
    """A town in columns."""
    city = City.generate(seed=seed, citizens=count)
    population = Population(count, city, all_blocks(), seed)
    town = Town(dict(population.columns), city)
    async with Society(population, services=make_economy(city, seed=seed)) as society:

        def look(row: dict[str, Any]) -> None:
            columns = population.arrays
            names = ("act", "place", "moving_to", "tour")
            town.saw(*(columns[name] for name in names), society)

        for _ in range(days):
            await society.run(days=1, progress=look)
        town.ended(dict(population.columns))
    return town


async def as_objects(count: int, seed: int) -> Town:
    """A town of objects, for a week; the columns are those of a population with their statuses."""
    city = City.generate(seed=seed, citizens=count)
    people = citizens(make_people(city, count, seed=seed))
    society = Society(people, city, seed=seed, services=make_economy(city, seed=seed))
    numbers = {place: at for at, place in enumerate(city.ids())} | {None: -1}

    def statuses() -> list[dict[str, Any]]:
        return [each.memory.status for each in society.agents]

    def look(row: dict[str, Any]) -> None:
        now = statuses()
        town.saw(
            [ACTS.index(each["act"]) for each in now],
            [numbers[each["place"]] for each in now],
            [numbers[(each.get("moving") or {}).get("to")] for each in now],
            [1 + MODES.index(each["tour"]) if "tour" in each else 0 for each in now],
            society,
        )

    town = Town(_columns(city, statuses(), seed), city)
    await society.run(days=7, progress=look)
    town.ended(_columns(city, statuses(), seed))
    society.close()
    return town


def _columns(city: City, statuses: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    population = Population(len(statuses), city, all_blocks(), seed)
    for row, status in enumerate(statuses):
        population.pull(row, status)
    return {name: np.array(values) for name, values in population.columns.items()}


def shown(number: float) -> str:
    """A number as the page has it."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def table(towns: dict[str, Town], only_misses: bool = False) -> str:
    """The facts as a Markdown table, and how many hold; `only_misses`: those that do not."""
    lines = [
        f"| fact | found | tolerated | {' | '.join(towns)} | source |",
        "| --- | --- | --- |" + " --- |" * len(towns) + " --- |",
    ]
    holds = dict.fromkeys(towns, 0)
    for fact in FACTS:
        values = {name: fact.ours(town) for name, town in towns.items()}
        fine = {name: fact.low <= value <= fact.high for name, value in values.items()}
        for name in towns:
            holds[name] += fine[name]
        if only_misses and all(fine.values()):
            continue
        cells = [
            shown(values[name]) if fine[name] else f"**{shown(values[name])}**" for name in towns
        ]
        span = f"{shown(fact.low)} to {shown(fact.high)}"
        lines.append(f"| {' | '.join([fact.name, fact.found, span, *cells, fact.source])} |")
    said = ", ".join(f"{many} of {len(FACTS)} with {name}" for name, many in holds.items())
    return f"Within tolerance: {said}.\n\n" + "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    towns: dict[str, Town] = {}
    if given.objects:
        name = f"{given.objects:,} as objects"
        towns[name] = asyncio.run(as_objects(given.objects, given.seed))
    if given.columns:
        name = f"{given.columns:,} in columns"
        towns[name] = asyncio.run(in_columns(given.columns, max(7, given.days), given.seed))
    print(table(towns))
    if given.write:
        made = table(towns, only_misses=True)
        text = PAGE.read_text()
        PAGE.write_text(
            re.sub(
                r"(<!-- facts -->\n).*?(\n<!-- end -->)",
                lambda found: f"{found[1]}\n{made}\n{found[2]}",
                text,
                flags=re.DOTALL,
            )
        )


if __name__ == "__main__":
    main()
