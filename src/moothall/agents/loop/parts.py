"""What an agent of the loop is made of: its actions, goals and options, each checked."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from numbers import Real
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from moothall.actions import ACCESS_REQUESTED, AccessPolicy, Action, ActionRegistry
from moothall.actions.environment import AnyEnvironment, Environment
from moothall.actions.goal import Goal
from moothall.actions.marking import checked_policy
from moothall.actions.message import address, is_group
from moothall.actions.registry import Offering
from moothall.agents.agent import CURRENT, Agent
from moothall.agents.context import CallChannel, Context, SystemPrompt
from moothall.agents.loop.answer import OfferedActions, ToolCall
from moothall.agents.loop.call_result import MAX_RESULT_CHARS
from moothall.agents.replies.checked_parts import check_part
from moothall.agents.replies.recorded_agent import RecordedAgent
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_context import sources_here
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.thread import Thread
from moothall.agents.workflow import ReplyingOptions, block_actions
from moothall.foundation.arguments import (
    can_take,
    check_boolean,
    check_function,
    check_integer,
)
from moothall.foundation.errors import AskAgain, ConfigError, DefinitionError, InvalidId
from moothall.foundation.jsonvalue import readable
from moothall.foundation.threads import awaited
from moothall.memory.memory import AnyMemory, check_memories
from moothall.models.named_models import check_model

if TYPE_CHECKING:
    from moothall.agents.loop.prompt.budget_notices import BudgetNotices
    from moothall.budget import Budget
    from moothall.journal import Journal
    from moothall.models.protocol import Model

_ENVIRONMENT = Environment()
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

ActionsByContext: TypeAlias = Callable[[Context[Any]], Actions | Awaitable[Actions]]
"""A function that gives the actions of a reply."""


class LoopSettings(ReplyingOptions, total=False):
    """How the loop of an agent goes, by name; `LOOP_SETTINGS` says what each is and checks it."""

    max_iterations: int
    deferred: bool | None
    max_result_chars: int
    check: Check | None
    tries: int
    max_background: int
    outside_policy: AccessPolicy


class LoopOptions(LoopSettings, total=False):
    """What an agent of the loop takes by name, for those that pass it on."""

    actions: Actions | ActionsByContext | None
    goals: Iterable[Goal] | None
    memory: AnyMemory | Callable[[str | None], AnyMemory] | None
    environment: AnyEnvironment | None
    budget: Budget | None
    budget_line: bool
    warn_at: float | None
    journal: Journal | str | os.PathLike[str] | None


class Looping(RecordedAgent):
    """What a run of the loop needs of its agent, with defaults; `ReActAgent` documents it."""

    max_iterations: int = MAX_ITERATIONS
    deferred: bool | None = None
    max_result_chars: int = MAX_RESULT_CHARS
    check: Check | None = None
    tries: int = TRIES
    max_background: int = 16
    outside_policy: AccessPolicy = ACCESS_REQUESTED
    environment: AnyEnvironment = _ENVIRONMENT
    system_prompt: SystemPrompt | None = None
    actions: ActionRegistry
    actions_by_context: ActionsByContext | None = None
    budget_notices: BudgetNotices | None = None
    stated_goals: list[Goal] | None = None
    model_or_name: Model | str

    @property
    def model(self) -> Model:
        """Return the model; one given by name is made at its first use."""
        model = self.model_or_name
        if isinstance(model, str):
            from moothall.models.names import model as model_by_name

            model = self.model_or_name = model_by_name(model)
        return model

    @model.setter
    def model(self, model: Model | str) -> None:
        check_model(f"agent {self.id!r}", model)
        self.model_or_name = model

    def show_actions(self, thread: Thread, offered: tuple[Action, ...]) -> OfferedActions:
        """Return the current actions as the model sees them."""
        raise NotImplementedError

    def _set_up(self, id: str | int, settings: dict[str, Any]) -> dict[str, Any]:
        """Take what differs from the class of these settings, checked; return the others."""
        agent_options = {}
        for name, value in settings.items():
            if (setting := LOOP_SETTINGS.get(name)) is None:
                agent_options[name] = value
            elif value != (usual := getattr(Looping, name)) or value.__class__ is not type(usual):
                setattr(self, name, setting.check(f"agent {id!r}: {name}=", value))
        return agent_options


class LoopSetting(NamedTuple):
    """What a setting of the loop is, for the help of `ReActAgent`, and its check."""

    help: str
    check: Callable[[str, Any], Any]  # of its name in errors; returns the value


def _checked_answer_check(label: str, value: Any) -> Any:
    if not callable(value):
        raise ConfigError(f"{label} must be a function of an answer's value, got {value!r:.80}")
    if not can_take(value, 1):
        check_function(label, value, "value", "context")
    return value


def _checked_by(check: Callable[..., None], **bounds: Any) -> Callable[[str, Any], Any]:
    def checked(label: str, value: Any) -> Any:
        check(label, value, **bounds)
        return value

    return checked


LOOP_SETTINGS: Final = {
    "max_iterations": LoopSetting(
        "how many answers the model may give for one reply", _checked_by(check_integer)
    ),
    "deferred": LoopSetting(
        "whether the model is shown the actions of MCP servers and of `discover` only once it has "
        "found them by `find_actions`; if left out, in a reply that begins with more than 40 "
        "actions. What an action or an `MCPAgent` states itself has precedence",
        _checked_by(check_boolean),
    ),
    "max_result_chars": LoopSetting(
        "how many characters of each result the model is shown; fewer if the results of one answer "
        "would take more than about half of its context",
        _checked_by(check_integer),
    ),
    "check": LoopSetting(
        "called with the value of each final answer (by the schema, else the text), and with the "
        '`Context` if it takes two arguments; sync or async. If it raises `AskAgain("…")`, the '
        "model is told that and answers again. It must return None or the value.",
        _checked_answer_check,
    ),
    "tries": LoopSetting(
        "how often in a row the model is asked again after an answer that cannot be used, before "
        "the reply ends as `unreadable`",
        _checked_by(check_integer, low=0),
    ),
    "max_background": LoopSetting(
        "how many sub-agents may work in the background for one conversation at a time",
        _checked_by(check_integer, low=0),
    ),
    "outside_policy": LoopSetting(
        "what happens to a call of which a guarded value comes from outside, such as from a web "
        "page: `ACCESS_REQUESTED` asks the approver, `ACCESS_DENIED` refuses, `ACCESS_PERMITTED` "
        "executes it (docs/provenance.md)",
        checked_policy,
    ),
}

C = TypeVar("C", bound=type)


def with_settings(cls: C) -> C:
    """Add the settings of the loop to the help of a class, before its other options."""
    rows = (f"{name}: {each.help}" for name, each in LOOP_SETTINGS.items())
    wrapped = (fill(row, 100, initial_indent=" " * 8, subsequent_indent=" " * 12) for row in rows)
    head, options, tail = (cls.__doc__ or "").partition("        **options:")
    cls.__doc__ = "".join((head, *(f"{row}\n" for row in wrapped if options), options, tail))
    return cls


def messages_of(
    memory: AnyMemory, id: str | int, last_message: object
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages of a memory for a prompt, and which of them are new.

    If the memory only grows, those after `last_message` are: the last of the prompt before.
    """
    try:
        new = messages = memory.get_memories()
        if last_message is not None and getattr(memory, "only_grows", False):
            for new_count, each in enumerate(reversed(messages)):
                if each is last_message:
                    new = messages[len(messages) - new_count :]
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
    if isinstance(actions, (Action, str, type)) or not hasattr(actions, "__iter__"):
        raise ConfigError(
            "actions= must be a registry, or a list of actions, functions and agents, "
            f"or a function of the Context that returns one, got {actions!r}"
        )
    for source in actions:  # type: ignore[union-attr]
        count_before = len(registry.actions)
        must_grow = not isinstance(source, Agent) and not hasattr(source, "merged_with")
        if getattr(source, "__name__", "") == "<lambda>":
            raise DefinitionError(
                "actions= has a lambda, which has no name for a model to call: "
                "give it one by Action(name, function)"
            )
        registry.register(source)  # type: ignore[arg-type]
        if must_grow and len(registry.actions) == count_before:
            raise DefinitionError(
                f"actions= has two of one name, the second being {source!r}: give one another name"
            )
    return registry


def register_blocks(registry: ActionRegistry, blocks: Sequence[Any]) -> None:
    """Register what blocks offer: their `offers`, or else their `@action` methods; and guidance."""
    offering_blocks = [each for each in blocks if isinstance(getattr(each, "offers", None), dict)]
    plain_blocks = [each for each in blocks if all(each is not block for block in offering_blocks)]
    for action in block_actions(plain_blocks).values():
        registry.register(action)
    for block in offering_blocks:
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
    call: ToolCall | None = None,
    channel: CallChannel | None = None,
) -> Context[Any]:
    """Return what a reply's own functions may know about it."""
    handling = CURRENT.get()
    message = None if handling is None else handling.message()
    if call is not None:
        channel = channel or CallChannel()
        channel.on_answer, channel.on_event = call.add_statement, call.tell
        channel.wait_for_reader = request.wait_for_reader
    return Context(
        agent,
        run_id=request.run_id,
        thread=request.thread,
        kept_thread=request.thread if request.fresh is None else request.fresh[0],
        sender=None if message is None else message["from"],
        budget=agent.budget if request.budget is None else request.budget,
        deps=agent.deps if request.deps is None else request.deps,
        _channel=channel,
        _find_sources=sources_here,
        _request=request,
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
