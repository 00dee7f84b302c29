"""How much of its model's context an agent's own memory may take."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from moothall.errors import MissingExtra, ModelError
from moothall.memory.bounded import ASSUMED_CONTEXT, TokenBoundedMemory
from moothall.text import counted

logger: logging.Logger = logging.getLogger("moothall.reasoning")

_ASK_S = 5.0
_LEAST_CHARS = 200
"""How many characters of each result are shown even in a small context."""
_ASSUMED = f"{ASSUMED_CONTEXT:,} tokens are assumed: state context_tokens="
_ASKED: WeakSet[Any] = WeakSet()
"""The models whose servers do not say how much they read."""


def bounds_of(model: Any) -> tuple[int, int]:
    """Return the tokens of a memory: in all, and before a reply loses its own results."""
    context = getattr(model, "context_tokens", None)
    room = context if isinstance(context, int) else ASSUMED_CONTEXT
    # The rest is for the system part, the actions' descriptions and the answer.
    return max(room // 2, 1), max(room * 3 // 4, 1)


async def fit(model: Any, memory: Any, agent: str) -> None:
    """Fit a memory that the agent was not given to its model, whose server is asked if need be."""
    if not isinstance(memory, TokenBoundedMemory) or memory.reply_tokens is None:
        return
    find = getattr(model, "find_context", None)
    if find is not None and getattr(model, "context_tokens", None) is None and model not in _ASKED:
        with suppress(ModelError, MissingExtra, TimeoutError):  # an answer will say so
            async with asyncio.timeout(_ASK_S):
                await find()
        if model.context_tokens is None:
            _ASKED.add(model)
            logger.info(
                "agent %r: nobody says how much model %s reads at once; %s",
                agent,
                model.name,
                _ASSUMED,
            )
    memory.max_tokens, memory.reply_tokens = bounds_of(model)


def left_out(detail: str, memory: Any, agent: str, model: Any) -> str:
    """Return a reply's detail, with what the model no longer read of the reply, if anything."""
    if not (count := getattr(memory, "left_out", 0)):
        return detail
    said = f"{counted(count, 'earlier message')} of this reply did not fit the model's memory"
    known = getattr(model, "context_tokens", None) is not None
    logger.warning("agent %r: %s", agent, said if known else f"{said}; {_ASSUMED}")
    return f"{detail}; {said}" if detail else said


def result_chars(model: Any, most: int, results: int) -> int:
    """Return how many characters of each result are shown: together about half the context."""
    context = getattr(model, "context_tokens", None)
    return min(most, max(context // results, _LEAST_CHARS)) if isinstance(context, int) else most
