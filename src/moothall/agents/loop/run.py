"""One run of the loop, from the request to the stop reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.actions.provenance.marks import Marks, with_marks
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.context import Context
from moothall.agents.dispatch import blocks_with
from moothall.agents.loop import call_results
from moothall.agents.loop.answer import ModelAnswer, read_answer
from moothall.agents.loop.call_steps import LoopModelStep
from moothall.agents.loop.calls import ToolCalls
from moothall.agents.loop.chain import around_model
from moothall.agents.loop.discovery import show_matches
from moothall.agents.loop.loop_memory import LoopMemory, refused_question
from moothall.agents.loop.parts import Looping, context_of, fault_of, messages_of
from moothall.agents.loop.prompt.model_view import ModelView, PieceEmitter
from moothall.agents.loop.prompt.prompt_record import PromptRecord
from moothall.agents.loop.prompt.room import LongResults, fit, left_out, result_chars
from moothall.agents.loop.provenance import (
    marks_after_reading,
    marks_of_fault,
    marks_of_result,
    note_messages,
)
from moothall.agents.loop.recording import (
    LoopState,
    LoopTurn,
    Outcome,
    call_ids,
    cannot_resume,
    catch_up,
    end_data,
    ended_reply,
    tell_past,
)
from moothall.agents.loop.steering import Steering
from moothall.agents.replies.charging import count_unbounded_call, with_budget
from moothall.agents.replies.events import MessagesLeftOut
from moothall.agents.replies.read_record import PastStep
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import OpenReply, Reply, Step, Stop
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.step import StepHandle as RecordedStep
from moothall.agents.replies.sub_agents.ask_agent import restore_asked
from moothall.foundation.errors import BudgetExceeded, HookError, JournalError
from moothall.foundation.jsonvalue import UnreadableText, json_text
from moothall.foundation.text import counted, cut, error_message, log_failure
from moothall.foundation.threads import is_cancelled
from moothall.memory.long_results import LEAST_CHARS
from moothall.memory.memory import Memory
from moothall.memory.reply_memory import split_message
from moothall.models.base import answer_of, stream_to, with_options
from moothall.models.finish_reason import FINISH_REASONS, FinishReason
from moothall.models.protocol import Model

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import AnswerSchema
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget
    from moothall.journal.stop_reason import StopReason

logger: logging.Logger = logging.getLogger("moothall.agents")

SAME_CALLS = 3
"""How many answers in a row with the same calls and results end a run as `no_progress`."""
_UNKNOWN, _REFUSAL = FinishReason(), FINISH_REASONS["refusal"]


class LoopRun:
    """One run of the loop, which asks the model and executes its calls until it stops."""

    warned_limits: frozenset[str] = frozenset()  # of limits that are nearly reached
    _prompts: PromptRecord | None = None
    _results: LongResults | None = None
    _last_turn: LoopTurn | None = None  # it is appended to the state once it has ended
    _is_guided = False  # whether the functions of the prompt were called
    _left_out = 0  # how many messages of the reply its model no longer reads, as events said

    def __init__(self, agent: Looping, request: ReplyRequest, memory: Memory) -> None:
        self.agent = agent
        self.id: str = str(agent.id)
        self.request = request
        self.emit: Callable[[Any], Any] | None = request.emit
        self.memory = memory
        self.thread: Thread = request.state
        self.budget: Budget | None = agent.budget if request.budget is None else request.budget
        self.model: Model = agent.model
        self._own_model: Model = self.model
        if request.options:
            self.model = with_options(self.model, request.options.get("options"))
        if self.budget is not None:
            self.model = with_budget(self.model, self.budget)
        self.schema: AnswerSchema | None = request.answer
        self._memory_clears = hasattr(memory, "take_cleared")
        self.state: LoopState = LoopState(
            allowed=request.allowed, joined=[*self.thread.found_actions]
        )
        self.record: Record[Any] | None = request.recorded
        self.run_memory: LoopMemory = LoopMemory(self.id, memory, request, self.record)
        self.view: ModelView = ModelView(agent, request, memory)
        self._call_ids: set[str] = set()  # of the calls
        if request.conversation or type(request.content) is list:  # they may have calls, too
            last_messages = split_message({"content": request.content})
            self._call_ids = call_ids([*(request.conversation or ()), *last_messages])
        self._steering = Steering()
        self.model_blocks = self.action_blocks = agent.blocks
        if agent.blocks:
            self.model_blocks = blocks_with(agent.blocks, "around_model")
            self.action_blocks = blocks_with(agent.blocks, "around_action")

    @property
    def results(self) -> LongResults:
        """What its model is shown of long results."""
        if self._results is None:
            self._results = LongResults(self.agent, self._own_model, self.request, self.record)
        return self._results

    async def reply(self) -> Reply:
        """Ask the model and execute its calls until there is a reason to stop."""
        steering = self._steering
        if self.thread.reply is None:
            self.thread.reply = steering
        record = self.record
        try:
            if (fitting := fit(self._own_model, self.memory, self.id)) is not None:
                await fitting
            if record is None:
                return await self._take_turns()
            if not record.is_over:
                return await record.run_to_end(self._restore_and_run, end_data, self.end)
        except Stop as stop:  # its memory failed between two turns, or at the end
            return self.end(stop)
        finally:
            if self.thread.reply is steering:
                self.thread.reply = None
            if steering.pending_texts:
                # What came after the last turn.
                self.thread.pending_texts.extend(steering.pending_texts)
        with suppress(Stop):  # its memory failed
            await self._restore()
        return ended_reply(record, self.schema)

    async def _restore_and_run(self) -> Reply:
        await self._restore()
        return await self._take_turns()

    async def _take_turns(self) -> Reply:
        agent, state, request, steering = self.agent, self.state, self.request, self._steering
        is_new = not state.messages
        if self.thread.last_checked is None:
            if remembered := messages_of(self.memory, self.id, None)[0]:
                self.results.remember(remembered, state)
            del remembered  # a thousand replies may wait: each keeps what it needs
        if self.thread.pending_texts:
            steering.pending_texts.extend(self.thread.take_texts())
            if not self._past_steps(f"{state.iteration + 1}"):
                self._take_new_texts()
        if is_new:
            self.thread.defers_actions = None  # as its actions are now
            first_turn, marks = LoopTurn(), Marks(request.outside) if request.outside else None
            first_turn.add({"role": "user", "content": request.content}, marks)
            self.run_memory.save(self.state, first_turn, ends=False)
            del first_turn, marks
        elif (reply := self._terminal_before() or self._refused_before()) is not None:
            return reply
        # A refusal is a turn of its own, and none of those that the agent may take.
        while (
            state.iteration < agent.max_iterations + self.run_memory.refusal_count
            or self._has_more_turns()
        ):
            # By an action, from Python 3.13 on: it ends all the same.
            if state.iteration and steering.was_swallowed():
                raise asyncio.CancelledError
            self._last_turn = turn = LoopTurn(state.iteration + 1)
            steering.in_turn = True
            try:
                reply = await self.handle(turn)
            except Stop as stop:
                reply = self.end(stop)
            except asyncio.CancelledError:
                reply = None
                if steering.undo_cancellations():
                    if state.iteration < turn.iteration:  # while the model answered
                        self.run_memory.save(self.state, turn)
                elif is_cancelled():
                    raise
                else:
                    reply = self.end(Stop("cancelled", "the model's answer was cancelled"))
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
        return self.end(Stop("max_iterations", detail))

    async def handle(self, turn: LoopTurn) -> Reply | None:
        """Handle one answer of the model and its calls; return the reply, or None to continue."""
        agent, state = self.agent, self.state
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
            self._add_faults(turn, answer, fault)
            state.faults = fault
            state.unusable += 1
            state.same, state.before = 0, ()
            self.run_memory.save(state, turn)
            # Asked again, a model that refuses would refuse again.
            ends = state.unusable > agent.tries or is_refusal
            return self.end(Stop("unreadable", fault)) if ends else None
        state.faults, state.unusable = "", 0
        if not answer.calls:
            turn.add(answer.message(), marks_after_reading(self.thread))
            state.same, state.before = 0, ()
            self.run_memory.save(self.state, turn)
            if self._steering.pending_texts:
                return None  # the user has interrupted meanwhile
            return self._make_reply("done", cause, value)
        outcomes = await self.act(turn, answer)
        is_interrupted = self._steering.pending_texts
        repeated = "" if is_interrupted else self._repetition_fault(answer, outcomes)
        self.run_memory.save(self.state, turn)
        if is_interrupted:
            return None
        for call, step in zip(answer.calls, turn.steps, strict=True):
            if call.action is not None and call.action.terminal and self._is_done(step):
                return self._terminal_reply(step)
        return self.end(Stop("no_progress", repeated)) if repeated else None

    @staticmethod
    def _is_done(step: Step) -> bool:
        return step.error is None and step.executed

    def _terminal_reply(self, step: Step) -> Reply:
        """Return the reply, now that a terminal action has succeeded."""
        value = step.result.get("result")
        self.state.text = "" if value is None else json_text(value)
        return self.end(Stop("terminal", ""), value)

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
        return self.end(refused_question()) if self.state.cut_at_end == "question" else None

    def _repetition_fault(self, answer: ModelAnswer, outcomes: list[Outcome]) -> str:
        """Return how often the same calls had the same results, if that is too often; else ""."""
        state = self.state
        is_same = outcomes == state.before and not any(
            call.action is not None and call.action.polling for call in answer.calls
        )
        state.same = state.same + 1 if is_same else 1
        state.before = outcomes
        if state.same < SAME_CALLS:
            return ""
        names = " and ".join(dict.fromkeys(f'"{name}"' for name, _, _ in outcomes))
        return (
            f"{names} called {SAME_CALLS} times in a row with the same arguments and the same "
            "result"
        )

    def _past_steps(self, prefix: str) -> list[PastStep]:
        """Return the recorded steps whose keys have this prefix."""
        return [] if self.record is None else self.record.past(prefix)

    # -- going on ----------------------------------------------------------------------------------

    async def _restore(self) -> None:
        """Continue from the recorded state; restore memory, model and budget."""
        record, thread = self.record, self.thread
        assert record is not None
        record.at_end = partial(record.mark_known, self.agent.model_or_name, self.budget)
        if record.state is not None:
            self.state, self.request.allowed = record.state, record.state.allowed
            thread.defers_actions, thread.found_actions = self.state.defers, (*self.state.joined,)
            self.run_memory.refusal_count = self.state.refusal_count
            messages = with_marks(self.state.messages, self.state.marks)
            if thread.last_checked is None:  # its earlier replies count, too
                messages = [*messages_of(self.memory, self.id, None)[0], *messages]
            self.results.remember(messages, self.state)
            self.view.refresh_actions()  # what it looks at may be results of the loop's own actions
            note_messages(thread, self.request, messages, self.view.action_named)
            self._call_ids |= call_ids(record.state.messages)
            self.run_memory.count = len(record.state.messages)
        if self.emit is not None:
            tell_past(self.id, self.request, record.entries())
        catch_up(self.agent, record, self.memory, self.budget)
        if self.run_memory.forgets:
            self.run_memory.note_forgetting()
        await restore_asked(record, self.budget, self.view.action)

    # -- being interrupted -------------------------------------------------------------------------

    def _has_more_turns(self) -> bool:
        """Return whether there is one more turn: the user has spoken, or the last was cut off."""
        has_spoken = not self.state.faults and self.state.last_message["role"] == "user"
        return has_spoken or bool(self._past_steps(f"{self.state.iteration + 1}."))

    def _take_new_texts(self) -> None:
        turn = LoopTurn()
        for text in self._steering.take_texts():  # the turn may have ended though we cancelled it
            marks = Marks(text.sources) if isinstance(text, SourcedText) else None
            turn.add({"role": "user", "content": str(text)}, marks)
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
                self.results.tell_cleared(numbers, turn)
            self.view.refresh_actions()
            self.state.defers = self.thread.defers_actions
            if self.emit is not None:
                count_before, self._left_out = self._left_out, getattr(self.memory, "left_out", 0)
                if self._left_out and self._left_out != count_before:
                    self.request.tell(MessagesLeftOut, self.id, self._left_out)
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
        pieces = PieceEmitter(schema, self.id, self.request, emit)
        return stream_to(self.model, prompt, pieces.emit, actions=actions, schema=schema)

    async def _call_user(
        self, label: str, key: str, function: Callable[[Context[Any]], Awaitable[str]]
    ) -> str:
        """Return what the user's check or system prompt returns for this reply: once, recorded."""

        async def call(step: RecordedStep | None = None) -> str:
            return await function(context_of(self.agent, self.request))

        try:
            return await (call() if self.record is None else self.record.step(key, call))
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
        return self._prompts.note(step.prompt, messages, offered, step.schema, is_retry)

    # -- acting ------------------------------------------------------------------------------------

    async def act(self, turn: LoopTurn, answer: ModelAnswer) -> list[Outcome]:
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
            # Looked at before `_keep`, which gives each call a result.
            has_unfinished = any(call.result is None for call in tool_calls)
            stays_open = has_unfinished and self._steering.is_cut_off(error)
            if any(call.wait for call in tool_calls):
                self._park(turn, answer, calls)
            elif stays_open and record is not None:
                self.thread.pending_texts.extend(self._steering.take_texts())
                # Memory shows what was cut off, and not what the budget never let begin.
                if calls.in_doubt or (isinstance(error, Stop) and error.reason != "budget"):
                    self._keep(turn, answer, calls, ends=False)
                    self.run_memory.save(self.state, turn, ends=False)
            else:
                self._keep(turn, answer, calls)
                self.run_memory.save(self.state, turn)
            raise
        return self._keep(turn, answer, calls)

    def _keep(
        self,
        turn: LoopTurn,
        answer: ModelAnswer,
        calls: ToolCalls,
        waiting: Collection[int] = (),
        ends: bool = True,
    ) -> list[Outcome]:
        """Add the calls and their results, together: memory has no call without its result."""
        owed_places, request, thread = self.state.owed, self.request, self.thread
        outcomes: list[Outcome] = []
        steps: list[Step] = []
        turn.steps, iteration = steps, turn.iteration
        if owed_places is not None and waiting:
            owed_places = [place for place in owed_places if place not in waiting]
        max_chars, offered = self.agent.max_result_chars, self.view.offered
        limit = result_chars(self._own_model, max_chars, len(answer.calls))
        numbered_chars = LEAST_CHARS if limit > LEAST_CHARS else limit
        ids = (request.run_id, request.thread)
        self._add_calls(turn, answer, owed_places)
        for place, call in enumerate(answer.calls):
            result = call.result
            if result is None:
                result = calls.cut_off(place, ends)
            if (error := result.get("error")) is not None:
                error = str(error)
            steps.append(call.as_step(iteration, result, error, ids))
            full_text = call_results.result_content(result)
            outcomes.append((call.name, call.args, cut(full_text, limit)))
            if owed_places is None or place in owed_places:
                text, number = full_text, None
                if len(full_text) >= numbered_chars or call.original_args is not None:
                    text, number = self.results.content_shown(call, result, full_text, limit, turn)
                content: str | list[dict[str, Any]] = text
                if result.get("result").__class__ not in call_results.SCALARS:
                    content = call_results.shown_content(self.model, text, result)
                marks = marks_of_result(call, thread, request)
                turn.add_result(call, content, marks, number)
            if offered.finder is not None:
                show_matches(thread, turn, offered, call)
        return outcomes

    def _park(self, turn: LoopTurn, answer: ModelAnswer, calls: ToolCalls) -> None:
        """Keep a turn aside: the resumed run has it again.

        If its thread goes on meanwhile, that shows what waits in place of the results.
        """
        # It is heard once the turn has ended.
        self.thread.pending_texts.extend(self._steering.take_texts())
        if self.record is None or not self.record.entry_count:
            return  # it waits as before
        waits = {place: call.wait for place, call in enumerate(answer.calls) if call.wait}
        for place, stop in waits.items():
            answer.calls[place].result = {"result": str(stop)}
        self._keep(turn, answer, calls, waits)
        self.state.open = {"messages": with_marks(turn.messages, turn.marks), "waits": list(waits)}
        self.record.save(self.state)

    # -- what it adds -----------------------------------------------------------------------------

    def _add_faults(self, turn: LoopTurn, answer: ModelAnswer, fault: str) -> None:
        """Add an answer that cannot be used, and the reason, to the messages."""
        if answer.calls:
            self._add_calls(turn, answer)
            for call in answer.calls:
                call_fault = cut(call.fault or call_results.NOT_RUN, call_results.MAX_RESULT_CHARS)
                content = call_results.result_content({"error": call_fault})
                turn.add_result(call, content, marks_of_fault(call, self.thread))
        else:
            # Some chat formats require an answer between two messages of the user.
            marks = marks_after_reading(self.thread)
            message = {"role": "assistant", "content": answer.text or "(no answer)"}
            turn.add(message, marks)
            turn.add({"role": "user", "content": fault}, marks)

    def _add_calls(
        self, turn: LoopTurn, answer: ModelAnswer, places: list[int] | None = None
    ) -> None:
        """Add the answer with its calls, or with those at these places."""
        owed_calls = answer.calls
        if places is not None:
            owed_calls = [call for place, call in enumerate(owed_calls) if place in places]
        if not owed_calls:
            return
        calls = [{"id": c.id, "name": c.safe_name, "args": c.args} for c in owed_calls]
        turn.add(answer.message(tool_calls=calls), marks_after_reading(self.thread))

    def end(self, stop: Stop, value: Any = None) -> Reply:
        """Return the reply as it stands, with the stop reason."""
        return self._make_reply(stop.reason, stop.detail, value, stop.error)

    def _make_reply(
        self, reason: StopReason, detail: str, value: Any, error: BaseException | None = None
    ) -> Reply:
        state, usage = self.state, self.state.usage
        last_turn = self._last_turn
        if last_turn is not None and last_turn.iteration > state.iteration:  # it was left open
            usage = usage + last_turn.usage
        if reason not in ("done", "terminal"):
            value = state.text if self.schema is None else None
        if count := getattr(self.memory, "left_out", 0):
            detail = left_out(detail, count, self.id, self.model)
        answer_fields = (state.text, value, state.messages, state.steps, usage)
        end_fields = (reason, detail, error, self.request.run_id)
        reply: Any = OpenReply(answer_fields, end_fields, state.outside if state.marks else ())
        return reply  # type: ignore[no-any-return]
