"""Calling a function that the user gave, of the state of a conversation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from civitas.action import is_async
from civitas.reasoning.conversation.state import ConversationState
from civitas.threads import WORKERS

__all__ = ["called"]


async def called(function: Callable[[ConversationState], Any], state: ConversationState) -> Any:
    """What a function gives, plain or `async`.

    Where there is a deadline a plain one is called in a worker thread: it cannot be stopped, but it
    need not be waited for.
    """
    budget = state.budget
    if budget is None or budget.remaining_seconds() is None or is_async(function):
        given = function(state)
    else:
        given = await WORKERS.run(asyncio.get_running_loop(), function, state)
    return await given if inspect.isawaitable(given) else given
