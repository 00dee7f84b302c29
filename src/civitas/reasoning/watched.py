"""Agents that can be watched while they answer what others ask them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from civitas.errors import DefinitionError

if TYPE_CHECKING:
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.events import Event
    from civitas.reasoning.reply import Reply

__all__ = ["Watched"]

logger = logging.getLogger("civitas.reasoning")


class Watched:
    """An agent's part that shows what happens while it answers, whoever asked."""

    _watchers: tuple[Callable[[Event], Any], ...] = ()

    def watch(self, callback: Callable[[Event], Any]) -> None:
        """Have the events of every answer shown to `callback(event)`: those that `stream` gives.

        It is called in the task that answers, where the agent's `_current_message` is the message
        that is answered, or None. It may not block; if it raises, that is logged and it is called
        no more.

        Raises:
            DefinitionError: it is no plain function
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise DefinitionError(f"watch takes a plain function, not {callback!r:.80}")
        self._watchers = (*self._watchers, callback)

    def unwatch(self, callback: Callable[[Event], Any]) -> None:
        """Show it no more.

        Raises:
            KeyError: it is shown nothing
        """
        if callback not in self._watchers:
            raise KeyError(f"{callback!r:.80} watches nothing")
        self._watchers = tuple(each for each in self._watchers if each != callback)

    def _tell(self, event: Event) -> None:
        for callback in self._watchers:
            try:
                callback(event)
            except Exception:
                logger.exception("%r failed as it watched, and is called no more", callback)
                self._watchers = tuple(each for each in self._watchers if each != callback)

    async def _answered(
        self, answer: Callable[[Asked], Coroutine[Any, Any, Reply]], asked: Asked
    ) -> Reply:
        """Reply, and tell who watches."""
        from civitas.reasoning.events import Done

        asked.emit = self._shown_too(asked.emit)
        reply = await answer(asked)
        self._tell(Done(str(getattr(self, "id", "")), reply, asked.run_id, asked.thread))
        return reply

    def _shown_too(self, emit: Callable[[Event], Any] | None) -> Callable[[Event], Any]:
        """Where events go, so that who watches is shown them too."""

        def both(event: Event) -> None:
            if emit is not None:
                emit(event)
            self._tell(event)

        return both
