"""What persons are drawn from: every constant, with its source; each can be another country's."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Row = tuple[int, ...]
Rows = tuple[Row, ...]
Share = Annotated[int, Field(ge=0, le=100)]
PerMille = Annotated[int, Field(ge=0, le=1000)]
_MAX_WEIGHT: Final = 1_000_000


def _check_numbers(length: int, low: int, high: int) -> AfterValidator:
    """Check that there are so many numbers, each within limits."""

    def checked(numbers: Row) -> Row:
        if len(numbers) != length or not all(low <= each <= high for each in numbers):
            expected = f"{length} whole numbers from {low:,} to {high:,}"
            raise ValueError(f"must be {expected}, got {numbers!r}")
        if not any(numbers) and high == _MAX_WEIGHT:
            raise ValueError("one of the weights must be above 0")
        return numbers

    return AfterValidator(checked)


def _check_weights(length: int) -> AfterValidator:
    """Check that there are so many weights, one at least of them above 0."""
    return _check_numbers(length, 0, _MAX_WEIGHT)


def _check_weight_rows(count: int, length: int) -> AfterValidator:
    """Check that there are so many rows of so many weights."""
    row = _check_weights(length).func

    def checked(rows: Rows) -> Rows:
        if len(rows) != count:
            raise ValueError(f"must be {count} rows of {length} weights, got {len(rows)}")
        return tuple(row(each) for each in rows)  # type: ignore[call-arg]

    return AfterValidator(checked)


def _check_rising_pairs(first: int = 0) -> AfterValidator:
    """Check pairs of an age and a share, the first of which is at least `first`."""

    def checked(pairs: Rows) -> Rows:
        ages = [each[0] for each in pairs if len(each) == 2]
        if len(ages) != len(pairs) or ages[:1] != [0] or ages != sorted(set(ages)):
            expected = "pairs of an age and a share, rising from age 0"
            raise ValueError(f"must be {expected}, got {pairs!r}")
        if not all(0 <= share <= 1000 for _, share in pairs) or pairs[0][1] < first:
            more = ", at age 0 above 0" if first else ""
            raise ValueError(f"shares must be from 0 to 1000{more}, got {pairs!r}")
        return pairs

    return AfterValidator(checked)


class PeopleParams(BaseModel):
    """The constants that persons are drawn from: `make_people(city, 1_000, params=PeopleParams())`.

    The defaults are of the United States. "ACS" is the American Community Survey, "the report" the
    U.S. Census Bureau's "America's Families and Living Arrangements: 2022". Weights need no sum.

    Args:
        household_kinds: weights of the kinds of a household, a row for each size from 1 to 5 or
            more: alone, a couple (and its children), a lone parent, a couple with children and a
            parent of the head, others who share a flat. Of 100 households 29 are persons alone, 47
            married couples, 7 unmarried ones (ACS 2022, table DP02), and 5 have three generations
            (2020 census); the split by size is fitted to these sums
        head_ages: weights of the age group of the head (18–24, 25–34, … 75–84, 85–94), or of the
            woman of a couple; a row each for those alone, a couple of two, a lone parent, with a
            parent of the head, a shared flat, a couple with children. Fitted to the 2020 census (22
            of 100 below 18, 17 from 65 on)
        couple_gaps: weights of how much older a husband is than his wife, from −10 to 20 years: 34
            of 100 within a year, 51 within two, 40 of husbands and 10 of wives older by three or
            more, 2.2 years in the mean (Pew Research Center 2024, from the ACS 2022)
        same_gender: couples of one gender, of 1,000: 1.2 million of about 70 million (ACS 2021)
        women_heads: women among the heads of each kind, of 100, as `head_ages` has the kinds: 16
            women alone for 13 men, 15 mothers alone for 6 fathers (the report)
        births: weights of a mother's age at a birth, from 18 to 45 (National Center for Health
            Statistics, "Final data for 2021", rounded)
        stays: from which age on, and how many of 1,000 children still live with their parents: 57
            of 100 men and 55 of 100 women of 18–24, and fewer of 25–34 (the report). The weights
            are fitted to the first; those from 25 on are assumed
        education: weights of adults without any, with secondary and vocational education, bachelors
            and masters (U.S. Census Bureau 2021, Educational Attainment)
        skill: the usual hourly wage by education, in thousandths of that of all (Bureau of Labor
            Statistics 2021, median weekly earnings)
        skill_spread: 20 equally likely factors of it, in thousandths: lognormal with a deviation of
            0.5, so that the highest tenth earns 4 to 5 times what the lowest does (Bureau of Labor
            Statistics, Usual Weekly Earnings 2022)
        occupations: weights of the five groups of occupations, a row for each education; together
            42, 17, 20, 9, 13 of 100 (ACS 2021, table S2401, rounded). The split is fitted to these
        wage: dollars a year by a thousandth of skill: 2,080 hours at 25 dollars
        usual: cents that one has of a dollar of pay: 7.3 hours of work on 4.8 days a week, without
            taxes and contributions
        money_median: cents that an adult owns at the start, in the median: 5,300 dollars in
            transaction accounts (Survey of Consumer Finances 2019, Bhutta et al. 2020)
        money_deviation: the deviation of its logarithm, √(2 ln(mean ÷ median)) for a mean of 41,600
        money_most: where it is cut, in cents
        employed: of 100 aged 18–66, who works where there are jobs (OECD 2023: 70 of those aged 15
            to 64)
        jobless: of 1,000 of the others, who seeks work: 3.6 of 100 of the labour force were
            unemployed in 2022 (Current Population Survey)
        searches: weights of how long those who seek work at the start have sought it: less than 5
            weeks, 5 to 14, 15 to 26, 27 to 120; within a group any time is as likely. Of 100 they
            were 37.0, 28.5, 12.6, 21.9 (Bureau of Labor Statistics, table A-10, the quarters of
            2022); that some seek for 120 weeks follows from its mean of 22.6
        cars: weights of no car, one, two and three or more, a row for each size of a household from
            1 to 5 or more: of 100 households 8.5 have none, 60.4 two or more (ACS 2021); 18 of 100
            persons alone have none, and 4 of 100 other households (National Household Travel Survey
            2001, in Bureau of Transportation Statistics 2003). The split by size is fitted to these
        bicycles: of 100 households of each size, which have bicycles, one for each member: assumed,
            some half of all; in the world 42 have one, in four groups of countries 20 to 81 (Oke et
            al. 2015, "Tracking global bicycle ownership patterns")
        licences: from which age on how many of 1,000 have a driving licence (Federal Highway
            Administration, Highway Statistics 2008, table DL-20; from 75 on rounded)
        values: how much the ten of `blocks.columns.VALUES` matter in the mean, in hundredths of a
            scale from −1 to 7: in the order of Schwartz, Bardi 2001, "Value Hierarchies Across
            Cultures", Journal of Cross-Cultural Psychology 32; how far apart the means are, and
            that persons deviate by 100, is assumed
        renters: of 100 households, which rent their home: 65.2 own it (ACS 2022)
        offers: how many jobs of the whole town one compares at a time (gravity model, Zipf 1946)
        near: metres that are added to each distance, where they are compared; a job's weight is
            1 ÷ (metres + near)²
        friends: the least strength of a friend, of 1,000, for each link of the small world; it is
            up to 199 more. Some five of all are close and fifteen dear, the inner layers of
            personal networks (Zhou, Sornette, Hill, Dunbar 2005)
        rewired: one of so many links goes to anybody (Watts, Strogatz 1998)
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    household_kinds: Annotated[Rows, _check_weight_rows(5, 5)] = (
        (1000, 0, 0, 0, 0),
        (0, 700, 220, 0, 80),
        (0, 620, 230, 100, 50),
        (0, 760, 100, 120, 20),
        (0, 770, 80, 150, 0),
    )
    head_ages: Annotated[Rows, _check_weight_rows(6, 8)] = (
        (4, 13, 10, 12, 20, 22, 14, 5),
        (5, 14, 7, 9, 23, 26, 13, 3),
        (4, 20, 28, 25, 14, 6, 3, 0),
        (1, 15, 34, 35, 15, 0, 0, 0),
        (50, 34, 6, 4, 3, 3, 0, 0),
        (3, 24, 36, 26, 9, 2, 0, 0),
    )
    couple_gaps: Annotated[Row, _check_weights(31)] = (
        *(40, 40, 50, 70, 100, 140, 210, 350, 600, 900),  # the wife is 10 … 1 years older
        *(1250, 1200, 1050, 850, 700, 550, 420, 330, 260, 200),  # the husband 0 … 9
        *(160, 120, 100, 80, 60, 50, 40, 30, 25, 15, 10),  # 10 … 20
    )
    same_gender: PerMille = 17
    women_heads: Annotated[Row, _check_numbers(6, 0, 100)] = (55, 50, 78, 50, 50, 50)
    births: Annotated[Row, _check_weights(28)] = (
        *(15, 15, *[36] * 5, *[56] * 5, *[60] * 5, *[34] * 5, *[7] * 5),
        1,
    )
    stays: Annotated[Rows, _check_rising_pairs(1)] = ((0, 1000), (18, 640), (25, 150), (35, 50))
    education: Annotated[Row, _check_weights(5)] = (9, 28, 25, 24, 14)
    skill: Annotated[Row, _check_numbers(5, 1, 30_000)] = (592, 765, 880, 1262, 1550)
    skill_spread: Annotated[Row, _check_numbers(20, 1, 30_000)] = (
        *(375, 487, 563, 627, 686, 742, 797, 853, 910, 969),
        *(1032, 1099, 1173, 1255, 1348, 1459, 1596, 1777, 2054, 2664),
    )
    occupations: Annotated[Rows, _check_weight_rows(5, 5)] = (
        (8, 34, 14, 20, 24),
        (16, 24, 24, 14, 22),
        (34, 19, 25, 9, 13),
        (65, 8, 20, 3, 4),
        (88, 3, 7, 1, 1),
    )
    wage: Annotated[int, Field(ge=0, le=10_000)] = 52
    usual: Share = 57
    money_median: Annotated[int, Field(ge=0, le=10**12)] = 530_000
    money_deviation: Annotated[float, Field(ge=0, le=5)] = 2.03
    money_most: Annotated[int, Field(ge=0, le=10**15)] = 100_000_000
    employed: Share = 75
    jobless: PerMille = 100
    searches: Annotated[Row, _check_weights(4)] = (370, 285, 126, 219)
    cars: Annotated[Rows, _check_weight_rows(5, 4)] = (
        (18, 68, 11, 3),
        (5, 22, 52, 21),
        (5, 20, 39, 36),
        (4, 15, 43, 38),
        (4, 14, 40, 42),
    )
    bicycles: Annotated[Row, _check_numbers(5, 0, 100)] = (35, 50, 60, 70, 70)
    licences: Annotated[Rows, _check_rising_pairs()] = (
        *((0, 0), (16, 311), (17, 500), (18, 654), (19, 755), (20, 820), (25, 863), (30, 906)),
        *((35, 917), (45, 930), (50, 942), (60, 959), (65, 940), (70, 894), (75, 850), (85, 650)),
    )
    values: Annotated[Row, _check_numbers(10, -100, 700)] = (
        *(235, 385, 373, 308, 442),
        *(442, 472, 285, 419, 438),
    )
    renters: Share = 35
    offers: Annotated[int, Field(ge=1, le=40)] = 12
    near: Annotated[int, Field(ge=10, le=50_000)] = 1000
    friends: Annotated[Row, _check_numbers(6, 1, 800)] = (720, 620, 450, 400, 350, 350)
    rewired: Annotated[int, Field(ge=1, le=1_000_000)] = 10


USUAL_PEOPLE: Final = PeopleParams()
"""The defaults."""
