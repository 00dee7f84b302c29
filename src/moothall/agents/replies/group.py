"""Groups: agents made of others, which share one record, one budget and the same threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import TypeVar

from moothall.actions.acting import CALL_SCOPE, scope_with
from moothall.actions.approval import Later
from moothall.actions.provenance.origin import merged_sources
from moothall.actions.provenance.reading import MemberReading
from moothall.agents.agent import Agent
from moothall.agents.replies.charging import budget_of, share_budget
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.events import Done, Event
from moothall.agents.replies.record import Record
from moothall.agents.replies.recorded_agent import RecordedAgent
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply import Step as Called
from moothall.agents.replies.reply_context import ReplySetup, ask_context, note_member
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.state import REPLY, dump_state, load_state
from moothall.agents.replies.step import StepForm, StepHandle
from moothall.agents.replies.thread import Threads
from moothall.foundation.errors import DeadlineExceeded, InDoubt, ModelError, StateError
from moothall.foundation.jsonvalue import json_text
from moothall.foundation.threads import awaited, context_value, is_cancelled
from moothall.journal.stop_reason import ANSWERED_REASONS
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from moothall.actions import Action
    from moothall.agents.replies.read_record import PastStep
    from moothall.budget import Budget
    from moothall.journal.stop_reason import StopReason


T = TypeVar("T")


class Group(RecordedAgent):
    """An agent made of others. A subclass names its members and defines how they work together."""

    _own_budget: Budget | None = None

    @property
    def budget(self) -> Budget | None:
        """Return what its members may spend together, or None."""
        return self._own_budget

    @budget.setter
    def budget(self, budget: Budget | None) -> None:
        share_budget(self, self.member_agents, budget)
        self._own_budget = budget

    def thread_fault(self) -> str | None:
        """Return which member cannot keep threads apart, and why; None if all can."""
        return members_without_threads(self.member_agents)

    # -- resumed -----------------------------------------------------------------------------------

    @overload
    async def resume(
        self, schema: dict[str, Any] | None = None, *, thread: str | int | None = None
    ) -> Reply[Any]: ...
    @overload
    async def resume(self, schema: TypeForm[T], *, thread: str | int | None = None) -> Reply[T]: ...
    async def resume(self, schema: Any = None, *, thread: str | int | None = None) -> Reply[Any]:
        """Resume a reply that was cancelled, or whose state was loaded.

        The interrupted turn begins anew; what ended before is not done again. A dual act resumes
        after a limit, too; a conversation that a limit has ended does so in its journal alone, by
        `reply` with the same `run_id`. With a journal, a cancelled reply resumes in its run. Text,
        value, messages and usage are of the whole reply; the steps of a conversation are only those
        from now on.

        Args:
            schema: the form of the reply's value. A dual act keeps a JSON schema, a conversation
                none; a type is not saved: pass it again after loading a state.
            thread: the id of the conversation to resume; the agent's own by default

        Raises:
            StateError: there is nothing to resume, or the answer was requested by a type that is
                not passed
        """
        request = self._resume_request(schema, thread)
        request.resumed = True
        return await self.reply_to_request(request)

    def _resume_request(self, schema: Any, thread: str | int | None) -> ReplyRequest:
        """Return the request of the reply to resume."""
        return ReplyRequest("", schema, thread)

    # -- saved and loaded --------------------------------------------------------------------------

    @property
    def _saved_members(self) -> dict[str, Any]:
        """Return the members whose states are saved with its own, by name."""
        raise NotImplementedError(f"{type(self).__name__} does not name its members")

    def state_dict(self) -> dict[str, Any]:
        """Return its state and its members' memories, as JSON, to resume in another process.

        Members without `state_dict` are not saved; make them again with the same settings. Call it
        after any turn of a dual act, in `post_` hooks too, and between two turns of a conversation.

        Raises:
            RuntimeError: a participant of a conversation is speaking
            StateError: something remembered is not JSON
        """
        self._check_between_turns(for_loading=False)
        members = {
            name: member.state_dict()
            for name, member in self._saved_members.items()
            if hasattr(member, "state_dict")
        }
        own_state = self.all_threads.default.agent_state
        threads = {
            each.id: self._dump_state(each.agent_state)
            for each in self.all_threads
            if each.agent_state is not None
        }
        saved_state = None if own_state is None else self._dump_state(own_state)
        return self.as_state(self.run_kind, own=saved_state, threads=threads, members=members)

    def _check_between_turns(self, *, for_loading: bool) -> None:
        """Refuse to save or load a state during a turn."""

    def _dump_state(self, own_state: Any) -> dict[str, Any]:
        return dump_state(own_state)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Load a saved state; `resume` continues from it.

        Raises:
            StateError: the state is of another kind or of other members; nothing was loaded
            Exception: what a member raises that refuses its state; earlier members have theirs
            RuntimeError: a reply of a conversation is under way
        """
        self._check_between_turns(for_loading=True)
        state = self.read_state(saved, self.run_kind)
        label = f"{self.kind_label} {self.id!r} cannot resume from this state"
        threads, states = state.get("threads"), state.get("members")
        if not isinstance(threads, dict) or not isinstance(states, dict):
            raise StateError(f"{label}: threads and members must be objects")
        restored = Threads(self.answers_in_turn)
        for id, own_state in [(None, state.get("own")), *threads.items()]:
            restored.get(id).agent_state = (
                None if own_state is None else self._load_state(own_state, label)
            )
        members = self._saved_members
        if states.keys() - members.keys():
            raise StateError(f"{label}: it is of {[*states]!r:.200}, not of {[*members]!r:.200}")
        for name in states:
            if not hasattr(members[name], "load_state_dict"):
                raise StateError(f"{label}: member {name!r} has no load_state_dict")
        for name, member_state in states.items():
            members[name].load_state_dict(member_state)
        self.own_threads: Threads | None = restored
        self._note_threads(*restored)

    def _load_state(self, state: Any, label: str) -> Any:
        return load_state(self.state_type, state, label)


def options_for(member: Any, request: ReplyRequest) -> dict[str, Any]:
    """Return the thread, and the deps and the budget, if it takes them, for a member."""
    options = {"thread": request.thread, "deps": request.deps}
    if budget_of(member, request.budget) is request.budget:
        options["budget"] = request.budget
    return {
        name: value
        for name, value in options.items()
        if value is not None and takes(member.reply, name)
    }


def thread_option(function: Any, thread: str | None) -> dict[str, Any]:
    """Return the argument `thread` for a member's `observe` or `interrupt`, if it takes one."""
    # An empty text means the member's own thread, so that no other reply is interrupted.
    if getattr(function, "__name__", "") == "interrupt" and isinstance(
        getattr(function, "__self__", None), Agent
    ):
        thread = thread or ""
    return {"thread": thread} if thread is not None and takes(function, "thread") else {}


def takes(function: Any, parameter: str) -> bool:
    """Return whether a function has a parameter of that name."""
    try:
        return parameter in _parameter_names(getattr(function, "__func__", function))
    except (TypeError, ValueError):
        return False


@lru_cache(maxsize=1000)
def _parameter_names(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def members_without_threads(members: Iterable[Any]) -> str | None:
    """Return which member cannot keep threads apart, and why, in words; None if all can."""
    for member in members:
        find_fault = getattr(member, "thread_fault", None)
        if find_fault is not None:
            fault = None if member.shared else find_fault()
            if fault is not None:
                return f"{member.id!r}: {fault}"
        elif not takes(member.reply, "thread") or not takes(member.observe, "thread"):
            return f"reply and observe of {member.id!r} take no thread="
    return None


async def ask_member(
    agent: Any,
    content: Any,
    part: str,
    request: ReplyRequest,
    record: Record[Any],
    emit: Callable[[Event], Any] | None = None,
    schema: Any = None,
    offered: tuple[Action, ...] = (),
    **labels: Any,
) -> Reply:
    """Return the reply of a member in its turn, `part`: the recorded one, or a new one.

    Its events go to `emit`, if it streams; its `Done` in any case. Its model also has `offered`.
    """
    options = options_for(agent, request)
    if schema is not None:
        options["schema"] = schema
    if takes(agent.reply, "run_id"):
        options["run_id"] = _run_id(agent, part, request)

    is_person = getattr(agent, "decides_in_words", False)
    # It may have acted for the process that died: as with an action, a person decides.
    is_remote = getattr(agent, "is_remote", False)

    async def ask_once(step: StepHandle) -> Reply:
        await step.begins({"text": content} if is_remote else None)
        reading = MemberReading()
        setup = ReplySetup(agent, step=step if request.recorded is not None and is_person else None)
        waiting = record.waiting_for("person", text=str(agent.id)) if is_person else nullcontext()
        with context_value(CALL_SCOPE, scope_with(reading)), ask_context(setup=setup), waiting:
            if is_person:
                await record.commit()
            reply = await _ask(agent, content, options, request, emit)
        if sources := merged_sources(
            reading.read_sources
        ):  # kept with the reply, which is recorded
            reply = replace(reply, outside=(*reply.outside, *sources))
        if reply.stop_reason not in ANSWERED_REASONS and is_person:
            raise _UnansweredTurn(reply)  # a resumed run asks a person again
        return reply

    if is_recording(agent):
        setup = ReplySetup(agent, record.member(part, str(agent.id), **labels), offered)
        with ask_context(setup=setup):
            reply = await _ask(agent, content, options, request, emit)
        note_member(request, agent, reply)
        return reply
    try:
        decided = reply_of_decision if is_remote else None
        form = StepForm(asks=is_remote, decided=decided, anew=is_person)
        reply = await record.perform(part, ask_once, form, REPLY, False, labels)
    except _UnansweredTurn as unanswered:
        return unanswered.reply
    except InDoubt as doubt:
        return Reply("", None, [], [], Usage(), "in_doubt", str(doubt), None, request.run_id)
    note_member(request, agent, reply)
    await record.commit()  # before the reply is used
    return reply


def reply_of_decision(past: PastStep) -> Reply:
    """Return the reply of a member elsewhere that was cut off, as a person has decided."""
    fault = past.decision.error_of(past.value) if past.decision is not None else ""
    text = "" if fault else json_text(past.value)
    reason: StopReason = "error" if fault else "done"
    return Reply(text, text, [], [], Usage(), reason, fault)


def _run_id(agent: Any, part: str, request: ReplyRequest) -> str | None:
    """Return the run id for a turn; a turn that a member records itself is a run of its own."""
    if request.recorded is not None or getattr(agent, "journal", None) is None:
        return request.run_id
    run_id = f"{request.run_id}/{part}"
    return run_id if len(run_id) <= 255 and run_id.isprintable() else None


async def _ask(
    agent: Any,
    content: Any,
    options: dict[str, Any],
    request: ReplyRequest,
    emit: Callable[[Event], Any] | None,
) -> Reply:
    reply: Any = None
    with cancellation_as_error():
        if emit is None or not hasattr(agent, "stream"):
            reply = await awaited(agent.reply(content, **options))
            if emit is not None and isinstance(reply, Reply):
                emit(Done(str(agent.id), reply, **request.run_fields))
        else:
            async with AsyncExitStack() as stack:
                events = agent.stream(content, **options)
                if hasattr(events, "aclose"):
                    stack.push_async_callback(events.aclose)
                async for event in events:
                    emit(event)
                    if request.wait_for_reader is not None and getattr(
                        event, "reader_first", False
                    ):
                        await request.wait_for_reader()  # before an approver is asked about it
                    if isinstance(event, Done):
                        reply = event.reply  # its members' replies come first, its own last
    if not isinstance(reply, Reply):
        raise ModelError(f"agent {agent.id!r} must give a Reply, got {reply!r:.80}")
    has_steps = isinstance(reply.steps, list) and all(
        isinstance(each, Called) for each in reply.steps
    )
    if not isinstance(reply.text, str) or not isinstance(reply.messages, list) or not has_steps:
        raise ModelError(
            f"the Reply of agent {agent.id!r} has no text, or no list of messages or of steps"
        )
    usage = Usage.in_answer(reply)
    return reply if usage is reply.usage else replace(reply, usage=usage)


@contextmanager
def cancellation_as_error() -> Iterator[None]:
    """Turn a Later of a user's awaitable, and its cancellation unless it is ours, into errors."""
    try:
        yield
    except Later as later:
        raise later.misplaced_error from later
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise ModelError("it was cancelled from elsewhere") from error


async def await_in_time(awaitable: Any, budget: Budget | None, next_step: str) -> Any:
    """Await a user's awaitable; DeadlineExceeded if the budget's time ended before `next_step`."""
    limit = asyncio.timeout(None if budget is None else budget.remaining_seconds())
    try:
        async with limit:
            with cancellation_as_error():
                return await awaited(awaitable)
    except TimeoutError as error:
        if not limit.expired():  # a timeout of the awaitable itself
            raise
        raise DeadlineExceeded(f"the seconds of {budget} were over before {next_step}") from error


class _UnansweredTurn(Stop):
    """A person gave no answer, or not yet."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.stop_reason, reply.detail)
        self.reply = reply
