"""Several models as one: if one cannot answer, the next is asked."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from moothall.foundation.arguments import check_function, check_text
from moothall.foundation.errors import ContextOverflow, DefinitionError, MissingExtra, ModelError
from moothall.models.base import AnsweringModel, ModelRequest, prepare, with_options
from moothall.models.names import model as named
from moothall.models.protocol import Model, ModelReply, StreamPart

if TYPE_CHECKING:
    from moothall.actions import Action

logger: logging.Logger = logging.getLogger("moothall.models")

# In the text of a refusal that is not of the request alone.
_MODEL_FAULT = re.compile("model|api.?key|credit|billing|quota|policy|filter|safety", re.I)


class FallbackModel(AnsweringModel):
    """Asks models one after the other until one answers.

    If a model raises `ModelError`, the next one is asked: no network, a limit, a prompt too long
    for it, a call that `MOOTHALL_OFFLINE=1` forbids. The same holds if a model's extra is not
    installed. A request that the server refuses as wrong (status 400 or 422) is a fault of
    the program and ends the call; `when=` decides otherwise. Each time a warning is logged. In a
    stream, the next model is asked only before the first piece.

    The answer says in `meta["answered_by"]` which model it is of; a journal has it.

    Cancelling ends the call. Any other exception passes through: it is a fault of the program,
    which another model would only hide.

    Its `context_tokens` is the smallest known one, so that an agent's memory fits every model. Its
    `max_tokens` is the largest, or None if one is not known, so that a budget's bound suffices for
    every model.

    Args:
        models: models, or names of models, in the order in which they are asked
        name: what people call it
        when: returns whether the next model is asked after an error

    Raises:
        DefinitionError: `models` is not a list of models, or is empty
        ModelError: there is no model of a name
    """

    asks_others = True

    def __init__(
        self,
        models: Iterable[Model | str],
        *,
        name: str | None = None,
        when: Callable[[Exception], bool] | None = None,
    ) -> None:
        if isinstance(models, str) or not isinstance(models, Iterable):
            raise DefinitionError(
                f"FallbackModel takes a list of models, not one {type(models).__name__}"
            )
        check_text("FallbackModel: name=", name, optional=True)
        check_function("FallbackModel: when=", when, "error", optional=True)
        self._may_ask_next = when or _may_help
        self.models: tuple[Model, ...] = tuple(named(each) for each in models)
        if not self.models:
            raise DefinitionError("FallbackModel takes at least one model")
        self._names = [
            str(getattr(each, "name", None) or type(each).__name__) for each in self.models
        ]
        self.name: str = name or f"fallback({', '.join(self._names)})"
        self.batch: bool = any(getattr(each, "batch", False) for each in self.models)
        contexts = [getattr(each, "context_tokens", None) for each in self.models]
        self.context_tokens: int | None = min(filter(None, contexts), default=None)
        lengths: list[int | None] = [getattr(each, "max_tokens", None) for each in self.models]
        stated_lengths = [each for each in lengths if each is not None]
        self.max_tokens: int | None = (
            max(stated_lengths) if len(stated_lengths) == len(lengths) else None
        )

    @property
    def reads_images(self) -> bool:
        """Whether all the models can be shown images."""
        return all(getattr(each, "reads_images", False) for each in self.models)

    async def find_context(self) -> int | None:
        """Ask the models' servers for their contexts; return the smallest known one, or None."""
        finders = (getattr(each, "find_context", None) for each in self.models)
        # What raises now does so when it is asked to answer, and then the next is asked.
        await asyncio.gather(*(find() for find in finders if find), return_exceptions=True)
        contexts = [getattr(each, "context_tokens", None) for each in self.models]
        self.context_tokens = min(filter(None, contexts), default=None)
        return self.context_tokens

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return this model, with more fields in the requests of each of its models."""
        copied = copy(self)
        copied.models = tuple(with_options(each, options) for each in self.models)
        return copied

    async def _prepare(self, actions: list[Action] | None) -> None:
        for each in self.models:
            with suppress(ModelError, MissingExtra):  # an answer will say so, and ask the next
                await prepare(each, actions)

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        errors: list[Exception] = []
        for each, name in zip(self.models, self._names, strict=True):
            has_begun = False
            try:
                async with aclosing(request.stream_from(each)) as parts:
                    async for part in parts:
                        has_begun = True
                        if isinstance(part, ModelReply):
                            part = replace(part, meta={"answered_by": name, **part.meta})
                        yield part
                return
            except (ModelError, MissingExtra) as error:
                errors.append(error)
                # Another model's answer would not continue the pieces of this one.
                if has_begun or not self._may_ask_next(error):
                    if len(errors) == 1:
                        raise
                    raise self._no_answer(errors, getattr(error, "status", None)) from error
                if len(errors) < len(self.models):
                    logger.warning("%s; asking %s", error, self._names[len(errors)])
        raise self._no_answer(errors) from errors[-1]

    def _no_answer(self, errors: list[Exception], status: int | None = None) -> ModelError:
        # As `ContextOverflow`, it tells the caller that a shorter prompt may fit.
        kind = (
            ContextOverflow if all(isinstance(e, ContextOverflow) for e in errors) else ModelError
        )
        reasons = "; ".join(
            f"{number}. {' '.join(str(error).split())}" for number, error in enumerate(errors, 1)
        )
        of_content = all(getattr(each, "of_content", False) for each in errors)
        error = kind(f"{self.name}: no model answered: {reasons}", of_content=of_content)
        error.status = status  # for a fallback that has this one among its models
        return error


def _may_help(error: Exception) -> bool:
    """Return whether another model may answer what this one did not."""
    if getattr(error, "status", None) not in (400, 422):
        return True
    return _MODEL_FAULT.search(str(error).rpartition("the server answered")[2]) is not None
