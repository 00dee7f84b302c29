"""The loop: a model chooses actions, an environment executes them, memory keeps the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from moothall.actions import ACCESS_DENIED, Action, ActionRegistry
from moothall.actions.environment import AnyEnvironment
from moothall.actions.goal import Goal
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance import with_sources
from moothall.actions.provenance.marks import Marks, stored_message
from moothall.agents.context import SystemPrompt, check_system_prompt
from moothall.agents.loop.answer import OfferedActions, ToolCall, as_action
from moothall.agents.loop.discovery import MAX_SHOWN, discover, offered_actions
from moothall.agents.loop.parts import (
    Actions,
    ActionsByContext,
    Looping,
    LoopSettings,
    checked_discover,
    checked_goals,
    register_blocks,
    registry_of,
    with_settings,
)
from moothall.agents.loop.prompt.actions_by_context import takes_context
from moothall.agents.loop.prompt.budget_notices import BudgetNotices
from moothall.agents.loop.prompt.prompt_record import keep_conversation, restore_conversation
from moothall.agents.loop.prompt.room import bounds_of
from moothall.agents.loop.provenance import (
    mark_message,
    note_execution,
    sources_of_result,
    trace,
)
from moothall.agents.loop.recording import (
    KIND,
    LoopState,
    catch_up,
    program_of,
    show_open_calls,
)
from moothall.agents.loop.run import LoopRun
from moothall.agents.replies.charging import budget_of
from moothall.agents.replies.checked_parts import (
    check_actions,
    check_part,
    makes_memories,
    memory_of_thread,
)
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_context import ASK_CONTEXT
from moothall.agents.replies.reply_request import ReplyOptions, ReplyRequest
from moothall.agents.replies.resume import memory_of_asked, memory_of_fork
from moothall.agents.replies.sub_agents.restoring import restore_asked
from moothall.agents.replies.thread import Thread, Threads
from moothall.agents.replies.threaded import EARLIER_ANSWER
from moothall.foundation.arguments import check_integer, named_elsewhere
from moothall.foundation.errors import StateError
from moothall.foundation.threads import guard
from moothall.memory.memory import Memory, MemoryPart
from moothall.memory.reply_memory import RequestMemory

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.budget import Budget
    from moothall.journal import Journal, RunPart
    from moothall.models.protocol import Model

_LOCK: Final = guard()


@named_elsewhere(
    **dict.fromkeys(("abatch", "batch"), "await map(texts)"), as_tool="as_action(name)"
)
@with_settings
class ReActAgent(Looping):
    """An agent that answers with the help of a model and of actions.

    For each reply, the model gets the system prompt, the goals and the memories. It answers or
    calls actions, whose results are remembered and shown to it, until it answers or a terminal
    action succeeds.

    Args:
        id: its id
        model: a model, or the name of one such as `local`
        actions: what its model may call: a registry, or actions, functions, `@action` methods and
            agents (with all their actions). Nobody else is offered them. Or a function of the
            `Context` of a reply that returns a list of them, sync or async: it is called once for
            each run, before the model is first asked, and again when a run is resumed
        goals: its goals
        memory: a memory, of which each thread has its part by `thread(id)`; or a function that
            makes the memory of a thread from its id (None for the agent's own); or the path of a
            file of its own, for a `SQLiteMemory`, with which conversations outlive a restart. By
            default each thread remembers as much as fits half of the model's context, and three
            quarters of it while it replies; if nobody states it, 32,768 tokens are assumed
        environment: where actions are executed
        system_prompt: the agent's role, as text for the model; or a function of the `Context` of a
            reply that returns it, sync or async. It is called once for each run, and a resumed run
            uses the recorded text.
        discover: `*` to let the model call the actions of every other agent of the space, `#NAME`
            for those of a group, or the ids of some; their help is read before each reply, for its
            thread
        budget: what its replies together may spend; a reply stops before it would spend more
        budget_line: whether the last message of each prompt says what is left of the budget
        warn_at: the share of a limit of the budget, such as 0.8, at which the event `budget_low` is
            emitted, once for each limit in a reply
        journal: a `Journal`, or the path of one, that records its replies, so that they can be
            resumed after a crash
        blocks: plugins for its loop: each brings actions and a part of the prompt, and may stand
            around each step (docs/blocks.md)
        **options: the options of `Agent`, and `shared=`: one conversation with all senders,
            required in a space if the memory has no `thread(id)`

    Attributes:
        actions: the registry of what its model may call
        goals: the list of its goals; like `system_prompt` and `max_iterations` it may be changed

    Raises:
        InvalidId: the id is not valid
        DefinitionError: an argument is not valid
        ModelError: no model has that name
        WeightsError: the model's weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
        JournalError: the journal cannot be used
    """

    run_kind: str = KIND
    takes_options: bool = True
    begins_with_messages: bool = True
    state_type: type[Any] = LoopState
    run_class: ClassVar[type[Any]] = LoopRun
    discover: str | tuple[str, ...] | None = None

    def __init__(
        self,
        id: str | int,
        model: Model | str,
        *,
        actions: Actions | ActionsByContext | None = None,
        goals: Iterable[Goal] | None = None,
        memory: MemoryPart | None = None,
        environment: AnyEnvironment | None = None,
        system_prompt: SystemPrompt | None = None,
        discover: str | Iterable[str | int] | None = None,
        budget: Budget | None = None,
        budget_line: bool = False,
        warn_at: float | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Unpack[LoopSettings],
    ) -> None:
        super().__init__(id, **self._set_up(id, cast(Any, options)))
        # Stores only what differs from the class: a society holds very many agents.
        self.take_parts(model=model, memory=memory, system_prompt=system_prompt)
        if type(actions) is not list and callable(actions) and takes_context(actions):
            self.actions_by_context, actions = actions, None
        self.actions = registry_of(actions)  # type: ignore[arg-type]
        if self.blocks:
            register_blocks(self.actions, self.blocks)
        registered = getattr(self.actions, "blocks", ())
        extra = [each for each in registered if all(each is not block for block in self.blocks)]
        if extra:
            self.blocks: Sequence[Any] = [*self.blocks, *extra]
        if budget_line is not False or warn_at is not None:
            self.budget_notices = BudgetNotices(id, budget_line, warn_at)
        if isinstance(self.actions, ActionRegistry):
            check_actions(self.actions.actions.values(), id)
        if goals is not None:
            self.goals = goals
        if environment is not None:
            check_part(environment, ("execute_action",), "environment", id)
            self.environment = environment
        if discover is not None:
            self.discover = checked_discover(discover, id)
        if budget is not None:
            check_part(budget, ("reserve", "deadline"), "budget", id)
            self.budget: Budget | None = budget
        if journal is not None:
            self.journal = journal

    def load_parts(self) -> tuple[Any, list[Action] | None]:
        """Import and make what a reply needs."""
        super().load_parts()
        default_thread = self.all_threads.default
        if not makes_memories(self._memory):  # whether it makes one for this thread, it knows
            self._memory_of(default_thread)
        actions = self.show_actions(default_thread, ()).actions
        for each in actions:
            each.get_ready()
        return self.model, actions or None

    # -- its parts ---------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """Return the memory of the agent's own thread."""
        return self._memory_of(self.all_threads.default)

    @memory.setter
    def memory(self, memory: MemoryPart) -> None:
        self.take_parts(memory=memory)
        if self.own_threads is not None:
            for thread in (self.own_threads.default, *self.own_threads):
                thread.memory = thread.last_checked = None

    def _memory_of(self, thread: Thread) -> Memory:
        if thread.memory is None:
            thread.memory = self._make_memory(thread.id)
        return thread.memory

    def memory_in(self, thread: str | None) -> Memory:
        """Return the memory of a thread."""
        return self._memory_of(self.all_threads.get(thread))

    def _make_memory(self, thread: str | None) -> Memory:
        memory = self._memory
        if memory is None:
            default_memory = self.default_memory()
            with _LOCK:  # several OS threads may be here at once
                memory = self._memory = default_memory if self._memory is None else self._memory
            if thread is None:
                return memory
        result: Memory = memory_of_thread(memory, thread, self.id)
        return (
            self.default_memory()
            if ASK_CONTEXT.get().fresh and getattr(result, "is_in_file", False)
            else result
        )

    @property
    def may_have_read(self) -> bool:
        """Whether it may have read something from outside."""
        actions = self.actions.get_actions()
        is_unknown = bool(self.discover) or self.actions_by_context is not None
        return is_unknown or any(each.outside or each.guard == () for each in actions)

    def with_marks_of_runs(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a conversation that a client sends back, with the marks that its runs had.

        The client has the texts alone. What comes before may be cut off: then it counts as read.
        """
        from moothall.actions.provenance.texts import Texts

        actions = {each.name: as_action(each) for each in self.actions.get_actions()}
        answer_sources = EARLIER_ANSWER if self.may_have_read else ()
        texts = Texts()
        if next((e["role"] for e in messages if e["role"] != "system"), "user") != "user":
            texts.note(answer_sources)
        waiting_calls: dict[str, list[ToolCall]] = {}  # by their ids, which may be used again
        marked_messages: list[dict[str, Any]] = []
        for message in messages:
            if message["role"] == "assistant" and message["content"]:
                message = with_sources(message, answer_sources)
            elif message["role"] == "tool" and waiting_calls.get(message["tool_call_id"]):
                call = waiting_calls[message["tool_call_id"]].pop(0)
                note_execution(call, texts)
                marks = Marks(sources_of_result(call, texts, {}), wrote=[*call.foreign])
                message = stored_message(message, marks)
            marked_messages.append(message)
            mark_message(texts, message, actions.get)
            for each in message.get("tool_calls", ()):
                action = actions.get(each["name"]) if texts.sources else None
                if action is not None and not action.outside:
                    call = ToolCall(each["id"], each["name"], each["name"], each["args"], action)
                    trace(call, texts)
                    waiting_calls.setdefault(call.id, []).append(call)
        return marked_messages

    def end_run(self, key: str, thread: str | None) -> None:
        """Note in its memory that a run is over."""
        memory = self.all_threads.get(thread).memory
        if isinstance(memory, Memory):
            memory.end_run(key)

    async def map(
        self,
        texts: Iterable[str | list[dict[str, Any]]],
        schema: Any = None,
        *,
        concurrency: int = 8,
        run_id: str | None = None,
        progress: bool | Callable[[int, int], object] = False,
        **options: Unpack[ReplyOptions],
    ) -> list[Reply[Any]]:
        """Answer many texts, such as a column of a data frame, each by itself.

        No reply knows of another, and the agent's memory is neither read nor written. Cancelling it
        cancels those under way. A text that gets no answer has a reply that says why.

        Args:
            texts: the texts, as `reply` takes each
            schema: the form of the answers
            concurrency: how many are answered at the same time
            run_id: the run of text number N is `run_id/N`: with a journal, what was answered before
                is not asked again
            progress: True for a bar on standard error, in a terminal or a cell; or a function that
                is called with how many are answered, and how many there are
            **options: what `reply` takes, such as `budget=`

        Returns:
            the replies, in the order of the texts

        Raises:
            ConfigError: an argument is not valid
        """
        from moothall.agents.loop.column import replies_to_each

        more = {**options, "schema": schema}
        return await replies_to_each(self, texts, concurrency, run_id, progress, more)

    def default_memory(self) -> Memory:
        """Return the memory of an agent that was given none."""
        from moothall.memory.bounded import TokenBoundedMemory

        model = self.model
        bound, limit = bounds_of(model)
        return TokenBoundedMemory(bound, getattr(model, "count_tokens", None), reply_tokens=limit)

    @property
    def goals(self) -> list[Goal]:
        """Return the agent's goals."""
        if self.stated_goals is None:
            self.stated_goals = []
        return self.stated_goals

    @goals.setter
    def goals(self, goals: Iterable[Goal]) -> None:
        self.stated_goals = checked_goals(goals, self.id)

    @property
    def discovered(self) -> dict[str, Action]:
        """Return other agents' actions, by name, as the last reply of its own thread found them."""
        return self.all_threads.default.discovered_actions or {}

    def show_actions(self, thread: Thread, offered: tuple[Action, ...]) -> OfferedActions:
        """Return the current actions as the model sees them, without denied ones."""
        actions = [*self.actions.get_actions(), *offered]
        # Read anew each time: an action may be registered, or denied, between two answers.
        policies = [getattr(each, "access_policy", None) for each in actions]
        discovered = thread.discovered_actions
        if thread.defers_actions is None:
            count = len(actions) + (len(discovered) if discovered else 0)
            thread.defers_actions = count > MAX_SHOWN if self.deferred is None else self.deferred
        has_work = thread.workers is not None and bool(thread.workers.under_way)
        inputs = (actions, policies, thread.defers_actions, thread.found_actions, has_work)
        cached: tuple[Any, OfferedActions] | None = thread.last_offer
        if cached is not None and cached[0] == inputs:
            return cached[1]
        previous = None if cached is None else cached[1]
        check_actions(actions, self.id)
        pairs = zip(actions, policies, strict=True)
        visible = [as_action(each) for each, policy in pairs if policy != ACCESS_DENIED]
        if discovered:
            names = {each.name for each in actions}
            visible += [a for name, a in discovered.items() if name not in names]
        result = offered_actions(visible, bool(thread.defers_actions), thread, previous)
        thread.last_offer = (inputs, result)
        return result

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the memory as JSON, to be loaded into an agent made in the same way.

        During a reply, it is what the agent remembers so far.

        Raises:
            StateError: something remembered is not JSON
        """
        threads = {
            thread.id: Memory.state_of(thread.memory)
            for thread in self.own_threads or ()
            if thread.memory is not None and not getattr(thread.memory, "is_in_file", False)
        }
        return self.as_state(KIND, memory=Memory.state_of(self.memory), threads=threads)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Replace the memory by the one in a state.

        Raises:
            StateError: the state is not one of such an agent; then nothing has changed, unless the
                memory is a user's own class
        """
        state = self.read_state(saved, KIND)
        threads = state.get("threads")
        if not isinstance(threads, dict):
            raise StateError(f"agent {self.id!r}: the state of its threads is not an object")
        for each in (*threads.values(), state.get("memory")):
            Memory.check_state(self.memory, each, self.id)
        for thread in self.own_threads or ():
            assert thread.id is not None
            self.forget_memory(thread.id)
        restored = Threads(self.shared)
        for id, memory_state in threads.items():
            Memory.restore(self._memory_of(restored.get(id)), memory_state, self.id)
        Memory.restore(self.memory, state.get("memory"), self.id)
        restored.default.memory = self.memory
        self.own_threads: Threads | None = restored
        self._note_threads(*restored)

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""
        if type(self.max_iterations) is not int or self.max_iterations < 1:
            check_integer(f"agent {self.id!r}: max_iterations=", self.max_iterations)
        if self.system_prompt is not None:
            check_system_prompt(self.system_prompt, self.id)
        if request.conversation is None:
            memory = request.memory = self._memory_of(request.state)
            for each in request.first_messages:
                memory.add_memory(each)
            if request.results is not None:
                request.state.results = request.results

    def action_sources(self) -> Iterable[Any]:
        """Return what says what it may call."""
        return self.actions.sources if isinstance(self.actions, ActionRegistry) else ()

    def recorded_reply(
        self, request: ReplyRequest, record: Record[LoopState]
    ) -> Coroutine[Any, Any, Reply]:
        """Answer, or resume from the record."""
        if request.conversation is not None:
            request.memory = RequestMemory(request.conversation)
        memory = thread_memory = request.memory
        assert memory is not None  # it was checked
        is_asked = request.nested
        if record.run.past_entries:
            request.memory = memory = memory_of_fork(memory, record.run)
            is_asked = is_asked or "asked_for" in (record.start or ())
        if is_asked:
            request.memory = memory = memory_of_asked(memory, self, request)
        run: LoopRun = self.run_class(self, request, memory)
        # In the run of a group or a caller, what waits in the thread are that one's runs.
        waiting_runs = request.record is None and record.run.waiting_runs
        if self.discover is not None or waiting_runs:
            return self._prepare_and_reply(run, record, thread_memory if waiting_runs else None)
        return run.reply()

    async def _prepare_and_reply(
        self, run: LoopRun, record: Record[LoopState], shown_memory: Memory | None
    ) -> Reply:
        if self.discover is not None and self.space_mailbox is not None:
            await self.discover_actions(run.thread)
        if shown_memory is not None:
            await show_open_calls(self, run.request, record, shown_memory)
        return await run.reply()

    def describe_program(self) -> dict[str, Any]:
        """Return its program, independent of the request."""
        return program_of(self)

    def begin_data(self, record: Record[Any], request: ReplyRequest) -> dict[str, Any]:
        """Return what else is recorded of how a run begins."""
        folders = [*filter(None, (getattr(each, "keeps_in", "") for each in self.blocks))]
        data: dict[str, Any] = {"folders": folders} if folders else {}
        return data if request.conversation is None else data | keep_conversation(record, request)

    def open_record(self, part: RunPart, request: ReplyRequest) -> Record[Any]:
        """Return the record of a run, with the conversation of a client that keeps it."""
        record = super().open_record(part, request)
        restore_conversation(record, request)
        return record

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore what it did in a part that is over."""
        record = Record(part, LoopState)
        if record.start is not None:
            memory = memory_of_fork(self.memory_in(record.start["thread"]), record.run)
            catch_up(self, record, memory, budget_of(self, budget))
            await restore_asked(record, self, budget_of(self, budget), self._own_action)

    def _own_action(self, name: str) -> Action | None:
        """Return its own action of a name."""
        action = self.actions.get_action(name)
        return None if action is None else as_action(action)

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        memory = self._memory_of(thread)
        observation_key = self._observation_key()
        add_once: Any = getattr(memory, "add_once", None)
        if observation_key is not None and callable(add_once):
            replies = ENCLOSING_REPLIES.get()
            request = replies[-1].request if replies else None
            if request is not None and request.recorded is not None:
                memory = memory_of_fork(memory, request.recorded.run)
            memory.add_once(message, *observation_key)
        else:
            memory.add_memory(message)

    async def discover_actions(self, thread: Thread) -> None:
        """Find what other agents offer now."""
        actions = await discover(self, self.discover or ())
        thread.discovered_actions, thread.last_offer = {each.name: each for each in actions}, None
