"""What an agent of the loop is made of: its actions, goals and options, each checked."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from moothall.actions import (
    AccessPolicy,
    Action,
    ActionRegistry,
)
from moothall.actions.environment import AnyEnvironment
from moothall.actions.goal import Goal
from moothall.actions.message import address, is_group
from moothall.actions.registry import Offering
from moothall.agents.agent import CURRENT, Agent
from moothall.agents.context import CallChannel, Context, SystemPrompt
from moothall.agents.loop.answer import OfferedActions, RequestedCall
from moothall.agents.replies.checked_parts import check_part
from moothall.agents.replies.hooks import Hooks
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.thread import Thread
from moothall.agents.workflow import ReplyingOptions, block_actions
from moothall.foundation.errors import AskAgain, ConfigError, DefinitionError, InvalidId
from moothall.foundation.jsonvalue import readable
from moothall.foundation.threads import awaited
from moothall.memory.memory import AnyMemory, check_memories

if TYPE_CHECKING:
    from moothall.actions.approval import Approver
    from moothall.budget import Budget
    from moothall.journal import Journal
    from moothall.models.protocol import Model

MAX_ITERATIONS = 10
"""How many answers a model may give for one reply."""

TRIES = 1
"""How often in a row a model is asked again after an answer that cannot be used."""

Check: TypeAlias = Callable[[Any], Any] | Callable[[Any, Context[Any]], Any]
"""A check of an answer's value, sync or async; it raises AskAgain to have another answer."""


class AnyAction(Protocol):
    """An action of another class: it has what a model is shown and what is called."""

    @property
    def name(self) -> str:
        """The name by which it is called."""
        ...

    @property
    def function(self) -> Callable[..., Any]:
        """What it does."""
        ...

    @property
    def description(self) -> str:
        """What it does, in words."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        ...


class AnyRegistry(Protocol):
    """A registry of another class."""

    def get_action(self, name: str, /) -> Any:
        """Return the action of that name, or None."""

    def get_actions(self) -> list[Any]:
        """Return all actions."""
        ...


Actions: TypeAlias = (
    ActionRegistry | AnyRegistry | Iterable[Callable[..., Any] | AnyAction | Agent | Offering]
)
"""What a model may call: a registry, or functions, `@action` methods, actions, agents, `Skills`."""


class LoopOptions(ReplyingOptions, total=False):
    """What an agent of the loop takes by name, for those that pass it on."""

    actions: Actions | None
    goals: Iterable[Goal] | None
    memory: AnyMemory | Callable[[str | None], AnyMemory] | None
    environment: AnyEnvironment | None
    max_iterations: int
    max_result_chars: int
    deferred: bool | None
    check: Check | None
    tries: int
    outside_policy: AccessPolicy
    budget: Budget | None
    budget_line: bool
    warn_at: float | None
    journal: Journal | str | os.PathLike[str] | None


class Looping(Protocol):
    """What a run of the loop needs of its agent; `ReActAgent` documents it."""

    id: str | int
    budget: Budget | None
    check: Check | None
    deps: Any
    environment: AnyEnvironment
    max_iterations: int
    max_result_chars: int
    model: Model
    system_prompt: SystemPrompt | None
    outside_policy: AccessPolicy
    tries: int
    blocks: Sequence[Any]
    _goals: list[Goal] | None
    _hooks: Hooks
    _model: Model | str

    @property
    def actions(self) -> ActionRegistry:
        """Return the registry of what its model may call."""
        ...

    def _show(self, thread: Thread, offered: tuple[Action, ...]) -> OfferedActions:
        """Return the current actions as the model sees them."""
        ...

    async def request_permission(self, message: dict[str, Any]) -> Any:
        """Decide whether an action may be called."""
        ...

    def _approver(self) -> Approver | None:
        """Return its own approver, or its space's."""
        ...


def messages_of(
    memory: AnyMemory, id: str | int, last_message: object
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages of a memory for a prompt, and which of them are new.

    If the memory only grows, those after `last_message` are: the last of the prompt before.
    """
    try:
        new = messages = memory.get_memories()
        if last_message is not None and getattr(memory, "_only_grows", False):
            for after, each in enumerate(reversed(messages)):
                if each is last_message:
                    new = messages[len(messages) - after :]
                    break
        check_memories(new)
    except Exception as error:
        raise Stop.on_memory(id, error) from error
    return messages, new


def registry_of(actions: Actions | None) -> ActionRegistry:
    """Return what a model may call as a registry."""
    if actions is None:
        return ActionRegistry()
    names = ("get_action", "get_actions")
    if type(actions) is not list and all(hasattr(actions, each) for each in names):
        return actions  # type: ignore[return-value]
    registry = ActionRegistry()
    if isinstance(actions, (Action, str)) or not hasattr(actions, "__iter__"):
        raise ConfigError(
            "actions= must be a registry, or a list of actions, functions and agents, "
            f"got {actions!r}"
        )
    for source in actions:  # type: ignore[union-attr]
        count_before = len(registry.actions)
        grows = not isinstance(source, Agent) and not hasattr(source, "merged_with")
        if getattr(source, "__name__", "") == "<lambda>":
            raise DefinitionError(
                "actions= has a lambda, which has no name for a model to call: "
                "give it one by Action(name, function)"
            )
        registry.register(source)  # type: ignore[arg-type]
        if grows and len(registry.actions) == count_before:
            raise DefinitionError(
                f"actions= has two of one name, the second being {source!r}: give one another name"
            )
    return registry


def register_blocks(registry: ActionRegistry, blocks: Sequence[Any]) -> None:
    """Register what blocks offer: their `offers`, or else their `@action` methods; and guidance."""
    offering = [each for each in blocks if isinstance(getattr(each, "offers", None), dict)]
    plain_blocks = [each for each in blocks if all(each is not block for block in offering)]
    for action in block_actions(plain_blocks).values():
        registry.register(action)
    for block in offering:
        registry.register(block)
    guidance = [getattr(each, "guidance", "") for each in plain_blocks]
    if texts := [each for each in guidance if isinstance(each, str) and each]:
        registry.guidance = (*registry.guidance, *texts)


def checked_goals(goals: Iterable[Goal], id: str | int) -> list[Goal]:
    """Return goals as a list, each with a priority that has an order."""
    if isinstance(goals, str) or not isinstance(goals, Iterable):
        fault = "goals= must be a list of goals"
        got = "one: put it in a list" if hasattr(goals, "priority") else repr(goals)[:80]
        raise DefinitionError(f"agent {id!r}: {fault}, got {got}")
    checked = list(goals)
    for goal in checked:
        check_part(goal, ("priority", "name", "description"), "goals", id)
        for part in ("name", "description"):
            if not isinstance(got := getattr(goal, part), str):
                raise ConfigError(
                    f"agent {id!r}: the {part} of a goal must be a text, got {got!r:.80}"
                )
        rank: Any = goal.priority
        # A priority that cannot be ordered. Only NaN and the like differ from themselves.
        if not isinstance(rank, Real) or isinstance(rank, bool) or rank != rank:
            raise ConfigError(
                f"agent {id!r}: goals= has {goal.name!r:.80}, whose priority must be a number, "
                f"1 the most important, got {rank!r:.80}"
            )
    return checked


def checked_discover(discover: str | Iterable[str | int], id: str | int) -> str | tuple[str, ...]:
    """Return whose actions are discovered: `*`, a group, or ids."""
    if isinstance(discover, str) and (discover == "*" or is_group(discover)):
        return discover
    if isinstance(discover, str) or not isinstance(discover, Iterable):
        raise ConfigError(
            f'agent {id!r}: discover= must be "*", a group such as "#orders", or a list of ids, '
            f"got {discover!r}"
        )
    try:
        return tuple(map(address, discover))
    except InvalidId as error:
        raise DefinitionError(f"agent {id!r}: discover= has an invalid id: {error}") from None


def context_of(
    agent: Any,
    request: ReplyRequest,
    call: RequestedCall | None = None,
    channel: CallChannel | None = None,
) -> Context[Any]:
    """Return what a reply's own functions may know about it."""
    handling = CURRENT.get()
    message = None if handling is None else handling.message()
    if call is not None:
        channel = channel or CallChannel()
        channel.on_answer, channel.on_progress = call.hear, call.progress
        channel.wait_for_reader = request.wait_for_reader
    return Context(
        agent,
        run_id=request.run_id,
        thread=request.thread,
        sender=None if message is None else message["from"],
        budget=agent.budget if request.budget is None else request.budget,
        deps=agent.deps if request.deps is None else request.deps,
        _channel=channel,
    )


async def fault_of(value: Any, check: Any, context: Context[Any]) -> str:
    """Return the reason for which a check asks for another answer; empty if it does not."""
    try:
        result = await awaited(check(value, context) if _takes_context(check) else check(value))
    except AskAgain as error:
        return readable(str(error)) or "Answer again."
    # A predicate that returned False would else accept everything.
    if result is not None and result is not value:
        raise TypeError(
            f"check= must return None or the value, or raise AskAgain, and returned {result!r:.80}"
        )
    return ""


def _takes_context(check: Any) -> bool:
    try:
        inspect.signature(check).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # of a builtin nobody knows the parameters
        return False
    return True
