"""A model that spends no more than a budget allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from civitas.budget import Budget, Reservation
from civitas.budget.bill import add_to_bill
from civitas.errors import (
    BudgetExceeded,
    ContextOverflow,
    DeadlineExceeded,
    DefinitionError,
    MissingExtra,
    RemoteForbidden,
    UnknownPrice,
)
from civitas.models.base import Answering, Request
from civitas.models.names import model as named
from civitas.models.protocol import Model, ModelReply, StreamPart
from civitas.models.wrappers.fallback import FallbackModel
from civitas.models.wrappers.prices import Prices

if TYPE_CHECKING:
    from civitas.action import Action

_PRICES = Prices()
_MOST_TOKENS = 2**53
_END = object()
_MISSING = object()

# Tokens that stand around what is counted: the marks of a turn and a role, or the frame of an
# action; and what a chat format says before it all.
_AROUND_EACH = 16
_AROUND_ALL = 64


@dataclass(frozen=True, slots=True)
class _Bound:
    """How many tokens a call can take at most; None for what has no bound."""

    input: int | None
    output: int | None


class BudgetedModel(Answering):
    """Asks a model within a budget, and only if it reaches.

    Before each call it reserves one model call, the most tokens that it can take, and what these
    cost. The input is counted by the model's `count_tokens`, or else for as many tokens as its
    messages, actions and schema have bytes as JSON, and some more for each message and action; the
    output is the model's `max_tokens`. Afterwards it settles with the usage that the reply states;
    a part that is zero, or no number of tokens, counts as much as was reserved.

    Without an upper bound a limit of tokens or money cannot be promised. A model whose `max_tokens`
    is None could state one, and must. For one that has no such attribute, and for messages with
    images and the like, all that is left is reserved, so that no other call runs beside it; if it
    takes more all the same, that is counted and nothing further begins.

    A call that failed or was cancelled, and a stream that was closed early, counts as much as was
    reserved: a provider may bill it. Only what never left (`CIVITAS_OFFLINE=1`, a missing extra)
    counts nothing, and a prompt that was refused as too long, only the call.

    At the budget's deadline the call is cancelled.

    Each model of a `FallbackModel` is given the budget by itself, since each of them is asked, and
    has its own price and limit. A `BudgetedModel` of a budget that this one descends from, or that
    descends from this one, counts once. Attempts that a model makes again by itself are one call.

    Args:
        model: the model, or the name of one
        budget: what it may spend, which others may share

    Attributes:
        model: the model
        budget: the budget
        name: the model's
        context_tokens: the model's
        max_tokens: the model's, if it has it
        count_tokens: the model's, if it has it

    Raises:
        UnknownPrice: the budget has a limit of money, and nobody has stated the model's price
        DefinitionError: the budget has a limit of tokens or money, and the model's `max_tokens` is
            None
    """

    def __init__(self, model: Model | str, budget: Budget) -> None:
        if not isinstance(budget, Budget):
            raise DefinitionError(
                f"BudgetedModel: budget= is a Budget, not a {type(budget).__name__}"
            )
        self.budget: Budget = budget
        self.model: Model = named(model)
        while type(self.model) is BudgetedModel and budget.is_part_of(self.model.budget):
            self.model = self.model.model  # what is spent here counts there as it is
        self.name = self.model.name
        self.context_tokens: int | None = self.model.context_tokens
        # Asked as it is, where what it is made of obeys.
        self._obeying: Model | None = None
        self._counted: tuple[str, int] | None = None  # the last that was, unless it was used
        if type(self.model) is BudgetedModel and self.model.budget.is_part_of(budget):
            self._obeying = self.model
        elif type(self.model) is FallbackModel:  # what a class of a user's own does is its own
            each = [BudgetedModel(part, budget) for part in self.model.models]
            self._obeying = FallbackModel(each, name=self.name)
        else:
            self.cost(0, 0)
            self._output_bound()

    def __getattr__(self, name: str) -> Any:
        # Whether they are there says something: an agent's memory counts by `count_tokens`.
        if name in ("count_tokens", "max_tokens") and "model" in self.__dict__:
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"BudgetedModel({self.model!r}, {self.budget!r})"

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        if self._obeying is not None:
            parts = request.asked_of(self._obeying)
            async with aclosing(parts):
                async for part in parts:
                    yield part
            return
        bound, held = await self._reserve(request)
        parts = request.asked_of(self.model)
        began = False
        with held:
            async with aclosing(parts):
                while True:
                    try:
                        # Part by part: a timeout around a `yield` would end who reads it.
                        part = await self._next(parts)
                    except Exception as error:
                        if not began:
                            _give_back(held, error)
                        raise
                    if part is _END:
                        return
                    began = True
                    # A plain answer may be anything that a user's own model gives.
                    if (isinstance(part, ModelReply) or not request.stream) and held.open:
                        self._settle(held, bound, part)
                    yield part

    # -- before the call ---------------------------------------------------------------------------

    def _most(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> tuple[int, Decimal]:
        """How many tokens, and how much money, a call would reserve now; it reserves nothing.

        Of the models of a `FallbackModel`, it is what the dearest would.
        """
        obeying: Any = self._obeying
        if obeying is not None:
            each: list[Any] = [obeying]
            if type(obeying) is FallbackModel:
                each = list(obeying.models)
            found = [model._most(messages, actions, schema) for model in each]
            return max(tokens for tokens, _ in found), max(usd for _, usd in found)
        bound, tokens, usd = self._bound(Request(messages, actions, schema))
        if bound.input is None or bound.output is None:
            left = self.budget.left
            if left.tokens is not None:
                tokens = max(tokens, left.tokens)
            if left.usd is not None and not self._is_free():
                usd = max(usd, Decimal(repr(left.usd)))
        return tokens, usd

    def _bound(self, request: Request) -> tuple[_Bound, int, Decimal]:
        """How many tokens a call can take at most, by kind and together, and what these cost."""
        bound = _Bound(self._input_bound(request), self._output_bound())
        input, output = bound.input or 0, bound.output or 0
        return bound, input + output, self.cost(input, output)

    async def _reserve(self, request: Request) -> tuple[_Bound, Reservation]:
        bound, tokens, usd = self._bound(request)
        take = partial(self.budget.reserve, usd=usd)
        if bound.input is None or bound.output is None:
            take = partial(self.budget.reserve_rest, usd=None if self._is_free() else usd)
        try:
            held = await self.budget.in_turn(partial(take, tokens=tokens, model_calls=1))
        except DeadlineExceeded as error:
            raise DeadlineExceeded(f"{self.name} was not asked: {error}") from error
        except BudgetExceeded as error:
            why = self._why_so_much() if error.limit in ("tokens", "usd") else ""
            raise BudgetExceeded(f"{self.name} was not asked: {error}{why}", error.limit) from error
        add_to_bill(held, self.budget)
        return bound, held

    def _why_so_much(self) -> str:
        """What was counted for a call that does not fit, and what to do about it."""
        if getattr(self.model, "count_tokens", None) is None:
            counted = "at a token a byte, for the model has no count_tokens; give it one"
        else:
            counted = "by count_tokens, and the answer at max_tokens; shorten the input"
        return f" (input counted {counted}, a lower max_tokens, or a larger budget)"

    def _input_bound(self, request: Request) -> int | None:
        """How many tokens go in at most; None if that cannot be told."""
        if any(map(_has_more_than_text, request.messages)):
            return None
        text = request.as_json(self.name, ensure_ascii=False)
        parts = len(request.messages) + len(request.actions or ())
        around = _AROUND_ALL + _AROUND_EACH * parts
        count = getattr(self.model, "count_tokens", None)
        if count is None:
            # No tokenizer makes more tokens than bytes.
            return len(text.encode("utf-8", "surrogatepass")) + around
        # A run asks how much it will be before it asks: what a tokenizer took long for stands then.
        known, self._counted = self._counted, None
        if known is not None and known[0] == text:
            return known[1] + around
        counted = count(text)
        if type(counted) is not int or counted < 0:
            raise DefinitionError(
                f"{self.name}: count_tokens gives a number of tokens, not {counted!r:.80}"
            )
        self._counted = (text, counted)
        return counted + around

    def _output_bound(self) -> int | None:
        """How many tokens come out at most; None if that cannot be told."""
        bound: Any = getattr(self.model, "max_tokens", _MISSING)
        if bound is _MISSING:
            return None
        if bound is None:
            left = self.budget.left
            if left.tokens is None and (left.usd is None or self._is_free()):
                return None
            limit = "tokens" if left.tokens is not None else "money"
            raise DefinitionError(
                f"{self.name}: {self.budget} limits {limit}, and nothing limits this model's "
                "answers; make the model with max_tokens="
            )
        if type(bound) is not int or not 0 <= bound <= _MOST_TOKENS // 2:
            raise DefinitionError(
                f"{self.name}: max_tokens must be a number of tokens, got {bound!r:.80}"
            )
        return bound

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """What so many tokens cost, in US dollars; 0 where nothing limits money.

        Raises:
            UnknownPrice: nobody has stated the price
        """
        prices = self.budget.prices
        try:
            return (_PRICES if prices is None else prices).cost(
                self.name, input_tokens, output_tokens
            )
        except UnknownPrice:
            if self.budget.left.usd is None or _is_local(self.model):
                return Decimal(0)
            raise

    def _is_free(self) -> bool:
        return not self.cost(1, 1)

    # -- the call, and after it --------------------------------------------------------------------

    async def _next(self, parts: AsyncGenerator[StreamPart, None]) -> Any:
        """The next part, if it comes before the deadline; then the call is cancelled."""
        left = self.budget.remaining_seconds()
        if left is None:
            return await anext(parts, _END)
        late = f"{self.name}: the seconds of {self.budget} were over before it had answered"
        if left <= 0:
            raise DeadlineExceeded(late)
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await anext(parts, _END)
        except Exception as error:
            # A TimeoutError of the model's own is the model's. Cancelled from outside as well, it
            # is no Exception that comes here.
            if limit.expired():
                raise DeadlineExceeded(late) from error
            raise

    def _settle(self, held: Reservation, bound: _Bound, reply: Any) -> None:
        usage = getattr(reply, "usage", None)
        given = _tokens(getattr(usage, "input_tokens", None))
        answered = _tokens(getattr(usage, "output_tokens", None))
        if given and not answered and _is_empty(reply):
            output: int | None = 0
        else:
            output = answered or bound.output
        input = given or bound.input
        if input is None or output is None:
            held.settle()  # nothing better is known
        else:
            held.settle(tokens=input + output, usd=self.cost(input, output))


def _has_more_than_text(message: Any) -> bool:
    """Whether a message has blocks whose size in bytes says nothing, such as images."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type", "text") != "text" for block in content
    )


def _give_back(held: Reservation, error: Exception) -> None:
    """Of a call that failed at once: what certainly costs nothing."""
    if isinstance(error, RemoteForbidden | MissingExtra):
        held.release()
    elif isinstance(error, ContextOverflow):
        held.settle(tokens=0, usd=0)


def _tokens(value: Any) -> int:
    """A number of tokens as stated; 0 if it is none."""
    return value if type(value) is int and 0 < value <= _MOST_TOKENS // 2 else 0


def _is_empty(reply: Any) -> bool:
    return isinstance(reply, ModelReply) and not (reply.text or reply.calls or reply.reasoning)


def _is_local(model: Model) -> bool:
    from civitas.models.local import LocalModel

    return isinstance(model, LocalModel)
