"""One run of an agent whose program another framework runs: its requests and calls are steps.

A resumed run runs the program from its start. Requests and calls that have ended return what is
recorded, so nothing of the framework's state is kept. What ends the run never passes through the
program, which may catch it: a step that meets it does not return, and once nothing else is under
way, the program is cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from moothall.actions.approval import Later
from moothall.actions.provenance import merged_sources
from moothall.actions.provenance.marks import Marks, without_marks
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.dispatch import blocks_with
from moothall.agents.loop.answer import OfferedActions, ToolCall, safe_name
from moothall.agents.loop.parts import messages_of
from moothall.agents.loop.prompt.model_view import PieceEmitter
from moothall.agents.loop.prompt.prompt_record import PromptRecord, keep_list
from moothall.agents.loop.recording import LoopTurn, end_data
from moothall.agents.loop.turn_end import TurnEnd
from moothall.agents.replies.charging import completed
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.state import Codec
from moothall.agents.theirs.parking import Parking
from moothall.agents.theirs.their_calls import CallOutcome, TheirCalls
from moothall.agents.theirs.their_request import THEIR_SCOPE, TheirModel, TheirRequest, TheirScope
from moothall.agents.theirs.their_turns import TheirTurns
from moothall.foundation.errors import (
    BudgetExceeded,
    HookError,
    InDoubt,
    InvalidArguments,
    JournalError,
    RunMismatch,
)
from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import error_message, log_failure
from moothall.foundation.threads import context_value
from moothall.journal.entry import read_list
from moothall.journal.run_view import OWN_CALL_KEY
from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from moothall.actions.capability import Action
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.step import StepHandle
    from moothall.memory.memory import Memory

logger: logging.Logger = logging.getLogger("moothall.agents")

_OTHERS_TRIES: Final = 20
_OTHERS_S: Final = 0.005
"""How often, and in which steps, a call waits for recorded ones that are to be made beside it."""
_RUN: ContextVar[TheirRun | None] = ContextVar("moothall_their_run", default=None)


class TheirRun:
    """One run of a program of another framework, with what its models and tools stand on."""

    def __init__(self, agent: Any, request: ReplyRequest, memory: Memory) -> None:
        self.turn_end: TurnEnd = TurnEnd(agent, request, memory)
        self.agent: Any = agent
        self.request: ReplyRequest = request
        self.memory: Memory = memory
        self.thread: Any = request.state
        self.record: Record[Any] | None = request.recorded
        self.state: Any = self.turn_end.state
        self.turns: TheirTurns = TheirTurns(self.turn_end, cast("Any", self.turn_end.state))
        self.history: list[dict[str, Any]] = []
        """The chat messages of the thread before the run."""
        self.cache: dict[Any, Any] = {}
        """What the framework's part keeps for the run."""
        self.blocks: Sequence[Any] = (
            blocks_with(agent.blocks, "around_action") if agent.blocks else ()
        )
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._prompts: PromptRecord | None = None
        self._offered = OfferedActions([])
        self._offered_tools: list[Any] = []
        self._counts: dict[str, int] = {}  # of requests by scope, and of executions by key
        self._keys: dict[tuple[str | None, str], str] = {}  # of calls, by scope and id
        self._own_calls: dict[
            str, bool
        ] = {}  # of the program's own, whether it has made each again
        self._failures: dict[str, BaseException] = {}  # by the keys of their steps
        self.parking: Parking = Parking(self.turn_end.id)

    # -- what the program has ----------------------------------------------------------------------

    @staticmethod
    def current() -> TheirRun | None:
        """Return the run whose program runs here; None outside of one."""
        return _RUN.get()

    @staticmethod
    def part(name: str) -> AbstractContextManager[Any]:
        """Have the keys of steps within begin with the name of a part, such as a graph's node.

        So steps of parts side by side keep their keys when the run is resumed.
        """
        scope = THEIR_SCOPE.get()
        return context_value(THEIR_SCOPE, scope._replace(prefix=f"{scope.prefix}{name}/"))

    @property
    def deps(self) -> Any:
        """What the reply was given as `deps=`, or the agent."""
        return self.agent.deps if self.request.deps is None else self.request.deps

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """What the agent is asked."""
        return self.request.content

    async def ask(self, request: TheirRequest) -> Any:
        """Return the framework's own answer to a request: the recorded one, or by sending it."""
        scope = THEIR_SCOPE.get()
        key = f"{scope.prefix}{self._count(scope.prefix)}"
        await self.parking.guard(key, self._ask(key, scope, request))
        return request.raw

    async def call(
        self,
        id: str | None,
        action: Action,
        execute: Callable[[dict[str, Any]], Awaitable[Any]],
        args: dict[str, Any],
    ) -> CallOutcome:
        """Return what came of a call of a tool: what is recorded, or by executing it.

        Args:
            id: the id that the model gave the call; None if no model asked for it
            action: the tool, with the options that its agent's user stated
            execute: executes it with these arguments, or those that a person changed
            args: the arguments, as JSON data
        """
        key, kwargs, work = self._key_of_call(id, action.name, args), {**args}, [execute]
        if action.name in self.agent.tools.ours:
            try:
                kwargs, work = action.check(args), []
            except InvalidArguments as error:
                return CallOutcome(refused=str(error))
        call = ToolCall(id or key, action.name, safe_name(action.name), args, action, kwargs)
        outcome: CallOutcome = await self.parking.guard(key, self._call(key, call, *work))
        return outcome

    async def wait(self, name: str, question: Any) -> Any:
        """Return what a person answers to a question that the program asks by itself."""
        prefix = THEIR_SCOPE.get().prefix
        key = f"{prefix}{name}.{self._count(f'{prefix}{name}.')}"
        return await self.parking.guard(key, self._wait(key, question))

    @property
    def has_steps(self) -> bool:
        """Whether the program has asked a model or called a tool by the run."""
        return bool(self._counts)

    def begin_again(self) -> None:
        """Have steps keep their keys that the program makes again from the beginning."""
        self._counts.clear()
        self._own_calls = dict.fromkeys(self._own_calls, False)

    def from_thread(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a step for a part of the program that runs in a thread."""
        import concurrent.futures

        try:
            return asyncio.run_coroutine_threadsafe(step, self._loop).result()
        except concurrent.futures.CancelledError:  # an Exception, which programs catch
            raise asyncio.CancelledError from None

    # -- from the request to the reply -------------------------------------------------------------

    async def reply(self) -> Reply:
        """Run the program until it ends, or there is a reason to stop."""
        record, turn_end = self.record, self.turn_end
        try:
            if record is None:
                return await self._run()
            if not record.is_over:
                return await record.run_to_end(self._restore_and_run, end_data, turn_end.stopped)
        except Stop as stop:  # its memory failed
            return turn_end.stopped(stop)
        reply = await turn_end.recorded_reply()
        if reply.stop_reason == "done" and self.request.answer is None:
            reply = replace(reply, value=self.agent.read_output(reply.value))
        return reply

    async def _restore_and_run(self) -> Reply:
        await self.turn_end.restore()
        return await self._run()

    async def _run(self) -> Reply:
        self._begin()
        with context_value(_RUN, self), context_value(THEIR_SCOPE, TheirScope()):
            program = asyncio.create_task(self.agent.run_theirs(self))
        try:
            await self.parking.wait_for_end(program)
        finally:
            if not program.done():
                await self.parking.end(program)
        return self._reply_of(program)

    def _begin(self) -> None:
        state, request = self.state, self.request
        if state.messages:
            if state.history and self.record is not None:
                self.history = read_list(state.history, self.record.stored_value)
            first_messages = state.messages[: self._count_of_first()]
        else:
            messages = messages_of(self.memory, self.turn_end.id, None)[0]
            self.history = [without_marks(each) for each in messages]
            if self.record is not None and self.history:
                state.history = keep_list(self.record, self.thread, self.history)
            turn = LoopTurn()
            for text in self.thread.take_texts():
                marks = Marks(text.sources) if isinstance(text, SourcedText) else None
                turn.add({"role": "user", "content": str(text)}, marks)
            marks = Marks(request.outside) if request.outside else None
            turn.add({"role": "user", "content": request.content}, marks)
            first_messages = [*turn.messages]
            self.turn_end.run_memory.save(state, turn, ends=False)
        if self.record is not None and (past_steps := self.record.past_steps):
            self._own_calls = {key: False for key in past_steps if OWN_CALL_KEY.fullmatch(key)}
        self.history += first_messages[:-1]  # what was said while nobody listened
        self.turns.begin([*self.history, first_messages[-1]])

    def _count_of_first(self) -> int:
        """Return how many messages of the user a run began with."""
        roles = [each["role"] for each in self.state.messages]
        return next((n for n, role in enumerate(roles) if role != "user"), len(roles))

    def _reply_of(self, program: asyncio.Task[Any]) -> Reply:
        stops = self.parking.stops
        final = next((each for each in stops if each.reason != "waiting"), None)
        if final is not None:
            if isinstance(final.error, JournalError):
                raise final.error
            return self.turn_end.stopped(final)
        error: BaseException | None = None
        if program.done() and not program.cancelled():
            try:
                text, value = self._read_end(program.result())
            except BaseException as raised:  # by the program, or its value is another than asked
                error = raised
            else:
                self.turns.finish(text)
                return self.turn_end.reply("done", "", value)
        if stops and (error is None or self.parking.is_ending):
            mismatch = next((each.error for each in stops if each.error is not None), None)
            return self.turn_end.stopped(Stop("waiting", "; ".join(map(str, stops)), mismatch))
        if error is None:
            return self.turn_end.stopped(Stop("cancelled", "the program was cancelled"))
        if not isinstance(error, Exception):
            raise error
        self._forget_failures(error)
        if isinstance(error, BudgetExceeded):
            return self.turn_end.stopped(Stop.at_limit(error))
        log_failure(logger, f"the program of agent {self.agent.id!r} failed", error)
        text = error_message(error)
        kind = type(error).__name__
        stop = self.agent.stop_of(error) or Stop(
            "error", f"{kind}: {text}" if text else kind, error
        )
        return self.turn_end.stopped(stop)

    def _read_end(self, value: Any) -> tuple[str, Any]:
        """Return the text and the value of a reply by what the program returned."""
        text = value if isinstance(value, str) else json_text(self.agent.write_value(value))
        schema = self.request.answer
        return text, value if schema is None else schema.read(text)

    def _forget_failures(self, error: BaseException) -> None:
        """Note the steps as failed by which the program ended: a resumed run makes them again.

        A failure that the program went on with is a result, and stays one.
        """
        causes: list[BaseException | None] = [error]
        for each in causes:
            if each is not None and not any(
                each is other for other in causes[: causes.index(each)]
            ):
                causes += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
        for key, failure in self._failures.items():
            if self.record is not None and any(failure is each for each in causes):
                text = f"{type(failure).__name__}: {failure}"
                self.record.note("failed", {"key": key, "error": text})

    # -- steps -------------------------------------------------------------------------------------

    def _count(self, name: str) -> int:
        self._counts[name] = count = self._counts.get(name, 0) + 1
        return count

    def _key_of_call(self, id: str | None, name: str, args: dict[str, Any]) -> str:
        prefix = THEIR_SCOPE.get().prefix
        key = None
        if id is not None:
            key = self._keys.get((prefix, id)) or self._keys.get((None, id))
        if key is None:  # of the program's own
            digest = hashlib.sha256(json_text(as_json(args)).encode()).hexdigest()[:6]
            stem = f"{prefix}{name}-{digest}."
            key = f"{stem}{self._count(stem)}"
            self._own_calls[key] = True
            return key
        count = self._count(f"={key}")
        return key if count == 1 else f"{key}~{count}"

    async def _ask(self, key: str, scope: TheirScope, request: TheirRequest) -> None:
        is_main = scope.call is None
        prompt: Any = request.messages()
        if is_main:
            self.turns.note_prompt(key, prompt)
        tell, emit = None, self.request.emit
        if emit is not None and is_main:
            tell = PieceEmitter(None, self.turn_end.id, self.request, emit).emit
        answer_to = self.agent.model_or_name.answer_to
        recall = None if answer_to is None else partial(self._recall, answer_to, key, request)
        model = TheirModel(request, tell, recall)
        if (tools := request.tools()) != self._offered_tools:
            actions = [self.agent.tools.offered(*each) for each in tools]
            self._offered, self._offered_tools = OfferedActions(actions), tools
        send = partial(self._send, model, prompt, self._offered)
        if self.record is None:
            answer = await send(None)
        else:
            codec = Codec(partial(self._dump_answer, request), partial(self._load_answer, request))
            answer = await self.record.step(key, send, of=codec, model=model.name)
        if isinstance(answer, Exception):
            self._failures[key] = answer
            raise answer
        self.turns.note_answer(key, answer, is_main)
        for place, call in enumerate(answer.calls):
            call_key = f"{key}.{place}"
            self._keys[scope.prefix, call.id] = self._keys[None, call.id] = call_key
            self._counts.pop(f"={call_key}", None)
        if is_main:  # after the commit, which adds what the prompt has to the memory
            self.turn_end.view.prompt()

    async def _send(
        self, model: TheirModel, prompt: Any, offered: OfferedActions, step: StepHandle | None
    ) -> Any:
        model.begins = None if step is None else partial(self._tell_prompt, step, prompt, offered)
        try:
            return await completed(
                model, self.turn_end.budget, prompt, None, step, actions=offered.actions, args={}
            )
        except (BudgetExceeded, JournalError, Stop, HookError, InDoubt, RunMismatch):
            raise
        except Exception as error:  # the program may go on with it
            return error

    async def _recall(
        self,
        answer_to: Callable[..., dict[str, Any]],
        key: str,
        request: TheirRequest,
        messages: Any,
        actions: Any,
    ) -> ModelReply:
        """Return the answer that another run's record has to this request."""
        answer = self._load_answer(request, answer_to(key, messages, actions))
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _tell_prompt(self, step: StepHandle, prompt: Any, offered: OfferedActions) -> None:
        """Record a prompt by what is new in it: what is before it is recorded by now."""
        if self._prompts is None:
            assert self.record is not None
            self._prompts = PromptRecord(self.record, self.thread)
        step.tell(prompt=self._prompts.note(prompt, self.state.messages, offered, None))

    def _dump_answer(self, request: TheirRequest, answer: Any) -> dict[str, Any]:
        if isinstance(answer, Exception):
            return {**ModelReply.json_of(ModelReply()), "failed": self.agent.write_error(answer)}
        return {**ModelReply.json_of(answer), "theirs": request.dump()}

    def _load_answer(self, request: TheirRequest, data: dict[str, Any]) -> Any:
        if "failed" in data:
            return self.agent.read_error(data["failed"])
        try:
            request.load(data["theirs"])
        except Exception as error:
            raise self.agent.unreadable(error, self.record) from error
        return ModelReply.of_json(data)

    async def _call(
        self,
        key: str,
        call: ToolCall,
        execute: Callable[[dict[str, Any]], Awaitable[Any]] | None = None,
    ) -> CallOutcome:
        stem = key.rpartition(".")[0]
        if self.record is not None:
            if key in self._own_calls and self.record.find(key) is None:
                await self._check_order(self.record, key, call)
            TheirCalls.check(
                self.record, key, call, has_hooks=bool(self.agent.hooks or self.blocks)
            )
            if doubts := TheirCalls.doubts_in(self.record, stem):
                past = self.record.find(key)
                if past is not None and past.in_doubt:
                    raise Stop("in_doubt", doubts)
        outer = THEIR_SCOPE.get().call
        calls = TheirCalls(self.agent, [call], self.request, self.state.iteration + 1, self.blocks)
        calls.key, calls.codec = key, self.agent
        scope = TheirScope(f"{key}/", call)

        async def run_tool(**args: Any) -> Any:
            assert execute is not None
            token = THEIR_SCOPE.set(scope)
            try:
                return await calls.outcome_of(execute(args))
            finally:  # the program may go on in this context
                THEIR_SCOPE.reset(token)

        calls.work = None if execute is None else run_tool  # else the action executes itself
        await calls.execute(self.turn_end.budget)
        if calls.stops:
            raise calls.end
        outcome = calls.outcome()
        if outcome.error is not None:
            self._failures[key] = outcome.error
        self._note_sources(call, outer)
        assert call.result is not None
        step = call.as_step(
            calls.iteration, call.result, (self.request.run_id, self.request.thread)
        )
        self.turns.note_call(key, call, step)
        return outcome

    async def _check_order(self, record: Record[Any], key: str, call: ToolCall) -> None:
        """Raise RunMismatch if the program makes a new call where a recorded one is to be again.

        Those side by side come in any order: the others are waited for.
        """
        part = key.rpartition("/")[0]
        for _ in range(_OTHERS_TRIES):
            rest = (each for each, is_made in self._own_calls.items() if not is_made)
            missing = next((each for each in rest if each.rpartition("/")[0] == part), None)
            if missing is None:
                return
            await asyncio.sleep(_OTHERS_S)
        detail = f"step {missing!r} is recorded, and the program calls {call.name!r} of "
        raise RunMismatch(record.run_id, ("steps",), f"{detail}{call.args!r:.200} in its place")

    def _note_sources(self, call: ToolCall, outer: ToolCall | None) -> None:
        """Take what a call read from outside at once: the program need not show it to a model."""
        assert call.result is not None
        sources, thread = call.result.sources, self.thread
        if not sources:
            return
        if thread.texts_by_origin is None:
            thread.last_checked = None
            thread.begin_texts(self.request.on_behalf).note(sources)
            self.turn_end.view.prompt()  # which knows what the user said
        assert thread.texts_by_origin is not None
        thread.texts_by_origin.add_outside(call.result.text, [*sources])
        if outer is not None:
            outer.read_sources = (*merged_sources((*outer.read_sources, *sources)),)

    async def _wait(self, key: str, question: Any) -> Any:
        if self.record is None:
            raise Stop("error", f"agent {self.agent.id!r} asks a person, which needs a journal=")
        later = Later(key.replace("/", "."), text=json_text(as_json(question)))
        return await self.record.wait(key, later, action="interrupt", args=question)
