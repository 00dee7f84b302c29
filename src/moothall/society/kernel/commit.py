"""The commit stage: it settles the wants of all citizens in a step by stated rules, then writes.

Wants are settled kind by kind, in the order of their `turn`; within a kind by sender, in an order
drawn anew in each step (`turn_key`); within a sender in the order of its wants. All read before
any change is written, as in Mesa's staged activation (Kazil, Masad, Crooks 2020, "Utilizing Python
for Agent-Based Modeling: The Mesa Framework", SBP-BRiMS). Wages come before purchases as in
Lengnick 2013, "Agent-based macroeconomics: a baseline model", JEBO 86.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from moothall import DefinitionError, StateError
from moothall.build import check_integer, error_text
from moothall.society.clock import DAY_S, Clock
from moothall.society.kernel.faults import Faults
from moothall.society.kernel.kept import sets_own
from moothall.society.kernel.wants import Answer, Pay, Want


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
        deposits: the cents that the service owes each citizen, as a bank does; where it is a dict
            by id, heirs get what is owed to who leaves
    """

    takes: ClassVar[tuple[type[Want], ...]] = ()
    deposits: Mapping[str, int] = MappingProxyType({})
    _society_token: object  # the society that has used it
    _register_id: int  # which citizens it keeps rows of, by the identity of their register

    @sets_own
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
        if not hasattr(self, "settle_rows"):
            raise NotImplementedError(f"{type(self).__name__} must define `settle`")
        answer: Answer = books.settle_alone(self, sender, want)
        return answer

    def refusal(self, books: Books, sender: str, want: Want) -> str:
        """Return why `settle_rows` refuses an agent's want, in words; empty for the usual words."""
        return ""

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
        statuses: the statuses of citizens, by id; of a `Population` those of full agents
        travelled: the number of citizens on their way in the last step
        owing: the services that may owe money to citizens
    """

    balances: Any
    statuses: Any
    settle_alone: Any
    status_of: Any
    where: Mapping[str, str | None]

    def __init__(self, city: object, services: dict[str, Service]) -> None:
        self.city: Any = city
        self.services: dict[str, Service] = services
        self.step = self.seed = 0
        self.faults: Faults = Faults()
        self.seconds: int = 900
        self.clock: Clock = Clock()
        self.travelled: int = 0
        self.by_place: dict[type[Want], dict[str, Service]] = defaultdict(dict)
        self.by_kind: dict[type[Want], Service] = {}
        self.owing: list[Service] = [
            each
            for each in services.values()
            if type(each).owed is not Service.owed or each.deposits is not Service.deposits
        ]
        for service in services.values():
            for kind in service.takes:
                self.by_kind.setdefault(kind, service)
                if service.place is not None:
                    self.by_place[kind].setdefault(service.place, service)

    @property
    def days_ended(self) -> int:
        """The number of days that end with this step."""
        return (self.clock.time + self.seconds) // DAY_S

    # -- money -------------------------------------------------------------------------------------

    def pay(self, sender: str, to: str, cents: int) -> str:
        """Move money, all or none.

        Returns:
            why it was not moved; empty if it was
        """
        if type(cents) is not int or cents < 1:
            return f"cents must be 1 or more, got {cents!r:.40}"
        payer, payee = self.balances.purse(sender), self.balances.purse(to)
        if payer is None:
            return f"{sender} has no money of its own"
        if payee is None:
            return f"there is no {to} who could be paid"
        if (balance := payer[0].item(payer[1])) < cents:
            return f"{sender} has {balance} cents, not {cents}"
        if sender != to:
            payer[0][payer[1]] -= cents
            payee[0][payee[1]] += cents
        return ""

    def owned(self, id: str) -> int:
        """Return the money and the savings of somebody, in cents."""
        return int(self.balances.get(id, 0)) + sum(each.deposits.get(id, 0) for each in self.owing)

    def bequeath(self, id: str, heir: str) -> str:
        """Give the money and the savings of who leaves to another; return why not, if not."""
        cents = self.balances.get(id, 0)
        reason = self.pay(id, heir, int(cents)) if cents else ""
        for each in () if reason else self.owing:
            if isinstance(deposits := each.deposits, MutableMapping) and id in deposits:
                deposits[heir] = deposits.get(heir, 0) + deposits.pop(id)
        return reason

    # -- wants -------------------------------------------------------------------------------------

    def settle_one(self, submitted: Submission) -> Answer:
        """Settle a want that stands for itself, and not in a table."""
        sender, want, _, service = submitted
        kind = type(want)
        if isinstance(want, Pay):
            to = want.to
            is_id = isinstance(to, str)
            reason = self.pay(sender, to, want.cents) if is_id else f"there is no {to!r:.80} to pay"
            return Answer(want, not reason, reason)
        if service is None:
            service, no_service = self.service_for(want)
        else:
            no_service = f"{service.id} does not take {kind.__name__}"
            service = service if kind in service.takes else None
        if service is None:
            return Answer(want, False, no_service)
        return ask_service(service, self, sender, want)

    def service_for(self, want: Want) -> tuple[Service | None, str]:
        """Return the service that settles a want, and what to say if there is none."""
        kind, place = type(want), getattr(want, "place", None)
        if place is None:
            return self.by_kind.get(kind), f"no service takes {kind.__name__}"
        no_service = f"no service at {place} takes {kind.__name__}"
        return self.by_place[kind].get(str(place)), no_service

    def state_dict(self) -> dict[str, Any]:
        """Return the money and state of the services, which citizens' states do not have."""
        return {
            id: {"money": self.balances[id], "state": service.state_dict()}
            for id, service in self.services.items()
        }

    def load_state_dict(self, state: object) -> None:
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
        answer = service.settle(books, sender, want)
        if not isinstance(answer, Answer):
            raise DefinitionError(f"settle must return an Answer, got {answer!r:.80}")
        return answer
    except Exception as error:
        books.faults.add_service(service.id, books.step, f"failed on {want}", error)
        return Answer(want, False, f"{service.id} failed: {error_text(error)}")


def call_after_step(services: Iterable[Service], books: Books) -> None:
    """Run the `after_step` of services; a failure, which ends the run, names the service."""
    for service in services:
        try:
            service.after_step(books)
        except Exception as error:
            name = f"service {service.id!r}, after_step of step {books.step}"
            raise StateError(f"{name}: {error_text(error)}") from error


CITY_SERVICE: Final = Service("city")
"""The receiver of messages to the city; the books settle `Move` themselves."""
