"""What a person may change in a town: what a page offers, and what it requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import BaseModel
from pydantic import Field as Checked

from moothall.arguments import none_of
from moothall.errors import ConfigError

if TYPE_CHECKING:
    from moothall.society.society import Society


class Change(BaseModel):
    """An intervention that a page requests."""

    kind: str
    text: str = Checked("", max_length=2_000)
    name: str = Checked("", max_length=200)
    amount: float = Checked(0, ge=0, le=1e12)

    def applied_to(self, society: Society) -> dict[str, Any]:
        """Return the arguments of the Intervention; ConfigError if something is missing."""
        if self.kind not in _KINDS:
            raise none_of("kind", [*_KINDS], self.kind)
        kind, text, name = _KINDS[self.kind], self.text.strip(), self.name.strip()
        given = {"text": text, "name": name}
        if kind.missing and not all(given[each] for each in kind.fields):
            raise ConfigError(kind.missing)
        return kind.made(society, text, name, self.amount)


class _Kind(NamedTuple):
    label: str
    fields: dict[str, str]  # which fields it asks for, and what they are called
    missing: str  # said if a text among them is empty
    made: Callable[[Society, str, str, float], dict[str, Any]]  # of text, name and amount


_KINDS: Final = {
    "news": _Kind(
        "Announce something",
        {"text": "Announcement"},
        "write a text first",
        lambda _, text, __, ___: {"news": [text]},
    ),
    "close": _Kind(
        "Close a place",
        {"name": "Place"},
        "choose the place that is to close first",
        lambda _, __, place, ___: {"close": [place]},
    ),
    "open": _Kind(
        "Open a place again",
        {"name": "Place"},
        "choose the place that is to open first",
        lambda _, __, place, ___: {"open": [place]},
    ),
    "fact": _Kind(
        "Set a fact, such as the weather",
        {"name": "Fact, such as weather", "text": "Value"},
        "write the fact and its value first, such as weather and rain",
        lambda _, text, name, __: {"facts": {name: _value(text)}},
    ),
    "pay": _Kind(
        "Pay money",
        {"amount": "To each, from the government", "name": "Citizen's number; empty: all"},
        "",
        lambda society, _, name, amount: {"pay": [_payment(society, name, amount)]},
    ),
}


def offered() -> list[tuple[str, str, dict[str, str]]]:
    """Return the changes that a page offers: kind, label, and labels of its fields."""
    return [(name, kind.label, kind.fields) for name, kind in _KINDS.items()]


def _payment(society: Society, to: str, amount: float) -> tuple[str, str, int]:
    """Return the government's payment to one citizen or all; ConfigError if it lacks the money."""
    books, cents = society.books, round(amount * 100)
    if to and to not in books.where:
        raise ConfigError(f"there is no citizen {to!r:.80} who could be paid")
    has, pays = books.balances.get("government", 0), cents * (1 if to else len(books.where))
    if not 0 < pays <= has:
        raise ConfigError(f"the government has {has / 100:,.2f}, and is to pay {pays / 100:,.2f}")
    return "government", to or "everyone", cents


def _value(text: str) -> Any:
    """Read a fact that a person wrote: a number or a truth value, else a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
