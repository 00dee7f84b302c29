"""A society's calls of models: limited in time, recorded, and asked once where prompts agree."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

from civitas.errors import CivitasError, ModelError
from civitas.models.protocol import ModelReply
from civitas.reasoning.record import NULL_RECORD, Record
from civitas.reasoning.state import answer_json, answer_of_json
from civitas.reasoning.step import Step
from civitas.text import one_line


class Asking:
    """Asks models on behalf of citizens.

    What becomes of a call, its answer, its failure or its time limit, is a step of the run's
    record, so that a run that goes on takes the same turn.

    Args:
        timeout_s: how long one call may take, in seconds
        once: whether citizens with the same prompt in the same step share one answer

    Attributes:
        step: the number of the society's step
        record: what records the calls
        calls: how many models were called in this step
    """

    def __init__(self, timeout_s: float, *, once: bool) -> None:
        self.timeout_s = timeout_s
        self.once = once
        self.record: Record[Any] = NULL_RECORD
        self.step = 0
        self.calls = 0
        self._numbers: dict[str, int] = {}
        self._shared: dict[str, asyncio.Future[dict[str, Any]]] = {}

    def begin(self, step: int) -> None:
        """A step begins."""
        self.step = step
        self.calls = 0
        self._numbers.clear()
        self._shared.clear()

    async def complete(self, id: str, model: Any, prompt: tuple[Any, Any, Any]) -> ModelReply:
        """What a model answers a citizen.

        Raises:
            ModelError: it failed, or took too long; the same where that was recorded
        """
        messages, actions, schema = prompt
        if self.once and not actions:
            text = json.dumps([model.name, messages, schema], sort_keys=True)
            key = f"{self.step}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"
            outcome = await self._together(key, model, prompt)
        else:
            number = self._numbers[id] = self._numbers.get(id, 0) + 1
            outcome = await self._ask(f"{self.step}/{id}/{number}", model, prompt)
        if "failed" in outcome:
            raise ModelError(f"the model did not answer agent {id!r}: {outcome['failed']}")
        return answer_of_json(outcome["answer"])

    async def _together(self, key: str, model: Any, prompt: tuple[Any, Any, Any]) -> dict[str, Any]:
        shared = self._shared.get(key)
        if shared is not None:
            return await asyncio.shield(shared)
        shared = self._shared[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._ask(key, model, prompt)
        except BaseException as error:
            shared.set_result({"failed": f"{type(error).__name__}: {error}"})
            raise
        shared.set_result(outcome)
        return outcome

    async def _ask(self, key: str, model: Any, prompt: tuple[Any, Any, Any]) -> dict[str, Any]:
        async def call(step: Step) -> dict[str, Any]:
            self.calls += 1
            try:
                async with asyncio.timeout(self.timeout_s):
                    return {"answer": answer_json(await model.complete(*prompt))}
            except TimeoutError as error:
                if isinstance(error, CivitasError):
                    return {"failed": _said(error)}
                return {"failed": f"it took longer than {self.timeout_s} s"}
            except Exception as error:  # it costs this citizen its answer, and nobody else
                return {"failed": _said(error)}

        outcome = await self.record.step(f"model/{key}", call, beside=True)
        await self.record.commit()
        return outcome


class AskedModel:
    """A model as one citizen asks it.

    Attributes:
        name: the model's
        context_tokens: the model's
    """

    def __init__(self, asking: Asking, id: str, model: Any) -> None:
        self._asking = asking
        self._id = id
        self._model = model

    @property
    def name(self) -> str:
        """What people call it."""
        return self._model.name  # type: ignore[no-any-return]

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together."""
        return self._model.context_tokens  # type: ignore[no-any-return]

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Any] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation; see `Asking.complete`."""
        return await self._asking.complete(self._id, self._model, (messages, actions, schema))


def _said(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", 500)
