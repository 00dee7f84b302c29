"""One run of the loop, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from civitas.action import Action
from civitas.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    HookError,
    JournalError,
    StateError,
)
from civitas.memory.memory import Memory
from civitas.models.base import streamed
from civitas.models.protocol import ReasoningPiece, TextPiece, Usage
from civitas.reasoning.events import MessageAdded
from civitas.reasoning.hooks import Hooks, expect_answer, expect_messages
from civitas.reasoning.loop.answer import Answer, Unreadable, Wanted, read_answer
from civitas.reasoning.loop.calls import CUT_OFF, Call, as_action, doubts_of, error_of, execute
from civitas.reasoning.loop.recording import (
    LoopState,
    as_it_ended,
    catch_up,
    note_known,
    over,
    past_events,
    remember,
)
from civitas.reasoning.prompts import (
    MAX_RESULT_CHARS,
    NOT_RUN,
    json_text,
    result_content,
    system_text,
)
from civitas.reasoning.record import NULL_RECORD, NULL_STEP, Record
from civitas.reasoning.record import Step as RecordStep
from civitas.reasoning.reply import Reply, Step, StopReason, log_failure
from civitas.reasoning.resume import ended, guarded
from civitas.reasoning.state import ANSWER, as_json

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.models.protocol import Model
    from civitas.reasoning.loop.answer import Shown
    from civitas.reasoning.loop.react import ReActAgent
    from civitas.reasoning.reply_request import AnswerSchema, Asked

__all__ = ["SAME_CALLS", "Run"]

logger = logging.getLogger("civitas.reasoning")

SAME_CALLS = 3
"""So many answers in a row with the same calls and the same results are no progress."""
_LEAST_CHARS = 200
"""How much of each result is shown in however small a context."""
_CUT = {
    "length": "cut at the model's length limit",
    "content_filter": "cut by the provider's content filter",
}


class _Stop(Exception):
    """Why a run ends in the midst of a turn."""

    def __init__(self, reason: StopReason, detail: str, error: BaseException | None = None) -> None:
        super().__init__(detail)
        self.reason: StopReason = reason
        self.detail = detail
        self.error = error

    @classmethod
    def at_limit(cls, error: BudgetExceeded) -> _Stop:
        """At a limit of the run's budget."""
        return cls("deadline" if isinstance(error, DeadlineExceeded) else "budget", str(error))

    @classmethod
    def on_gone(cls, answer: Answer) -> _Stop:
        """On an answer that was being executed, and whose actions there are no longer."""
        detail = (
            "the process ended while the calls of an answer were executed, and they cannot be gone "
            f"on with: {answer.faults}; give the agent the actions that it had"
        )
        return cls("error", detail, StateError(detail))

    @classmethod
    def on_hook(cls, agent: ReActAgent, error: HookError) -> _Stop:
        """On a hook that failed."""
        log_failure(logger, f"a hook of agent {agent.id!r} failed", error)
        return cls("error", str(error), error)


class Run:
    """One run of the loop: what it added, did and used so far."""

    __slots__ = (
        "_cancels",
        "_in_memory",
        "_saved",
        "_task",
        "_told",
        "_under_way",
        "agent",
        "asked",
        "budget",
        "emit",
        "id",
        "loop",
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
        agent: ReActAgent,
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
        self.schema: AnswerSchema | None = None
        if asked.schema is not None:
            from civitas.reasoning.reply_request import AnswerSchema

            self.schema = AnswerSchema(asked.schema)
        self.state = LoopState()
        self.record = record
        self._saved = 0  # how many messages are recorded
        self._in_memory = 0  # how many are remembered
        self.shown: Shown
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
            stop = _Stop.at_limit(spent)
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
            except _Stop as stop:
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
        detail = f"no answer after {state.iteration} iterations"
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
                raise _Stop.on_gone(answer)
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
        """Take up what was recorded, and have this process know it.

        Raises:
            BudgetExceeded: the budget does not reach for what the run has spent already
        """
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

    # -- the model ---------------------------------------------------------------------------------

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
            raise _Stop.at_limit(error) from error
        except HookError as error:
            raise _Stop.on_hook(self.agent, error) from error
        except (JournalError, _Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the model of agent {self.agent.id!r} failed", error)
            raise _Stop("error", _told(error), error) from error
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

        async def call(step: RecordStep) -> Any:
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
            raise _Stop.on_hook(self.agent, error) from error
        except DeadlineExceeded as error:
            raise _Stop.at_limit(error) from error

    @property
    def _about(self) -> dict[str, Any]:
        """What hooks are told."""
        of = {"run_id": self.asked.run_id, "thread": self.asked.thread}
        return {"iteration": self.state.iteration, **of}

    async def _ask(self, step: RecordStep) -> Any:
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
        self, step: RecordStep, most: list[Any], prompt: Callable[[], list[dict[str, Any]]]
    ) -> Any:
        """Ask the model once that is recorded, with what it may spend at most.

        Args:
            step: the step
            most: what the model will be shown, to know what that reserves
            prompt: gives what it is shown, once what was noted is remembered
        """
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

    # -- acting ------------------------------------------------------------------------------------

    async def act(self, answer: Answer) -> list[str]:
        """Execute the calls of an answer at once; remember them and their results in their order.

        Both are remembered together at the end: a call without its result is never in memory,
        whatever happens meanwhile.
        """
        state, record = self.state, self.record
        if doubts := doubts_of(record, state.iteration):
            raise _Stop("in_doubt", doubts)
        results: list[dict[str, Any] | None] = [None] * len(answer.calls)
        try:
            if self.budget is None:
                await self._execute(answer.calls, results)
            else:
                await self._execute_within(self.budget, answer.calls, results)
        except BaseException:
            self._keep(answer, results)
            self.save()
            raise
        return self._keep(answer, results)

    async def _execute(self, calls: list[Wanted], results: list[dict[str, Any] | None]) -> None:
        agent = self.agent
        plain = self.emit is None and agent._hooks is None and self.record is NULL_RECORD
        if plain and len(calls) == 1:
            results[0] = await execute(agent, calls[0], self.asked)
            return
        broken: list[HookError] = []

        async def into(place: int) -> None:
            results[place] = await self._call(calls, place, broken).result()

        if len(calls) == 1:
            await into(0)
        else:
            works = [asyncio.ensure_future(into(place)) for place in range(len(calls))]
            try:
                await asyncio.gather(*works)
            except BaseException:  # the journal's, or cancelled: then no other goes on either
                for work in works:
                    work.cancel()
                await asyncio.wait(works)
                raise
        if broken:
            raise _Stop.on_hook(agent, broken[0]) from broken[0]

    def _call(self, calls: list[Wanted], place: int, broken: list[HookError]) -> Call:
        of = (self.agent, calls[place], self.asked, self.record, self.state.iteration, place)
        return Call(*of, len(calls) > 1, broken)

    async def _execute_within(
        self, budget: Budget, calls: list[Wanted], results: list[dict[str, Any] | None]
    ) -> None:
        iteration = self.state.iteration
        ended = [self.record.has_ended(f"{iteration}.{place}") for place in range(len(calls))]
        try:
            held = budget.reserve(actions=ended.count(False))
        except BudgetExceeded as error:
            for place, has_ended in enumerate(ended):
                call = self._call(calls, place, [])
                if has_ended:
                    results[place] = await call.result()
                else:
                    result = {"tool_executed": False, "error": f"not executed: {error}"}
                    results[place] = call.end_as(result)
            raise _Stop.at_limit(error) from error
        limit = asyncio.timeout(budget.remaining_seconds())
        try:
            async with limit:
                await self._execute(calls, results)
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = DeadlineExceeded("the time of the run was over while its actions were executed")
            raise _Stop.at_limit(late) from error
        finally:
            held.settle()

    def _keep(self, answer: Answer, results: list[dict[str, Any] | None]) -> list[str]:
        contents = []
        limit = self._room(len(results))
        run_id, thread = self.asked.run_id, self.asked.thread
        self._remember_calls(answer)
        recorded = self.record is not NULL_RECORD
        for place, (wanted, result) in enumerate(zip(answer.calls, results, strict=True)):
            if result is None:
                call = self._call(answer.calls, place, [])
                result = call.end_as({"tool_executed": False, "error": CUT_OFF})
                call.tell_end(result)
            error, iteration = error_of(result), self.state.iteration
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


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
