"""A model wrapper that keeps within a budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.budget import Budget, Reservation
from moothall.foundation.errors import (
    BudgetExceeded,
    ConfigError,
    ContextOverflow,
    DeadlineExceeded,
    DefinitionError,
    MissingExtra,
    RemoteForbidden,
    UnknownPrice,
)
from moothall.models.base import AnsweringModel, ModelRequest, prepare
from moothall.models.names import model as named
from moothall.models.protocol import Model, ModelReply, StreamPart, Usage
from moothall.models.wrappers.fallback import FallbackModel
from moothall.models.wrappers.prices import Prices

if TYPE_CHECKING:
    from moothall.actions import Action

_PRICES = Prices()
_MAX_TOKENS = 2**53
_END = object()

# Tokens beside what is counted: the marks of a turn and a role, or the frame of an action; and
# the text with which a chat format begins.
_EXTRA_EACH = 16
_EXTRA_IN_ALL = 64


@dataclass(frozen=True, slots=True)
class _Bound:
    """The most tokens that a call can take; None without a bound."""

    input: int | None
    output: int | None


class BudgetedModel(AnsweringModel):
    """Asks a model within a budget, and only if the budget suffices.

    Before each call it reserves one model call, the most tokens that the call can take, and their
    cost. The model's `count_tokens` counts the input; without it, the input counts as one token per
    byte of the messages, actions and schema as JSON, plus some for each message and action. The
    output is the model's `max_tokens`. Afterwards it settles with the usage that the reply states;
    a part that is zero, or no number of tokens, counts as much as was reserved.

    Without an upper bound a limit of tokens or money cannot be kept. A model whose `max_tokens` is
    None must state one. For a model without that attribute, and for messages with images and the
    like, all that is left is reserved, so that no other call runs beside it; if the call still
    takes more, that is counted and nothing further begins.

    A call that failed or was cancelled, or a stream that was closed early, counts as much as was
    reserved: a provider may bill it. A call that was never sent (`MOOTHALL_OFFLINE=1`, a missing
    extra) counts nothing; a prompt that was refused, as too long or for what it says or shows,
    counts only as a call.

    At the budget's deadline the call is cancelled.

    Each model of a `FallbackModel` gets the budget separately, since each of them may be asked, and
    has its own price and limit. If a `BudgetedModel` wraps another whose budget is an ancestor or
    descendant of its own, a call counts once. A model's own retries count as one call.

    Args:
        model: the model, or the name of one
        budget: the budget, which others may share

    Attributes:
        model: the model
        budget: the budget
        name: the model's
        max_tokens: the model's, if it has it
        count_tokens: the model's, if it has it
        batch: whether the model's requests go in batches, which are answered within a day

    Raises:
        UnknownPrice: the budget has a limit of money, and the model's price is not known
        DefinitionError: the budget has a limit of tokens or money, and the model's `max_tokens` is
            None
    """

    asks_others = True

    def __init__(self, model: Model | str, budget: Budget) -> None:
        if not isinstance(budget, Budget):
            raise ConfigError(
                f"BudgetedModel: budget= must be a Budget, got {type(budget).__name__}"
            )
        self.budget: Budget = budget
        self.model: Model = named(model)
        while type(self.model) is BudgetedModel and budget.is_part_of(self.model.budget):
            self.model = self.model.model  # spending here already counts there
        self.name: str = str(getattr(self.model, "name", None) or type(self.model).__name__)
        self.batch: bool = getattr(self.model, "batch", False)
        # The model to ask without reserving, if it or its parts keep to the budget.
        self._budgeted: Model | None = None
        self._last_count: tuple[str, int] | None = None  # the last count, until it is used
        if type(self.model) is BudgetedModel and self.model.budget.is_part_of(budget):
            self._budgeted = self.model
        elif type(self.model) is FallbackModel:  # not a subclass, which may act otherwise
            self._budgeted = budgeted = copy(self.model)
            budgeted.models = tuple(BudgetedModel(part, budget) for part in self.model.models)
        else:
            self.cost(0, 0)
            self._output_bound()

    @property
    def context_tokens(self) -> int | None:
        """How much the model's prompt and its answer may take together; None if unknown."""
        return getattr(self.model, "context_tokens", None)

    def __getattr__(self, name: str) -> Any:
        # Their presence matters: an agent's memory counts by `count_tokens` if it exists.
        if name in ("count_tokens", "find_context", "max_tokens") and "model" in self.__dict__:
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"BudgetedModel({self.model!r}, {self.budget!r})"

    async def _prepare(self, actions: list[Action] | None) -> None:
        await prepare(self.model, actions)

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        if self._budgeted is not None:
            async with aclosing(request.stream_from(self._budgeted)) as parts:
                async for part in parts:
                    yield part
            return
        bound, reservation = await self._reserve(request)
        has_begun = False
        with reservation:
            async with aclosing(request.stream_from(self.model)) as parts:
                try:
                    # Part by part: a timeout around a `yield` would cancel the reader.
                    while (part := await self._next(parts)) is not _END:
                        has_begun = True
                        # A user's own model may return anything as a plain answer.
                        if (
                            isinstance(part, ModelReply) or not request.stream
                        ) and reservation.open:
                            self._settle(reservation, bound, part)
                        yield part
                except Exception as error:
                    if getattr(error, "usage", None) is not None and reservation.open:
                        self._settle(reservation, bound, error)
                    elif not has_begun:
                        _give_back(reservation, error)
                    raise

    # -- before the call ---------------------------------------------------------------------------

    def largest_amounts(self, *request: Any) -> dict[str, Any]:
        """Return what a call would reserve now, by limit; the most of several models."""
        budgeted: Any = self._budgeted
        if budgeted is not None:
            all_amounts = [
                model.largest_amounts(*request)
                for model in getattr(budgeted, "models", ()) or [budgeted]
            ]
            return {name: max(amounts[name] for amounts in all_amounts) for name in all_amounts[0]}
        bound, largest = self._bound(ModelRequest(*request))
        if bound.input is None or bound.output is None:
            remaining = self.budget.left
            if remaining.tokens is not None:
                largest["tokens"] = max(largest["tokens"], remaining.tokens)
            if remaining.usd is not None and not self._is_free():
                largest["usd"] = max(largest["usd"], Decimal(repr(remaining.usd)))
        return largest

    def _bound(self, request: ModelRequest) -> tuple[_Bound, dict[str, Any]]:
        """Return the most tokens of a call, and the most that it takes of each limit."""
        bound = _Bound(self._input_bound(request), self._output_bound())
        input, output = bound.input or 0, bound.output or 0
        usd = self._cost_of(input, output, highest=True)
        return bound, {"tokens": input + output, "usd": usd, "model_calls": 1}

    async def _reserve(self, request: ModelRequest) -> tuple[_Bound, Reservation]:
        bound, amounts = self._bound(request)
        reserve: Callable[..., Reservation] = self.budget.reserve
        if bound.input is None or bound.output is None:
            reserve = self.budget.reserve_rest
            amounts["usd"] = None if self._is_free() else amounts["usd"]
        try:
            reservation = await self.budget.in_turn(partial(reserve, **amounts))
        except DeadlineExceeded as error:
            raise DeadlineExceeded(f"{self.name} was not asked: {error}") from error
        except BudgetExceeded as error:
            reason = ""
            if error.limit in ("tokens", "usd"):
                counted = "by count_tokens"
                if getattr(self.model, "count_tokens", None) is None:
                    counted = "at a token a byte, for the model has no count_tokens"
                reason = (
                    f" (the input counts {counted}, and the answer at max_tokens: raise the limit, "
                    "or lower one of these)"
                )
            raise BudgetExceeded(
                f"{self.name} was not asked: {error}{reason}", error.limit
            ) from error
        return bound, reservation

    def _input_bound(self, request: ModelRequest) -> int | None:
        """Return the most tokens of the input; None without a bound."""
        if _has_more_than_text(request.messages):
            return None
        parts = len(request.messages) + len(request.actions or ())
        overhead = _EXTRA_IN_ALL + _EXTRA_EACH * parts
        count = getattr(self.model, "count_tokens", None)
        if count is None:
            # No tokenizer produces more tokens than bytes.
            return request.byte_count(self.name) + overhead
        text = request.as_json(self.name, ensure_ascii=False)
        # A run asks for the bound before it asks the model: the slow count is kept for that call.
        last_count, self._last_count = self._last_count, None
        if last_count is not None and last_count[0] == text:
            return last_count[1] + overhead
        token_count = count(text)
        if type(token_count) is not int or token_count < 0:
            raise DefinitionError(
                f"{self.name}: count_tokens gives a number of tokens, not {token_count!r:.80}"
            )
        self._last_count = (text, token_count)
        return token_count + overhead

    def _output_bound(self) -> int | None:
        """Return the most tokens of the output; None without a bound."""
        model: Any = self.model
        if not hasattr(model, "max_tokens"):
            return None
        bound = model.max_tokens
        if bound is None:
            remaining = self.budget.left
            if remaining.tokens is None and (remaining.usd is None or self._is_free()):
                return None
            limit = "tokens" if remaining.tokens is not None else "money"
            raise DefinitionError(
                f"{self.name}: {self.budget} limits {limit}, and nothing limits this model's "
                "answers; make the model with max_tokens="
            )
        if type(bound) is not int or not 0 <= bound <= _MAX_TOKENS // 2:
            raise ConfigError(
                f"{self.name}: max_tokens must be a number of tokens, got {bound!r:.80}"
            )
        return bound

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the cost of tokens in US dollars; 0 if no limit is of money.

        Raises:
            UnknownPrice: the price is not known
        """
        return self._cost_of(input_tokens, output_tokens)

    def _cost_of(self, input: int, output: int, *cached: int, highest: bool = False) -> Decimal:
        """Return what tokens cost, `cached` ones of the input among them, or can cost at most."""
        prices = _PRICES if self.budget.prices is None else self.budget.prices
        try:
            is_half_price = getattr(self.model, "half_price", False)
            if not isinstance(prices, Prices):  # a user's own knows nothing of caches
                cost: Decimal = prices.cost(self.name, input, output)
                return cost / 2 if is_half_price else cost
            price = prices.price(self.name)
            price = price.halved() if is_half_price else price
            return price.highest(input, output) if highest else price.cost(input, output, *cached)
        except UnknownPrice:
            from moothall.models.local.local_model import LocalModel

            if self.budget.left.usd is None or isinstance(self.model, LocalModel):
                return Decimal(0)
            raise

    def _is_free(self) -> bool:
        return not self.cost(1, 1)

    # -- the call, and after it --------------------------------------------------------------------

    async def _next(self, parts: AsyncGenerator[StreamPart, None]) -> Any:
        """Return the next part; cancel the call and raise at the deadline."""
        remaining_s = self.budget.remaining_seconds()
        if remaining_s is None:
            return await anext(parts, _END)
        reason = f"{self.name}: the seconds of {self.budget} were over before it had answered"
        if remaining_s <= 0:
            raise DeadlineExceeded(reason)
        try:
            async with asyncio.timeout(remaining_s) as limit:
                return await anext(parts, _END)
        except Exception as error:
            # A TimeoutError of the model itself is not the deadline's. A cancellation from outside
            # is not an Exception and does not come here.
            if limit.expired():
                raise DeadlineExceeded(reason) from error
            raise

    def _settle(self, reservation: Reservation, bound: _Bound, reply: Any) -> None:
        usage = Usage.in_answer(reply)
        input_tokens, output_tokens = _tokens(usage.input_tokens), _tokens(usage.output_tokens)
        has_content = (
            not isinstance(reply, ModelReply) or reply.text or reply.calls or reply.reasoning
        )
        output = output_tokens or (bound.output if has_content or not input_tokens else 0)
        input = input_tokens or bound.input
        if input is None or output is None:
            reservation.settle()  # as reserved, since the usage is not known
        else:
            cache_reads = min(usage.cache_read_tokens, input)
            cache_writes = min(usage.cache_write_tokens, input - cache_reads)
            cost = self._cost_of(input, output, cache_reads, cache_writes)
            reservation.settle(tokens=input + output, usd=cost)


def _has_more_than_text(messages: Iterable[Any]) -> bool:
    """Return whether messages have blocks whose tokens do not follow from bytes, such as images."""
    for message in messages:
        try:
            content = message["content"]
        except (KeyError, TypeError):
            continue
        # Nearly all are texts; a long thread has many: this asks without a call of a function.
        if content.__class__ is str or not isinstance(content, list):
            continue
        if any(isinstance(each, dict) and each.get("type", "text") != "text" for each in content):
            return True
    return False


def _give_back(reservation: Reservation, error: Exception) -> None:
    """Release what certainly cost nothing in a call that failed before its first part."""
    if isinstance(error, RemoteForbidden | MissingExtra):
        reservation.release()
    elif isinstance(error, ContextOverflow) or getattr(error, "of_content", False):
        reservation.settle(tokens=0, usd=0)


def _tokens(count: int) -> int:
    """Return a stated number of tokens; 0 if no call can take so many."""
    return count if count <= _MAX_TOKENS // 2 else 0
