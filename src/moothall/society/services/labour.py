"""The labour market: each day some leave or lose their work, others find some, jobless are paid.

A job is a place in the staff of a firm. Matching with random offers, separations at a constant rate
and benefits are the search model of unemployment (Mortensen, Pissarides 1994, "Job creation and job
destruction in the theory of unemployment", Review of Economic Studies 61). The rates are of the
United States in 2022: separations and hires are some 4 of 100 jobs a month (Bureau of Labor
Statistics, Job Openings and Labor Turnover, July 2022: 3.9 and 4.2), of which about half lead at
once to another job; 3.6 of 100 of the labour force are unemployed (Current Population Survey), so
that a search takes two months. Benefits are 400 thousandths of the wage for 26 weeks, the usual
limit of the states. Twice the benefit lengthens a search by about half (elasticities near 0.5:
Krueger, Meyer 2002, "Labor supply effects of social insurance", Handbook of Public Economics 4), so
who is paid nothing finds work half as fast again. That a firm lays off when its money does not pay
its staff's day is assumed. In steps of more than an hour citizens shop too little, since a step
carries out one item of a plan: what firms have says nothing of them then, and no firm counts as one
that cannot pay.
"""

from __future__ import annotations

from typing import Any, Final

from moothall.build import check_integer
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.draw import draw_below, turn_keys
from moothall.society.kernel.kept import sets_own
from moothall.society.services.accounts import citizens_of, pay_citizens
from moothall.society.services.firm import STAFF, Firm, gross_wage

_MILLION: Final = 1_000_000
_AGES: Final = (18, 67)
_WORKDAY_S: Final = 8 * 3600
_WORKDAYS_A_WEEK: Final = 5
"""The days of work in a week, of whose wages benefits are a part; they are paid on all seven."""
_USUAL_BENEFIT: Final = 400
"""The benefit at which `finds` holds."""
_MAX_SHOPPING_STEP: Final = 3600
"""The longest step, in seconds, in which citizens still find the time to shop."""


class LabourMarket(Service):
    """Ends and begins jobs at the end of each day, and pays benefits from the government's money.

    The government does not borrow. It keeps a day of public wages; if what is left is less than a
    day's benefits, each of them is cut by the same share, and `counts` says how much is not paid.

    Who has no work and seeks it has `jobless` in its status: the day since when, counted from 0;
    below -1 so many days before the start (-1: it seeks none). A job ends by
    chance, or because its firm cannot pay; who leaves for another job has an offer first. An offer
    is drawn among all vacancies, each as likely as any other; of several with an offer of the last
    one, the first who is heard gets it.

    Args:
        id: the id of the service
        seed: the seed of the draws
        leaves: who becomes jobless in a day, of a million with work
        moves: who has an offer of another job in a day, of a million with work
        finds: who has an offer in a day, of a million jobless who are paid the usual benefit of 400
        elasticity: by how many thousandths more of the jobless find work where benefits are 0, less
            where they are 800
        fires: who is laid off in a day, of a thousand whose firm cannot pay its staff
        benefit: benefits, in thousandths of the wage of a week of five days of work of one's skill,
            of which each day pays a seventh
        weeks: for how many weeks benefits are paid at most
        wage: the usual wage, cents an hour
        layoff_day: the day, from 1 on, at whose end firms lay off; None for no such day
        layoffs: who is laid off then, of a thousand with work; the jobs become vacant

    Attributes:
        days: the number of closed days
        counts: of the last day; before the first has ended as the citizens were drawn, and empty
            before the first step: `employed`, `jobless`, `vacancies`, `hired`, `left` (the job),
            `paid` (benefits, in cents), and `unpaid` (benefits that the government could not pay)
    """

    @sets_own
    def __init__(
        self,
        id: str = "labour",
        *,
        seed: int = 0,
        leaves: int = 650,
        moves: int = 600,
        finds: int = 17_000,
        fires: int = 50,
        benefit: int = 400,
        weeks: int = 26,
        wage: int = 2500,
        elasticity: int = 500,
        layoff_day: int | None = None,
        layoffs: int = 0,
    ) -> None:
        super().__init__(id)
        for name, value, highest in (
            ("seed", seed, 2**64 - 1),
            ("leaves", leaves, _MILLION),
            ("moves", moves, _MILLION),
            ("finds", finds, _MILLION),
            ("fires", fires, 1000),
            ("benefit", benefit, 1000),
            ("weeks", weeks, None),
            ("wage", wage, None),
            ("elasticity", elasticity, 1000),
            ("layoffs", layoffs, 1000),
        ):
            check_integer(f"{id}: {name}", value, 0, highest)
        if layoff_day is not None:
            check_integer(f"{id}: layoff_day", layoff_day, 1, None)
        self.seed: int = seed
        self.leaves: int = leaves
        self.moves: int = moves
        self.finds: int = finds
        self.fires: int = fires
        self.benefit: int = benefit
        self.weeks: int = weeks
        self.wage: int = wage
        self.elasticity: int = elasticity
        self.layoff_day: int | None = layoff_day
        self.layoffs: int = layoffs
        self.days: int = 0
        self.counts: dict[str, int] = {}

    @property
    def unemployment(self) -> float:
        """The jobless of the last day, as a share of them and of those with work; 0 for none."""
        jobless = self.counts.get("jobless", 0)
        return jobless / max(1, jobless + self.counts.get("employed", 0))

    def after_step(self, books: Books) -> None:
        """Close each day that ends with this step; count who has work after the first step."""
        if books.city is None:
            return
        for number in range(books.days_ended):
            self.days += 1
            self._close(books, number)
        if not self.counts:
            _, columns = citizens_of(books, _COLUMNS_READ)
            staff, _ = _jobs(books, _firms(books))
            has_work, is_seeking = columns["work"] >= 0, _job_seekers(columns)
            filled = np.bincount(columns["work"][has_work], minlength=len(staff))
            self.counts = {
                "employed": int(has_work.sum()),
                "jobless": int(is_seeking.sum()),
                "vacancies": int(np.maximum(staff - filled, 0).sum()),
                **dict.fromkeys(("hired", "left", "paid", "unpaid"), 0),
            }

    def state_dict(self) -> dict[str, Any]:
        """Return the number of closed days and the last day's counts."""
        return {"days": self.days, "counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.days, self.counts = state["days"], dict(state["counts"])

    def _close(self, books: Any, number: int) -> None:
        """Close a day, by its number among those that end with this step."""
        ids, columns = citizens_of(books, _COLUMNS_READ)
        staff, pays = _jobs(books, _firms(books))
        work, jobless, skill = columns["work"], columns["jobless"], columns["skill"]

        def happens(odds: WholeNumber, total: int, purpose: str) -> Array:
            drawn = draw_below(total, self.seed, ids, books.step, f"labour.{purpose}", number)
            is_drawn: Array = drawn < odds
            return is_drawn

        has_work = work >= 0
        count = np.bincount(work[has_work], minlength=len(staff))
        is_broke = (count * pays[0] > pays[1]) & (books.seconds <= _MAX_SHOPPING_STEP)
        is_leaving = has_work & happens(self.leaves, _MILLION, "leave")
        is_leaving |= has_work & is_broke[work] & happens(self.fires, 1000, "fire")
        if self.days == self.layoff_day:
            is_leaving |= has_work & happens(self.layoffs, 1000, "layoff")
        gets_offer = has_work & ~is_leaving & happens(self.moves, _MILLION, "move")
        is_seeking = _job_seekers(columns)
        gets_offer |= is_seeking & happens(self._offer_chance(jobless), _MILLION, "find")
        count -= np.bincount(work[is_leaving], minlength=len(staff))
        vacant = np.where(is_broke, 0, np.maximum(staff - count, 0))
        sums, receivers = vacant.cumsum(), np.flatnonzero(gets_offer)
        new_work: Array = np.full(len(work), -1)
        if len(receivers) and sums[-1]:
            draw_words = (self.seed, ids[receivers], books.step, "labour.offer", number)
            share = draw_below(int(sums[-1]), *draw_words)
            offer = sums.searchsorted(share, side="right")
            order = np.lexsort((turn_keys(books.seed, ids[receivers], books.step), offer))
            offers = offer[order]
            turn = np.arange(len(offers)) - offers.searchsorted(offers)
            winners = order[turn < vacant[offers]]
            new_work[receivers[winners]] = offer[winners]
        hired = np.flatnonzero((new_work >= 0) & (new_work != work))
        leavers = np.flatnonzero(is_leaving)
        public, wages = np.flatnonzero(has_work & (pays[2][work] > 0)), pays[2][work]
        wages_owed: Array = gross_wage(wages[public], np.maximum(skill[public], 0), _WORKDAY_S)
        public_wages = int(wages_owed.sum())
        receivers = np.flatnonzero(is_seeking)
        paid, unpaid = self._pay(books, receivers, jobless, skill, public_wages)
        places, id_of = books.city.ids(), books.population.id_of
        for row in hired.tolist():
            books.set_status({"work": places[new_work[row]], "jobless": -1}, [id_of(row)])
        if len(leavers):
            ids_of_leavers = [*map(id_of, leavers.tolist())]
            books.set_status({"work": None, "jobless": self.days}, ids_of_leavers)
        employed = int(has_work.sum()) - len(leavers) + int((~has_work[hired]).sum())
        self.counts = {
            "employed": employed,
            "jobless": int(is_seeking.sum()) + len(leavers) - int((~has_work[hired]).sum()),
            "vacancies": int(vacant.sum()) - len(hired),
            "hired": len(hired),
            "left": len(leavers) + int(has_work[hired].sum()),
            "paid": paid,
            "unpaid": unpaid,
        }

    def _offer_chance(self, since: Array) -> Any:
        """Return who of the jobless since a day has an offer, of a million."""
        at, less = 1000 + self.elasticity, self.elasticity * self.benefit // _USUAL_BENEFIT
        is_paid = self.days - since <= 7 * self.weeks
        return np.minimum(self.finds * np.where(is_paid, max(0, at - less), at) // 1000, _MILLION)

    def _pay(
        self, books: Any, jobless: Array, since: Array, skill: Array, public_wages: int
    ) -> tuple[int, int]:
        """Pay benefits; return how many cents are paid, and how many are due and not paid.

        The government keeps what a day of public wages takes. If the rest is less than all
        benefits, each is cut by the same share. They are income of the day, as wages are, so that
        they count in what the jobless spend.
        """
        if "government" not in books.balances or not len(jobless):
            return 0, 0
        jobless = jobless[self.days - since[jobless] <= 7 * self.weeks]
        wage: Array = gross_wage(self.wage, skill[jobless], _WORKDAY_S)
        cents = wage * self.benefit * _WORKDAYS_A_WEEK // (1000 * 7)
        jobless, cents = jobless[cents > 0], cents[cents > 0]
        total = int(cents.sum())
        available = max(0, books.balances["government"] - public_wages)
        if total > available:
            cents = cents * (available * _MILLION // total) // _MILLION
            jobless, cents = jobless[cents > 0], cents[cents > 0]
        pay_citizens(books, jobless, cents, "government")
        paid = int(cents.sum())
        return paid, total - paid


_COLUMNS_READ: Final = ("work", "age", "jobless", "skill")


def _firms(books: Any) -> list[Firm]:
    return [each for each in books.services.values() if isinstance(each, Firm)]


def _job_seekers(offer: dict[str, Array]) -> Any:
    """Return who has no work, seeks it, and is of the age to work."""
    age = offer["age"]
    return (offer["work"] < 0) & (age >= _AGES[0]) & (age < _AGES[1]) & (offer["jobless"] != -1)


def _jobs(books: Any, firms: list[Firm]) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return the staff of each place at most, and what pays it.

    That is the wage of a day, and the money it is paid from; where the government pays, its wage of
    an hour.
    """
    places = books.city.ids()
    numbers = {place: number for number, place in enumerate(places)}
    staff = np.zeros(len(places), np.int64)
    wages, money, public = np.zeros((3, len(places)), np.int64)
    for firm in firms:
        number = numbers.get(firm.place) if firm.place is not None else None
        if number is None or staff[number]:  # of several firms at a place the first pays there
            continue
        capacity = books.city.capacity(firm.place) if hasattr(books.city, "capacity") else 10
        share = STAFF.get(books.city.kind(firm.place), 1000)
        staff[number] = 10 if capacity is None else max(1, capacity * share // 1000)
        wages[number] = 0 if firm.public else gross_wage(firm.wage, 1000, _WORKDAY_S)
        money[number] = books.balances[firm.id]
        public[number] = firm.wage if firm.public else 0
    return staff, (wages, money, public)
