"""A society's calls of models: limited in time, recorded, and shared for equal prompts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from moothall import Agent, JournalError, ModelError, ModelReply, MoothallError
from moothall.budget import Budget
from moothall.build import NULL_RECORD, Record, StepHandle, WorkSpan, completed, error_text
from moothall.journal import Entry

logger: logging.Logger = logging.getLogger("moothall.society")

_CHARGED_RUNS: Final[WeakKeyDictionary[object, set[str]]] = WeakKeyDictionary()
"""For each budget account, the runs whose recorded spending it has already counted."""
Prompt: TypeAlias = tuple[list[dict[str, Any]], Any, Any]
"""The messages, the actions and the schema that a model receives."""


class CitizenModelCalls:
    """Asks models on behalf of citizens; each outcome is a step of the record of the run."""

    record: Record[Any] = NULL_RECORD

    def __init__(self, timeout_s: float, budget: Budget | None, *, reuse: bool) -> None:
        self.timeout_s = timeout_s
        self.budget = budget
        self.reuse = reuse  # whether the same prompts in a step share one answer
        self.step: int = 0
        self.calls: int = 0
        self.span: WorkSpan | None = None  # of the step that is being taken
        self.prompts_hash: int = 0
        """The sum of the SHA-256 of all prompts of the run, whose order does not matter."""
        self.first_unusable: str = ""
        """Why the first answer that no citizen could use was unusable."""
        self.fallback_counts: Counter[str] = Counter()
        """How many such answers each block had, and dispatchers."""
        self._numbers: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._shared_answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    def begin(self, step: int) -> None:
        """Begin a step: reset the counts, keys and shared answers."""
        self.step = step
        self.calls = 0
        self._numbers.clear()
        self._keys.clear()
        self._shared_answers.clear()

    async def complete(self, citizen_model: CitizenModel, prompt: Prompt) -> ModelReply:
        """Return a model's answer to a citizen. Raises ModelError: the call failed or timed out."""
        messages, actions, schema = prompt
        id = str(citizen_model.agent.id)
        self.calls += 1
        text = json.dumps([citizen_model.name, messages, schema], sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.prompts_hash = (self.prompts_hash + int(digest, 16)) % (1 << 256)
        if self.reuse and not actions:
            key = self._keys[id] = f"{self.step}/{digest[:32]}"
            outcome = await self._ask_shared(key, citizen_model, prompt)
        else:
            number = self._numbers[id] = self._numbers.get(id, 0) + 1
            key = self._keys[id] = f"{self.step}/{id}/{number}"
            outcome = await self._ask(key, citizen_model, prompt)
        if "failed" in outcome:
            raise ModelError(f"the model did not answer agent {id!r}: {outcome['failed']}")
        answer: ModelReply = ModelReply.of_json(outcome["answer"])
        return answer

    def fell_back(self, id: str, reason: str) -> None:
        """Record that the last answer to an agent was unusable; warn of the first."""
        self.fallback_counts[reason.partition(":")[0].removeprefix("its ")] += 1
        level = logging.INFO if self.first_unusable else logging.WARNING
        self.first_unusable = self.first_unusable or reason
        logger.log(level, "agent %r had no use of its model, so a rule decides: %s", id, reason)
        if id in self._keys:
            key = self._keys[id]
            self.record.mark(f"{key}#unused#{id}", reason, citizen=id, unused=key)

    async def _ask_shared(
        self, key: str, citizen_model: CitizenModel, prompt: Prompt
    ) -> dict[str, Any]:
        shared = self._shared_answers.get(key)
        if shared is not None:
            id = str(citizen_model.agent.id)
            self.record.mark(f"{key}#shared#{id}", citizen=id, shared=key)
            return await asyncio.shield(shared)
        shared = self._shared_answers[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._ask(key, citizen_model, prompt)
        except BaseException as error:
            shared.set_result({"failed": error_text(error, 500)})
            raise
        shared.set_result(outcome)
        return outcome

    async def _ask(self, key: str, citizen_model: CitizenModel, prompt: Prompt) -> dict[str, Any]:
        async def call(step: StepHandle) -> dict[str, Any]:
            try:
                is_batch = getattr(citizen_model.model, "batch", False)  # answered within a day
                async with asyncio.timeout(None if is_batch else self.timeout_s):
                    budget = citizen_model.agent.budget or self.budget
                    messages, actions, schema = prompt
                    ask = partial(completed, citizen_model.model, budget, messages, schema, step)
                    work = partial(ask, actions=actions, args={"messages": messages})
                    answer = await (work() if self.span is None else self.span.below(key, work))
                    return {"answer": ModelReply.json_of(answer)}
            except JournalError:
                raise
            except Exception as error:  # only this citizen loses its answer
                if isinstance(error, TimeoutError) and not isinstance(error, MoothallError):
                    return {"failed": f"it took longer than {self.timeout_s} s"}
                return {"failed": error_text(error, 500)}

        citizen = str(citizen_model.agent.id)
        outcome = await self.record.step(
            key, call, beside=True, model=citizen_model.name, citizen=citizen
        )
        await self.record.commit()
        return outcome

    def charge_recorded(self, record: Record[Any], model: object, mailboxes: Iterable[Any]) -> None:
        """Charge the budgets, once each, with what another process has spent on a run."""
        entries, accounts = record.entries(), {}
        models = {id(model): model} if model is not None else {}
        budgets = {} if self.budget is None else dict(self.budget.single_account_budgets())
        shared = set(budgets)
        citizen_by_key: dict[str, Any] = {
            entry.key: entry.subject.get("citizen")
            for entry in entries
            if entry.starts_step and entry.subject
        }
        for agent in (mailbox.agent for mailbox in mailboxes):
            if isinstance(agent.llm, CitizenModel):
                models[id(agent.llm.model)] = agent.llm.model
            if agent.budget is not None:
                accounts[str(agent.id)] = dict(agent.budget.single_account_budgets())
                budgets = {**accounts[str(agent.id)], **budgets}
        model_group = SimpleNamespace(models=list(models.values()))
        for account, budget in budgets.items():
            if record.key in _CHARGED_RUNS.setdefault(account, set()):
                continue
            _CHARGED_RUNS[account].add(record.key)
            citizens = {id for id in citizen_by_key.values() if account in accounts.get(id, shared)}
            record.charge(budget, model_group, partial(_is_of, citizens, citizen_by_key))


class CitizenModel:
    """A citizen's model, called through `CitizenModelCalls`; no `own_model`: the society's."""

    asks_others = True

    def __init__(
        self, calls: CitizenModelCalls, agent: Agent, model: object, own_model: object = None
    ) -> None:
        self._calls = calls
        self.agent = agent
        self.model: Any = model
        self.own_model: Any = own_model
        self.name: str = str(getattr(model, "name", type(model).__name__))
        self.context_tokens: int | None = getattr(model, "context_tokens", None)

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Any] | None = None,
        schema: Mapping[str, object] | None = None,
    ) -> ModelReply:
        """Answer a conversation; see `CitizenModelCalls.complete`."""
        return await self._calls.complete(self, (messages, actions, schema))


def _is_of(citizens: Container[object], citizen_by_key: Mapping[str, object], entry: Entry) -> bool:
    return _citizen_of(entry.key, citizen_by_key) in citizens


def _citizen_of(key: str, citizen_by_key: Mapping[str, object]) -> Any:
    """Return whose call a key is of, or a mark of that call; both it and an id may have a `#`."""
    while key not in citizen_by_key and "#" in key:
        key = key.rpartition("#")[0]
    return citizen_by_key.get(key, "")
