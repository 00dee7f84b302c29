"""A model whose weights may be fetched while agents with it are in a space already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from moothall import Action, Model, ModelReply
from moothall.models import ListedWeights, ModelName, made_model


class AwaitedWeights:
    """The model of a name in this process, made at the first call for which its weights are there.

    A call before that raises the WeightsError that says what to fetch.
    """

    in_process = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._loaded_model: Any = None

    @property
    def missing_weights(self) -> ListedWeights | None:
        """What is to be fetched; None once it is there."""
        return ModelName(self.name).missing_weights

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None until it is there."""
        return getattr(self._loaded_model, "context_tokens", None)

    @property
    def _model(self) -> Any:
        if self._loaded_model is None:
            self._loaded_model = made_model(self.name, None)
        return self._loaded_model

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation, or raise WeightsError."""
        model: Model = self._model
        return await model.complete(messages, actions, schema)

    def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[Any]:
        """Answer a conversation in pieces, or raise WeightsError."""
        stream: AsyncIterator[Any] = self._model.stream(messages, actions, schema)
        return stream

    def close(self) -> None:
        """Release what the model holds."""
        if self._loaded_model is not None:
            self._loaded_model.close()
