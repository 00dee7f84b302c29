"""One run of the loop, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from civitas.errors import BudgetExceeded, StateError
from civitas.jsonvalue import Unreadable
from civitas.memory.memory import Memory
from civitas.models.protocol import Model
from civitas.reasoning.events import MessageAdded
from civitas.reasoning.loop.answer import Answer, Wanted, read_answer
from civitas.reasoning.loop.asking import Asking
from civitas.reasoning.loop.calls import Calls, cut_off, doubts_of, error_of
from civitas.reasoning.loop.execute import execute
from civitas.reasoning.loop.parts import LoopAgent
from civitas.reasoning.loop.recording import (
    LoopState,
    as_it_ended,
    catch_up,
    note_known,
    over,
    past_events,
    remember,
)
from civitas.reasoning.prompts import MAX_RESULT_CHARS, NOT_RUN, as_json, json_text, result_content
from civitas.reasoning.record import NULL_RECORD, Record
from civitas.reasoning.reply import Reply, Step, Stop, StopReason
from civitas.reasoning.reply_request import Asked
from civitas.reasoning.resume import ended, guarded

SAME_CALLS = 3
"""So many answers in a row with the same calls and the same results are no progress."""
_LEAST_CHARS = 200
"""How much of each result is shown in however small a context."""
_CUT = {
    "length": "cut at the model's length limit",
    "content_filter": "cut by the provider's content filter",
}


class Run(Asking):
    """One run of the loop: what it added, did and used so far."""

    __slots__ = ("_cancels", "_saved", "_task", "_told", "_under_way", "loop")

    def __init__(
        self,
        agent: LoopAgent,
        asked: Asked,
        memory: Memory,
        model: Model,
        record: Record[LoopState] = NULL_RECORD,
    ) -> None:
        super().__init__(agent, asked, memory, model, record)
        self._saved = 0  # how many messages are recorded
        # For being interrupted: cancellations of this task that are ours are taken back, as
        # asyncio.timeout does it.
        self.loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancels = 0
        self._under_way = False
        self._told: list[str] = []

    async def reply(self) -> Reply:
        """Ask the model and act, until there is a reason to stop."""
        record = self.record
        if record is NULL_RECORD:
            return await self._reply()
        spent: BudgetExceeded | None = None
        try:
            self._resume()
        except BudgetExceeded as error:
            spent = error
        if ended(record):
            return as_it_ended(record, self.schema)

        async def run() -> Reply:
            if spent is None:
                return await self._reply()
            stop = Stop.at_limit(spent)
            return self.end(stop.reason, detail=stop.detail)

        return await guarded(
            record,
            run,
            over,
            lambda why: over(self.end("cancelled", detail=why)),
            lambda error: self.end("error", detail=str(error), error=error),
        )

    async def _reply(self) -> Reply:
        agent, state = self.agent, self.state
        is_new = not state.messages
        if self.thread.unheard:
            self._told.extend(self.thread.hear())
            if not self.record.past(f"{state.iteration + 1}"):
                self._hear()
        if is_new:
            self.remember({"role": "user", "content": self.asked.content})
            self.save()
        while state.iteration < agent.max_iterations:
            state.iteration += 1
            self._under_way = True
            try:
                reply = await self.turn()
            except Stop as stop:
                reply = self.end(stop.reason, detail=stop.detail, error=stop.error)
            except asyncio.CancelledError:
                reply = None
                if not self._interrupted():
                    if self._task.cancelling():
                        raise
                    reply = self.end("cancelled", detail="the model's answer was cancelled")
                else:
                    self.save()
            finally:
                self._under_way = False
                if self._told or self._cancels:
                    self._hear()
            if reply is not None:
                return reply
        detail = f"no answer after {state.iteration} iteration{'s' * (state.iteration != 1)}"
        if state.faults:
            detail += f"; the last could not be used: {state.faults}"
        return self.end("max_iterations", detail=detail)

    async def turn(self) -> Reply | None:
        """One answer of the model, and its actions; None if there is no reason to stop."""
        state = self.state
        given = await self.ask()
        answer = read_answer(given, self.find, self.known)
        if answer.text:
            state.text = answer.text
        value: Any = answer.text
        cut = _CUT.get(str(getattr(given, "finish_reason", "")), "")
        if self.schema is not None and not answer.calls and not answer.faulty:
            try:
                value = self.schema.read(answer.text)
            except Unreadable as error:
                answer.fault, answer.faulty = str(error), True
                if cut:
                    answer.fault += f" (It was {cut}.)"
        if answer.faulty:
            if self.record.past(f"{state.iteration}."):
                # The model must not be told that nothing was executed.
                raise _gone(answer)
            self.remember_faults(answer)
            again = bool(state.faults)
            state.faults = answer.faults
            state.same, state.before = 0, []
            self.save()
            return self.end("unreadable", detail=state.faults) if again else None
        state.faults = ""
        if not answer.calls:
            self.remember({"role": "assistant", "content": answer.text})
            state.same, state.before = 0, []
            self.save()
            if self._told:
                return None  # the user has said something since
            return self.end("done", value=value, detail=cut)
        contents = await self.act(answer)
        reply = None if self._told else self._after(answer, contents)
        if self.record is not NULL_RECORD:
            self.save()
        return reply

    def _after(self, answer: Answer, contents: list[str]) -> Reply | None:
        """The reply that the calls of an answer came to; None if the model is to go on."""
        state = self.state
        for call, step in zip(answer.calls, state.steps[-len(contents) :], strict=True):
            assert call.action is not None
            if call.action.terminal and step.error is None and step.executed:
                value = step.result.get("result")
                shown = value if self.record is NULL_RECORD else as_json(value)
                state.text = "" if value is None else json_text(shown)
                return self.end("terminal", value=value)
        return self._unless_progress(answer, contents)

    def _unless_progress(self, answer: Answer, contents: list[str]) -> Reply | None:
        now = [
            (call.name, call.args, content)
            for call, content in zip(answer.calls, contents, strict=True)
        ]
        state = self.state
        state.same = state.same + 1 if now == state.before else 1
        state.before = now
        if state.same < SAME_CALLS:
            return None
        names = " and ".join(dict.fromkeys(f'"{name}"' for name, _, _ in now))
        return self.end(
            "no_progress",
            detail=f"{names} called {SAME_CALLS} times in a row with the same arguments and the "
            "same result",
        )

    # -- going on ----------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up what was recorded, and have this process know it."""
        record = self.record
        record.committed = lambda: note_known(record, self.agent._model, self.budget)
        if record.state is not None:
            self.state = record.state
            self._saved = self._in_memory = len(record.state.messages)
        if self.emit is not None:
            for event in past_events(self.id, self.asked, record.entries()):
                self.emit(event)
        catch_up(self.agent, record, self.memory, self.budget)

    # -- being interrupted -------------------------------------------------------------------------

    def interrupt(self, text: str) -> None:
        """Stop what is under way, and go on with this text. Called on the run's own loop."""
        self._told.append(text)
        # In the task itself it is an action that interrupts its own run: it need not be stopped.
        if self._under_way and asyncio.current_task() is not self._task:
            self._cancels += 1
            self._task.cancel()

    def _interrupted(self) -> bool:
        """Whether it was interrupted, and not cancelled from outside too."""
        cancels, self._cancels = self._cancels, 0
        for _ in range(cancels):
            self._task.uncancel()
        return cancels > 0 and not self._task.cancelling()

    def _hear(self) -> None:
        self._interrupted()  # what was under way may have ended all the same
        told, self._told = self._told, []
        for text in told:
            self.remember({"role": "user", "content": text})
        self.state.faults = ""
        self.state.same, self.state.before = 0, []
        self.save()

    # -- acting ------------------------------------------------------------------------------------

    async def act(self, answer: Answer) -> list[str]:
        """Execute the calls of an answer at once; remember them and their results in their order.

        Both are remembered together at the end: a call without its result is never in memory,
        whatever happens meanwhile.
        """
        agent, record, iteration = self.agent, self.record, self.state.iteration
        if record is not NULL_RECORD and (doubts := doubts_of(record, iteration)):
            raise Stop("in_doubt", doubts)
        calls: Calls | None = None
        results: list[dict[str, Any] | None] = [None] * len(answer.calls)
        try:
            if len(results) == 1 and self.is_plain and agent._hooks is None:
                results[0] = await execute(agent, answer.calls[0], self.asked)
            else:
                calls = Calls(agent, answer.calls, self.asked, record, iteration, results)
                await (calls.execute() if self.budget is None else calls.within(self.budget))
        except BaseException:
            self._keep(answer, results, calls)
            self.save()
            raise
        return self._keep(answer, results, calls)

    @property
    def is_plain(self) -> bool:
        """Whether nobody looks on, records it or bounds what it spends."""
        return self.record is NULL_RECORD and self.emit is None and self.budget is None

    def _keep(
        self, answer: Answer, results: list[dict[str, Any] | None], calls: Calls | None
    ) -> list[str]:
        contents = []
        limit = self._room(len(results))
        run_id, thread, iteration = self.asked.run_id, self.asked.thread, self.state.iteration
        self._remember_calls(answer)
        recorded = self.record is not NULL_RECORD
        for place, (wanted, result) in enumerate(zip(answer.calls, results, strict=True)):
            if result is None:
                result = cut_off() if calls is None else calls.cut_off(place)
            error = error_of(result)
            step = Step(iteration, wanted.name, wanted.args, result, error, run_id, thread)
            self.state.steps.append(step)
            # What is recorded is shown, so that it is the same to one who goes on from there.
            content = result_content(as_json(result) if recorded else result, limit)
            contents.append(content)
            self._remember_result(wanted, content)
        return contents

    def _room(self, results: int) -> int:
        """How many characters of each result fit, so that together they leave room in the context.

        As many characters as the context has tokens: half of it, at two characters a token.
        """
        context = getattr(self.model, "context_tokens", None)
        if not isinstance(context, int):
            return self.agent.max_result_chars
        return min(self.agent.max_result_chars, max(context // results, _LEAST_CHARS))

    # -- memory ------------------------------------------------------------------------------------

    def remember(self, message: dict[str, Any]) -> None:
        """Keep a message for the reply, and in memory: of a run that is recorded with `save`."""
        self.state.messages.append(message)
        if self.record is NULL_RECORD:
            self.memory.add_memory(message)
            if self.emit is not None:
                self._tell_message(message)

    def save(self) -> None:
        """Record how far the run has come; what it says is remembered once it is in the file.

        So a memory never has what the journal has not: that might come out differently the next
        time.
        """
        record, after = self.record, self._saved
        if record is NULL_RECORD:
            return
        messages = self.state.messages
        self._saved = len(messages)
        record.save(self.state)

        upto = self._saved

        def in_file() -> None:
            remember(self.memory, record, messages[:upto], after)
            self._in_memory = upto
            for message in messages[after:upto]:
                self._tell_message(message)

        if upto > after:
            record.then(in_file)

    def _tell_message(self, message: dict[str, Any]) -> None:
        if self.emit is not None:
            self.emit(MessageAdded(self.id, message, False, self.asked.run_id, self.asked.thread))

    def remember_faults(self, answer: Answer) -> None:
        """Remember an answer that cannot be used, and tell the model why."""
        if answer.calls:
            self._remember_calls(answer)
            for call in answer.calls:
                content = result_content({"error": call.fault or NOT_RUN}, MAX_RESULT_CHARS)
                self._remember_result(call, content)
        else:
            # Some chat formats need an answer between two messages of the user.
            self.remember({"role": "assistant", "content": answer.text or "(no answer)"})
            self.remember({"role": "user", "content": answer.faults})

    def _remember_calls(self, answer: Answer) -> None:
        calls = [{"id": c.id, "name": c.shown, "args": c.args} for c in answer.calls]
        self.remember({"role": "assistant", "content": answer.text, "tool_calls": calls})

    def _remember_result(self, call: Wanted, content: str) -> None:
        self.remember(
            {"role": "tool", "tool_call_id": call.id, "name": call.shown, "content": content}
        )

    def end(
        self,
        reason: StopReason,
        *,
        value: Any = None,
        detail: str = "",
        error: BaseException | None = None,
    ) -> Reply:
        """The reply, and why there is no more of it."""
        if reason not in ("done", "terminal"):
            value = self.state.text if self.schema is None else None
        return Reply(
            self.state.text,
            value,
            self.state.messages,
            self.state.steps,
            self.state.usage,
            reason,
            detail,
            error,
            self.asked.run_id,
        )


def _gone(answer: Answer) -> Stop:
    """Why a run ends on an answer under execution whose actions the agent no longer has."""
    detail = (
        "the process ended while the calls of an answer were executed, and they cannot be gone "
        f"on with: {answer.faults}; give the agent the actions that it had"
    )
    return Stop("error", detail, StateError(detail))
