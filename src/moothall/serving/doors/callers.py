"""The callers of the doors: their names, budgets and rates."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moothall.agents.replies.charging import check_reply_budget
from moothall.budget.limits import LIMITS, used_up
from moothall.foundation.arguments import check_function, check_integer
from moothall.foundation.errors import BudgetExceeded, ConfigError, DeadlineExceeded
from moothall.foundation.threads import guard
from moothall.serving.doors.checks import Scope

if TYPE_CHECKING:
    from moothall.budget import Budget

LOCAL: Final = "local"
"""The caller without a token: any program of this machine."""
NOBODY: Final = ""
"""The caller without a token at a path that needs none, such as `/health`."""
TOKEN: Final = "token"
"""The caller with the token, if there is one token for all."""
_KEY: Final = "moothall.caller"
_PLACES: Final = 8
"""How many addresses of requests are kept."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")

Budgets: TypeAlias = "Budget | Callable[[str], Budget | None] | None"


class Callers:
    """The callers of a server.

    Args:
        tokens: the token, or one for each caller by its name; None without any
        budget: what callers may spend: a budget of which each has a part, or a function that
            returns the budget of a caller's name
        rate: how many requests a caller may make in a minute; None for any number
        approves: which named callers may permit the calls that their own requests lead to; a
            caller without a name may

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self,
        tokens: str | Mapping[str, str] | None = None,
        budget: Budgets = None,
        rate: int | None = None,
        approves: Iterable[str] = (),
    ) -> None:
        self.tokens: dict[str, str] | None = _checked(tokens)
        if budget is not None and not callable(getattr(budget, "child", budget)):
            raise ConfigError(f"budget= must be a Budget or a function, got {budget!r:.80}")
        if callable(budget):
            check_function("budget=", budget, "caller")
        check_integer("rate=", rate, optional=True)
        self._approves = _checked_approves(approves, self.tokens)
        self._given = budget
        self._rate = rate
        self._budgets: dict[str, Budget | None] = {}
        self._made: dict[str, tuple[float, float]] = {}  # requests left, and when that was so
        self._guard = guard()
        self._places: dict[str, None] = {}

    def check(self, agent: Any) -> None:
        """Check that an agent's own budget has the budget of all callers as a part.

        Raises:
            ConfigError: it, or a member of it, has a budget that this one is no part of
        """
        if callable(getattr(self._given, "child", None)):
            check_reply_budget(agent, cast("Budget", self._given))

    def named(self, given: bytes) -> str | None:
        """Return the caller of a token, or None; the time does not depend on which one it is."""
        found = None
        for name, token in (self.tokens or {}).items():
            if secrets.compare_digest(given, token.encode()):
                found = name
        return found

    def permits(self, caller: str) -> bool:
        """Return whether a caller may permit the calls that its own requests lead to."""
        return caller in self._approves or caller in (LOCAL, TOKEN)

    def wait_s(self, caller: str) -> float:
        """Count a request of a caller and return 0; or return the seconds that it must wait."""
        if self._rate is None:
            return 0.0
        now, each_s = time.monotonic(), 60 / self._rate
        left, at = self._made.get(caller, (self._rate, now))
        left = min(self._rate, left + (now - at) / each_s)
        if left < 1:
            return (1 - left) * each_s
        self._made[caller] = left - 1, now
        return 0.0

    def budget(self, caller: str) -> Budget | None:
        """Return what a caller may spend, or None without a limit.

        Raises:
            BudgetExceeded: it has spent it
            ConfigError: the function of the program returned something else
            JournalError: the budget's journal cannot be read
        """
        if self._given is None:
            return None
        with self._guard:
            if caller not in self._budgets:
                self._budgets[caller] = self._made_for(caller)
            budget = self._budgets[caller]
        if budget is not None:
            _check(budget, caller)
        return budget

    def note_place(self, place: str) -> None:
        """Keep an address at which a request has come, for a page."""
        if place not in self._places and len(self._places) < _PLACES:
            self._places[place] = None

    def shown(self) -> dict[str, Any]:
        """Return for a page the addresses of requests, the spending, and why some are refused."""
        whole = self._given if callable(getattr(self._given, "child", None)) else None
        with self._guard:
            budgets = {"all callers": cast("Budget | None", whole), **self._budgets}
        known = {name: each for name, each in budgets.items() if each is not None}
        refused = {}
        for name, each in known.items():
            try:
                _check(each, name)
            except (BudgetExceeded, DeadlineExceeded) as error:
                refused[name] = str(error)
        spending = {name: _amounts(each) for name, each in known.items()}
        return {"places": [*self._places], "spending": spending, "refused": refused}

    def _made_for(self, caller: str) -> Budget | None:
        given: Any = self._given
        if callable(getattr(given, "child", None)):
            child: Budget = given.child(name=caller)
            return child
        made: Budget | None = given(caller)
        if made is not None and not callable(getattr(made, "is_part_of", None)):
            raise ConfigError(f"budget= must return a Budget or None for {caller!r}, got {made!r}")
        return made


def _check(budget: Budget, caller: str) -> None:
    """Check that a budget lets a request of a caller begin."""
    budget.check()
    for name in used_up(budget.left, asks=True):
        raise BudgetExceeded(f"{budget}: the {name} of {caller!r} are spent", name)


def _amounts(budget: Budget) -> list[dict[str, Any]]:
    """Return what was spent and is left, of each kind that is limited or spent."""
    spent, left = budget.spent, budget.left
    made = []
    for limit in LIMITS:
        used, free = getattr(spent, limit.name), getattr(left, limit.name)
        if free is not None or (used and limit.name != "seconds"):
            made.append({"name": limit.name, "unit": limit.unit, "spent": used, "left": free})
    return made


def note_caller(scope: Scope, caller: str) -> None:
    """Keep the caller of a request in its scope."""
    scope[_KEY] = caller


def caller_of(scope: Scope) -> str:
    """Return the caller of a request."""
    found: str = scope.get(_KEY, LOCAL)
    return found


def sender_of(protocol: str, caller: str) -> str:
    """Return the sender of a caller's messages by a protocol."""
    return protocol if caller in (LOCAL, TOKEN) else f"{protocol}-{caller}"


def _checked_approves(approves: Any, tokens: Mapping[str, str] | None) -> frozenset[str]:
    """Return the names of the callers who may permit calls."""
    given = (approves,) if isinstance(approves, str) else approves
    names = frozenset(given) if isinstance(given, Iterable) else None
    known = {*(tokens or ())} - {TOKEN}
    if names is None or not names <= known:
        raise ConfigError(
            f"approves= must name callers of token= ({', '.join(sorted(known)) or 'it has none'}), "
            f"got {approves!r:.80}"
        )
    return names


def _checked(tokens: Any) -> dict[str, str] | None:
    """Return the tokens by the caller's name."""
    if tokens is None:
        return None
    named = dict(tokens) if isinstance(tokens, Mapping) else {TOKEN: tokens}
    if not named or not all(isinstance(t, str) and t and t.isascii() for t in named.values()):
        raise ConfigError(
            "token= must be a text of ASCII characters, one for each caller by its name, or None"
        )
    if not all(token.isprintable() and token == token.strip() for token in named.values()):
        raise ConfigError(
            "token= must be one line without spaces around it (a file's text may end with a line's "
            "end): no request can state another"
        )
    if isinstance(tokens, Mapping):
        for name in named:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (LOCAL, TOKEN):
                raise ConfigError(
                    "token= must name callers by letters, digits, '_', '.' and '-', 40 at most, "
                    f"and not {LOCAL!r} or {TOKEN!r}, got {name!r:.80}"
                )
        if len({*named.values()}) < len(named):
            raise ConfigError("token= has the same token for two callers")
    return named
