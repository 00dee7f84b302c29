"""A run of the loop, as far as its model is asked."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from civitas.action import Action
from civitas.errors import BudgetExceeded, DeadlineExceeded, HookError, JournalError
from civitas.memory.memory import Memory
from civitas.models.base import streamed
from civitas.models.protocol import Model, ReasoningPiece, TextPiece, Usage
from civitas.reasoning.hooks import Hooks, expect_answer, expect_messages
from civitas.reasoning.loop.answer import Shown, as_action
from civitas.reasoning.loop.parts import LoopAgent
from civitas.reasoning.loop.recording import LoopState
from civitas.reasoning.prompts import system_text
from civitas.reasoning.record import NULL_RECORD, NULL_STEP, Record, Step
from civitas.reasoning.reply import Stop
from civitas.reasoning.reply_request import Asked
from civitas.reasoning.state import ANSWER
from civitas.text import log_failure

logger = logging.getLogger("civitas.reasoning")


class Asking:
    """What a run of the loop is asked and has come to, and asking its model what comes next."""

    __slots__ = (
        "_in_memory",
        "agent",
        "asked",
        "budget",
        "emit",
        "id",
        "memory",
        "model",
        "record",
        "schema",
        "shown",
        "state",
        "thread",
    )

    def __init__(
        self,
        agent: LoopAgent,
        asked: Asked,
        memory: Memory,
        model: Model,
        record: Record[LoopState] = NULL_RECORD,
    ) -> None:
        self.agent = agent
        self.id = str(agent.id)
        self.asked = asked
        self.emit = asked.emit
        self.memory = memory
        self.model = model
        self.thread = asked.state
        self.budget = agent.budget if asked.budget is None else asked.budget
        if self.budget is not None:
            from civitas.models.wrappers.budgeted import BudgetedModel

            self.model = BudgetedModel(model, self.budget)
        self.schema = asked.wanted()
        self.state = LoopState()
        self.record = record
        self._in_memory = 0  # how many messages are remembered
        self.shown: Shown

    async def ask(self) -> Any:
        """The model's answer, whatever that is: as it was recorded, or as it is given now."""
        record, key = self.record, str(self.state.iteration)
        try:
            if record is NULL_RECORD:
                given = await self._ask(NULL_STEP)
            else:
                if record.has_ended(key):
                    self.shown = self.agent._show(self.thread)
                name = getattr(self.model, "name", None)
                given = await record.step(key, self._ask, of=ANSWER, model=name)
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self.agent.id, error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the model of agent {self.agent.id!r} failed", error)
            raise Stop("error", _told(error), error) from error
        # Before anything is read: what cannot be read has been paid for all the same.
        usage = getattr(given, "usage", None)
        if isinstance(usage, Usage):
            self.state.usage = self.state.usage + usage
        hooks = self.agent._hooks
        if hooks is None or not hooks.has("post_reasoning"):
            return given
        return await self._hooked_answer(hooks, given)

    async def _hooked_answer(self, hooks: Hooks, given: Any) -> Any:
        """What the `post_reasoning` hooks make of an answer."""

        async def call(step: Step) -> Any:
            about = {**self._about, "answer": given}
            made = await hooks.run(
                "post_reasoning",
                self.agent,
                about,
                lambda made: expect_answer(made["answer"], given),
                self.budget,
            )
            return made["answer"]

        try:
            return await self.record.step(f"post_reasoning.{self.state.iteration}", call, of=ANSWER)
        except HookError as error:
            raise Stop.on_hook(self.agent.id, error) from error
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error

    @property
    def _about(self) -> dict[str, Any]:
        """What hooks are told."""
        of = {"run_id": self.asked.run_id, "thread": self.asked.thread}
        return {"iteration": self.state.iteration, **of}

    async def _ask(self, step: Step) -> Any:
        hooks = self.agent._hooks
        if hooks is not None and hooks.has("pre_reasoning"):
            await self.record.commit()  # what is recorded is remembered, and shown
            shown = self.prompt()
            about = {**self._about, "messages": shown}
            made = await hooks.run(
                "pre_reasoning",
                self.agent,
                about,
                lambda made: expect_messages(made["messages"], shown),
                self.budget,
            )
            prompt = made["messages"]
            if step is not NULL_STEP:
                return await self._begun(step, prompt, lambda: prompt)
        elif step is not NULL_STEP:
            untold = self.state.messages[self._in_memory :]
            return await self._begun(step, [*self.prompt(), *untold], self.prompt)
        else:
            prompt = self.prompt()
        return await self._answer(prompt)

    async def _begun(
        self, step: Step, most: list[Any], prompt: Callable[[], list[dict[str, Any]]]
    ) -> Any:
        """Ask the model once that is recorded, with what it may spend at most."""
        if self.budget is None:
            await step.begins()
            return await self._answer(prompt())
        from civitas.budget.bill import Bill
        from civitas.reasoning.charging import most_json

        bill = Bill(self.budget)
        schema = None if self.schema is None else self.schema.json
        step.charge(bill.json)
        await step.begins(None, most_json(self.model, most, self.shown.actions or None, schema))
        with bill.opened():
            return await self._answer(prompt())

    async def _answer(self, prompt: list[dict[str, Any]]) -> Any:
        actions = self.shown.actions or None
        schema = None if self.schema is None else self.schema.json
        if self.emit is None:
            # A schema is named only where there is one: models of users' own may not know of it.
            given: Any = (
                self.model.complete(prompt, actions=actions)
                if schema is None
                else self.model.complete(prompt, actions=actions, schema=schema)
            )
            return await given if inspect.isawaitable(given) else given
        given = None
        parts = streamed(self.model, prompt, actions, schema)
        try:
            async for part in parts:
                kind = type(part)
                if kind is TextPiece or kind is ReasoningPiece:
                    self.emit(kind(part.text, self.id, self.asked.run_id, self.asked.thread))
                else:
                    given = part
        except BaseException:  # come to its end, it is closed
            await parts.aclose()
            raise
        return given

    def prompt(self) -> list[dict[str, Any]]:
        """What the model is to see now; memory, actions and goals may have changed meanwhile."""
        agent = self.agent
        self.shown = agent._show(self.thread)
        prompt = self.memory.get_memories()
        if agent.system_prompt or agent._goals:
            system = system_text(agent.system_prompt, agent._goals or ())
            prompt = [{"role": "system", "content": system}, *prompt]
        return prompt

    def find(self, name: str) -> tuple[str, Action | None]:
        """The public name and the action that a name of the model's stands for."""
        agent = self.agent
        public = self.shown.public.get(name, name)
        found = agent.actions.get_action(public)
        if found is None:
            return public, (self.thread.discovered or {}).get(public)
        return public, as_action(found)

    def known(self) -> list[str]:
        """The names that the model may call."""
        return [action.name for action in self.shown.actions]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
