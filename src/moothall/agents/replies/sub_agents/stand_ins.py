"""Copies of agents that reply in their place, with other parts, as where a world is frozen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from moothall.actions.environment import execute_in_thread
from moothall.actions.provenance.reading import current_reading
from moothall.agents.agent import Agent
from moothall.agents.replies.read_record import PastStep
from moothall.agents.replies.reply_context import ASK_CONTEXT, ask_context
from moothall.agents.replies.thread import Thread, Threads
from moothall.foundation.errors import NobodyToAsk

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.actions.approval import Approver
    from moothall.agents.replies.reply import Reply
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.budget import Budget
    from moothall.journal import Journal
    from moothall.models.protocol import Model

Execute = Callable[[Any, Callable[[], Awaitable[dict[str, Any]]]], Awaitable[dict[str, Any]]]
"""Returns the result of a call, a `ToolCall`; the function given with it executes the call."""


@dataclass(slots=True, kw_only=True)
class ReplyParts:
    """What an agent has in one reply in the place of its own parts.

    Attributes:
        execute: returns the result of each call of an action; it gets the call, and what would
            execute it
        approver: who permits its calls, and answers its questions
        journal: where the reply is recorded; None: in the run of who asks for it
        messages: with which its conversation begins, before what it observes
        steps: results of steps that count as recorded, by the steps' keys
        model: None for its own
        system_prompt: None for its own
        actions: further actions that its model is shown
        beginning: when it counts as begun, in seconds since 1970, and the seed of its chance;
            None for now and its run's id
    """

    execute: Execute
    approver: Approver
    journal: Journal | None = None
    messages: Sequence[dict[str, Any]] = ()
    steps: Mapping[str, Any] = field(default_factory=dict)
    model: Model | str | None = None
    system_prompt: Any = None
    actions: Sequence[Action] = ()
    beginning: tuple[float, str] | None = None


class StandIns:
    """The agents that reply in the place of others, in what is done in a `with standing_in():`.

    Each reply has a copy of its agent, with parts of its own, and the agents that it asks have so,
    too. The copies of an agent share their conversations, which end with this object: the agents
    themselves, their memories, journals, budgets and approvers stay as they are.

    Args:
        parts_of: returns the parts of a reply, from its agent and the path of its part of the run;
            None where nobody can reply in the agent's place
    """

    def __init__(self, parts_of: Callable[[Any, str], ReplyParts | None]) -> None:
        self._parts_of = parts_of
        self._threads: dict[int, tuple[Any, Threads]] = {}  # with the agent, whose id it keeps
        self._begun_threads: set[Thread] = set()
        self._budget: Budget | None = None  # what all replies together may spend

    def standing_in(self) -> AbstractContextManager[None]:
        """Return a `with` block within which they reply."""
        return ask_context(stand_ins=self)

    def reply(self, agent: Any, request: ReplyRequest) -> Awaitable[Reply]:
        """Reply in the place of an agent."""
        context = ASK_CONTEXT.get()
        setup = context.setup
        is_asked = setup is not None and setup.agent is agent
        part = setup.part if is_asked and setup is not None else None
        parts = self._parts_of(agent, "" if part is None else part.path)
        if parts is None:
            raise NobodyToAsk(f"agent {agent.id!r} has no answer to this in the record")
        twin = self._twin(agent)
        request.beginning = parts.beginning
        if parts.approver is not agent.find_approver():  # nor does a method of its own decide
            twin.request_permission = MethodType(Agent.request_permission, twin)
        twin.approver = parts.approver
        if parts.journal is not None:
            twin.journal, twin.deaths = parts.journal, None  # who asks again is its operator
        if parts.model is not None:
            twin.model = parts.model
        if parts.system_prompt is not None:
            twin.take_parts(system_prompt=parts.system_prompt)
        # Servers of actions, and other agents, are not asked for what they offer.
        twin.action_sources, twin.discover, twin.actions_by_context = tuple, None, None
        twin.recorded_reply = partial(_reply_with_steps, twin.recorded_reply, parts.steps)
        if not is_asked:
            self._budget = request.budget
        elif request.budget is None:  # its agent's own is not touched
            request.budget = self._budget
        request.offered = (*request.offered, *parts.actions)
        if hasattr(twin, "default_memory"):
            twin.environment = _Executor(parts.execute, agent.environment)
            has_begun = is_asked and setup is not None and setup.first_messages
            self._begin_thread(twin, request.thread, () if has_begun else parts.messages)
        if is_asked and setup is not None:
            ASK_CONTEXT.set(context._replace(setup=setup._replace(agent=twin)))
        return twin.reply_to_request(request)  # type: ignore[no-any-return]

    async def observe(self, agent: Any, message: Any, thread: Any) -> None:
        """Observe a message in the place of an agent."""
        if hasattr(agent, "default_memory") or agent.member_agents:
            await self._twin(agent).observe(message, thread)

    def _twin(self, agent: Any) -> Any:
        twin = agent.stand_in()
        threads = Threads(agent.answers_in_turn)
        _, twin.own_threads = self._threads.setdefault(id(agent), (agent, threads))
        if hasattr(twin, "default_memory"):
            twin.take_parts(memory=lambda thread: twin.default_memory())
        return twin

    def _begin_thread(self, twin: Any, id: str | None, messages: Sequence[dict[str, Any]]) -> None:
        """Have a conversation begin with these messages, before what was observed in it."""
        thread = twin.own_threads.get(None if twin.shared else id)
        if thread in self._begun_threads:
            return
        self._begun_threads.add(thread)
        observed = [] if thread.memory is None else [*thread.memory.get_memories()]
        thread.memory = twin.default_memory()
        for each in (*messages[: max(0, len(messages) - len(observed))], *observed):
            thread.memory.add_memory(each)


class _Executor:
    """An environment that has others say what a call's result is."""

    def __init__(self, execute: Execute, environment: Any) -> None:
        self._execute = execute
        self._environment = environment

    def execute_action(self, action: Action, args: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        """Return what is said to be the result of the call that is executed."""
        return self.aexecute_action(action, args)

    def aexecute_action(self, action: Action, args: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        """Return what is said to be the result of the call that is executed."""
        return self._execute(current_reading(), partial(self._execute_it, action, args))

    async def _execute_it(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        method = getattr(self._environment, "aexecute_action", None)
        if method is None:
            return await execute_in_thread(self._environment, action, args)
        result: dict[str, Any] = await method(action, args)
        return result


async def _reply_with_steps(
    reply: Callable[[ReplyRequest, Any], Awaitable[Reply]],
    steps: Mapping[str, Any],
    request: ReplyRequest,
    record: Any,
) -> Reply:
    """Reply with these steps in its record."""
    if request.recorded is not None:
        for key, result in steps.items():
            record.past_steps.setdefault(key, PastStep(key, state="ended", result=result))
    return await reply(request, record)
