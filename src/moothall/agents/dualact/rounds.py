"""The turns of a dual act, from the request to the stop reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from moothall.agents.decision import Conclusion, DecisionAction, HumanDecision
from moothall.agents.dualact.briefing import actions_text
from moothall.agents.dualact.comparing import compare_conclusions
from moothall.agents.dualact.conclusions import (
    conclusion_of,
    evidence_of,
    read_decision,
)
from moothall.agents.dualact.config import DualActConfig, Situation, review_rule
from moothall.agents.dualact.dual_act_state import DualActState, ReactiveRun
from moothall.agents.replies.charging import is_spent_for_all
from moothall.agents.replies.events import ConclusionReached, DecisionMade, Done, Event
from moothall.agents.replies.group import Group, ask_member, await_in_time, takes, thread_option
from moothall.agents.replies.hooks import expect, hooked_value
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_context import sources_of_thread
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.step import StepHandle
from moothall.foundation.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    HookError,
    JournalError,
    RunMismatch,
)
from moothall.foundation.jsonvalue import UnreadableText, as_json, json_text
from moothall.foundation.text import log_failure
from moothall.foundation.threads import call_user, side_by_side
from moothall.journal.stop_reason import (
    ANSWERED_REASONS,
    PASSED_ON_REASONS,
    REASONS_FOR_ALL,
    StopReason,
)
from moothall.models.ask import Messages, Unusable, ask_value
from moothall.models.protocol import ReasoningPiece, TextPiece

logger: logging.Logger = logging.getLogger("moothall.agents")

T = TypeVar("T")

_RUN_ERRORS = (JournalError, RunMismatch, Stop)
"""What is no failure of H or R: the run cannot continue, or not by this program, or is paused."""


class Rounds:
    """The turns of H and R on one task."""

    def __init__(
        self,
        agent: Group,
        config: DualActConfig,
        progress: DualActState,
        request: ReplyRequest,
        record: Record[DualActState],
        decide_by: Callable[..., Any] | None,
        extract_by: Callable[..., Any] | None,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._agent = agent
        self._human = config.human
        self._reactives = config.reactives
        self._config = config
        self._progress = progress
        self._request = request
        self._record = record
        self._decide_by = decide_by
        self._extract_by = extract_by
        self._briefing = config.briefing()
        self._budget = agent.budget if request.budget is None else request.budget
        self._working_members: list[Any] = []
        texts = request.state.take_texts()
        progress.told.extend(texts)
        record.take_told(texts)
        self._received_messages: list[Any] = list(record.received)  # in the repeated turn
        sources = [source for each in self._received_messages for source in each.get("outside", ())]
        request.note_sources([*progress.outside, *sources])

    def interrupt(self, text: str) -> None:
        """Interrupt the members at work. H hears later what R was told, or what nobody heard."""
        interruptible = [each for each in self._working_members if hasattr(each, "interrupt")]
        hears = not interruptible or self._progress.turn == "reactive"
        for each in interruptible:  # whoever records it has the key under which a journal keeps it
            heard_text = str(text) if hears else text
            each.interrupt(heard_text, **thread_option(each.interrupt, self._request.thread))
        if hears:
            self._progress.tell(text, bool(interruptible))
            self._progress.outside = outside = sources_of_thread(self._request)
            sources = {"outside": outside} if outside else {}
            self._record.hear({"content": text, "by_r": bool(interruptible), **sources})

    def reply_stopped(self, stop: Stop) -> Reply:
        """Return the reply as it stands, with the reason to stop."""
        self._progress.outside = sources_of_thread(self._request)
        self._progress.finish(stop.reason, stop.detail)
        return self._progress.reply(stop.error)

    async def run(self) -> Reply:
        """Run turns until the dual act is over, and return its reply."""
        progress = self._progress
        while not progress.is_over:
            await (self._decide() if progress.turn == "human" else self._act())
            progress.outside = sources_of_thread(self._request)
            if not progress.is_over:
                self._record.save(progress)
        return progress.reply()

    # -- H's turn ----------------------------------------------------------------------------------

    async def _decide(self) -> None:
        """Let H decide about the last conclusion, or how R begins."""
        progress, config = self._progress, self._config
        conclusion = progress.conclusion
        rule = review_rule(config.review)
        if conclusion is not None and not rule.catches(
            Situation(conclusion, progress.conclusions[:-1], self._budget)
        ):
            reason = f"accepted: {rule!r} did not catch it"
            self._apply_decision(HumanDecision(DecisionAction.TERMINATE, "", reason))
            return
        reactive_count = len(self._reactives)
        answers_in_words = getattr(self._human, "decides_in_words", False)
        messages = progress.take_unheard(self._received_messages, for_r=False)
        actions = actions_text(self._reactives)
        prompt = self._briefing.for_human(
            progress.task, conclusion, messages, reactive_count, answers_in_words, actions
        )
        number = len(progress.decisions) + 1
        fields: dict[str, Any] = {"loop": number, "conclusion": conclusion}
        check = partial(expect, kind=str)
        prompt = await self._value_after_hooks("pre_reasoning", fields, "prompt", prompt, check)
        if self._decide_by is not None:
            decision = await self._record.once(
                f"decide.{number}", self._decide_by_function, of=HumanDecision
            )
        elif config.answers_first:
            ask, earlier = self._read_from_human, progress.decisions
            decision = await compare_conclusions(ask, progress.task, conclusion, messages, earlier)
        else:
            decision = await self._ask_for_decision(prompt, reactive_count)
        self._apply_decision(decision)
        fields["prompt"] = prompt
        changed = await self._value_after_hooks(
            "post_reasoning", fields, "decision", decision, self._expect_decision, HumanDecision
        )
        if changed != decision:
            progress.decisions.pop()
            self._apply_decision(changed)

    async def _decide_by_function(self, step: StepHandle) -> HumanDecision:
        assert self._decide_by is not None
        progress = self._progress
        decision = await self._call(self._decide_by, progress.conclusion, progress.task)
        if isinstance(decision, HumanDecision):
            return decision
        raise Stop(
            "error",
            f"the decision function of {self._agent.id!r} must give a HumanDecision, "
            f"got {decision!r:.80}",
        )

    async def _ask_for_decision(self, prompt: str, reactive_count: int) -> HumanDecision:
        human = self._human
        # With several R, a model may give each an instruction, which this schema does not allow.
        answers_in_words = getattr(human, "decides_in_words", False)
        schema = HumanDecision.schema if reactive_count == 1 or answers_in_words else None
        form = self._briefing.answer_form(reactive_count)

        def read(text: str) -> HumanDecision:
            return read_decision(text, reactive_count)

        return await self._read_from_human(prompt, schema, read, form=form)

    async def _read_from_human(
        self,
        prompt: str,
        schema: dict[str, Any] | None,
        read: Callable[[str], T],
        part: str = "",
        form: str | None = None,
    ) -> T:
        """Return what `read` makes of H's answer to a prompt."""
        human, progress = self._human, self._progress
        number = len(progress.decisions) + 1

        async def ask(messages: Messages, attempt: int) -> str:
            suffix = "" if attempt == 1 else ".again"
            self._working_members = [human]
            try:
                # H remembers the messages before the last one.
                text = messages[-1]["content"]
                name = f"H{number}{part}{suffix}"
                reply = await self._ask(human, text, schema, name, decides=True)
            except _RUN_ERRORS:
                raise
            except Exception as error:
                raise self._failure_stop("H", human, error) from error
            finally:
                self._working_members = []
            progress.steps.extend(reply.steps)
            progress.human_usage = progress.human_usage + reply.usage
            if reply.stop_reason not in ANSWERED_REASONS:
                raise self._stop_for_member("H", human, reply)
            # The object by the schema or from a terminal action, or the text.
            return json_text(as_json(reply.value)) if isinstance(reply.value, dict) else reply.text

        try:
            question = [{"role": "user", "content": prompt}]
            return await ask_value(ask, question, schema, read, form=form)
        except Unusable as error:
            reason = f"H ({human.id!r}) gave no decision: its answer {error}"
            raise Stop("unreadable", reason) from None

    def _apply_decision(self, decision: HumanDecision) -> None:
        reactive_count = len(self._reactives)
        try:
            self._check_count(decision.new_instruction, "a decision")
        except ValueError as error:
            raise Stop("error", str(error)) from None
        self._progress.note_decision(decision, self._config.max_hr_loops, reactive_count)
        number = len(self._progress.decisions)
        self._request.tell(DecisionMade, str(self._agent.id), number, decision)

    def _expect_decision(self, decision: Any) -> None:
        expect(decision, HumanDecision)
        self._check_count(decision.new_instruction, "a decision")

    # -- R's turn ----------------------------------------------------------------------------------

    async def _act(self) -> None:
        """Let each R work on its instruction, and merge their conclusions."""
        progress, reactives = self._progress, self._reactives
        number = progress.r_runs + 1
        messages = progress.take_unheard(self._received_messages, for_r=True)
        instructions = [
            self._briefing.for_reactive(
                agent, progress.task, each, progress.why, progress.redirected, messages
            )
            for agent, each in zip(reactives, progress.instruction, strict=True)
        ]
        fields: dict[str, Any] = {"loop": number}
        instruction: str | list[str] = instructions[0] if len(reactives) == 1 else instructions
        instruction = await self._value_after_hooks(
            "pre_acting", fields, "instruction", instruction, self._expect_instruction
        )
        fields["instruction"] = instruction
        instructions = (
            list(instruction) if isinstance(instruction, list) else [instruction] * len(reactives)
        )
        self._working_members = reactives
        try:
            # If one raises, the others are cancelled.
            coros = [self._run_member(*each) for each in zip(reactives, instructions, strict=True)]
            runs = await side_by_side(coros)
        finally:
            self._working_members = []
        progress.note_conclusions({str(r.id): run for r, run in zip(reactives, runs, strict=True)})
        conclusion = progress.conclusions[-1]
        stop = next((run.stop for run in runs if run.stop is not None), None)
        changed = await self._value_after_hooks(
            "post_acting",
            fields,
            "conclusion",
            conclusion,
            partial(expect, kind=Conclusion),
            Conclusion,
            recorded=stop is None,  # a resumed run of R may conclude otherwise
        )
        if changed != conclusion:
            progress.conclusions[-1] = changed
            progress.values[-1] = None  # it belongs to the unchanged conclusion
        self._request.tell(ConclusionReached, str(self._agent.id), number, changed)
        if stop is not None:
            raise stop

    async def _run_member(self, agent: Any, instruction: str) -> ReactiveRun:
        schema = self._request.schema
        text = instruction
        if schema is None:
            text = self._briefing.with_format(instruction, self._progress.task)
        run = ReactiveRun()
        for suffix in ("", ".again"):
            part = f"R{self._progress.r_runs + 1}{suffix}/{agent.id}"
            try:
                reply = await self._ask(agent, text, schema, part)
            except Stop as stop:
                run.stop = stop
                return run
            except _RUN_ERRORS:
                raise
            except Exception as error:
                is_late = isinstance(error, DeadlineExceeded)
                if isinstance(error, BudgetExceeded) and is_spent_for_all(
                    self._budget, agent, late=is_late
                ):
                    run.stop = self._failure_stop("R", agent, error)
                    return run
                failure = f"R ({agent.id!r}) of dual act {self._agent.id!r} failed"
                log_failure(logger, failure, error)
                run.conclusion = Conclusion(error=f"{type(error).__name__}: {error}")
                return run
            run.usage = run.usage + reply.usage
            run.steps.extend(reply.steps)
            run.value = reply.value if schema is not None else None
            if self._ends_dual_act(agent, reply.stop_reason):
                run.stop = self._stop_for_member("R", agent, reply)
                run.conclusion = conclusion_of(reply)
                return run
            try:
                run.conclusion = await self._conclusion_of(reply)
                return run
            except Stop as stop:  # note that R has run
                run.conclusion = Conclusion(reply.text, evidence=evidence_of(reply))
                run.stop = stop
                return run
            except UnreadableText as error:
                fault = f"unreadable: the answer {error}"
                run.conclusion = Conclusion(reply.text, error=fault)
                text = f"Your answer {error}. Conclude again."
        return run

    async def _conclusion_of(self, reply: Reply) -> Conclusion:
        if self._extract_by is None:
            return conclusion_of(reply)
        conclusion = await self._call(self._extract_by, reply)
        if not isinstance(conclusion, Conclusion):
            raise Stop(
                "error", f"the conclusion extractor must give a Conclusion, got {conclusion!r:.80}"
            )
        # H sees R's real calls, whatever the extractor returns.
        return (
            conclusion if conclusion.evidence else replace(conclusion, evidence=evidence_of(reply))
        )

    def _ends_dual_act(self, agent: Any, reason: StopReason) -> bool:
        """Return whether the dual act ends, without H, if R stopped for this reason."""
        if reason in ("budget", "deadline"):
            return is_spent_for_all(self._budget, agent, late=reason == "deadline")
        return reason in REASONS_FOR_ALL or reason == "cancelled"

    def _expect_instruction(self, instruction: Any) -> None:
        for each in instruction if isinstance(instruction, list) else [instruction]:
            expect(each, str)
        self._check_count(instruction, "it")

    # -- both turns --------------------------------------------------------------------------------

    async def _ask(
        self, agent: Any, text: str, schema: Any, part: str, decides: bool = False
    ) -> Reply:
        """Return the reply of H or R: the recorded one, or a new one."""
        request, emit = self._request, self._request.emit

        def show(event: Event) -> None:
            if decides and isinstance(event, TextPiece | ReasoningPiece):
                event = replace(event, decides=True)
            if emit is not None and not isinstance(event, Done):
                emit(event)

        member_schema = schema if takes(agent.reply, "schema") else None
        listener = None if emit is None else show
        return await ask_member(agent, text, part, request, self._record, listener, member_schema)

    async def _call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a user's function, within the deadline."""
        name = getattr(fn, "__name__", repr(fn))
        try:
            return await await_in_time(call_user(fn, *args), self._budget, f"{name} had ended")
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error
        except Exception as error:
            log_failure(logger, f"{name} of dual act {self._agent.id!r} failed", error)
            detail = f"{name} failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    async def _value_after_hooks(
        self,
        type: str,
        fields: dict[str, Any],
        name: str,
        value: T,
        check: Callable[[Any], object],
        kind: type[T] | None = None,
        recorded: bool = True,
    ) -> T:
        """Return a value as hooks changed it: the recorded one, or by calling them now."""
        if not self._agent.hooks.get(type):
            return value
        record = self._request.recorded if recorded else None
        kwargs = {**fields, **self._request.run_fields, name: value}
        hook_args = (self._agent, type, kwargs, name, check, self._budget)
        try:
            return await hooked_value(record, str(fields["loop"]), *hook_args, of=kind)  # type: ignore[no-any-return]
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self._agent.id, error) from error

    def _failure_stop(self, role: str, agent: Any, error: Exception) -> Stop:
        """Return the Stop for a member that failed."""
        detail = f"{role} ({agent.id!r}): {type(error).__name__}: {error}"
        if isinstance(error, BudgetExceeded):
            return Stop.at_limit(error, detail)
        log_failure(logger, f"dual act {self._agent.id!r}: {role} ({agent.id!r}) failed", error)
        return Stop("error", detail, error)

    def _check_count(self, instruction: str | list[str], source: str) -> None:
        """Raise ValueError for a list of instructions without exactly one for each R."""
        reactive_count = len(self._reactives)
        if isinstance(instruction, list) and len(instruction) != reactive_count:
            raise ValueError(
                f"{source} has {len(instruction)} instructions, and there are {reactive_count} R"
            )

    @staticmethod
    def _stop_for_member(role: str, agent: Any, reply: Reply) -> Stop:
        """Return the Stop for a member whose reply is not an answer."""
        reason = reply.stop_reason if reply.stop_reason in PASSED_ON_REASONS else "error"
        return Stop(
            reason, f"{role} ({agent.id!r}): {reply.detail or reply.stop_reason}", reply.error
        )
