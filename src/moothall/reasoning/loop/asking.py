"""The part of a run of the loop that asks the model."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.action import Action
from moothall.context import Context, SystemPrompt, prompt_for
from moothall.errors import AskAgain, BudgetExceeded, DefinitionError, HookError, JournalError
from moothall.jsonvalue import readable
from moothall.memory.memory import Memory
from moothall.models.base import streamed
from moothall.models.protocol import Model, ReasoningPiece, TextPiece, Usage
from moothall.reasoning.charging import begun, budgeted
from moothall.reasoning.hooks import as_hooked, expect_answer, expect_messages, run_hooks
from moothall.reasoning.loop.answer import OfferedActions, as_action
from moothall.reasoning.loop.calls import context_of
from moothall.reasoning.loop.given import Given, system_text
from moothall.reasoning.loop.parts import LoopAgent
from moothall.reasoning.loop.recording import LoopState
from moothall.reasoning.record import NULL_RECORD, NULL_STEP, Record, Step
from moothall.reasoning.reply import Stop
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.state import ANSWER
from moothall.text import error_message, log_failure
from moothall.threads import awaited

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.reasoning.reply_request import AnswerSchema
    from moothall.reasoning.thread import Thread

logger: logging.Logger = logging.getLogger("moothall.reasoning")


class Asking:
    """The request and the state of a run of the loop, and the calls of its model."""

    shown: OfferedActions

    def __init__(
        self,
        agent: LoopAgent,
        request: ReplyRequest,
        memory: Memory,
        record: Record[LoopState] = NULL_RECORD,
    ) -> None:
        self.agent = agent
        self.id: str = str(agent.id)
        self.request = request
        self.emit: Callable[[Any], Any] | None = request.emit
        self.memory = memory
        self.thread: Thread = request.state
        self.budget: Budget | None = agent.budget if request.budget is None else request.budget
        self.model: Model = agent.model
        if self.budget is not None:
            self.model = budgeted(self.model, self.budget)
        self.schema: AnswerSchema | None = request.answer
        self.state: LoopState = LoopState()
        self.record = record
        self._system: str | None = None  # what the function of the system prompt returned
        self._given = Given(record, self.thread)
        self._remembered = 0  # how many messages are in the memory

    async def ask(self) -> Any:
        """Return the model's answer, unchecked: the recorded one, or a new one."""
        record, iteration = self.record, self.state.iteration
        try:
            if self._system is None and callable(self.agent.system_prompt):
                self._system = await self._made_prompt(self.agent.system_prompt)
            self.shown = self._show()
            if record is NULL_RECORD and not self.agent._hooks:  # the fastest way
                given = await self._answer(self.prompt())
            else:
                name = getattr(self.model, "name", None)
                given = await record.step(f"{iteration}", self._ask, of=ANSWER, model=name)
            # Count usage before reading: an unreadable answer costs tokens too.
            usage = getattr(given, "usage", None)
            if isinstance(usage, Usage) and usage.total:
                self.state.usage = self.state.usage + usage
            if not self.agent._hooks.get("post_reasoning"):
                return given
            about, check = self._about("answer", given), partial(expect_answer, given)
            hooks = (self.agent, "post_reasoning", about, "answer", check, self.budget)
            return await as_hooked(record, f"{iteration}", *hooks, of=ANSWER)
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self.agent.id, error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the model of agent {self.agent.id!r} failed", error)
            kind, text = type(error).__name__, error_message(error)
            detail = f"{kind}: {text}" if text else kind
            raise Stop("error", detail, error) from error

    def _show(self) -> OfferedActions:
        try:
            return self.agent._show(self.thread, self.request.offered)
        except DefinitionError as error:  # of an action that was registered since
            log_failure(logger, f"the actions of agent {self.agent.id!r} cannot be shown", error)
            raise Stop("error", str(error), error) from error

    async def _made_prompt(self, function: SystemPrompt) -> str:
        """Return what the function of the system prompt returns: once in a run, and recorded."""

        async def call(step: Step) -> str:
            return await prompt_for(function, context_of(self.agent, self.request))

        try:
            if self.record is NULL_RECORD:
                return await call(NULL_STEP)
            return await self.record.step("system_prompt", call)
        except (BudgetExceeded, JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the system_prompt of agent {self.agent.id!r} failed", error)
            detail = f"its system_prompt failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    async def checked(self, value: Any) -> str:
        """Return what the agent's check finds wrong with a value, recorded; empty if nothing."""

        async def call(step: Step) -> str:
            return await fault_of(value, self.agent.check, context_of(self.agent, self.request))

        try:
            if self.record is NULL_RECORD:
                return await call(NULL_STEP)
            return await self.record.step(f"check.{self.state.iteration}", call)
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the check of agent {self.agent.id!r} failed", error)
            detail = f"its check failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    def _about(self, name: str, value: Any) -> dict[str, Any]:
        """Return what hooks get."""
        iteration, run, thread = self.state.iteration, self.request.run_id, self.request.thread
        return {name: value, "iteration": iteration, "run_id": run, "thread": thread}

    async def _ask(self, step: Step) -> Any:
        hooked = None
        if self.agent._hooks.get("pre_reasoning"):
            await self.record.commit()  # which puts messages into memory, and so the prompt
            hooks = (self.agent, "pre_reasoning", self._about("messages", self.prompt()))
            hooked = (await run_hooks(*hooks, expect_messages, self.budget))["messages"]
        if step is NULL_STEP:
            return await self._answer(hooked or self.prompt())
        most: tuple[Any, ...] = ()
        schema = None if self.schema is None else self.schema.json
        if self.budget is not None:  # `begins` commits, which adds the other messages to memory
            shown = hooked or [*self.prompt(), *self.state.messages[self._remembered :]]
            most = (shown, self.shown.actions or None, schema)
        with await begun(step, self.budget, self.model, *most):
            prompt = hooked or self.prompt()
            step.tell(prompt=self._given.note(prompt, self.state.messages, self.shown, schema))
            return await self._answer(prompt)

    async def _answer(self, prompt: list[dict[str, Any]]) -> Any:
        actions = self.shown.actions or None
        schema = None if self.schema is None else self.schema.json
        given: Any = None
        if self.emit is None:
            # Pass a schema only if there is one: a user's own model may not have the parameter.
            more = {} if schema is None else {"schema": schema}
            given = self.model.complete(prompt, actions=actions, **more)
            return await given if inspect.isawaitable(given) else given
        parts = streamed(self.model, prompt, actions, schema)
        try:
            async for part in parts:
                kind = type(part)
                if kind is TextPiece or kind is ReasoningPiece:
                    self.emit(kind(part.text, self.id, self.request.run_id, self.request.thread))
                else:
                    given = part
        except BaseException:  # at its end the iterator is closed already
            await parts.aclose()
            raise
        return given

    def prompt(self) -> list[dict[str, Any]]:
        """Return the model's prompt, from the current memory and goals."""
        agent = self.agent
        try:
            prompt = self.memory.get_memories()
        except Exception as error:
            raise Stop.on_memory(agent.id, error) from error
        own = agent.system_prompt
        if callable(own):
            own = self._system
        if (own or agent._goals) and (system := system_text(own, agent._goals or ())):
            prompt = [{"role": "system", "content": system}, *prompt]
        return prompt

    def find(self, name: str) -> tuple[str, Action | None]:
        """Return the public name and the action for a name that the model used."""
        public = self.shown.public.get(name, name)
        return public, self.action(public)

    def action(self, name: str) -> Action | None:
        """Return the action of a public name."""
        for offered in self.request.offered:
            if offered.name == name:
                return offered
        found = self.agent.actions.get_action(name)
        return (self.thread.discovered or {}).get(name) if found is None else as_action(found)

    def known(self) -> list[str]:
        """Return the names that the model may call."""
        return [action.name for action in self.shown.actions]


async def fault_of(value: Any, check: Any, context: Context[Any]) -> str:
    """Return the reason for which a check asks for another answer; empty if it does not."""
    try:
        result = await awaited(check(value, context) if _takes_context(check) else check(value))
    except AskAgain as error:
        return readable(str(error)) or "Answer again."
    # A predicate that returned False would else accept everything.
    if result is not None and result is not value:
        raise TypeError(
            f"check= must return None or the value, or raise AskAgain, and returned {result!r:.80}"
        )
    return ""


def _takes_context(check: Any) -> bool:
    try:
        inspect.signature(check).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # of a builtin nobody knows the parameters
        return False
    return True
