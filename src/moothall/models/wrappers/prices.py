"""Prices of models: US dollars per million tokens, by the models' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from moothall.budget.limits import picodollars
from moothall.foundation.errors import ConfigError, DefinitionError, UnknownPrice
from moothall.foundation.http.server_url import ServerURL
from moothall.foundation.text import excerpt, shorten
from moothall.models.providers import listed_price

# Models in this process, those of one's own server, and scripted ones.
_FREE = ("local:", "gguf:", "ollama:", "scripted")

PriceLike: TypeAlias = "Price | tuple[float | Decimal, float | Decimal]"


@dataclass(frozen=True, init=False, slots=True)
class Price:
    """A model's price, in US dollars per million tokens.

    If it varies, by the length of the prompt or by the hour, state the highest.

    Args:
        input: per million input tokens
        output: per million output tokens, including reasoning tokens
        cache_read: per million input tokens that the provider had in its cache; `input` if left out
        cache_write: per million input tokens that it stored there; `input` if left out

    Raises:
        DefinitionError: a price is not a number from 0 on
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    # In whole picodollars a cost is exact, whatever the precision of the caller's decimals.
    _rates: tuple[int, int, int, int] = field(repr=False, compare=False)

    def __init__(
        self,
        input: float | Decimal,
        output: float | Decimal,
        cache_read: float | Decimal | None = None,
        cache_write: float | Decimal | None = None,
    ) -> None:
        amounts = {
            "input": input,
            "output": output,
            "cache_read": input if cache_read is None else cache_read,
            "cache_write": input if cache_write is None else cache_write,
        }
        rates = tuple(picodollars("Price", price, name) for name, price in amounts.items())
        for name, price in amounts.items():
            object.__setattr__(self, name, Decimal(str(price)))  # 0.15 means 0.15 exactly
        object.__setattr__(self, "_rates", rates)

    def cost(
        self,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Decimal:
        """Return the exact cost of tokens in US dollars; the cache's are input too."""
        input, output, read, write = self._rates
        total = input * input_tokens + output * output_tokens
        total += (read - input) * cache_read_tokens + (write - input) * cache_write_tokens
        return Decimal(f"{total}E-18")

    def highest(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the most that tokens can cost, whatever the cache does."""
        dearest = max(self._rates[0], self._rates[2], self._rates[3])
        return Decimal(f"{dearest * input_tokens + self._rates[1] * output_tokens}E-18")

    def halved(self) -> Price:
        """Return half the price, as providers take for batches."""
        half = (self.input / 2, self.output / 2, self.cache_read / 2, self.cache_write / 2)
        return Price(*half)


FREE = Price(0, 0)


class Prices:
    """Prices of models by name: those that you state, and those of the package `genai-prices`.

    Yours take precedence. Where a price varies by the length of the prompt or by the hour, the
    package's highest is taken. Models of this machine (`local`, `gguf:`, `scripted`, and servers on
    loopback) cost nothing unless you state a price for them.

    Args:
        stated: `{"openai:NAME": Price(input, output)}`, in US dollars per million tokens; a pair of
            numbers may replace a `Price`

    Raises:
        DefinitionError: a name or a price is not valid
    """

    def __init__(self, stated: Mapping[str, PriceLike] | None = None) -> None:
        if stated is not None and not isinstance(stated, Mapping):
            raise DefinitionError(
                f"Prices takes names and their prices, got {excerpt(stated)}: "
                "Prices({'openai:NAME': Price(input, output)})"
            )
        self._by_name: dict[str, Price] = {}
        for name, price in (stated or {}).items():
            if isinstance(price, tuple) and len(price) == 2:
                price = Price(*price)
            if not isinstance(price, Price):
                raise DefinitionError(
                    f"Prices: {excerpt(name)} has no price but {excerpt(price)}; "
                    "write Price(input, output)"
                )
            self._state(name, price)

    def set_price(
        self,
        name: str,
        input_usd_per_million: float | Decimal,
        output_usd_per_million: float | Decimal,
    ) -> None:
        """Set a model's price from now on.

        Args:
            name: the model's name, such as `openai:NAME`
            input_usd_per_million: US dollars per million input tokens
            output_usd_per_million: US dollars per million output tokens

        Raises:
            DefinitionError: the name or a price is not valid
        """
        self._state(name, Price(input_usd_per_million, output_usd_per_million))

    def price(self, name: str) -> Price:
        """Return a model's price.

        Raises:
            UnknownPrice: the price is not known
        """
        own_price = self._by_name.get(name)
        if own_price is None and _is_free(name):
            own_price = FREE
        if own_price is None and (listed := listed_price(name)) is not None:
            own_price = Price(*listed)
        if own_price is None:
            excerpt = repr(shorten(name, 200))
            raise UnknownPrice(
                f"no price is known for {excerpt}, so no money can be reserved for it; pass "
                f"Budget(usd=…, prices=Prices({{{excerpt}: Price(input, output)}})), in US dollars "
                "per million tokens"
            )
        return own_price

    def cost(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Decimal:
        """Return the cost in US dollars of a model's tokens; those of the cache are input too.

        Raises:
            UnknownPrice: the model's price is not known
        """
        cached = cache_read_tokens, cache_write_tokens
        return self.price(model).cost(input_tokens, output_tokens, *cached)

    def _state(self, name: object, price: Price) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"Prices: a model's name must be a text, got {excerpt(name)}")
        self._by_name[name] = price

    def __repr__(self) -> str:
        return f"<Prices: {len(self._by_name)} stated>"


def _is_free(name: str) -> bool:
    if name == "local" or name.startswith(_FREE):
        return True
    return name.startswith(("http://", "https://")) and ServerURL(name).is_loopback
