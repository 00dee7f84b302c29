"""The loop: a model chooses actions, an environment executes them, memory keeps the results."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from civitas.action import (
    ACCESS_DENIED,
    ACCESS_PERMITTED,
    AccessPolicy,
    Action,
    ActionRegistry,
    action,
    is_async,
)
from civitas.agent import CURRENT, Agent, Context, Handling, leads_to
from civitas.environment import Environment, execute_in_thread, failed
from civitas.errors import DefinitionError, HopLimitExceeded, ModelError, NotPermitted
from civitas.goal import Goal
from civitas.jsonvalue import copy_json
from civitas.memory.memory import Memory
from civitas.reasoning.names import Shown
from civitas.reasoning.parsing import Wanted
from civitas.reasoning.prompts import (
    MAX_RESULT_CHARS,
    cut,
    json_text,
    readable,
)
from civitas.reasoning.reply import Reply
from civitas.reasoning.run import Run
from civitas.reasoning.turns import Turns
from civitas.threads import WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from civitas.models.protocol import Model

__all__ = ["MAX_ITERATIONS", "ReActAgent"]

logger = logging.getLogger("civitas.reasoning")

MAX_ITERATIONS = 10
"""How many answers a model may give for one reply."""
_NESTED = 32
"""How deep replies of agents may lie in one another, each called by an action of the one before."""

_ENVIRONMENT = Environment()


class _Replying:
    """A reply under way; what a tool of it started in the background may outlive it."""

    __slots__ = ("agent", "open")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.open = True


_REPLYING: ContextVar[tuple[_Replying, ...]] = ContextVar("civitas_replying", default=())
"""The replies that lead to what is being done, in the task or thread that does it."""


class ReActAgent(Agent):
    """An agent that answers with the help of a model and of actions.

    Asked something, it shows its model the system prompt, its goals and its memories; the model
    answers, or calls actions, whose results are remembered and shown to it in turn, until it
    answers or a terminal action succeeds.

    Args:
        id: its id
        model: a model, or the name of one such as `local`
        actions: what its model may call: a registry, or actions, functions, `@action` methods and
            agents (for all that they offer). Nobody else is offered them.
        goals: what it is to achieve
        memory: what it remembers; without one, as much as fits half of its model's context
        environment: where actions are executed
        system_prompt: who it is, in words for the model
        max_iterations: how many answers the model may give for one reply
        discover: `*` to let the model call what every other agent of the space offers, or the ids
            of some; asked before each reply
        max_result_chars: how much of each result the model is shown; less where the results of one
            answer would take more than about half of its context
        **options: what every `Agent` takes

    Attributes:
        actions: the registry of what its model may call
        discovered: what it found by `discover` at its last reply, beside them
        goals: its goals; the list may be changed
        system_prompt: likewise
        max_iterations: likewise

    Raises:
        DefinitionError: an argument is none of what it may be
    """

    system_prompt: str | None = None
    max_iterations: int = MAX_ITERATIONS
    max_result_chars: int = MAX_RESULT_CHARS
    environment: Environment = _ENVIRONMENT
    discover: str | tuple[str | int, ...] | None = None
    _memory: Memory | None = None
    _goals: list[Goal] | None = None
    _discovered: dict[str, Action] | None = None
    _shown: tuple[list[tuple[Action, AccessPolicy]], Shown] | None = None
    _turns: Turns | None = None
    _handling: Handling | None = None

    def __init__(
        self,
        id: str | int,
        model: Model | str,
        *,
        actions: ActionRegistry | Iterable[Any] | None = None,
        goals: Iterable[Goal] | None = None,
        memory: Memory | None = None,
        environment: Environment | None = None,
        system_prompt: str | None = None,
        max_iterations: int = MAX_ITERATIONS,
        discover: str | Iterable[str | int] | None = None,
        max_result_chars: int = MAX_RESULT_CHARS,
        **options: Any,
    ) -> None:
        super().__init__(id, **options)
        if not isinstance(model, str):
            _has(model, ("complete",), "model", id)
        # Only what differs from the class is stored: a society holds very many agents.
        self._model = model
        self.actions = _registry(actions)
        if goals is not None:
            self._goals = list(goals)
            for goal in self._goals:
                _has(goal, ("priority", "name", "description"), "goals", id)
        if memory is not None:
            _has(memory, ("add_memory", "get_memories"), "memory", id)
            self._memory = memory
        if environment is not None:
            _has(environment, ("execute_action",), "environment", id)
            self.environment = environment
        if system_prompt is not None:
            self.system_prompt = system_prompt
        if max_iterations != MAX_ITERATIONS:
            self.max_iterations = _positive(max_iterations, "max_iterations", id)
        if max_result_chars != MAX_RESULT_CHARS:
            self.max_result_chars = _positive(max_result_chars, "max_result_chars", id)
        if discover is not None:
            self.discover = _which(discover, id)

    # -- its parts ---------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model; one given by name is made when it is first used."""
        model = self._model
        if isinstance(model, str):
            from civitas.models.names import model as by_name

            model = self._model = by_name(model)
        return model

    @model.setter
    def model(self, model: Model | str) -> None:
        self._model = model

    @property
    def memory(self) -> Memory:
        """What it remembers."""
        if self._memory is None:
            from civitas.memory.bounded import DEFAULT_TOKENS, TokenBoundedMemory

            model = self.model
            room = getattr(model, "context_tokens", None)
            # The other half is for the system part, the actions' descriptions and the answer.
            bound = max(room // 2, 1) if isinstance(room, int) else DEFAULT_TOKENS
            self._memory = TokenBoundedMemory(bound, getattr(model, "count_tokens", None))
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def goals(self) -> list[Goal]:
        """What it is to achieve."""
        if self._goals is None:
            self._goals = []
        return self._goals

    @goals.setter
    def goals(self, goals: Iterable[Goal]) -> None:
        self._goals = list(goals)

    @property
    def discovered(self) -> dict[str, Action]:
        """The actions of other agents, found at its last reply, by name."""
        return self._discovered or {}

    # -- asking it ---------------------------------------------------------------------------------

    @action
    async def say(self, content: str) -> str:
        """Say something to the agent.

        Args:
            content: what to say

        Returns:
            what the agent replies
        """
        reply = await self.reply(content)
        if reply.stop_reason in ("done", "terminal"):
            return reply.text
        if reply.error is not None:
            raise reply.error
        said = f"; it had said: {cut(reply.text, 500)}" if reply.text else ""
        raise ModelError(
            f"agent {self.id!r} has no reply ({reply.stop_reason}): {reply.detail}{said}"
        )

    async def reply(self, text: str) -> Reply:
        """Answer.

        Replies wait for each other, but for one that this agent's own reply leads to, such as by
        asking another agent that asks back: it is given in the midst of the other.

        Cancelled, it stops the model's answer and the actions at their next await; what they gave
        until then is remembered.

        Raises:
            TypeError: it is not given a text
        """
        if not isinstance(text, str):
            raise TypeError(f"reply takes a text, not {type(text).__name__}")
        # Looked at here: on the space's loop another context holds.
        outer = _REPLYING.get()
        if self._seat is not None:
            return await self._seat.carry(lambda: self._reply(text, outer))
        return await self._reply(text, outer)

    def reply_sync(self, text: str) -> Reply:
        """`reply` for scripts: waits for the answer.

        Raises:
            RuntimeError: called where an event loop is running, which it would stop
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # as it should be; not in here, or all that is raised would look like its effect
        else:
            raise RuntimeError(
                f"reply_sync of agent {self.id!r} was called where an event loop is running, which "
                "would stop until it returned: await reply(text) instead"
            )
        return asyncio.run(self.reply(text))

    async def observe(self, message: str | dict[str, Any]) -> None:
        """Remember something without answering.

        Args:
            message: a text, a chat message (`role`, `content`) or a message of a space

        Raises:
            TypeError: it is none of these
        """
        item = _as_memory(message)
        if self._seat is not None:
            await self._seat.carry(lambda: self._observe(item))
        else:
            await self._observe(item)

    async def _observe(self, item: dict[str, Any]) -> None:
        self.memory.add_memory(item)

    # -- the loop ----------------------------------------------------------------------------------

    async def _reply(self, text: str, outer: tuple[_Replying, ...]) -> Reply:
        """Reply when it is this agent's turn.

        Args:
            text: what it is asked
            outer: the replies that this one lies in
        """
        if len(outer) >= _NESTED:
            raise HopLimitExceeded(
                f"agent {self.id!r} is to reply within {len(outer)} replies, each called by an "
                "action of the one before"
            )
        handling = CURRENT.get()
        # Its own reply waits for this one: it is given in the midst of that, or never.
        nested = any(each.agent is self and each.open for each in outer) or (
            self._handling is not None and leads_to(self._handling, handling)
        )
        turns = self._turns
        if turns is None:
            turns = self._turns = Turns()
        mine = _Replying(self)
        token = _REPLYING.set((*outer, mine))
        try:
            if nested:
                return await self._run(text)
            await turns.take()
            try:
                self._handling = handling
                return await self._run(text)
            finally:
                self._handling = None
                turns.end()
        finally:
            mine.open = False
            try:
                _REPLYING.reset(token)
            except ValueError:
                pass  # never finished, and now thrown away in another context

    async def _run(self, text: str) -> Reply:
        if self.discover is not None and self._seat is not None:
            await self._discover()
        return await Run(self, self.memory, self.model).loop(text)

    async def _discover(self) -> None:
        from civitas.reasoning.discovery import discover

        assert self.discover is not None
        found = await discover(self, self.discover)
        self._discovered = {action.name: action for action in found}
        self._shown = None

    def _show(self) -> Shown:
        """The actions as the model is to see them now, without those that nobody may use."""
        actions = list(self.actions.get_actions())
        # As they are now: an action may be registered, or denied, between two answers.
        now = [(action, action.access_policy) for action in actions]
        kept = self._shown
        if kept is not None and kept[0] == now:
            return kept[1]
        visible = [a for a in actions if a.access_policy != ACCESS_DENIED]
        if self._discovered:
            given = {a.name for a in actions}
            visible += [a for name, a in self._discovered.items() if name not in given]
        shown = Shown(visible)
        self._shown = (now, shown)
        return shown

    async def _execute(self, call: Wanted) -> dict[str, Any]:
        """Execute one call, as far as it is permitted."""
        chosen = call.action
        assert chosen is not None
        try:
            if chosen.access_policy != ACCESS_PERMITTED and not await self._permits(call):
                return failed(NotPermitted(f'"{call.name}" not permitted'))
            kwargs = self._injected(chosen, call.kwargs)
            execute = getattr(self.environment, "aexecute_action", None)
            if execute is None:  # an environment of the user's own, with only the sync form
                result = await execute_in_thread(self.environment, chosen, kwargs)
            else:
                result = await execute(chosen, kwargs)
            if inspect.isawaitable(result):  # an override of the sync form may be async
                result = await result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failed(error)  # something that was awaited was cancelled, not this
        except Exception as error:
            logger.exception("the environment of agent %r failed on %r", self.id, call.name)
            return failed(error)
        if not isinstance(result, dict):
            return failed(TypeError(f"the environment gave no result but {type(result).__name__}"))
        return result

    def _injected(self, chosen: Action, kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            injected = chosen.signature.injected
        except DefinitionError:
            return kwargs  # its parameters were given by hand: the function says nothing usable
        if injected:
            context: Context[Any] = Context(self, deps=self.deps)
            fill = [name for name, kind in injected.items() if issubclass(kind, Context)]
            return {**kwargs, **dict.fromkeys(fill, context)}
        return kwargs

    async def _permits(self, call: Wanted) -> bool:
        """Whether this very call may be executed; whoever is asked cannot change it."""
        if call.action is None or call.action.access_policy == ACCESS_DENIED:
            return False
        id = str(self.id)
        args = copy_json(call.args)
        message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}
        ask: Callable[..., Any] = self.request_permission
        try:
            if is_async(ask):
                permitted = await ask(message)
            else:  # an override may be a plain function, and wait for a person
                permitted = await WORKERS.run(asyncio.get_running_loop(), ask, message)
        except Exception:
            logger.exception("request_permission of agent %r failed on %r", self.id, call.name)
            return False
        return permitted is True


def _registry(actions: ActionRegistry | Iterable[Any] | None) -> ActionRegistry:
    if actions is None:
        return ActionRegistry()
    if isinstance(actions, ActionRegistry) or (
        hasattr(actions, "get_action") and hasattr(actions, "get_actions")
    ):
        return actions  # type: ignore[return-value]
    registry = ActionRegistry()
    if isinstance(actions, Action | str) or not isinstance(actions, Iterable):
        raise DefinitionError(
            f"actions= is a registry, or a list of actions, functions and agents, not {actions!r}"
        )
    for source in actions:
        known = len(registry.actions)
        if getattr(source, "__name__", "") == "<lambda>":
            raise DefinitionError(
                "actions= has a lambda, which has no name for a model to call: "
                "give it one by Action(name, function)"
            )
        registry.register(source)
        if len(registry.actions) == known and not isinstance(source, Agent):
            raise DefinitionError(
                f"actions= has two of one name, the second being {source!r}: give one another name"
            )
    return registry


def _has(part: object, names: tuple[str, ...], what: str, id: str | int) -> None:
    """Refuse what is no model, memory, … : it would only fail in the middle of a reply."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing or isinstance(part, type):
        given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)[:80]
        raise DefinitionError(
            f"agent {id!r}: {what}= needs an object with {', '.join(names)}, not {given}"
        )


def _positive(number: int, what: str, id: str | int) -> int:
    if type(number) is not int or number < 1:
        raise DefinitionError(f"agent {id!r}: {what}= is 1 or more, not {number!r}")
    return number


def _which(discover: str | Iterable[str | int], id: str | int) -> str | tuple[str | int, ...]:
    if discover == "*":
        return "*"
    if isinstance(discover, str) or not isinstance(discover, Iterable):
        raise DefinitionError(f'agent {id!r}: discover= is "*" or a list of ids, not {discover!r}')
    return tuple(discover)


def _as_memory(message: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": "user", "content": readable(message)}
    if isinstance(message, dict):
        if isinstance(message.get("role"), str):
            return dict(message)
        action = message.get("action")
        if isinstance(action, dict) and isinstance(action.get("name"), str):
            sender = message.get("from", "someone")
            args = action.get("args", {})
            if action["name"] == "say" and isinstance(args, dict) and "content" in args:
                told = json_text(args["content"])
            else:
                told = f"{action['name']} {json_text(args)}"
            return {"role": "user", "content": f"{readable(str(sender))}: {told}"}
    raise TypeError(
        "observe takes a text, a chat message with `role` and `content`, or a message of a space, "
        f"not {cut(repr(message), 100)}"
    )
