"""The callers of the doors: their names, budgets and rates, and the senders of their messages."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

from moothall import BudgetExceeded, ConfigError, DeadlineExceeded, NoSuchRun, NotPermitted
from moothall.budget import LIMITS
from moothall.build import Mailbox, Thread, Threaded, check_function, check_integer, guard
from moothall.journal import RunView
from moothall.serving.doors.checks import Scope
from moothall.serving.doors.protocols import DOORS

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.budget import Budget
    from moothall.journal import Journal, Wait

LOCAL: Final = "local"
"""The caller without a token: any program of this machine."""
NO_CALLER: Final = ""
"""The caller without a token at a path that needs none, such as `/health`."""
TOKEN: Final = "token"
"""The caller with the token, if there is one token for all."""
_SCOPE_KEY: Final = "moothall.caller"
_MAX_ADDRESSES: Final = 8
"""How many addresses of requests are kept."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")

_IDLE_SENDER_S: Final = 3600.0
"""Seconds without a request after which a sender is forgotten, with its threads."""
MAX_SENDERS: Final = 10_000

Tokens: TypeAlias = str | Mapping[str, str | Sequence[str]]
"""The one token, or those of each caller by its name."""
Budgets: TypeAlias = "Budget | Callable[[str], Budget | None] | None"


class CallerRights(TypedDict, total=False):
    """What named callers may do, by the names of those who may: companies and commands read it."""

    approves: Iterable[str]


class CallerOptions(CallerRights, total=False):
    """What programs and commands state of callers; `asgi` documents it."""

    budget: Budgets
    rate: int | None
    max_replies: int | None


RIGHTS: Final = tuple(CallerRights.__annotations__)


class Callers:
    """The callers of a server.

    Args:
        tokens: the token, or one or several for each caller by its name; None without any
        **options: what callers may spend and do, as `asgi` documents it; a caller without a name
            may permit calls

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(self, tokens: Tokens | None = None, **options: Unpack[CallerOptions]) -> None:
        self.tokens: dict[str, tuple[str, ...]] | None = _checked_tokens(tokens)
        budget, rate = options.get("budget"), options.get("rate")
        if budget is not None and not callable(getattr(budget, "child", budget)):
            raise ConfigError(f"budget= must be a Budget or a function, got {budget!r:.80}")
        if callable(budget):
            check_function("budget=", budget, "caller")
        check_integer("rate=", rate, optional=True)
        self.max_replies: int | None = options.get("max_replies")
        check_integer("max_replies=", self.max_replies, optional=True)
        rights: Mapping[str, Any] = options
        self._rights = {name: self._names_in(name, rights.get(name, ())) for name in RIGHTS}
        self._budget_source = budget
        self._rate = rate
        self._budgets: dict[str, Budget | None] = {}
        self._allowances: dict[str, tuple[float, float]] = {}  # requests left, and when that was so
        self._lock = guard()
        self._addresses: dict[str, None] = {}

    @staticmethod
    def read(text: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return the tokens and rights in a text with a name, a token and rights in each line.

        A name may have several lines: each token is valid, so that a key can be changed.

        Raises:
            ConfigError: a line is something else
        """
        tokens: dict[str, list[str]] = {}
        rights: dict[str, list[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if len(words) == 1 or not {*words[2:]} <= {*RIGHTS}:
                raise ConfigError(
                    f"line {number}: must be a name and a token, and what the caller may do "
                    f"({', '.join(RIGHTS)})"
                )
            if words:
                tokens.setdefault(words[0], []).append(words[1])
            for right in words[2:]:
                rights.setdefault(right, []).append(words[0])
        return tokens, rights

    def check(self, agent: Any) -> None:
        """Check that an agent's own budget has the budget of all callers as a part.

        Raises:
            ConfigError: it, or a member of it, has a budget that this one is no part of
        """
        if isinstance(agent, Threaded) and callable(getattr(self._budget_source, "child", None)):
            agent.check_budget(cast("Budget", self._budget_source))

    def name_of(self, token_bytes: bytes) -> str | None:
        """Return the caller of a token, or None; the time does not depend on which one it is."""
        caller = None
        for name, tokens in (self.tokens or {}).items():
            for token in tokens:
                if secrets.compare_digest(token_bytes, token.encode()):
                    caller = name
        return caller

    def name_of_sender(self, protocol: str, sender: str) -> str:
        """Return the caller whose messages by a protocol have this sender."""
        if self.tokens is None:
            return LOCAL
        return sender.removeprefix(protocol).removeprefix("-") or TOKEN

    def permits(self, caller: str) -> bool:
        """Return whether a caller may permit the calls that its own requests lead to."""
        return caller in self._rights["approves"] or caller in (LOCAL, TOKEN)

    def _names_in(self, right: str, listed: Any) -> frozenset[str]:
        each_name = (listed,) if isinstance(listed, str) else listed
        names = frozenset(each_name) if isinstance(each_name, Iterable) else None
        ids = {*(self.tokens or ())} - {TOKEN}
        if names is None or not names <= ids:
            raise ConfigError(
                f"{right}= must name callers of token= "
                f"({', '.join(sorted(ids)) or 'it has none'}), got {listed!r:.80}"
            )
        return names

    def wait_s(self, caller: str) -> float:
        """Count a request of a caller and return 0; or return the seconds that it must wait."""
        if self._rate is None:
            return 0.0
        now, interval_s = time.monotonic(), 60 / self._rate
        allowance, counted_at = self._allowances.get(caller, (self._rate, now))
        allowance = min(self._rate, allowance + (now - counted_at) / interval_s)
        if allowance < 1:
            return (1 - allowance) * interval_s
        self._allowances[caller] = allowance - 1, now
        return 0.0

    def budget(self, caller: str) -> Budget | None:
        """Return what a caller may spend, or None without a limit.

        Raises:
            BudgetExceeded: it has spent it
            ConfigError: the function of the program returned something else
            JournalError: the budget's journal cannot be read
        """
        if self._budget_source is None:
            return None
        with self._lock:
            if caller not in self._budgets:
                # Within the guard: two first requests at once would each have a whole budget.
                self._budgets[caller] = self._make_budget(caller)
            budget = self._budgets[caller]
        if budget is not None:
            _check_budget(budget, caller)
        return budget

    def budget_of_thread(self, thread: str | None) -> Budget | None:
        """Return what the caller may spend who began a run in a thread; raise as `budget` does."""
        sender = Thread.sender_of(thread or "").partition("/")[0]
        for name in self.tokens or (LOCAL,):
            if sender in (sender_of(door.sender, name) for door in DOORS):
                return self.budget(name)
        return None

    def note_server_address(self, place: str) -> None:
        """Keep an address at which a request has come, for a page."""
        if place not in self._addresses and len(self._addresses) < _MAX_ADDRESSES:
            self._addresses[place] = None

    def page_data(self) -> dict[str, Any]:
        """Return for a page the addresses of requests, the spending, and why some are refused."""
        shared_budget = (
            self._budget_source if callable(getattr(self._budget_source, "child", None)) else None
        )
        with self._lock:
            budgets = {"all callers": cast("Budget | None", shared_budget), **self._budgets}
        limited = {name: each for name, each in budgets.items() if each is not None}
        refused = {}
        for name, each in limited.items():
            try:
                _check_budget(each, name)
            except (BudgetExceeded, DeadlineExceeded) as error:
                refused[name] = str(error)
        spending = {name: _amounts(each) for name, each in limited.items()}
        return {"places": [*self._addresses], "spending": spending, "refused": refused}

    def _make_budget(self, caller: str) -> Budget | None:
        source: Any = self._budget_source
        if callable(getattr(source, "child", None)):
            child: Budget = source.child(name=caller)
            return child
        budget: Budget | None = source(caller)
        if budget is not None and not callable(getattr(budget, "is_part_of", None)):
            raise ConfigError(
                f"budget= must return a Budget or None for {caller!r}, got {budget!r}"
            )
        return budget


class Senders:
    """The senders of the messages of a space's callers, which all its doors share."""

    def __init__(self) -> None:
        self._last_used: dict[
            str, float
        ] = {}  # when each was used; the one used last is the last one
        self._call_counts: Counter[str] = Counter()  # how many calls of each are under way
        self._lock = guard()

    @staticmethod
    def in_space(space: Any) -> Senders:
        """Return the senders of a space."""
        with _LOCK:
            return _SENDERS_OF_SPACES.get(space) or _SENDERS_OF_SPACES.setdefault(space, Senders())

    @contextmanager
    def in_use(self, space: Any, id: str) -> Iterator[None]:
        """Count a call of a sender in the `with` block; have the space forget idle senders."""
        with self._lock:
            self._call_counts[id] += 1
            self._mark_used(id)
            idle_since = time.monotonic() - _IDLE_SENDER_S
            excess = len(self._last_used) - MAX_SENDERS
            idle = takewhile(
                lambda each: each[0] < excess or each[1][1] < idle_since,
                enumerate(self._last_used.items()),
            )
            for each in [sender for _, (sender, _) in idle if not self._call_counts[sender]]:
                del self._last_used[each]
                space.forget_sender(each)
        try:
            yield
        finally:
            with self._lock:
                self._call_counts[id] -= 1
                if not self._call_counts[id]:
                    del self._call_counts[id]
                self._mark_used(id)  # idle from now on

    def _mark_used(self, id: str) -> None:
        self._last_used.pop(id, None)
        self._last_used[id] = time.monotonic()


_SENDERS_OF_SPACES: Final[WeakKeyDictionary[Any, Senders]] = WeakKeyDictionary()
_LOCK: Final = guard()


def _check_budget(budget: Budget, caller: str) -> None:
    """Check that a budget lets a request of a caller begin."""
    budget.check()
    for name in budget.left.used_up(to_ask=True):
        raise BudgetExceeded(f"{budget}: the {name} of {caller!r} are spent", name)


def _amounts(budget: Budget) -> list[dict[str, Any]]:
    """Return what was spent and is left, of each kind that is limited or spent."""
    spent_amounts, left_amounts = budget.spent, budget.left
    rows = []
    for limit in LIMITS:
        used = getattr(spent_amounts, limit.name)
        remaining = getattr(left_amounts, limit.name)
        if remaining is not None or (used and limit.name != "seconds"):
            rows.append({"name": limit.name, "unit": limit.unit, "spent": used, "left": remaining})
    return rows


def say_policy(agent: Agent) -> str | None:
    """Return who may say something to an agent; None where nobody can."""
    if isinstance(mailbox := agent.space_mailbox, Mailbox):  # which has its actions already
        offer = mailbox.offers.get("say")
        return None if offer is None else offer.action.access_policy
    return None if (say := agent.offers.get("say")) is None else say.access_policy


def note_caller(scope: Scope, caller: str) -> None:
    """Keep the caller of a request in its scope."""
    scope[_SCOPE_KEY] = caller


def caller_of(scope: Scope) -> str:
    """Return the caller of a request."""
    caller: str = scope.get(_SCOPE_KEY, LOCAL)
    return caller


def sender_of(protocol: str, caller: str) -> str:
    """Return the sender of a caller's messages by a protocol."""
    return protocol if caller in (LOCAL, TOKEN) else f"{protocol}-{caller}"


def waits_of(journal: Journal | None, agent: str, run_id: str, sender: str | None) -> list[Wait]:
    """Return what a run of an agent waits for.

    Raises:
        NotPermitted: it is of no thread of this sender
    """
    if sender is not None:
        _check_run(journal, agent, run_id, sender)
    return [] if journal is None else RunView(journal, run_id).all_waits


def _check_run(journal: Journal | None, agent: str, run_id: str, sender: str) -> None:
    """Raise NotPermitted unless a run of an agent is of a thread of a sender.

    A run of another's and one that is not there read alike, and no error names those that are.
    """
    with suppress(NoSuchRun):
        run = None if journal is None else journal.run(run_id)
        if run is not None and run.agent == agent and f"{run.thread}/".startswith(f"{sender}/"):
            return
    raise NotPermitted(f"you have no run {run_id!r:.80}")


def _checked_tokens(argument: Any) -> dict[str, tuple[str, ...]] | None:
    """Return the tokens by the caller's name."""
    if argument is None:
        return None
    tokens_by_name = dict(argument) if isinstance(argument, Mapping) else {TOKEN: argument}
    by_name = {
        name: tuple(each) if isinstance(each, list | tuple) else (each,)
        for name, each in tokens_by_name.items()
    }
    tokens = [token for each in by_name.values() for token in each]
    if not all(by_name.values()) or not all(
        isinstance(each, str) and each and each.isascii() for each in tokens or [None]
    ):
        raise ConfigError(
            "token= must be a text of ASCII characters, one or several for each caller by its "
            "name, or None"
        )
    if not all(token.isprintable() and token == token.strip() for token in tokens):
        raise ConfigError(
            "token= must be one line without spaces around it (a file's text may end with a line's "
            "end): no request can state another"
        )
    if isinstance(argument, Mapping):
        for name in by_name:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (LOCAL, TOKEN):
                raise ConfigError(
                    "token= must name callers by letters, digits, '_', '.' and '-', 40 at most, "
                    f"and not {LOCAL!r} or {TOKEN!r}, got {name!r:.80}"
                )
        if len({*tokens}) < len(tokens):
            raise ConfigError("token= has the same token twice")
    return by_name
