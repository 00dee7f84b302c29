"""What a turn of H and one of R work with: asking either, functions of the user's, hooks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from civitas.errors import BudgetExceeded, DeadlineExceeded, HookError
from civitas.reasoning.dualact.config import Pair
from civitas.reasoning.dualact.progress import Progress
from civitas.reasoning.group import in_thread, options_for, takes
from civitas.reasoning.record import NullRecord, Record, Step
from civitas.reasoning.reply import ANSWERED, Reply, Stop, StopReason
from civitas.reasoning.reply_request import Asked
from civitas.reasoning.replying import joined
from civitas.reasoning.state import REPLY
from civitas.text import log_failure
from civitas.threads import WORKERS

logger = logging.getLogger("civitas.reasoning")

T = TypeVar("T")


class Work:
    """One task of a dual act, as its turns have it in common."""

    def __init__(
        self,
        agent: Pair,
        progress: Progress,
        asked: Asked,
        record: Record[Progress],
    ) -> None:
        self.agent = agent
        self.record = record
        self.config = agent.config
        self.briefing = agent._briefing
        self.progress = progress
        self.asked = asked
        self.budget = agent.budget if asked.budget is None else asked.budget
        self.loop = asyncio.get_running_loop()
        self.messages: list[dict[str, Any]] = []
        self.speaking: list[Any] = []
        self._told: list[str] = list(asked.state.hear())

    def interrupt(self, text: str) -> None:
        """Tell whoever is at work; if nobody listens just now, whoever is asked next."""
        listening = [each for each in self.speaking if hasattr(each, "interrupt")]
        for each in listening:
            each.interrupt(text, **in_thread(each.interrupt, self.asked.thread))
        if not listening:
            self._told.append(text)

    async def ask(self, agent: Any, text: str, schema: Any, part: str) -> Reply:
        """The reply of H or R, as it was recorded or as it is given now."""
        options = options_for(agent, self.asked)
        if schema is not None and takes(agent.reply, "schema"):
            options["schema"] = schema
        if takes(agent.reply, "run_id"):
            options["run_id"] = self._run_id(agent, part)
        alone = not self.speaking
        if alone:
            self.speaking = [agent]

        async def ask() -> Any:
            if self.asked.emit is None or not hasattr(agent, "stream"):
                reply = await agent.reply(text, **options)
            else:
                reply = await self._streamed(agent, text, options)
            if isinstance(reply, Reply):
                return reply
            raise TypeError(f"agent {agent.id!r} must give a Reply, got {reply!r:.80}")

        async def ask_once(step: Step) -> Any:
            await step.begins()
            reply = await ask()
            if reply.stop_reason not in ANSWERED and getattr(agent, "decides_in_words", False):
                raise _Unanswered(reply)  # a person is asked again when the run goes on
            return reply

        try:
            if not getattr(agent, "_records", False):
                return await self.record.step(part, ask_once, of=REPLY)
            with joined(agent, self.record.member(part, str(agent.id))):
                return await ask()  # type: ignore[no-any-return]
        except _Unanswered as unanswered:
            return unanswered.reply
        finally:
            if alone:
                self.speaking = []

    def _run_id(self, agent: Any, part: str) -> str | None:
        """What a turn is known by: one that a member records itself is a run of its own."""
        run_id = self.progress.run_id
        if not isinstance(self.record, NullRecord) or getattr(agent, "journal", None) is None:
            return run_id
        own = f"{run_id}/{part}"
        return own if len(own) <= 255 and own.isprintable() else None

    async def _streamed(self, agent: Any, text: str, options: dict[str, Any]) -> Any:
        emit = self.asked.emit
        assert emit is not None
        reply = None
        async with AsyncExitStack() as stack:
            events = agent.stream(text, **options)
            if hasattr(events, "aclose"):
                stack.push_async_callback(events.aclose)
            async for event in events:
                if event.kind == "done":
                    reply = event.reply
                    continue
                emit(event)
                if event.kind == "call_started" and self.asked.seen is not None:
                    await self.asked.seen()  # before somebody is asked about it
        return reply

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user's, in time."""
        budget = self.budget
        seconds = None if budget is None else budget.remaining_seconds()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                if inspect.iscoroutinefunction(fn):
                    return await fn(*args)
                given = await WORKERS.run(asyncio.get_running_loop(), fn, *args)
                return await given if inspect.isawaitable(given) else given
        except Exception as error:
            name = getattr(fn, "__name__", repr(fn))
            if limit.expired():
                raise Stop("deadline", f"the time was over before {name} had ended") from error
            log_failure(logger, f"{name} of dual act {self.agent.id!r} failed", error)
            detail = f"{name} failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    async def hooked(
        self,
        type: str,
        about: dict[str, Any],
        name: str,
        value: T,
        check: Callable[[Any], object],
        of: type[T] | None = None,
    ) -> T:
        """What hooks make of a value, once: as it was recorded, or as they make of it now."""
        hooks = self.agent._hooks
        if hooks is None or not hooks.has(type):
            return value
        called = hooks

        async def call(step: Step) -> T:
            kwargs = {
                **about,
                "run_id": self.asked.run_id,
                "thread": self.asked.thread,
                name: value,
            }
            made = await called.run(
                type, self.agent, kwargs, lambda made: check(made[name]), self.budget
            )
            return made[name]  # type: ignore[no-any-return]

        try:
            return await self.record.step(f"{type}.{about['loop']}", call, of=of)
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self.agent.id, error) from error

    def heard(self) -> Sequence[str]:
        """What was said to the dual act since it was last heard."""
        told, self._told = self._told, []
        return told

    def broken(self, who: str, agent: Any, error: Exception) -> Stop:
        """Why all ends with a member that failed."""
        detail = f"{who} ({agent.id!r}): {type(error).__name__}: {error}"
        if isinstance(error, BudgetExceeded):
            return Stop.at_limit(error, detail)
        log_failure(logger, f"dual act {self.agent.id!r}: {who} ({agent.id!r}) failed", error)
        return Stop("error", detail, error)

    def expect_as_many(self, instruction: str | list[str], what: str) -> None:
        """Refuse instructions that are not one for each R; it raises a ValueError."""
        agents = len(self.config.reactives)
        if isinstance(instruction, list) and len(instruction) != agents:
            raise ValueError(
                f"{what} has {len(instruction)} instructions, and there are {agents} R"
            )


class _Unanswered(Exception):
    """A person gave no answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


def as_stop(reason: StopReason) -> StopReason:
    """Why a dual act ends whose H, or R, ended for this reason."""
    known = ("budget", "deadline", "cancelled", "unreadable", "in_doubt")
    return reason if reason in known else "error"
