"""The commit stage: it settles the wants of all citizens in a step by stated rules, then writes.

Wants are settled kind by kind, in the order of their `turn`; within a kind by sender, in an order
drawn anew in each step (`turn_key`); within a sender in the order of its wants. All read before
any change is written, as in Mesa's staged activation (Kazil, Masad, Crooks 2020, "Utilizing Python
for Agent-Based Modeling: The Mesa Framework", SBP-BRiMS). Wages come before purchases as in
Lengnick 2013, "Agent-based macroeconomics: a baseline model", JEBO 86.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from moothall import ConfigError, DefinitionError, StateError
from moothall.build import check_integer, error_text
from moothall.society.clock import Clock
from moothall.society.kernel import care
from moothall.society.kernel.faults import Faults
from moothall.society.kernel.intervention import has_values, set_values, unknown
from moothall.society.kernel.wants import Answer, Move, Pay, Want, id_order, in_turn, wants_by_kind


class Submission(NamedTuple):
    """A want in the commit stage; `token` identifies its answer."""

    sender: str
    want: Want
    token: Any
    service: Service | None = None


class Service:
    """Settles wants of one or several kinds in the commit stage: a firm, the bank, a feed.

    The service at the place settles `Work` and `Buy`; the first in id order that takes them settles
    others. A message to a service is a want too: its action is its kind's name, lowercase.

    Args:
        id: the id that messages to the service name
        place: the id of the service's place; None for none
        money: the service's cents at the start

    Attributes:
        takes: the kinds of wants that the service settles
        deposits: the cents that the service owes each citizen, as a bank does
    """

    takes: ClassVar[tuple[type[Want], ...]] = ()
    deposits: Mapping[str, int] = MappingProxyType({})
    _lives_in: object  # the society that has used it

    def __init__(self, id: str, place: str | None = None, money: int = 0) -> None:
        self.id = id
        self.place = place
        check_integer(f"the money of service {id!r}, in cents,", money, 0, None)
        self.money = money

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Settle a want; the answer says whether it was done, or why not.

        Args:
            books: the balances, which only `books.pay` may change
            sender: the id of the sender
            want: a want of a kind that the service takes
        """
        raise NotImplementedError(f"{type(self).__name__} must define `settle`")

    def after_step(self, books: Books) -> None:
        """Called in id order after all wants of a step are settled; a failure ends the run."""

    @property
    def owed(self) -> int:
        """The sum of the deposits, in cents."""
        return sum(self.deposits.values())

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save besides the money, as JSON data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""


class Books:
    """The money and places of all citizens; only the commit stage changes them.

    Args:
        city: the city; None for none
        services: the services, by id, in id order

    Attributes:
        seed, step: the society's seed, and the number of the step being committed
        clock: the time at which that step begins
        seconds: the length of a step
        balances: the money of each citizen and service, in cents
        where: the place of each citizen; None on the way
        at: the citizens at each place
        coming: the number of citizens on the way to each place, who have a place reserved there
        moving: each citizen on its way: destination, step of arrival, origin and step of departure
        travelled: the number of citizens on their way in the last step
        worked: the seconds that citizens have worked in this step
        owing: the services that may owe money to citizens
    """

    def __init__(self, city: Any, services: dict[str, Service]) -> None:
        self.city: Any = city
        self.services: dict[str, Service] = services
        self.step = self.seed = 0
        self.faults: Faults = Faults()
        self.seconds: int = 900
        self.clock: Clock = Clock()
        self.balances: dict[str, int] = {}
        self.where: dict[str, str | None] = {}
        self.at: dict[str, dict[str, None]] = defaultdict(dict)
        self.coming: Counter[str] = Counter()
        self.moving: dict[str, tuple[str, int, str, int]] = {}
        self.travelled: int = 0
        self.worked: Counter[str] = Counter[str]()
        self.statuses: dict[str, dict[str, Any]] = {}
        self._holders: dict[int, str] = {}  # the citizens by the identity of their status
        self.by_place: dict[type[Want], dict[str, Service]] = defaultdict(dict)
        self.by_kind: dict[type[Want], Service] = {}
        self._has_capacity = hasattr(city, "capacity")
        self.owing: list[Service] = [
            each
            for each in services.values()
            if type(each).owed is not Service.owed or each.deposits is not Service.deposits
        ]
        for service in services.values():
            self.balances[service.id] = service.money
            for kind in service.takes:
                self.by_kind.setdefault(kind, service)
                if service.place is not None:
                    self.by_place[kind].setdefault(service.place, service)

    def enter(self, citizen: str, status: dict[str, Any]) -> None:
        """Enter a citizen with its status' money and place. Raises ConfigError if it cannot be."""
        other = self._holders.get(id(status), "")
        if self.statuses.get(other) is status:
            raise ConfigError(f"citizen {citizen!r} has the status of {other!r}: give each its own")
        self.check_newcomer(citizen, status)
        self.statuses[citizen], self._holders[id(status)] = status, citizen
        self.balances[citizen], self.where[citizen] = status["money"], status["place"]
        if status["place"] is not None:
            self.at[status["place"]][citizen] = None
        if moving := status["moving"]:
            to, departure = moving["to"], moving.get("left", 0)
            self.moving[citizen] = (to, moving["arrives"], moving.get("from") or to, departure)
            self.coming[to] += 1

    def check_newcomer(self, citizen: str, status: dict[str, Any]) -> None:
        """Complete the status of a citizen that comes. Raises ConfigError if it cannot come."""
        money = status.setdefault("money", 0)
        check_integer(f"the money of citizen {citizen!r}, in cents,", money, 0, None)
        place, moving = status.get("place"), status.get("moving")
        if place is None and not moving:
            place = status.get("home")
        if place is not None and not self._knows(place):
            raise ConfigError(f"citizen {citizen!r} cannot start at {place!r:.80}: no such place")
        if place is not None and moving:
            raise ConfigError(f"citizen {citizen!r} is at {place!r} and on the way: it must be one")
        if place is not None and not self._has_room(place):
            raise ConfigError(
                f"citizen {citizen!r} cannot start at {place!r}, which holds "
                f"{self.city.capacity(place)}: give it another place or home"
            )
        status["place"] = place
        status.setdefault("moving", None)

    def leave(self, citizen: str) -> None:
        """Remove a citizen, and its money with it."""
        if (status := self.statuses.pop(citizen, None)) is None:
            return
        del self._holders[id(status)], self.balances[citizen]
        place = self.where.pop(citizen)
        if place is not None:
            del self.at[place][citizen]
        if citizen in self.moving:
            self.coming[self.moving.pop(citizen)[0]] -= 1

    def restore(self) -> dict[str, str]:
        """Undo agents' own changes of their money or place; return which, by id."""
        undone = {}
        for (id, status), right in zip(self.statuses.items(), self._settled_parts(), strict=True):
            if changed := [key for key in right if status.get(key) != right[key]]:
                status.update(right)
                undone[id] = " and ".join(changed)
        return undone

    def _settled_parts(self) -> Iterator[dict[str, Any]]:
        return ({"money": self.balances[id], "place": self.where[id]} for id in self.statuses)

    @property
    def where_agents(self) -> Mapping[str, str | None]:
        """The place of each agent."""
        return self.where

    # -- money -------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """The sum of all balances, in cents."""
        return sum(self.balances.values())

    def pay(self, sender: str, to: str, cents: int) -> str:
        """Move money, all or none.

        Returns:
            why it was not moved; empty if it was
        """
        balances = self.balances
        if type(cents) is not int or cents < 1:
            return f"cents must be 1 or more, got {cents!r:.40}"
        if sender not in balances:
            return f"{sender} has no money of its own"
        if to not in balances:
            return f"there is no {to} who could be paid"
        if balances[sender] < cents:
            return f"{sender} has {balances[sender]} cents, not {cents}"
        if sender != to:
            balances[sender] -= cents
            balances[to] += cents
            for id in (sender, to):
                if id in self.statuses:
                    self.statuses[id]["money"] = balances[id]
        return ""

    def status_of(self, id: str) -> dict[str, Any]:
        """Return a citizen's status, for reading; empty for others."""
        return self.statuses.get(id, {})

    def set_status(self, values: Mapping[str, Any], citizens: Any) -> list[str]:
        """Set values in the status of citizens, for an intervention; return what failed."""
        failed = unknown(citizens, self.statuses.values())
        for id in citizens if isinstance(citizens, list) else sorted(self.where, key=id_order):
            status = self.statuses.get(id)
            if status is None:
                failed.append(f"status: there is no citizen {id!r}")
            elif not isinstance(citizens, dict) or has_values(status, citizens):
                set_values(status, values)
        return failed

    # -- wants -------------------------------------------------------------------------------------

    def settle(self, wants: Iterable[Submission], tables: Any = None) -> list[tuple[Any, Answer]]:
        """Settle the wants of a step; return each token with its answer."""
        self.worked.clear()
        by_kind = wants_by_kind(wants, self.seed, self.step)
        ordered = [each for kind in in_turn(by_kind) for each in by_kind[kind]]
        return [(each.token, self._settle_one(each)) for each in ordered]

    def _settle_one(self, submitted: Submission) -> Answer:
        sender, want, _, service = submitted
        kind = type(want)
        if isinstance(want, Pay):
            to: Any = want.to
            is_id = isinstance(to, str)
            reason = self.pay(sender, to, want.cents) if is_id else f"there is no {to!r:.80} to pay"
            return Answer(want, not reason, reason)
        if kind is Move:
            return self._move(sender, want)
        place = getattr(want, "place", None)
        if service is not None:
            missing = f"{service.id} does not take {kind.__name__}"
            service = service if kind in service.takes else None
        elif place is not None:
            service = self.by_place[kind].get(str(place))
            missing = f"no service at {place} takes {kind.__name__}"
        else:
            service = self.by_kind.get(kind)
            missing = f"no service takes {kind.__name__}"
        if service is None:
            return Answer(want, False, missing)
        return ask_service(service, self, sender, want)

    def end_step(self) -> None:
        """Run the services' `after_step`; let citizens arrive whose way ends by the next step."""
        end_services(self.services.values(), self)
        care.take_along(self, self.statuses)
        self.travelled = len(self.moving)
        now = self.step + 1
        for id in sorted([id for id, way in self.moving.items() if way[1] <= now], key=id_order):
            place = self.moving.pop(id)[0]
            self.coming[place] -= 1
            self.where[id] = place
            self.at[place][id] = None
            status = self.statuses[id]
            status["place"], status["moving"] = place, None

    def _move(self, sender: str, want: Any) -> Answer:
        """Set out. Citizens at a place or on the way to it occupy it; others enter as heard."""
        city = self.city
        if city is None:
            return Answer(want, False, "there is no city")
        if sender not in self.where:
            return Answer(want, False, f"{sender} is not a citizen")
        if not hasattr(city, "seconds"):
            return Answer(want, False, f"{type(city).__name__} has no travel times: no `seconds`")
        if sender in self.moving:
            return Answer(want, False, f"on the way to {self.moving[sender][0]}")
        place, to = self.where[sender], want.to
        if not self._knows(to):
            return Answer(want, False, f"there is no place {to!r:.80}")
        if place == to:
            return Answer(want, True, value=self.step)
        try:
            full = not self._has_room(to)
            seconds = 0 if place is None else city.seconds(place, to, want.mode)
        except ConfigError as error:
            return Answer(want, False, str(error))
        if full:
            return Answer(want, False, f"{to} is full")
        if seconds is None:
            return Answer(want, False, f"there is no way from {place} to {to}")
        arrives = self.step + max(1, -(-seconds // self.seconds))
        care.depart(self, sender, self.statuses[sender], to, arrives, want.mode)
        return Answer(want, True, value=arrives)

    @cached_property
    def _places(self) -> frozenset[str]:
        return frozenset(self.city.ids())

    def _knows(self, place: Any) -> bool:
        return isinstance(place, str) and (self.city is None or place in self._places)

    def _has_room(self, place: str) -> bool:
        return not self._has_capacity or care.has_room(self, place)

    def check(self, total: int) -> None:
        """Raise StateError unless money is conserved and places agree, within their capacities."""
        if self.total != total:
            raise StateError(
                f"step {self.step}: there were {total} cents and now there are {self.total}: a "
                "service must move money by books.pay alone"
            )
        self._check()

    def _check(self) -> None:
        negative = next((id for id, cents in self.balances.items() if cents < 0), None)
        if negative is not None:
            raise StateError(f"step {self.step}: {negative} has {self.balances[negative]} cents")
        if sum(map(len, self.at.values())) + [*self.where.values()].count(None) != len(self.where):
            raise StateError(f"step {self.step}: a citizen is in two places, or in none")
        for place, here in self.at.items() if self._has_capacity else ():
            capacity = self.city.capacity(place)
            if capacity is not None and len(here) > capacity:
                text = f"{len(here)} are at {place}, which holds {capacity}"
                raise StateError(f"step {self.step}: {text}")

    def state_dict(self) -> dict[str, Any]:
        """Return the money and state of the services, which citizens' states do not have."""
        return {
            id: {"money": self.balances[id], "state": service.state_dict()}
            for id, service in self.services.items()
        }

    def load_state_dict(self, state: Any) -> None:
        """Restore the services' money and state. Raises StateError if other services are given."""
        if not isinstance(state, dict) or set(state) != set(self.services):
            raise StateError("the state's services are not those of this society")
        for id, service in self.services.items():
            check_integer(f"the money of service {id!r}, in cents,", state[id]["money"], 0, None)
            self.balances[id] = state[id]["money"]
            service.load_state_dict(state[id]["state"])


def ask_service(service: Service, books: Books, sender: str, want: Want) -> Answer:
    """Return a service's answer to a want; if the service fails, only the sender loses it."""
    try:
        answer: Any = service.settle(books, sender, want)
        if not isinstance(answer, Answer):
            raise DefinitionError(f"settle must return an Answer, got {answer!r:.80}")
        return answer
    except Exception as error:
        books.faults.add_service(service.id, books.step, f"failed on {want}", error)
        return Answer(want, False, f"{service.id} failed: {error_text(error)}")


def end_services(services: Iterable[Service], books: Books) -> None:
    """Run the `after_step` of services; a failure, which ends the run, names the service."""
    for service in services:
        try:
            service.after_step(books)
        except Exception as error:
            name = f"service {service.id!r}, after_step of step {books.step}"
            raise StateError(f"{name}: {error_text(error)}") from error


CITY: Final = Service("city")
"""The receiver of messages to the city; the books settle `Move` themselves."""
