"""What the package `genai-prices` says of models: contexts and prices.

It is imported when it is first asked, which takes some tenths of a second, and asks no server.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from moothall.models.providers import PROVIDERS, provider_of

_FIELDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def listed_context(name: str) -> int | None:
    """Return the context of a model of this name; None if it is not listed."""
    found = _found(name)
    context = getattr(found, "context_window", None)
    return context if type(context) is int and context > 0 else None


@lru_cache(maxsize=256)
def listed_price(name: str) -> tuple[Decimal, Decimal, Decimal | None, Decimal | None] | None:
    """Return what a model takes per million tokens, for long prompts and at any hour of today.

    These are input, output, reading of the cache and writing to it, in US dollars.
    """
    found = _found(name)
    if found is None:
        return None
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hours = [found.get_prices(today + timedelta(hours=hour)) for hour in range(24)]
    input, output, read, write = (_highest(hours, field) for field in _FIELDS)
    return None if input is None or output is None else (input, output, read, write)


def _highest(prices: list[Any], field: str) -> Decimal | None:
    given: list[Any] = []
    for each in prices:
        price = getattr(each, field, None)
        tiers = getattr(price, "tiers", ())
        given += [getattr(price, "base", price), *(tier.price for tier in tiers)]
    return max((each for each in given if isinstance(each, Decimal)), default=None)


def _found(name: str) -> Any:
    """Return the package's record of a model; None if there is none, or no package."""
    provider, listed = provider_of(name)
    if provider is None or not PROVIDERS[provider].data:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    data = PROVIDERS[provider].data
    of = next((each for each in get_snapshot().providers if each.id == data), None)
    found = None if of is None else of.find_model(listed)
    if found is None and data == "azure":  # the models of OpenAI
        return _found(f"openai:{listed}")
    return found
