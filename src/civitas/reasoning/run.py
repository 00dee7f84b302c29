"""One run of the loop, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
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
from civitas.reasoning.acting import execute, with_hooks
from civitas.reasoning.acts import Act, Acts
from civitas.reasoning.events import CallEnded, CallStarted, MessageAdded
from civitas.reasoning.hooks import expect_answer, expect_messages
from civitas.reasoning.jsonform import as_json
from civitas.reasoning.parsing import Answer, Unreadable, Wanted, read_answer
from civitas.reasoning.prompts import (
    MAX_RESULT_CHARS,
    NOT_RUN,
    json_text,
    result_content,
    system_text,
)
from civitas.reasoning.reply import Reply, Step, StopReason

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.models.protocol import Model
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.names import Shown
    from civitas.reasoning.past import Past
    from civitas.reasoning.react import ReActAgent
    from civitas.reasoning.recording import Recording
    from civitas.reasoning.schema import AnswerSchema

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
_CUT_OFF = "cancelled before it ended; whether it had an effect is not known"


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
        logger.error("a hook of agent %r failed", agent.id, exc_info=error)
        return cls("error", str(error), error)


class Run:
    """One run of the loop: what it added, did and used so far."""

    __slots__ = (
        "_cancels",
        "_pending",
        "_task",
        "_told",
        "_under_way",
        "agent",
        "asked",
        "before",
        "emit",
        "faults",
        "id",
        "iteration",
        "loop",
        "memory",
        "messages",
        "model",
        "recording",
        "same",
        "schema",
        "shown",
        "steps",
        "text",
        "usage",
    )

    def __init__(
        self,
        agent: ReActAgent,
        asked: Asked,
        memory: Memory,
        model: Model,
        recording: Recording | None = None,
    ) -> None:
        self.agent = agent
        self.id = str(agent.id)
        self.asked = asked
        self.emit = asked.emit
        self.memory = memory
        self.model = model
        if agent.budget is not None:
            from civitas.models.wrappers.budgeted import BudgetedModel

            self.model = BudgetedModel(model, agent.budget)
        self.schema: AnswerSchema | None = None
        if asked.schema is not None:
            from civitas.reasoning.schema import AnswerSchema

            self.schema = AnswerSchema(asked.schema)
        self.iteration = 0
        self.faults = ""  # of the answer before, if that could not be used
        self.same = 0
        self.before: list[tuple[str, dict[str, Any], str]] = []
        self.messages: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.usage = Usage()
        self.shown: Shown
        self.text = ""
        # For being interrupted: cancellations of this task that are ours are taken back, as
        # asyncio.timeout does it.
        self.loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancels = 0
        self._under_way = False
        self._told: list[str] = []
        self.recording = recording
        self._pending: Any = None  # an answer that a process had begun to deal with

    async def reply(self) -> Reply:
        """Ask the model and act, until there is a reason to stop."""
        recording = self.recording
        if recording is None:
            return await self._reply()
        try:
            reply = await self._reply()
            if not recording.past.ended:
                await recording.over(reply)
        except JournalError as error:
            logger.exception("run %r of agent %r stops", self.asked.run_id, self.agent.id)
            return self.end("error", detail=str(error), error=error)
        except (Exception, asyncio.CancelledError) as error:
            await recording.broken_off(_told(error), self.text)
            raise
        except BaseException as error:
            recording.broken_off_now(_told(error), self.text)
            raise
        return reply

    async def _reply(self) -> Reply:
        agent = self.agent
        resumes = False
        if self.recording is not None:
            try:
                resumes = self._resumes(self.recording)
            except BudgetExceeded as error:
                if not self.recording.past.ended:
                    stop = _Stop.at_limit(error)
                    return self.end(stop.reason, detail=stop.detail)
            if self.recording.past.ended:
                return self._as_it_ended(self.recording.past)
        if agent._unheard:
            self._told.extend(agent._take_unheard())
            if self._pending is None:
                self._hear()
        if not resumes:
            self.remember({"role": "user", "content": self.asked.content})
        while self.iteration < agent.max_iterations:
            self.iteration += 1
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
                elif self.recording is not None:
                    self.recording.turned(self.iteration, self.text)
            finally:
                self._under_way = False
                if self._told or self._cancels:
                    self._hear()
            if reply is not None:
                return reply
        detail = f"no answer after {self.iteration} iterations"
        if self.faults:
            detail += f"; the last could not be used: {self.faults}"
        return self.end("max_iterations", detail=detail)

    async def turn(self) -> Reply | None:
        """One answer of the model, and its actions; None if there is no reason to stop."""
        given, self._pending = self._pending, None
        resumed = given is not None
        recording = self.recording
        if resumed:
            self.shown = self.agent._show()
        else:
            given = await self.ask()
            if recording is not None:
                recording.answered(self.iteration, given)
        answer = read_answer(given, self.find, self.known)
        if answer.text:
            self.text = answer.text
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
            if resumed and recording is not None and recording.past.under_way:
                # The model must not be told that nothing was executed.
                raise _Stop.on_gone(answer)
            self.remember_faults(answer)
            if recording is not None:
                recording.turned(self.iteration, self.text, answer.faults)
            again = bool(self.faults)
            self.faults = answer.faults
            self.same, self.before = 0, []
            return self.end("unreadable", detail=self.faults) if again else None
        self.faults = ""
        if not answer.calls:
            self.remember({"role": "assistant", "content": answer.text})
            if recording is not None:
                recording.turned(self.iteration, self.text)
            if self._told:
                return None  # the user has said something since
            return self.end("done", value=value, detail=cut)
        contents = await self.act(answer, resumed)
        if self._told:
            return None
        for call, step in zip(answer.calls, self.steps[-len(contents) :], strict=True):
            assert call.action is not None
            if call.action.terminal and step.error is None and step.executed:
                value = step.result.get("result")
                shown = value if recording is None else as_json(value)
                self.text = "" if value is None else json_text(shown)
                return self.end("terminal", value=value)
        return self._unless_progress(answer, contents)

    def _unless_progress(self, answer: Answer, contents: list[str]) -> Reply | None:
        now = [
            (call.name, call.args, content)
            for call, content in zip(answer.calls, contents, strict=True)
        ]
        self.same = self.same + 1 if now == self.before else 1
        self.before = now
        if self.same < SAME_CALLS:
            return None
        names = " and ".join(dict.fromkeys(f'"{name}"' for name, _, _ in now))
        return self.end(
            "no_progress",
            detail=f"{names} called {SAME_CALLS} times in a row with the same arguments and the "
            "same result",
        )

    # -- going on ----------------------------------------------------------------------------------

    def _resumes(self, recording: Recording) -> bool:
        """Take up what was recorded; False if that is nothing."""
        past = recording.past
        if past.begun is None:
            return False
        self.messages, self.steps = past.messages, past.steps
        self.usage, self.text, self.faults = past.usage, past.text, past.faults
        self.same, self.before = past.same, past.before
        self.iteration, self._pending = past.iteration, past.pending
        recording.recall()
        return True

    def _as_it_ended(self, past: Past) -> Reply:
        assert past.over is not None
        value = past.over["value"]
        if self.schema is not None and past.over["reason"] == "done":
            try:
                value = self.schema.read(past.text)  # as the type that was asked for
            except Unreadable:
                pass  # a copy of a run in which something else was asked for
        return past.reply(value)

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
        if told and self.recording is not None:
            self.recording.heard()
        for text in told:
            self.remember({"role": "user", "content": text})
        self.faults = ""
        self.same, self.before = 0, []

    # -- the model ---------------------------------------------------------------------------------

    async def ask(self) -> Any:
        """The model's answer, whatever that is."""
        recording = self.recording
        if recording is None:
            return await self._ask()
        if self.agent.budget is None:
            recording.asking(self.iteration)
            await recording.commit()
            return await self._ask()
        from civitas.budget.bill import Bill

        bill = Bill(self.agent.budget)
        recording.asking(self.iteration, bill, self._reserved(recording))
        try:
            await recording.commit()
            with bill.opened():
                return await self._ask()
        except BaseException:
            recording.unanswered(self.iteration)
            raise

    def _reserved(self, recording: Recording) -> dict[str, Any] | None:
        """What asking the model will reserve, as far as that can be told before it is written down.

        Hooks may change what the model is shown: they are called after it.
        """
        from civitas.reasoning.charging import most_json

        prompt = [*self.prompt(), *recording.untold]
        schema = None if self.schema is None else self.schema.json
        return most_json(self.model, prompt, self.shown.actions or None, schema)

    async def _ask(self) -> Any:
        agent, recording = self.agent, self.recording
        prompt = self.prompt()
        hooks = agent._hooks
        about: dict[str, Any] = {}
        if hooks is not None:
            about = {"messages": prompt, "iteration": self.iteration}
            try:
                about = await hooks.run(
                    "pre_reasoning",
                    agent,
                    about,
                    lambda made: expect_messages(made["messages"], prompt),
                    agent.budget,
                )
            except HookError as error:
                raise _Stop.on_hook(agent, error) from error
            except DeadlineExceeded as error:
                raise _Stop.at_limit(error) from error
            prompt = about["messages"]
        try:
            given = await self._answer(prompt)
        except BudgetExceeded as error:
            raise _Stop.at_limit(error) from error
        except Exception as error:
            if recording is not None:
                recording.failed(self.iteration, error)
            logger.exception("the model of agent %r failed", agent.id)
            raise _Stop("error", _told(error), error) from error
        # Before anything is read: what cannot be read has been paid for all the same.
        usage = getattr(given, "usage", None)
        if isinstance(usage, Usage):
            self.usage = self.usage + usage
        if hooks is not None:
            about["answer"] = given
            try:
                about = await hooks.run(
                    "post_reasoning",
                    agent,
                    about,
                    lambda made: expect_answer(made["answer"], given),
                    agent.budget,
                )
            except HookError as error:
                raise _Stop.on_hook(agent, error) from error
            except DeadlineExceeded as error:
                raise _Stop.at_limit(error) from error
            return about["answer"]
        return given

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
                    self.emit(kind(part.text, self.id))
                else:
                    given = part
        except BaseException:  # come to its end, it is closed
            await parts.aclose()
            raise
        return given

    def prompt(self) -> list[dict[str, Any]]:
        """What the model is to see now; memory, actions and goals may have changed meanwhile."""
        agent = self.agent
        self.shown = agent._show()
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
            found = agent.discovered.get(public)
        return public, found

    def known(self) -> list[str]:
        """The names that the model may call."""
        return [action.name for action in self.shown.actions]

    # -- acting ------------------------------------------------------------------------------------

    async def act(self, answer: Answer, resumed: bool = False) -> list[str]:
        """Execute the calls of an answer at once; remember them and their results in their order.

        Both are remembered together at the end: a call without its result is never in memory,
        whatever happens meanwhile.

        Args:
            answer: the answer
            resumed: whether a process that ended had begun to
        """
        results: list[dict[str, Any] | None] = [None] * len(answer.calls)
        acts: Acts | None = None
        if self.recording is not None:
            acts = Acts(self.recording, self.iteration, answer.calls)
            if resumed:
                doubt = acts.take_up(results)
                if doubt:
                    raise _Stop("in_doubt", doubt)
                for place in acts.skipped if self.emit is not None else ():
                    self._tell_end(answer.calls[place], results[place] or {})
        places = [place for place, result in enumerate(results) if result is None]
        budget = self.agent.budget
        try:
            if not places:
                pass
            elif budget is None:
                await self._execute(answer.calls, results, places, acts)
            else:
                await self._execute_within(budget, answer.calls, results, places, acts)
        finally:
            contents = self._keep(answer, results, acts)
        return contents

    async def _execute(
        self,
        calls: list[Wanted],
        results: list[dict[str, Any] | None],
        places: list[int],
        acts: Acts | None,
    ) -> None:
        agent = self.agent
        if self.emit is None and agent._hooks is None and len(calls) == 1 and acts is None:
            results[0] = await execute(agent, calls[0], self.asked.run_id)
            return
        broken: list[HookError] = []
        if acts is not None:
            await acts.begin(places, agent._hooks is None)

        async def into(place: int) -> None:
            act = None if acts is None else acts.act(place)
            result = results[place] = await self._watched(calls[place], broken, act)
            if act is not None:
                await act.ended(result, _error(result), alone=len(places) == 1)

        if len(places) == 1:
            await into(places[0])
        else:
            works = [asyncio.ensure_future(into(place)) for place in places]
            try:
                await asyncio.gather(*works)
            except BaseException:  # the journal's, or cancelled: then no other goes on either
                for work in works:
                    work.cancel()
                await asyncio.wait(works)
                raise
        if broken:
            raise _Stop.on_hook(agent, broken[0]) from broken[0]

    async def _watched(
        self, call: Wanted, broken: list[HookError], act: Act | None = None
    ) -> dict[str, Any]:
        """Execute a call, with events and hooks around it."""
        agent, emit = self.agent, self.emit

        async def acted() -> dict[str, Any]:
            if act is not None:
                act.be_as_begun()
            if emit is not None:
                emit(CallStarted(self.id, self.iteration, call.id, call.name, call.args))
            if act is None:
                return await execute(agent, call, self.asked.run_id)
            return await execute(agent, call, self.asked.run_id, act.begin, act)

        if agent._hooks is None:
            result = await acted()
        else:
            result = await with_hooks(agent, call, self.iteration, acted, broken)
        if emit is not None:
            self._tell_end(call, result)
        return result

    def _tell_end(self, call: Wanted, result: dict[str, Any]) -> None:
        assert self.emit is not None
        error = _error(result)
        self.emit(CallEnded(self.id, self.iteration, call.id, call.name, result, error))

    async def _execute_within(
        self,
        budget: Budget,
        calls: list[Wanted],
        results: list[dict[str, Any] | None],
        places: list[int],
        acts: Acts | None,
    ) -> None:
        try:
            held = budget.reserve(actions=len(places))
        except BudgetExceeded as error:
            for place in places:
                results[place] = {"tool_executed": False, "error": f"not executed: {error}"}
            raise _Stop.at_limit(error) from error
        limit = asyncio.timeout(budget.remaining_seconds())
        try:
            async with limit:
                await self._execute(calls, results, places, acts)
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = DeadlineExceeded("the time of the run was over while its actions were executed")
            raise _Stop.at_limit(late) from error
        finally:
            held.settle()

    def _keep(
        self, answer: Answer, results: list[dict[str, Any] | None], acts: Acts | None = None
    ) -> list[str]:
        contents = []
        limit = self._room(len(results))
        self._remember_calls(answer)
        for place, (call, result) in enumerate(zip(answer.calls, results, strict=True)):
            if result is None:
                result = {"tool_executed": False, "error": _CUT_OFF}
                if self.emit is not None:
                    done = CallEnded(self.id, self.iteration, call.id, call.name, result, _CUT_OFF)
                    self.emit(done)
            error = _error(result)
            if acts is not None:
                acts.act(place).note_end(result, error)
            self.steps.append(Step(self.iteration, call.name, call.args, result, error))
            # What is recorded is shown, so that it is the same to one who goes on from there.
            content = result_content(result if acts is None else as_json(result), limit)
            contents.append(content)
            self._remember_result(call, content)
        if acts is not None:
            acts.recording.turned(self.iteration, self.text)
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
        """Keep a message, in memory and for the reply."""
        self.messages.append(message)
        if self.recording is not None:
            self.recording.remember(message)
            return
        self.memory.add_memory(message)
        if self.emit is not None:
            self.emit(MessageAdded(self.id, message))

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
        return Reply(
            self.text,
            value if reason in ("done", "terminal") else self.text,
            self.messages,
            self.steps,
            self.usage,
            reason,
            detail,
            error,
            self.asked.run_id,
        )


def _error(result: dict[str, Any]) -> str | None:
    error = result.get("error")
    return None if error is None else str(error)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
