"""One run of a durable function: which step is which, what is recorded, and when it waits."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from moothall.agents.durable.branch import BRANCH, BranchingTasks, FunctionTask, branch_here
from moothall.agents.durable.values import error_of, hash_of, recorded_error
from moothall.agents.replies.charging import budget_in_call
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.group import reply_of_decision
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_context import ASK_CONTEXT, ReplySetup, ask_context, note_member
from moothall.agents.replies.state import REPLY
from moothall.agents.replies.step import ONCE, StepForm, StepHandle
from moothall.agents.replies.thread import shortened_id
from moothall.foundation.errors import (
    BudgetExceeded,
    ConfigError,
    InDoubt,
    JournalError,
    RunMismatch,
)
from moothall.foundation.text import error_text
from moothall.foundation.threads import reset
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest

_PLACE: Final = re.compile(r"((?:t\d+\.)*)(\d+)\.")
_LONG_S: Final = 0.001
"""Seconds. A step that took longer is written at once, other_tasks when the function awaits."""
_QUIET_TURNS: Final = 20
"""A run waits once no branch has begun a step for so many turns of the loop."""
_OURS: Final = str(Path(__file__).parents[2])


class Parked(BaseException):
    """Leaves a durable function whose run waits: `except Exception` does not catch it."""


class FunctionRun:
    """A run of a durable function. The agents that it asks reply in parts of it."""

    def __init__(self, agent: Any, request: ReplyRequest, record: Record[Any]) -> None:
        self.agent: Any = agent
        self.request: ReplyRequest = request
        self.record: Record[Any] = record
        self.stop: Stop | None = None  # why the function does not go on; it overrides the rest
        self.usage: Usage = Usage()
        self.branches: dict[str, FunctionTask] = {}
        self._outer_stand_ins = ASK_CONTEXT.get().stand_ins
        self._open_count = self._begun_count = 0
        self._changed: asyncio.Event = asyncio.Event()
        self._is_closed = self._is_awaited = False
        self._flushing: asyncio.Task[None] | None = None
        self._failures: dict[str, FunctionTask] = {}  # of steps that no later one has seen
        # What is recorded: keys by place, exceptions by key, and the keys of those that are final.
        self._past: dict[str, str] = {}
        self._errors: dict[str, dict[str, Any]] = {}
        self._final: set[str] = set()
        for key, past in record.past_steps.items():
            if match := _PLACE.match(key):
                self._past[match[0]] = key
                self._final.update(past.about.get("sees", ()))
        for entry in record.entries():
            if entry.kind == "failed" and "raised" in entry.data:
                self._errors[entry.data["key"]] = entry.data["raised"]

    async def work(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Return what the function returns; raise Stop if the run does not go on now."""
        with ask_context(stand_ins=self), BranchingTasks.on_loop():
            main = FunctionTask(self, None, "")
            main.task = asyncio.current_task()
            token = BRANCH.set(main)
            try:
                value = await function()
            except GeneratorExit:  # nothing can be awaited
                raise
            except (Exception, asyncio.CancelledError, Parked, BaseExceptionGroup) as error:
                await self._close()
                if self.stop is not None and not isinstance(error, asyncio.CancelledError):
                    raise self.stop from error
                raise
            finally:
                reset(token)
            await self._close()
            if self.stop is not None:  # the function has caught it
                raise self.stop
            self._check_left()
            return value

    async def _close(self) -> None:
        """Let the steps beside end, and end the tasks that are left."""
        self._is_closed = True
        BRANCH.set(None)
        await self._until_none_is_open()
        other_tasks = [each.task for each in self.branches.values() if each.prefix]
        if other_tasks := [each for each in other_tasks if not each.done()]:
            for each in other_tasks:
                each.cancel()
            await asyncio.wait(other_tasks)
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _until_none_is_open(self) -> None:
        self._is_awaited = True
        while self._open_count:
            self._changed.clear()
            await self._changed.wait()

    # -- which step it is ----------------------------------------------------------------------

    def take(
        self, branch: FunctionTask, name: str, args: tuple[Any, ...], text: str = ""
    ) -> tuple[str, dict[str, Any]]:
        """Return the key of a branch's next step, and what is recorded about it.

        Raises:
            RunMismatch: another step, or one with other arguments, is recorded in its place
        """
        if self.stop is not None or self._is_closed:
            raise Parked
        branch.steps += 1
        self._begun_count += 1
        key = f"{branch.prefix}{branch.steps}.{name}"
        details: dict[str, Any] = {"action": name, "hash": hash_of(args)}
        if self._failures:
            seen_keys = [each for each, other in self._failures.items() if branch.awaits(other)]
            if seen_keys:
                details["sees"] = seen_keys
                for each in seen_keys:
                    del self._failures[each]
        if self._past:
            self._compare(key.removesuffix(name), key, details["hash"], text)
        return key, details

    def _compare(self, place: str, key: str, args_hash: int, text: str) -> None:
        if (recorded := self._past.pop(place, None)) is None:
            return
        past = self.record.past_steps[recorded]
        was = ""
        if recorded != key:
            was = f"was {recorded.removeprefix(place)!r}, is {key.removeprefix(place)!r}"
        elif past.about.get("hash", args_hash) != args_hash:
            was = "has other arguments"
        elif text and past.requests and [*past.requests.values()][-1].get("text", text) != text:
            was = f"is another question: {text!r:.80}"
        if was:
            self._mismatch(f"step {place.removesuffix('.')} {was}, in {_line_of_user()}")
        if past.state == "failed" and key in self._final and key in self._errors:
            raise error_of(self._errors[key], key)

    def _mismatch(self, detail: str) -> None:
        error = RunMismatch(self.record.run_id, ("steps",), detail)
        self.stop = Stop("waiting", str(error), error)
        raise error

    def _left_steps(self) -> Iterator[str]:
        """Yield the keys of the recorded steps to which the function has not come."""
        for place, key in self._past.items():
            branch = self.branches.get(place[: place.rstrip(".").rfind(".") + 1])
            task = None if branch is None or not branch.prefix else branch.task
            if task is not None and task.done() and (task.cancelled() or task.exception()):
                continue  # another branch has failed: how far this one came is chance
            yield key

    async def _check_moved(self, key: str, details: Mapping[str, Any]) -> None:
        """Raise RunMismatch if an effect that is new here is recorded at another place."""

        def moved() -> Iterator[str]:
            for each in self._left_steps():
                recorded = self.record.past_steps[each].about
                if all(recorded.get(name) == details[name] for name in ("action", "hash")):
                    yield each

        await self._until_quiet(lambda: any(moved()))  # a branch that goes on may come to it yet
        if self.stop is not None:
            raise Parked
        for each in moved():
            self._mismatch(f"step {each!r} is recorded, and is {key!r}, in {_line_of_user()}")

    def _check_left(self) -> None:
        """Raise the Stop of a mismatch if the function has ended before all recorded steps."""
        for key in self._left_steps():
            text = f"step {key!r} is recorded, and {self.agent.id!r} has ended without it, in "
            with suppress(RunMismatch):  # the Stop has it
                self._mismatch(f"{text}{self.agent.source_line}")
            assert self.stop is not None
            raise self.stop from self.stop.error

    # -- what it does ----------------------------------------------------------------------------

    async def do(
        self,
        branch: FunctionTask,
        name: str,
        args: tuple[Any, ...],
        call: Callable[[StepHandle], Awaitable[Any]],
        form: StepForm = ONCE,
        codec: Any = None,
        text: str = "",
    ) -> Any:
        """Do a step once: return or raise what is recorded, or call and record that."""
        key, details = self.take(branch, name, args, text)
        record = self.record
        if form.asks and self._past and record.find(key) is None:
            await self._check_moved(key, details)
        count_before, begin = record.count, time.perf_counter()

        self._open_count += 1
        BRANCH.set(None)  # what is asked or begun in it is no step of the function
        try:
            try:
                result = await record.perform(key, call, form, codec, False, details)
            finally:
                self._open_count -= 1
                if self._is_awaited:
                    self._changed.set()
            if record.count != count_before:
                if time.perf_counter() - begin > _LONG_S:
                    await record.commit()
                elif self._flushing is None:
                    self._flushing = asyncio.create_task(self._flush())
        except Exception as error:
            await self._park(self._take_error(key, branch, error))
        finally:
            BRANCH.set(branch)
        return result

    def _take_error(self, key: str, branch: FunctionTask, error: Exception) -> Stop:
        """Return the Stop of a step that waits; raise any other error."""
        if isinstance(error, Stop) and error.reason == "waiting":
            return error
        if isinstance(error, InDoubt):
            self.stop = self.stop or Stop("in_doubt", str(error), error)
        elif isinstance(error, RunMismatch) and error.run_id == self.record.run_id:
            self.stop = self.stop or Stop("waiting", str(error), error)
        elif not isinstance(error, JournalError | BudgetExceeded):
            self._failures[key] = branch
        raise error

    async def _flush(self) -> None:
        """Write what was recorded, while the function awaits something."""
        self._flushing = None
        try:
            await self.record.commit()
        except JournalError:  # the next commit raises it
            pass

    async def _park(self, stop: Stop) -> NoReturn:
        """Leave the function once no other branch goes on: each asks what it has to ask."""
        await self._until_quiet(lambda: True)
        self.stop = self.stop or stop
        raise Parked

    async def _until_quiet(self, waits: Callable[[], object]) -> None:
        """Wait until no other branch goes on, the run stops, or `waits` is false."""
        turns, count = 0, self._begun_count
        while turns < _QUIET_TURNS and self.stop is None and waits():
            turns = 0 if self._open_count else turns
            await self._until_none_is_open()
            await asyncio.sleep(0)
            turns = turns + 1 if count == self._begun_count else 0
            count = self._begun_count

    # -- the agents that it asks -------------------------------------------------------------------

    async def reply(self, agent: Any, request: ReplyRequest) -> Reply:
        """Have an agent reply in a part of the run."""
        branch = branch_here()
        if branch is None:  # in a step
            with ask_context(stand_ins=self._outer_stand_ins):
                reply: Reply = await agent.reply_to_request(request)
                return reply
        name, args = str(agent.id), (request.original_content,)
        if request.budget is None:
            request.budget = budget_in_call(agent, self.agent.budget_of(self.request))
        if not is_recording(agent):
            return await self._ask_unrecorded(branch, agent, request)
        key, details = self.take(branch, name, args)
        record, thread = self.record, request.thread
        part = record.member(f"{key}/{name}", name)
        request.run_id = record.run_id
        if thread is None and not agent.shared:
            request.thread = shortened_id(f"{record.run_id}/{record.path}{key}")
        self._open_count += 1
        BRANCH.set(None)
        try:
            try:
                setup = ReplySetup(agent, part)
                with ask_context(setup=setup, stand_ins=self._outer_stand_ins):
                    reply = await agent.reply_to_request(request)
                self._check_answer(reply)
                if not record.has_ended(key):
                    record.mark(key, None, **details)
                await record.commit()
            finally:
                self._open_count -= 1
                if self._is_awaited:
                    self._changed.set()
                if thread is None and request.thread is not None:
                    agent.end_thread(request.thread)
        except Exception as error:
            if not isinstance(error, Stop | InDoubt | JournalError | RunMismatch):
                raised = {"error": error_text(error), "raised": recorded_error(error)}
                record.note("failed", {"key": key, "about": details, **raised})
            stop = self._take_error(key, branch, error)
            if stop.error is not None:  # the program of a part has changed
                self.stop = self.stop or stop
            await self._park(stop)
        finally:
            BRANCH.set(branch)
        note_member(self.request, agent, reply)
        self.usage = self.usage + reply.usage
        return reply

    @staticmethod
    def _check_answer(reply: Reply) -> None:
        """Raise what a reply without an end says: what came next would differ when it goes on."""
        if reply.stop_reason == "waiting":
            raise Stop("waiting", reply.detail, reply.error)
        if reply.stop_reason not in FINAL_REASONS:
            reply.raise_for_error()

    async def _ask_unrecorded(
        self, branch: FunctionTask, agent: Any, request: ReplyRequest
    ) -> Reply:
        """Ask an agent that keeps no record, such as one of another company, in a step."""
        is_remote = getattr(agent, "is_remote", False)

        async def ask(step: StepHandle) -> Reply:
            await step.begins({"text": request.original_content} if is_remote else None)
            with ask_context(stand_ins=self._outer_stand_ins):
                reply: Reply = await agent.reply_to_request(request)
            self._check_answer(reply)
            return reply

        decided, is_person = reply_of_decision, getattr(agent, "decides_in_words", False)
        form = StepForm(is_remote, decided if is_remote else None, anew=is_person)
        args = (request.original_content,)
        reply: Reply = await self.do(branch, str(agent.id), args, telling(ask), form, REPLY)
        note_member(self.request, agent, reply)
        return reply

    async def observe(self, agent: Any, message: Any, thread: Any) -> None:
        """Have an agent observe a message, once."""

        async def observe(step: StepHandle) -> None:
            with ask_context(stand_ins=self._outer_stand_ins):
                await agent.observe(message, thread)

        if (branch := branch_here()) is None:
            await observe(None)  # type: ignore[arg-type]
        else:
            await self.do(branch, str(agent.id), (message,), telling(observe))


def telling(call: Callable[[StepHandle], Awaitable[Any]]) -> Callable[[StepHandle], Any]:
    """Return the call of a step that records what it raises."""

    async def call_it(step: StepHandle) -> Any:
        try:
            return await call(step)
        except Exception as error:
            tell_error(step, error)
            raise

    return call_it


def tell_error(step: StepHandle, error: Exception) -> None:
    """Record the exception that a step raises, unless it only waits."""
    if not isinstance(error, Stop):
        step.tell(raised=recorded_error(error))


def branch_of(name: str) -> FunctionTask:
    """Return the branch of the durable function that calls; ConfigError elsewhere."""
    if (branch := branch_here()) is None:
        raise ConfigError(f"{name} must be called in a durable function, and in none of its steps")
    return branch


def _line_of_user() -> str:
    """Return the file and the line of the call, outside of moothall."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
