"""Many conversations answered by one model: side by side, or in batches, and once if recorded."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moothall.agents.replies.charging import completed
from moothall.agents.replies.record import Record
from moothall.agents.replies.resume import recorded
from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError, ModelError
from moothall.foundation.text import counted
from moothall.foundation.threads.waiting import side_by_side
from moothall.models.names import model as model_named
from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from moothall.agents.replies.step import StepHandle
    from moothall.budget import Budget
    from moothall.journal import Journal
    from moothall.models.protocol import Model


@dataclass
class ManyState:
    """The state of a run of `complete_many`: what it has is in its steps."""


async def complete_many(
    model: Model | str,
    conversations: Iterable[str | list[dict[str, Any]]],
    *,
    schema: dict[str, Any] | None = None,
    budget: Budget | None = None,
    at_once: int = 64,
    journal: Journal | None = None,
    run_id: str | None = None,
) -> list[ModelReply | ModelError]:
    """Answer many conversations, each by itself.

    A model with `batch=True` gets all of them at once, and answers them within a day at half the
    price. With a journal, an answer that was recorded is not asked for again when the same call is
    made with the same `run_id`, after a crash as well, and a batch that was sent is waited for.

    Args:
        model: the model, or its name
        conversations: the messages of each; a text is one message of the user
        schema: the JSON schema of the answers; texts if left out
        budget: what all of them together may spend
        at_once: how many are asked at the same time, without batches
        journal: where the answers are recorded
        run_id: the run's id in the journal

    Returns:
        for each conversation, in order, its answer, or the error of the model

    Raises:
        ConfigError: an argument is wrong
        BudgetExceeded: the budget does not suffice; `DeadlineExceeded` if its seconds are over
        RunMismatch: the run began with another model, or other conversations
        JournalError: the journal cannot be written
    """
    check_integer("complete_many: at_once=", at_once)
    if isinstance(conversations, str):
        raise ConfigError("complete_many: conversations must be a list, got one text")
    chosen_model: Any = model_named(model)
    prompts = [
        [{"role": "user", "content": each}] if isinstance(each, str) else list(each)
        for each in conversations
    ]
    slots = asyncio.Semaphore(
        len(prompts) or 1 if getattr(chosen_model, "batch", False) else at_once
    )
    program = {"model": getattr(chosen_model, "name", None), "asked": prompts, "schema": schema}

    async def answer(record: Record[Any], number: int) -> ModelReply | ModelError:
        async def call(step: StepHandle) -> dict[str, Any]:
            completion = await completed(chosen_model, budget, prompts[number], schema, step)
            return ModelReply.json_of(completion)

        async with slots:
            try:
                data: dict[str, Any] = await record.once(
                    str(number), call, beside=True, model=program["model"]
                )
            except ModelError as error:
                return error
            reply: ModelReply = ModelReply.of_json(data)
            return reply

    async with recorded(
        journal,
        secrets.token_hex(8) if run_id is None else run_id,
        "Many",
        "many",
        ManyState,
        task=counted(len(prompts), "conversation"),
        program=program,
    ) as record:
        if journal is not None:
            record.catch_up(None, chosen_model, budget)
        answers = await side_by_side([answer(record, n) for n in range(len(prompts))])
        if record.over is None and not any(isinstance(each, ModelError) for each in answers):
            await record.end("done")
        return answers
