"""A model: it says what its oracle does."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import Any

from moothall import Call, ModelError, ModelReply


class Oracle:
    """Gives the answers that it was made with, one after the other."""

    context_tokens = None

    def __init__(self, *answers: Any, name: str = "oracle") -> None:
        self.name = name
        self._answers = deque(answers)
        self._ids = map(str, count(1))

    async def complete(
        self, messages: list[dict[str, Any]], actions: Any = None, schema: Any = None
    ) -> ModelReply:
        """Return the next answer."""
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer")
        answer = self._answers.popleft() if self._answers else "The oracle is silent."
        if callable(answer):
            answer = await answer(messages, actions)
        if isinstance(answer, Mapping):
            answer = Call(next(self._ids), answer["name"], answer.get("args", {}))
        if isinstance(answer, Call):
            return ModelReply(calls=(answer,), finish_reason="calls")
        return ModelReply(answer)
