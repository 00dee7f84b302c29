"""A model whose answers are written down, and what an answer is made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from moothall.actions import Action
from moothall.models.protocol import Call, ModelReply, Usage

_NUMBERS = itertools.count(1)


def say(text: str) -> ModelReply:
    """An answer with text only."""
    return ModelReply(text=text, usage=Usage(10, 2))


def use(name: str, args: Any = None, *, text: str = "", id: str | None = None) -> ModelReply:
    """An answer with one call."""
    return both((name, args), text=text, ids=None if id is None else [id])


def both(*calls: tuple[str, Any], text: str = "", ids: list[str] | None = None) -> ModelReply:
    """An answer with several calls."""
    ids = ids or [f"call-{next(_NUMBERS)}" for _ in calls]
    made = tuple(
        Call(id, name, {} if args is None else args)
        for id, (name, args) in zip(ids, calls, strict=True)
    )
    return ModelReply(text=text, calls=made, usage=Usage(10, 5), finish_reason="calls")


class Answers:
    """Gives its answers in turn, the last one for ever, and keeps what it was asked.

    An answer is given as it is, raised if it is an exception, and called with the prompt if it is
    a function; what that gives is awaited if need be.
    """

    name = "answers"
    context_tokens: int | None = None

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.prompts: list[list[dict[str, Any]]] = []
        self.offered: list[list[Action]] = []

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> Any:
        self.prompts.append(list(messages))
        self.offered.append(list(actions or []))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(messages)
            if hasattr(answer, "__await__"):
                answer = await answer
        return answer

    @property
    def last(self) -> dict[str, Any]:
        """The last message that it was shown."""
        return self.prompts[-1][-1]

    @property
    def names(self) -> list[str]:
        """The names of the actions that it was shown last."""
        return [action.name for action in self.offered[-1]]
