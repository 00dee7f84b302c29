"""One run of the loop, from the request to the stop reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from moothall.actions.provenance.marks import Marks
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.context import Context
from moothall.agents.dispatch import blocks_with
from moothall.agents.loop.answer import ModelAnswer, read_answer
from moothall.agents.loop.call_steps import LoopModelStep
from moothall.agents.loop.calls import ToolCalls
from moothall.agents.loop.chain import around_model
from moothall.agents.loop.loop_memory import LoopMemory, refused_question
from moothall.agents.loop.parts import Looping, context_of, fault_of, messages_of
from moothall.agents.loop.prompt.actions_by_context import actions_by_context
from moothall.agents.loop.prompt.model_view import ModelView, PieceEmitter
from moothall.agents.loop.prompt.prompt_record import PromptRecord
from moothall.agents.loop.prompt.room import fit
from moothall.agents.loop.provenance import marks_after_reading
from moothall.agents.loop.recording import (
    LoopState,
    LoopTurn,
    call_ids,
    cannot_resume,
    end_data,
)
from moothall.agents.loop.steering import Steering
from moothall.agents.loop.turn_end import TurnEnd
from moothall.agents.replies.charging import count_unbounded_call, with_budget
from moothall.agents.replies.events import MessagesLeftOut
from moothall.agents.replies.read_record import PastStep
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.step import StepHandle as RecordedStep
from moothall.agents.replies.sub_agents.holding import (
    answers_before,
    keep_answer,
    turn_left,
    until_any,
    wait_with,
)
from moothall.foundation.errors import BudgetExceeded, HookError, JournalError
from moothall.foundation.jsonvalue import UnreadableText, json_and_text
from moothall.foundation.text import counted, error_message, log_failure
from moothall.foundation.threads import is_cancelled
from moothall.memory.memory import Memory
from moothall.memory.reply_memory import split_message
from moothall.models.base import answer_of, stream_to, with_options
from moothall.models.finish_reason import FINISH_REASONS, FinishReason
from moothall.models.protocol import Model

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import AnswerSchema
    from moothall.agents.replies.sub_agents.background import Workers
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")

SAME_CALLS = 3
"""How many turns in a row with the same calls and results end a run as `no_progress`; also two
that alternate so many times."""
_Texts: TypeAlias = tuple[int, tuple[str, ...]]
_UNKNOWN, _REFUSAL = FinishReason(), FINISH_REASONS["refusal"]


class LoopRun:
    """One run of the loop, which asks the model and executes its calls until it stops."""

    warned_limits: frozenset[str] = frozenset()  # of limits that are nearly reached
    _prompts: PromptRecord | None = None
    _is_guided = False  # whether the functions of the prompt were called
    # Of the last two turns with calls: which, and its results as the model reads them.
    _texts: tuple[_Texts, _Texts] = (0, ()), (0, ())
    # What it has answered while work was under way, whose end it waits for, by the turn.
    _answers: Mapping[int, str] = MappingProxyType({})
    _turns_before = 0  # how many turns it had then
    _left_out = 0  # how many messages of the reply its model no longer reads, as events said

    def __init__(self, agent: Looping, request: ReplyRequest, memory: Memory) -> None:
        self.turn_end: TurnEnd = TurnEnd(agent, request, memory)
        self.agent = agent
        self.request = request
        self.emit: Callable[[Any], Any] | None = request.emit
        self.memory = memory
        self.thread: Thread = request.state
        self.model: Model = self.turn_end.model
        if request.options:
            self.model = with_options(self.model, request.options.get("options"))
        self.budget: Budget | None = self.turn_end.budget
        if self.budget is not None:
            self.model = with_budget(self.model, self.budget)
        self.schema: AnswerSchema | None = request.answer
        self._memory_clears = hasattr(memory, "take_cleared")
        self.record: Record[Any] | None = request.recorded
        self.state: LoopState = self.turn_end.state
        self.run_memory: LoopMemory = self.turn_end.run_memory
        self.view: ModelView = self.turn_end.view
        self._call_ids: set[str] = set()  # of the calls
        if request.conversation or type(request.content) is list:  # they may have calls, too
            last_messages = split_message({"content": request.content})
            self._call_ids = call_ids([*(request.conversation or ()), *last_messages])
        if self.state.messages:
            self._call_ids |= call_ids(self.state.messages)
        self._steering = Steering()
        self.model_blocks: Sequence[Any] = agent.blocks
        self.action_blocks: Sequence[Any] = agent.blocks
        if agent.blocks:
            self.model_blocks = blocks_with(agent.blocks, "around_model")
            self.action_blocks = blocks_with(agent.blocks, "around_action")

    async def reply(self) -> Reply:
        """Ask the model and execute its calls until there is a reason to stop."""
        steering, other = self._steering, self.thread.reply
        if other is None or (isinstance(other, Steering) and other.woken):  # that only waits
            self.thread.reply = steering
        record = self.record
        try:
            if (fitting := fit(self.turn_end.model, self.memory, self.turn_end.id)) is not None:
                await fitting
            if record is None:
                if self.agent.actions_by_context is not None:
                    await self._choose_actions()
                return await self._take_turns()
            if not record.is_over:
                stopped = self.turn_end.stopped
                return await record.run_to_end(self._restore_and_run, end_data, stopped)
        except Stop as stop:  # its memory failed between two turns, or at the end
            return self.turn_end.stopped(stop)
        except asyncio.CancelledError:
            goes_on = record is not None and record.run.resumes_later
            goes_on = goes_on and record is not None and not record.run.work.cancel_cause
            if self.thread.workers is not None and not goes_on:
                self.thread.workers.cancel(self.request.run_id)
            raise
        finally:
            if self.thread.reply is steering:
                self.thread.reply = None
            if self.thread.workers is not None:
                self.thread.workers.end_hearing()
            if steering.pending_texts:
                # What came after the last turn.
                self.thread.pending_texts.extend(steering.pending_texts)
        return await self.turn_end.recorded_reply()

    async def _restore_and_run(self) -> Reply:
        if self.agent.actions_by_context is not None:
            await self._choose_actions()
        await self.turn_end.restore()
        return await self._take_turns()

    async def _take_turns(self) -> Reply:
        agent, state, request, steering = self.agent, self.state, self.request, self._steering
        is_new = not state.messages
        if not is_new and request.background == "held":
            self._answers = answers_before(self.record)
            self._turns_before = max(self._answers, default=0)
        if self.thread.last_checked is None:
            if remembered := messages_of(self.memory, self.turn_end.id, None)[0]:
                self.turn_end.results.remember(remembered, state)
                self.run_memory.warn_if_ahead()
            del remembered  # a thousand replies may wait: each keeps what it needs
        if self.thread.pending_texts and request.background != "worker":
            self._take_pending_texts()
        if is_new:
            self.thread.defers_actions = None  # as its actions are now
            if request.background == "woken":
                if self.thread.workers is not None:
                    await self._hear_workers(self.thread.workers)
                if not state.messages:
                    return self.turn_end.reply("done", "another reply has heard it", "")
        if is_new and request.background != "woken":  # what woke it is its message
            first_turn, marks = LoopTurn(), Marks(request.outside) if request.outside else None
            first_turn.add({"role": "user", "content": request.content}, marks)
            self.run_memory.save(self.state, first_turn, ends=False)
            del first_turn, marks
        if self.thread.pending_texts:  # what work in the background is told comes after its task
            self._take_pending_texts()
        if not is_new and (reply := self._terminal_before() or self._refused_before()) is not None:
            return reply
        # A refusal is a turn of its own, and none of those that the agent may take.
        while (
            state.iteration
            < agent.max_iterations + self.run_memory.refusal_count + self._turns_before
            or self._has_more_turns()
        ):
            # By an action, from Python 3.13 on: it ends all the same.
            if state.iteration and steering.was_swallowed():
                raise asyncio.CancelledError
            if self.thread.workers is not None:
                await self._hear_workers(self.thread.workers)
            self.turn_end.last_turn = turn = LoopTurn(state.iteration + 1)
            steering.in_turn = True
            try:
                reply = await self.handle(turn)
            except Stop as stop:
                reply = self.turn_end.stopped(stop)
            except asyncio.CancelledError:
                reply = None
                if steering.undo_cancellations():
                    if state.iteration < turn.iteration:  # while the model answered
                        self.run_memory.save(self.state, turn)
                elif is_cancelled():
                    raise
                else:
                    no_answer = Stop("cancelled", "the model's answer was cancelled")
                    reply = self.turn_end.stopped(no_answer)
            finally:
                steering.in_turn = False
                if steering.pending_texts:  # also of a run that is cancelled from outside
                    self._take_new_texts()
            if reply is not None:
                return reply
        turn_count = state.iteration - self.run_memory.refusal_count
        detail = f"no answer after {counted(turn_count, 'iteration')}"
        if state.faults:
            detail += f"; the last could not be used: {state.faults}"
        return self.turn_end.stopped(Stop("max_iterations", detail))

    async def handle(self, turn: LoopTurn) -> Reply | None:
        """Handle one answer of the model and its calls; return the reply, or None to continue."""
        agent, state = self.agent, self.state
        if self._answers and self._is_answered:
            return await self._hold()
        completion = await self.ask(turn)
        if state.iteration == turn.iteration:
            return None  # it was refused, and the next turn sends less
        answer = read_answer(completion, self._call_ids, self.view.find, self.view.callable_names)
        if answer.text:
            state.text = answer.text
        value: Any = answer.text
        cause, is_refusal = "", False
        if not answer.calls:
            reason = FINISH_REASONS.get(str(getattr(completion, "finish_reason", "")), _UNKNOWN)
            cause, is_refusal = reason.detail, reason is _REFUSAL
            if self.request.must_call and not answer.fault:
                answer.fault = self.request.demand
            if self.schema is not None and not answer.fault:
                try:
                    value = self.schema.read(answer.text)
                except UnreadableText as error:
                    refusal = f"{cause}: {answer.text}" if is_refusal else ""
                    answer.fault = refusal or f"{error}" + (f" (It was {cause}.)" if cause else "")
            if agent.check is not None and not answer.fault:
                check = partial(fault_of, value, agent.check)
                answer.fault = await self._call_user("check", f"check.{turn.iteration}", check)
        if fault := answer.fault:
            if any(each.has_begun for each in self._past_steps(f"{turn.iteration}.")):
                # Calls of this answer ran before: the model must not read that none was executed.
                raise cannot_resume(fault)
            self.turn_end.add_faults(turn, answer, fault)
            state.faults = fault
            state.unusable += 1
            self.run_memory.save(state, turn)
            # Asked again, a model that refuses would refuse again.
            ends = state.unusable > agent.tries or is_refusal
            return self.turn_end.stopped(Stop("unreadable", fault)) if ends else None
        state.faults, state.unusable = "", 0
        if not answer.calls:
            turn.add(answer.message(), marks_after_reading(self.thread))
            if self.request.background == "held" and self._has_work:
                await self._keep_answer(turn.iteration)
            self.run_memory.save(self.state, turn)
            if self._steering.pending_texts or turn.iteration in self._answers:
                return None  # the user has interrupted meanwhile, or more is to come
            return self._final_reply(cause, value)
        await self.act(turn, answer)
        is_interrupted = self._steering.pending_texts
        repeated = "" if is_interrupted else self._repetition_fault(answer, turn)
        self.run_memory.save(self.state, turn)
        if is_interrupted:
            return None
        for call, step in zip(answer.calls, turn.steps, strict=True):
            if call.action is not None and call.action.terminal and self._is_done(step):
                return self._terminal_reply(step)
        return self.turn_end.stopped(Stop("no_progress", repeated)) if repeated else None

    @staticmethod
    def _is_done(step: Step) -> bool:
        return step.error is None and step.executed

    def _terminal_reply(self, step: Step) -> Reply:
        """Return the reply, now that a terminal action has succeeded."""
        value = step.result.get("result")
        self.state.text = "" if value is None else json_and_text(value)[1]
        return self.turn_end.stopped(Stop("terminal", ""), value)

    def _terminal_before(self) -> Reply | None:
        """Return the reply if a run's process died after a terminal action had succeeded."""
        if self.state.messages[-1]["role"] != "tool":
            return None
        for step in self.state.steps:
            if step.iteration == self.state.iteration and self._is_done(step):
                action = self.view.action(step.action)
                if action is not None and action.terminal:
                    return self._terminal_reply(step)
        return None

    def _refused_before(self) -> Reply | None:
        """Return the reply if a run's process died after what the user said had been refused."""
        is_refused = self.state.cut_at_end == "question"
        return self.turn_end.stopped(refused_question()) if is_refused else None

    def _repetition_fault(self, answer: ModelAnswer, turn: LoopTurn) -> str:
        """Return what is repeated: the same calls with the same results, or two such turns."""
        state, texts = self.state, tuple[str, ...]()
        for each in answer.calls:
            texts += (each.result.text if each.result else "",)
        (last, last_texts), (iteration, past_texts) = self._texts
        self._texts = (turn.iteration, texts), (last, last_texts)
        texts_by_turn = {iteration: past_texts, last: last_texts, turn.iteration: texts}
        age = state.age_of_same(turn, texts_by_turn)
        if age and any(call.action is not None and call.action.polling for call in answer.calls):
            age = 0
        state.same = state.same + 1 if age == 1 else 1
        state.alternating = state.alternating + 1 if age == 2 else 0
        if state.same >= SAME_CALLS:
            steps, order = turn.steps, "in a row"
        elif state.alternating >= (SAME_CALLS - 1) * 2:
            last_steps = [each for each in state.steps if each.iteration == turn.iteration - 1]
            steps, order = [*last_steps, *turn.steps], "in turn"
        else:
            return ""
        names = " and ".join(dict.fromkeys(f'"{step.action}"' for step in steps))
        return (
            f"{names} called {SAME_CALLS} times {order} with the same arguments and the same result"
        )

    def _past_steps(self, prefix: str) -> list[PastStep]:
        """Return the recorded steps whose keys have this prefix."""
        return [] if self.record is None else self.record.past(prefix)

    # -- being interrupted -------------------------------------------------------------------------

    def _has_more_turns(self) -> bool:
        """Return whether there is one more turn: the user has spoken, or the last was cut off."""
        has_spoken = not self.state.faults and self.state.last_message["role"] == "user"
        has_more = has_spoken or bool(self._past_steps(f"{self.state.iteration + 1}."))
        return has_more or self._is_answered

    @property
    def _has_work(self) -> bool:
        workers = self.thread.workers
        return workers is not None and bool(workers.rows_of(self.request.run_id))

    @property
    def _is_answered(self) -> bool:
        """Whether it has answered, and only waits for work in the background."""
        is_kept = self.state.iteration in self._answers
        return is_kept and self.state.last_message["role"] == "assistant"

    async def _keep_answer(self, turn: int) -> None:
        """Keep an answer as a part of the reply, which goes on."""
        await keep_answer(self.record, turn, self.state.text)
        self._answers, self._turns_before = {**self._answers, turn: self.state.text}, turn

    async def _hold(self) -> Reply | None:
        """Wait for work in the background; return the reply if nothing is left to hear of it."""
        state, steering, record = self.state, self._steering, self.record
        run_id = self.request.run_id
        steering.in_turn = False
        woken = steering.woken = asyncio.Event()
        try:
            if record is not None:  # its thread and whoever watches have the answer now
                await record.commit()
            while (workers := self.thread.workers) is not None:
                woken.clear()
                await self._hear_workers(workers)
                if self.thread.pending_texts:
                    steering.pending_texts.extend(self.thread.take_texts())
                is_told = bool(steering.pending_texts) or state.last_message["role"] != "assistant"
                rows = workers.rows_of(run_id)
                is_at_work = is_told or await workers.is_at_work(run_id)
                if record is not None:
                    await wait_with(record, [] if is_at_work else rows, workers.under_way)
                if is_told or not rows or not is_at_work:
                    break
                with workers.held_by(run_id, woken):
                    async with turn_left():
                        await until_any(workers.tasks_of(run_id), woken)
                self.thread.reply = steering
        finally:
            steering.woken = None
        if steering.pending_texts or state.last_message["role"] != "assistant":
            return None
        value = state.text if self.schema is None else self.schema.read(state.text)
        return self._final_reply("", value)

    def _final_reply(self, cause: str, value: Any) -> Reply:
        """Return the reply with all its answers as its text."""
        answers = {**self._answers, self.state.iteration: self.state.text}
        if self._answers and self.schema is None:
            value = self.state.text = "\n\n".join(filter(None, answers.values()))
        return self.turn_end.reply("done", cause, value)

    async def _hear_workers(self, workers: Workers) -> None:
        """Hear what has come of the work in the background since the last turn."""
        if not self._past_steps(f"{self.state.iteration + 1}"):  # else its answer was without
            self._take_texts(await workers.take_results(self.record))
            if not workers.is_needed:
                self.thread.workers = None

    def _take_pending_texts(self) -> None:
        self._steering.pending_texts.extend(self.thread.take_texts())
        if not self._past_steps(f"{self.state.iteration + 1}"):
            self._take_new_texts()

    def _take_new_texts(self) -> None:
        self._take_texts(self._steering.take_texts())  # the turn may have ended though cancelled

    def _take_texts(self, texts: Sequence[str]) -> None:
        """Add texts to the messages, as the user's."""
        if not texts:
            return
        turn = LoopTurn()
        for text in texts:
            marks = Marks(text.sources) if isinstance(text, SourcedText) else None
            turn.add({"role": "user", "content": str(text)}, marks)
        if self.record is not None:
            self.record.take_told(texts)
        self.state.reset_faults()
        self.run_memory.save(self.state, turn, ends=False)

    # -- asking the model --------------------------------------------------------------------------

    async def ask(self, turn: LoopTurn) -> Any:
        """Return the model's answer, unchecked: the recorded one, or a new one.

        If its server refused what it was sent, and the next turn sends less, the turn is over.
        """
        try:
            if not self._is_guided and (self.agent.system_prompt is not None or self.agent.blocks):
                for label, key, function in self.view.prompt_functions():
                    self.view.set_guidance(key, await self._call_user(label, key, function))
                self._is_guided = True
            if self._memory_clears and (numbers := self.memory.take_cleared()):
                self.turn_end.results.tell_cleared(numbers, turn)
            self.view.refresh_actions()
            self.state.defers = self.thread.defers_actions
            if self.emit is not None:
                count_before, self._left_out = self._left_out, getattr(self.memory, "left_out", 0)
                if self._left_out and self._left_out != count_before:
                    self.request.tell(MessagesLeftOut, self.turn_end.id, self._left_out)
            schema = None if self.schema is None else self.schema.json
            step = LoopModelStep(self, turn, schema)
            completion = await around_model(step, partial(self._ask, step))
            if self.record is not None:
                step.ensure_prompt()
            return completion
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self.agent.id, error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            kind, text = type(error).__name__, error_message(error)
            detail = f"{kind}: {text}" if text else kind
            is_refusal = getattr(error, "of_content", False)
            if is_refusal and self.run_memory.leave_out(self.state, turn, detail):
                return None
            log_failure(logger, f"the model of agent {self.agent.id!r} failed", error)
            stop = refused_question(error) if is_refusal else Stop("error", detail, error)
            raise stop from error

    def _ask(self, step: LoopModelStep) -> Awaitable[Any]:
        """Ask the model itself; tell the pieces of its answer, if somebody listens."""
        if self.budget is None and self.request.nested:
            count_unbounded_call()
        prompt, schema = self.view.as_model_sees(self.model, step.prompt), step.schema
        actions, emit = self.view.offered.actions or None, self.emit
        if emit is None:
            return answer_of(self.model, prompt, actions=actions, schema=schema)
        pieces = PieceEmitter(schema, self.turn_end.id, self.request, emit)
        return stream_to(self.model, prompt, pieces.emit, actions=actions, schema=schema)

    async def _choose_actions(self) -> None:
        """Take the actions of this run; they are code, which no record has."""
        choose = self.agent.actions_by_context
        assert choose is not None
        function = partial(actions_by_context, choose)
        self.view.actions_of_run = await self._call_user("function of actions=", None, function)

    async def _call_user(
        self, label: str, key: str | None, function: Callable[[Context[Any]], Awaitable[Any]]
    ) -> Any:
        """Return what a function of the user's returns for this reply: once, recorded by a key."""

        async def call(step: RecordedStep | None = None) -> Any:
            return await function(context_of(self.agent, self.request))

        try:
            if self.record is None or key is None:
                return await call()
            return await self.record.once(key, call)
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the {label} of agent {self.agent.id!r} failed", error)
            detail = f"the {label} failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    def next_prompt(self) -> list[dict[str, Any]]:
        """Return the prompt as it is once the messages up to now are recorded and remembered."""
        return [*self.view.prompt(), *self.state.messages[self.run_memory.count :]]

    def prompt_entry(self, step: LoopModelStep, is_retry: bool) -> dict[str, Any]:
        """Return what is recorded of a prompt; with `is_retry`, of the step's second try."""
        if self._prompts is None:
            assert self.record is not None
            self._prompts = PromptRecord(self.record, self.thread)
        messages, offered = self.state.messages, self.view.offered
        may_differ = bool(self.agent.hooks or self.model_blocks)
        entry_parts = (step.prompt, messages, offered, step.schema, is_retry, may_differ)
        return self._prompts.note(*entry_parts)

    # -- acting ------------------------------------------------------------------------------------

    async def act(self, turn: LoopTurn, answer: ModelAnswer) -> None:
        """Execute the calls of an answer concurrently; add them and their results in call order."""
        record, tool_calls = self.record, answer.calls
        calls = ToolCalls(self.agent, tool_calls, self.request, turn.iteration, self.action_blocks)
        if record is not None and (doubts := ToolCalls.doubts_in(record, turn.iteration)):
            raise Stop("in_doubt", doubts)
        try:
            await calls.execute(self.budget)
            if calls.stops:
                raise calls.end
        except BaseException as error:
            # Looked at before `keep`, which gives each call a result.
            has_unfinished = any(call.result is None for call in tool_calls)
            stays_open = has_unfinished and self._steering.is_cut_off(error)
            waits = any(call.wait for call in tool_calls)
            if waits or (stays_open and record is not None):  # it is heard once the turn has ended
                self.thread.pending_texts.extend(self._steering.take_texts())
            if waits:
                self.turn_end.park(turn, answer, calls)
            elif stays_open and record is not None:
                # Memory shows what was cut off, and not what the budget never let begin.
                if calls.in_doubt or (isinstance(error, Stop) and error.reason != "budget"):
                    self.turn_end.keep(turn, answer, calls, ends=False)
                    self.run_memory.save(self.state, turn, ends=False)
            else:
                self.turn_end.keep(turn, answer, calls)
                self.run_memory.save(self.state, turn)
            raise
        self.turn_end.keep(turn, answer, calls)
