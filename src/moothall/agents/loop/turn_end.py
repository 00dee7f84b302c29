"""The end of a turn, and of a run: what a run's turns leave in its state, and its reply."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.actions.provenance.marks import with_marks
from moothall.agents.loop.call_result import MAX_RESULT_CHARS, NOT_RUN, CallResult
from moothall.agents.loop.discovery import show_matches
from moothall.agents.loop.loop_memory import LoopMemory
from moothall.agents.loop.parts import messages_of
from moothall.agents.loop.prompt.model_view import ModelView
from moothall.agents.loop.prompt.room import LongResults, left_out, result_chars
from moothall.agents.loop.provenance import (
    marks_after_reading,
    marks_of_fault,
    marks_of_result,
    note_messages,
)
from moothall.agents.loop.recording import catch_up, ended_reply, tell_past
from moothall.agents.replies.reply import OpenReply, Reply, Step, Stop
from moothall.agents.replies.sub_agents.restoring import restore_asked
from moothall.foundation.text import cut
from moothall.memory.long_results import LEAST_CHARS

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ModelAnswer
    from moothall.agents.loop.calls import ToolCalls
    from moothall.agents.loop.parts import Looping
    from moothall.agents.loop.recording import LoopState, LoopTurn
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import AnswerSchema, ReplyRequest
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget
    from moothall.journal.stop_reason import StopReason
    from moothall.memory.memory import Memory
    from moothall.models.protocol import Model


class TurnEnd:
    """What the turns of a run leave: its state, its messages, what waits, and its reply.

    It asks no model and calls no action. Whoever drives the turns, the loop or another program,
    makes each `LoopTurn`, adds to it by `keep` or `add_faults`, and saves it by `run_memory`.
    """

    last_turn: LoopTurn | None = None  # it is appended to the state once it has ended
    _results: LongResults | None = None

    def __init__(self, agent: Looping, request: ReplyRequest, memory: Memory) -> None:
        self.agent = agent
        self.id: str = str(agent.id)
        self.request = request
        self.memory = memory
        self.model: Model = agent.model  # the agent's own, without the budget of the reply
        self.thread: Thread = request.state
        self.budget: Budget | None = agent.budget if request.budget is None else request.budget
        self.schema: AnswerSchema | None = request.answer
        self.record: Record[Any] | None = request.recorded
        self.run_memory: LoopMemory = LoopMemory(self.id, memory, request, self.record)
        self.view: ModelView = ModelView(agent, request, memory)
        state: LoopState | None = None if self.record is None else self.record.state
        if state is None:
            found_names = [*self.thread.found_actions]
            state = agent.state_type(allowed=request.allowed, joined=found_names)
        self.state: LoopState = state  # the same object to the end
        request.allowed = state.allowed

    @property
    def results(self) -> LongResults:
        """What its model is shown of long results."""
        if self._results is None:
            self._results = LongResults(self.agent, self.model, self.request, self.record)
        return self._results

    # -- going on ----------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Have memory, model, budget and asked agents know what is recorded of the run."""
        record, thread, state = self.record, self.thread, self.state
        assert record is not None
        record.at_end = partial(record.mark_known, self.agent.model_or_name, self.budget)
        if record.state is not None:
            thread.defers_actions, thread.found_actions = state.defers, (*state.joined,)
            self.run_memory.refusal_count = state.refusal_count
            messages = with_marks(state.messages, state.marks)
            if thread.last_checked is None:  # its earlier replies count, too
                messages = [*messages_of(self.memory, self.id, None)[0], *messages]
            self.results.remember(messages, state)
            self.view.refresh_actions()  # what it looks at may be results of the loop's own actions
            note_messages(thread, self.request, messages, self.view.action_named)
            self.run_memory.count = len(state.messages)
        if self.request.emit is not None:
            tell_past(self.id, self.request, record.entries())
        catch_up(self.agent, record, self.memory, self.budget)
        if self.run_memory.forgets:
            self.run_memory.note_forgetting()
        await restore_asked(record, self.agent, self.budget, self.view.action)
        if (workers := self.thread.workers) is not None:
            await workers.go_on(self.view.action, self.request, self.budget)

    async def recorded_reply(self) -> Reply:
        """Return the reply of a run that is over, as its record has it."""
        assert self.record is not None
        with suppress(Stop):  # its memory failed
            await self.restore()
        return ended_reply(self.record, self.schema)

    # -- what a turn leaves ------------------------------------------------------------------------

    def keep(
        self,
        turn: LoopTurn,
        answer: ModelAnswer,
        calls: ToolCalls,
        waiting: Collection[int] = (),
        ends: bool = True,
    ) -> None:
        """Add the calls and their results, together: memory has no call without its result."""
        owed_places, request, thread = self.state.owed, self.request, self.thread
        steps: list[Step] = []
        turn.steps, iteration = steps, turn.iteration
        if owed_places is not None and waiting:
            owed_places = [place for place in owed_places if place not in waiting]
        max_chars, offered = self.agent.max_result_chars, self.view.offered
        limit = result_chars(self.model, max_chars, len(answer.calls))
        numbered_chars = LEAST_CHARS if limit > LEAST_CHARS else limit
        ids = (request.run_id, request.thread)
        self.add_calls(turn, answer, owed_places)
        for place, call in enumerate(answer.calls):
            result = call.result or calls.cut_off(place, ends)
            steps.append(call.as_step(iteration, result, ids))
            if owed_places is None or place in owed_places:
                text, number = result.text, None
                if len(text) >= numbered_chars or call.original_args is not None:
                    text, number = self.results.content_shown(call, result, limit, turn)
                marks = marks_of_result(call, thread, request)
                content = result.content(self.model, text) if result.has_blocks else text
                turn.add_result(call, content, marks, number)
            if offered.finder is not None:
                show_matches(thread, turn, offered, call)

    def park(self, turn: LoopTurn, answer: ModelAnswer, calls: ToolCalls) -> None:
        """Keep a turn aside: the resumed run has it again.

        If its thread goes on meanwhile, that shows what waits in place of the results.
        """
        if self.record is None or not self.record.entry_count:
            return  # it waits as before
        waits = {place: call.wait for place, call in enumerate(answer.calls) if call.wait}
        for place, stop in waits.items():
            answer.calls[place].result = CallResult({"result": str(stop)})
        self.keep(turn, answer, calls, waits)
        self.state.open = {"messages": with_marks(turn.messages, turn.marks), "waits": list(waits)}
        self.record.save(self.state)

    def add_faults(self, turn: LoopTurn, answer: ModelAnswer, fault: str) -> None:
        """Add an answer that cannot be used, and the reason, to the messages."""
        if answer.calls:
            self.add_calls(turn, answer)
            for call in answer.calls:
                fault_shown = cut(call.fault or NOT_RUN, MAX_RESULT_CHARS)
                result = CallResult({"error": fault_shown})
                turn.add_result(call, result.text, marks_of_fault(call, self.thread))
        else:
            # Some chat formats require an answer between two messages of the user.
            marks = marks_after_reading(self.thread)
            message = {"role": "assistant", "content": answer.text or "(no answer)"}
            turn.add(message, marks)
            turn.add({"role": "user", "content": fault}, marks)

    def add_calls(
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

    # -- its reply ---------------------------------------------------------------------------------

    def stopped(self, stop: Stop, value: Any = None) -> Reply:
        """Return the reply as it stands, with the stop reason."""
        return self.reply(stop.reason, stop.detail, value, stop.error)

    def reply(
        self, reason: StopReason, detail: str, value: Any, error: BaseException | None = None
    ) -> Reply:
        """Return the reply as it stands, with why it stopped."""
        state, usage = self.state, self.state.usage
        last_turn = self.last_turn
        if last_turn is not None and last_turn.iteration > state.iteration:  # it was left open
            usage = usage + last_turn.usage
        if reason not in ("done", "terminal"):
            value = state.text if self.schema is None else None
        if count := getattr(self.memory, "left_out", 0):
            detail = left_out(detail, count, self.id, self.model)
        under_way: tuple[str, ...] = ()
        if (workers := self.thread.workers) is not None:
            under_way, detail = workers.under_way, workers.with_names(detail)
        answer_fields = (state.text, value, state.messages, state.steps, usage)
        end_fields = (reason, detail, error, self.request.run_id)
        outside = state.outside if state.marks else ()
        reply: Any = OpenReply(answer_fields, end_fields, outside, under_way)
        return reply  # type: ignore[no-any-return]
