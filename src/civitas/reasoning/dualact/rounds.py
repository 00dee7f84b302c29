"""The turns of a dual act, from what it is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from civitas.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    HookError,
    JournalError,
    RunMismatch,
)
from civitas.models.protocol import Usage
from civitas.reasoning import record
from civitas.reasoning.dualact.conclusions import (
    DECISION_SCHEMA,
    Conclusion,
    DecisionAction,
    HumanDecision,
    conclusion_of,
    evidence_of,
    merged,
    read_decision,
)
from civitas.reasoning.dualact.progress import DualActReply, Progress
from civitas.reasoning.dualact.recording import over
from civitas.reasoning.dualact.review import ReviewRule, Situation
from civitas.reasoning.events import ConclusionReached, DecisionMade
from civitas.reasoning.group import in_thread, is_spent_for_all, options_for, takes
from civitas.reasoning.hooks import expect
from civitas.reasoning.loop.answer import Unreadable
from civitas.reasoning.record import NullRecord, Record
from civitas.reasoning.reply import ANSWERED, Reply, Step, StopReason, log_failure
from civitas.reasoning.reply_request import Asked
from civitas.reasoning.replying import joined
from civitas.reasoning.resume import guarded
from civitas.reasoning.state import REPLY
from civitas.threads import WORKERS

if TYPE_CHECKING:
    from civitas.reasoning.dualact.agent import DualActAgent

__all__ = ["Rounds"]

logger = logging.getLogger("civitas.reasoning")

T = TypeVar("T")


class _Stop(Exception):
    """Why a dual act ends in the midst of a turn."""

    def __init__(self, reason: StopReason, detail: str, error: BaseException | None = None) -> None:
        super().__init__(detail)
        self.reason: StopReason = reason
        self.detail = detail
        self.error = error


@dataclass(slots=True)
class _Run:
    """What one R came to.

    Attributes:
        conclusion: it
        stop: why all ends with it, if it does
        value: its answer as the value that was asked for, if one was
        steps: what it called
        usage: the tokens that it took
    """

    conclusion: Conclusion
    stop: _Stop | None = None
    value: Any = None
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


class Rounds:
    """The turns of H and R on one task."""

    def __init__(
        self,
        agent: DualActAgent,
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
        self._messages: list[dict[str, Any]] = []
        self._speaking: list[Any] = []
        self._told: list[str] = list(asked.state.hear())

    def interrupt(self, text: str) -> None:
        """Tell whoever is at work; if nobody listens just now, whoever is asked next."""
        listening = [each for each in self._speaking if hasattr(each, "interrupt")]
        for each in listening:
            each.interrupt(text, **in_thread(each.interrupt, self.asked.thread))
        if not listening:
            self._told.append(text)

    async def reply(self) -> DualActReply:
        """Turn after turn, until it is over."""
        progress = self.progress

        def failed(error: JournalError) -> DualActReply:
            progress.over("error", str(error))
            return progress.reply(self._messages, error)

        def cut_off(why: str) -> dict[str, Any]:
            progress.over("cancelled", why)
            return over(self.record, progress, progress.reply([], None))

        return await guarded(
            self.record,
            self._reply,
            lambda reply: over(self.record, progress, reply),
            cut_off,
            failed,
        )

    async def _reply(self) -> DualActReply:
        progress = self.progress
        error: BaseException | None = None
        try:
            while not progress.is_over:
                await (self._decide() if progress.turn == "human" else self._act())
                if not progress.is_over:
                    self.record.save(progress)
        except _Stop as stop:
            error = stop.error
            progress.over(stop.reason, stop.detail)
        return progress.reply(self._messages, error)

    # -- H -----------------------------------------------------------------------------------------

    async def _decide(self) -> None:
        agent, progress = self.agent, self.progress
        conclusion = progress.conclusion
        number = len(progress.decisions) + 1
        if conclusion is not None and not self._is_reviewed(conclusion):
            accepted = HumanDecision(
                DecisionAction.TERMINATE, "", f"accepted: {self.config.review!r} did not catch it"
            )
            self._take(accepted, number)
            return
        several = len(self.config.reactives)
        in_words = getattr(self.config.human, "decides_in_words", False)
        prompt = self.briefing.for_human(
            progress.task, conclusion, self._heard(), several, in_words
        )
        about: dict[str, Any] = {"loop": number, "conclusion": conclusion}
        prompt = await self._hooked(
            "pre_reasoning", about, "prompt", prompt, lambda made: expect(made, str)
        )
        if agent._decide_by is not None:
            decision = await self.record.step(
                f"decide.{number}", self._decided_by_function, of=HumanDecision
            )
        else:
            decision = await self._ask_human(prompt, several)
        self._take(decision, number)
        about["prompt"] = prompt
        changed = await self._hooked(
            "post_reasoning", about, "decision", decision, self._expect_decision, HumanDecision
        )
        if changed != decision:
            progress.decisions.pop()
            self._take(changed, number)

    async def _decided_by_function(self, step: record.Step) -> HumanDecision:
        agent, progress = self.agent, self.progress
        assert agent._decide_by is not None
        decision = await self._call(agent._decide_by, progress.conclusion, progress.task)
        if isinstance(decision, HumanDecision):
            return decision
        raise _Stop(
            "error",
            f"the decision function of {agent.id!r} must give a HumanDecision, got "
            f"{decision!r:.80}",
        )

    def _is_reviewed(self, conclusion: Conclusion) -> bool:
        rule = self.config.review
        assert isinstance(rule, ReviewRule)
        before = self.progress.conclusions[:-1]
        return rule.catches(Situation(conclusion, before, self.budget))

    def _expect_decision(self, decision: Any) -> None:
        """See that a hook gave a decision that can be taken.

        Raises:
            TypeError: it is something else
            ValueError: it is for another number of R
        """
        expect(decision, HumanDecision)
        self._expect_as_many(decision.new_instruction, "a decision")

    def _expect_instruction(self, instruction: Any) -> None:
        """See that a hook gave an instruction, or one for each R; it raises as for a decision."""
        if not isinstance(instruction, list):
            expect(instruction, str)
            return
        for each in instruction:
            expect(each, str)
        self._expect_as_many(instruction, "it")

    def _expect_as_many(self, instruction: str | list[str], what: str) -> None:
        agents = len(self.config.reactives)
        if isinstance(instruction, list) and len(instruction) != agents:
            raise ValueError(
                f"{what} has {len(instruction)} instructions, and there are {agents} R"
            )

    def _take(self, decision: HumanDecision, number: int) -> None:
        agents = len(self.config.reactives)
        try:
            self._expect_as_many(decision.new_instruction, "a decision")
        except ValueError as error:
            raise _Stop("error", str(error)) from None
        self.progress.decided(decision, self.config.max_hr_loops, agents)
        if self.asked.emit is not None:
            of = (self.asked.run_id, self.asked.thread)
            self.asked.emit(DecisionMade(str(self.agent.id), number, decision, False, *of))

    async def _ask_human(self, prompt: str, several: int) -> HumanDecision:
        human = self.config.human
        # Of several R each may be given an instruction: then the schema would be in the way.
        schema = DECISION_SCHEMA if several == 1 else None
        fault = ""
        for attempt in range(2):
            part = f"H{len(self.progress.decisions) + 1}" + (".again" if attempt else "")
            try:
                reply = await self._ask(human, prompt, schema, part)
            except (JournalError, RunMismatch):  # not H's to judge
                raise
            except Exception as error:
                raise self._broken("H", human, error) from error
            self.progress.human_usage = self.progress.human_usage + reply.usage
            if reply.stop_reason not in ANSWERED:
                detail = f"H ({human.id!r}): {reply.detail or reply.stop_reason}"
                raise _Stop(_as_stop(reply.stop_reason), detail, reply.error)
            try:
                return read_decision(_said(reply), several)
            except Unreadable as error:
                fault = f"Your answer {error}"
                prompt = self.briefing.again(fault, several)
        raise _Stop("unreadable", f"H ({human.id!r}) gave no decision: {fault}")

    # -- R -----------------------------------------------------------------------------------------

    async def _act(self) -> None:
        progress = self.progress
        number = progress.r_runs + 1
        reactives = self.config.reactives
        heard = self._heard()
        instructions = [
            self.briefing.for_reactive(
                progress.task, given, progress.why, progress.redirected, heard
            )
            for given in progress.instruction
        ]
        about: dict[str, Any] = {"loop": number}
        given: str | list[str] = instructions[0] if len(reactives) == 1 else instructions
        given = await self._hooked(
            "pre_acting", about, "instruction", given, self._expect_instruction
        )
        instructions = list(given) if isinstance(given, list) else [given] * len(reactives)
        self._speaking = reactives
        try:
            done = await _side_by_side(
                [
                    partial(self._run, agent, text)
                    for agent, text in zip(reactives, instructions, strict=True)
                ]
            )
        finally:
            self._speaking = []
        ids = [str(agent.id) for agent in reactives]
        conclusion = merged({id: run.conclusion for id, run in zip(ids, done, strict=True)})
        values = {id: run.value for id, run in zip(ids, done, strict=True) if run.value is not None}
        stops = [run.stop for run in done if run.stop is not None]
        progress.r_runs += 1
        progress.conclusions.append(conclusion)
        progress.values.append(values.get(ids[0]) if len(ids) == 1 else values or None)
        progress.turn, progress.instruction = "human", []
        for run in done:
            progress.steps.extend(run.steps)
            progress.reactive_usage = progress.reactive_usage + run.usage
        changed = await self._hooked(
            "post_acting",
            {**about, "instruction": given},
            "conclusion",
            conclusion,
            lambda made: expect(made, Conclusion),
            Conclusion,
        )
        if changed != conclusion:
            progress.conclusions[-1] = conclusion = changed
            progress.values[-1] = None  # it was that of another text
        if self.asked.emit is not None:
            of = (self.asked.run_id, self.asked.thread)
            self.asked.emit(ConclusionReached(str(self.agent.id), number, conclusion, False, *of))
        if stops:
            raise stops[0]

    async def _run(self, agent: Any, instruction: str) -> _Run:
        """One R's run."""
        schema = self.asked.schema
        text = instruction
        if schema is None:
            text = self.briefing.with_format(instruction, self.progress.task, _keeps_schema(agent))
        run = _Run(Conclusion())
        for attempt in range(2):
            part = f"R{self.progress.r_runs + 1}{'.again' if attempt else ''}/{agent.id}"
            try:
                reply = await self._ask(agent, text, schema, part)
            except (JournalError, RunMismatch):  # not H's to judge
                raise
            except Exception as error:
                if isinstance(error, BudgetExceeded) and self._is_spent(
                    agent, late=isinstance(error, DeadlineExceeded)
                ):
                    run.stop = self._broken("R", agent, error)
                    return run
                about = f"R ({agent.id!r}) of dual act {self.agent.id!r} failed"
                log_failure(logger, about, error)
                run.conclusion = Conclusion(error=f"{type(error).__name__}: {error}")
                return run
            run.usage = run.usage + reply.usage
            run.steps.extend(reply.steps)
            run.value = reply.value if schema is not None else None
            if self._ends_all(agent, reply.stop_reason):
                detail = f"R ({agent.id!r}): {reply.detail or reply.stop_reason}"
                run.stop = _Stop(_as_stop(reply.stop_reason), detail, reply.error)
                run.conclusion = conclusion_of(reply)
                return run
            if self.agent._extract_by is not None:
                try:
                    run.conclusion = await self._extracted(reply)
                except _Stop as stop:  # R has run all the same
                    run.conclusion = Conclusion(reply.text, evidence=evidence_of(reply))
                    run.stop = stop
                return run
            try:
                run.conclusion = conclusion_of(reply)
                return run
            except Unreadable as error:
                fault = f"unreadable: the answer {error}"
                run.conclusion = Conclusion(reply.text, error=fault)
                text = f"Your answer {error}. Conclude again."
        return run

    async def _extracted(self, reply: Reply) -> Conclusion:
        assert self.agent._extract_by is not None
        made = await self._call(self.agent._extract_by, reply)
        if not isinstance(made, Conclusion):
            raise _Stop(
                "error", f"the conclusion extractor must give a Conclusion, got {made!r:.80}"
            )
        # H is shown what R really did, whatever is made of what it said.
        return made if made.evidence else replace(made, evidence=evidence_of(reply))

    def _ends_all(self, agent: Any, reason: StopReason) -> bool:
        """Whether there is nothing for H to judge, R having stopped for this reason."""
        if reason in ("budget", "deadline"):
            return self._is_spent(agent, late=reason == "deadline")
        return reason in ("cancelled", "in_doubt")

    def _is_spent(self, agent: Any, *, late: bool) -> bool:
        """Whether an R that met a limit met one of H's too; its own is a failure as others are."""
        shared = self.budget
        if shared is None:
            from civitas.budget import Budget  # not loaded for a pair without any

            own = getattr(agent, "budget", None)
            of_human = getattr(self.config.human, "budget", None)
            if isinstance(own, Budget) and isinstance(of_human, Budget):
                shared = own.common(of_human)
        return is_spent_for_all(shared, agent, late=late)

    # -- what both need ----------------------------------------------------------------------------

    async def _ask(self, agent: Any, text: str, schema: Any, part: str) -> Reply:
        options = options_for(agent, self.asked)
        if schema is not None and takes(agent.reply, "schema"):
            options["schema"] = schema
        if takes(agent.reply, "run_id"):
            options["run_id"] = self._run_id(agent, part)
        alone = not self._speaking
        if alone:
            self._speaking = [agent]

        async def ask() -> Any:
            if self.asked.emit is None or not hasattr(agent, "stream"):
                reply = await agent.reply(text, **options)
            else:
                reply = await self._streamed(agent, text, options)
            if isinstance(reply, Reply):
                return reply
            raise TypeError(f"agent {agent.id!r} must give a Reply, got {reply!r:.80}")

        async def ask_once(step: record.Step) -> Any:
            await step.begins()
            return await ask()

        try:
            if not getattr(agent, "_records", False):
                return await self.record.step(part, ask_once, of=REPLY)
            with joined(agent, self.record.member(part, str(agent.id))):
                return await ask()  # type: ignore[no-any-return]
        finally:
            if alone:
                self._speaking = []

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

    async def _call(self, fn: Callable[..., Any], *args: Any) -> Any:
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
                raise _Stop("deadline", f"the time was over before {name} had ended") from error
            log_failure(logger, f"{name} of dual act {self.agent.id!r} failed", error)
            detail = f"{name} failed: {type(error).__name__}: {error}"
            raise _Stop("error", detail, error) from error

    async def _hooked(
        self,
        type: str,
        about: dict[str, Any],
        name: str,
        value: T,
        check: Callable[[Any], object],
        of: type[T] | None = None,
    ) -> T:
        """What hooks make of a value, once: as it was recorded, or as they make of it now.

        Args:
            type: which hooks
            about: what else they are told
            name: what the value is called
            value: it
            check: raises if what one made of it will not do
            of: its type, if it is no text
        """
        hooks = self.agent._hooks
        if hooks is None or not hooks.has(type):
            return value
        called = hooks

        async def call(step: record.Step) -> T:
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
            raise _Stop("deadline", str(error)) from error
        except HookError as error:
            log_failure(logger, f"a hook of agent {self.agent.id!r} failed", error)
            raise _Stop("error", str(error), error) from error

    def _heard(self) -> Sequence[str]:
        told, self._told = self._told, []
        return told

    def _broken(self, who: str, agent: Any, error: Exception) -> _Stop:
        detail = f"{who} ({agent.id!r}): {type(error).__name__}: {error}"
        if isinstance(error, DeadlineExceeded):
            return _Stop("deadline", detail)
        if isinstance(error, BudgetExceeded):
            return _Stop("budget", detail)
        log_failure(logger, f"dual act {self.agent.id!r}: {who} ({agent.id!r}) failed", error)
        return _Stop("error", detail, error)


async def _side_by_side(works: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """What each gives, in their order. If one raises, the others are cancelled and waited for."""
    if len(works) == 1:
        return [await works[0]()]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(work)) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


async def _awaited(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


def _said(reply: Reply) -> Any:
    """What is read as H's answer: the object of a schema or a terminal action, or its text."""
    return reply.value if isinstance(reply.value, dict) else reply.text


def _as_stop(reason: StopReason) -> StopReason:
    """Why a dual act ends whose H, or R, ended for this reason."""
    known = ("budget", "deadline", "cancelled", "unreadable", "in_doubt")
    return reason if reason in known else "error"


def _keeps_schema(agent: Any) -> bool:
    """Whether an agent's model keeps to a schema, so that it can be asked for one."""
    model = getattr(agent, "model", None)
    return bool(getattr(model, "keeps_schema", False))
