"""What a person changes in a town: read from a page's request, and said in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic import Field as Checked

from moothall.errors import ConfigError

if TYPE_CHECKING:
    from moothall.society.kernel.intervention import Intervention
    from moothall.society.society import Society


class Change(BaseModel):
    """An intervention that a page requests."""

    kind: Literal["news", "close", "open", "fact", "pay"]
    text: str = Checked("", max_length=2_000)
    name: str = Checked("", max_length=200)
    amount: float = Checked(0, ge=0, le=1e12)

    def applied_to(self, society: Society) -> dict[str, Any]:
        """Return the arguments of the Intervention; ConfigError if something is missing."""
        text, name = self.text.strip(), self.name.strip()
        if self.kind == "pay":
            return {"pay": [_payment(society, name, self.amount)]}
        if self.kind in ("close", "open"):
            if not name:
                raise ConfigError(f"choose the place that is to {self.kind} first")
            return {self.kind: [name]}
        if self.kind == "fact" and not (name and text):
            raise ConfigError("write the fact and its value first, such as weather and rain")
        if not text:
            raise ConfigError("write a text first")
        return {"news": [text]} if self.kind == "news" else {"facts": {name: _value(text)}}


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


def in_words(change: Intervention) -> str:
    """Say what an intervention does."""
    said = [f"news: {each}" for each in change.news]
    said += [f"closes {each}" for each in change.close]
    said += [f"opens {each}" for each in change.open]
    said += [f"{name} is {value}" for name, value in change.facts.items()]
    for sender, to, cents in change.pay:
        whom = to if to == "everyone" else f"citizen {to}"
        said.append(f"{sender} pays {cents / 100:,.2f} to {whom}")
    return "; ".join(said)
