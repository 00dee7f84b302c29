"""What an agent of the loop is made of: its model, actions, memory and goals, each checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from moothall.action import ACCESS_DENIED, Action, ActionRegistry
from moothall.agent import Agent
from moothall.arguments import check_count
from moothall.context import Context, SystemPrompt, check_system_prompt
from moothall.environment import AnyEnvironment, Environment
from moothall.errors import DefinitionError, InvalidId
from moothall.goal import Goal
from moothall.memory.memory import AnyMemory, Memory
from moothall.message import address
from moothall.reasoning.group import check_actions, check_model, check_part
from moothall.reasoning.loop.answer import OfferedActions, as_action
from moothall.reasoning.loop.given import MAX_RESULT_CHARS
from moothall.reasoning.recorded_agent import RecordedAgent
from moothall.reasoning.thread import Thread
from moothall.reasoning.threaded import describe
from moothall.workflow import AgentParts, block_actions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.approval import Approver
    from moothall.budget import Budget
    from moothall.journal import Journal
    from moothall.models.protocol import Model

MAX_ITERATIONS = 10
"""How many answers a model may give for one reply."""

TRIES = 1
"""How often in a row a model is asked again after an answer that cannot be used."""

Check: TypeAlias = Callable[[Any], Any] | Callable[[Any, Context[Any]], Any]
"""A check of an answer's value, sync or async; it raises AskAgain to have another answer."""

_ENVIRONMENT = Environment()


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


Actions: TypeAlias = ActionRegistry | AnyRegistry | Iterable[Callable[..., Any] | AnyAction | Agent]
"""What a model may call: a registry, or functions, `@action` methods, actions and whole agents."""


class LoopOptions(AgentParts, total=False):
    """What an agent of the loop takes by name, for those that pass it on."""

    shared: bool
    actions: Actions | None
    goals: Iterable[Goal] | None
    memory: AnyMemory | Callable[[str | None], AnyMemory] | None
    environment: AnyEnvironment | None
    max_iterations: int
    max_result_chars: int
    check: Check | None
    tries: int
    budget: Budget | None
    journal: Journal | str | os.PathLike[str] | None


class LoopAgent(RecordedAgent):
    """An agent with the parts that a run of the loop needs; `ReActAgent` documents them."""

    system_prompt: SystemPrompt | None = None
    max_iterations: int = MAX_ITERATIONS
    max_result_chars: int = MAX_RESULT_CHARS
    check: Check | None = None
    tries: int = TRIES
    environment: AnyEnvironment = _ENVIRONMENT
    discover: str | tuple[str, ...] | None = None
    _memory: AnyMemory | Callable[[str | None], AnyMemory] | None = None
    _goals: list[Goal] | None = None

    def __init__(
        self,
        id: str | int,
        model: Model | str,
        *,
        actions: Actions | None = None,
        goals: Iterable[Goal] | None = None,
        memory: AnyMemory | Callable[[str | None], AnyMemory] | None = None,
        environment: AnyEnvironment | None = None,
        system_prompt: SystemPrompt | None = None,
        max_iterations: int = MAX_ITERATIONS,
        discover: str | Iterable[str | int] | None = None,
        max_result_chars: int = MAX_RESULT_CHARS,
        check: Check | None = None,
        tries: int = TRIES,
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        shared: bool = False,
        receive_own_broadcasts: bool = True,
        concurrency: int | None = None,
        approver: Approver | None = None,
        deps: Any = None,
        **options: Unpack[AgentParts],
    ) -> None:
        given: Any = options
        if shared is not False or receive_own_broadcasts is not True:
            given |= {"shared": shared, "receive_own_broadcasts": receive_own_broadcasts}
        if concurrency is not None or approver is not None or deps is not None:
            given |= {"concurrency": concurrency, "approver": approver, "deps": deps}
        super().__init__(id, **given)
        if isinstance(model, type) or not hasattr(model, "complete"):
            check_model(model, id)
        # Store only what differs from the class: a society holds very many agents.
        self._model = model
        self.actions = _registry(actions)
        if self.blocks:
            for each in block_actions(self.blocks).values():
                self.actions.register(each)
        if isinstance(self.actions, ActionRegistry):
            check_actions(self.actions.actions.values(), id)
        if goals is not None:
            self.goals = goals
        if memory is not None:
            if not _makes_memories(memory):
                check_part(memory, ("add_memory", "get_memories"), "memory", id)
            self._memory = memory
        if environment is not None:
            check_part(environment, ("execute_action",), "environment", id)
            self.environment = environment
        if system_prompt is not None:
            check_system_prompt(system_prompt, id)
            self.system_prompt = system_prompt
        if max_iterations != MAX_ITERATIONS:
            check_count(f"agent {id!r}", "max_iterations", max_iterations)
            self.max_iterations = max_iterations
        if max_result_chars != MAX_RESULT_CHARS:
            check_count(f"agent {id!r}", "max_result_chars", max_result_chars)
            self.max_result_chars = max_result_chars
        if check is not None:
            if not callable(check):
                raise DefinitionError(
                    f"agent {id!r}: check= must be a function of an answer's value, got "
                    f"{check!r:.80}"
                )
            self.check = check
        if tries != TRIES:
            check_count(f"agent {id!r}", "tries", tries, least=0)
            self.tries = tries
        if discover is not None:
            self.discover = _which(discover, id)
        if budget is not None:
            check_part(budget, ("reserve", "deadline"), "budget", id)
            self.budget: Budget | None = budget
        if journal is not None:
            self.journal = journal

    def _load(self) -> tuple[Any, list[Action] | None]:
        super()._load()
        own = self._kept.default
        if not _makes_memories(self._memory):  # whether it makes one for this thread, it knows
            self._memory_of(own)
        actions = self._show(own, ()).actions
        describe(actions)
        return self.model, actions or None

    # -- its parts ---------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """Return the model; one given by name is made at its first use."""
        model = self._model
        if isinstance(model, str):
            from moothall.models.names import model as by_name

            model = self._model = by_name(model)
        return model

    @model.setter
    def model(self, model: Model | str) -> None:
        check_model(model, self.id)
        self._model = model

    @property
    def memory(self) -> Memory:
        """Return the memory of the agent's own thread."""
        return self._memory_of(self._kept.default)

    @memory.setter
    def memory(self, memory: AnyMemory | Callable[[str | None], AnyMemory]) -> None:
        self._memory = memory
        if self._threads is not None:
            for thread in (self._threads.default, *self._threads):
                thread.memory = None

    def _memory_of(self, thread: Thread) -> Memory:
        if thread.memory is None:
            thread.memory = self._made_for(thread.id)
        return thread.memory

    def _memory_in(self, thread: str | None) -> Memory:
        return self._memory_of(self._kept.get(thread))

    def _made_for(self, thread: str | None) -> Memory:
        given = self._memory
        if given is None:  # atomic: several OS threads may be here at once
            given = self.__dict__.setdefault("_memory", self._bounded())
        if _makes_memories(given):
            made: Any = given(thread)  # type: ignore[operator]
            check_part(made, ("add_memory", "get_memories"), "what the function of memory", self.id)
            return made  # type: ignore[no-any-return]
        whole: Any = given
        if thread is None:
            return whole  # type: ignore[no-any-return]
        if not callable(getattr(whole, "thread", None)):
            raise DefinitionError(
                f"agent {self.id!r}: thread= needs a memory with threads, such as SQLiteMemory, a "
                "function of the thread's id that makes one, or none given at all; "
                f"{type(whole).__name__} has no thread(id)"
            )
        return whole.thread(thread)  # type: ignore[no-any-return]

    def _end_run(self, key: str, thread: str | None) -> None:
        memory = self._kept.get(thread).memory
        if isinstance(memory, Memory):
            memory._end_run(key)

    def _forget_memory(self, thread: str) -> None:
        if isinstance(self._memory, Memory):
            self._memory._forget_thread(thread)

    def _one_thread_only(self) -> str | None:
        given = self._memory
        if given is None or _makes_memories(given) or callable(getattr(given, "thread", None)):
            return None
        return f"its memory, a {type(given).__name__}, has no thread(id)"

    def _bounded(self) -> Memory:
        """Return the memory of an agent that was given none."""
        from moothall.memory.bounded import DEFAULT_TOKENS, TokenBoundedMemory

        model = self.model
        room = getattr(model, "context_tokens", None)
        # Keep the other half for the system part, the actions' descriptions and the answer.
        bound = max(room // 2, 1) if isinstance(room, int) else DEFAULT_TOKENS
        return TokenBoundedMemory(bound, getattr(model, "count_tokens", None))

    @property
    def goals(self) -> list[Goal]:
        """Return the agent's goals."""
        if self._goals is None:
            self._goals = []
        return self._goals

    @goals.setter
    def goals(self, goals: Iterable[Goal]) -> None:
        self._goals = _checked_goals(goals, self.id)

    @property
    def discovered(self) -> dict[str, Action]:
        """Return other agents' actions, by name, as the last reply of its own thread found them."""
        return self._kept.default.discovered or {}

    def _show(self, thread: Thread, offered: tuple[Action, ...]) -> OfferedActions:
        """Return the current actions as the model sees them, without denied ones."""
        given = [*self.actions.get_actions(), *offered]
        # Read anew each time: an action may be registered, or denied, between two answers.
        now = [(each, getattr(each, "access_policy", None)) for each in given]
        kept: tuple[list[Any], OfferedActions] | None = thread.shown
        if kept is not None and kept[0] == now:
            return kept[1]
        check_actions(given, self.id)
        visible = [as_action(each) for each, policy in now if policy != ACCESS_DENIED]
        names = {each.name for each in given}
        visible += [a for name, a in (thread.discovered or {}).items() if name not in names]
        shown = OfferedActions(visible)
        thread.shown = (now, shown)
        return shown


def _makes_memories(memory: Any) -> bool:
    """Return whether it is a function of a thread's id rather than a memory."""
    return callable(memory) and not hasattr(memory, "add_memory") and not isinstance(memory, type)


def _registry(actions: Actions | None) -> ActionRegistry:
    if actions is None:
        return ActionRegistry()
    names = ("get_action", "get_actions")
    if type(actions) is not list and all(hasattr(actions, each) for each in names):
        return actions  # type: ignore[return-value]
    registry = ActionRegistry()
    if isinstance(actions, (Action, str)) or not hasattr(actions, "__iter__"):
        raise DefinitionError(
            "actions= must be a registry, or a list of actions, functions and agents, "
            f"got {actions!r}"
        )
    for source in actions:  # type: ignore[union-attr]
        known = len(registry.actions)
        if getattr(source, "__name__", "") == "<lambda>":
            raise DefinitionError(
                "actions= has a lambda, which has no name for a model to call: "
                "give it one by Action(name, function)"
            )
        registry.register(source)  # type: ignore[arg-type]
        if len(registry.actions) == known and not isinstance(source, Agent):
            raise DefinitionError(
                f"actions= has two of one name, the second being {source!r}: give one another name"
            )
    return registry


def _checked_goals(goals: Iterable[Goal], id: str | int) -> list[Goal]:
    if isinstance(goals, str) or not isinstance(goals, Iterable):
        wanted = "goals= must be a list of goals"
        given = "one: put it in a list" if hasattr(goals, "priority") else repr(goals)[:80]
        raise DefinitionError(f"agent {id!r}: {wanted}, got {given}")
    checked = list(goals)
    for goal in checked:
        check_part(goal, ("priority", "name", "description"), "goals", id)
        rank: Any = goal.priority
        # A priority that cannot be ordered. Only NaN and the like differ from themselves.
        if not isinstance(rank, Real) or isinstance(rank, bool) or rank != rank:
            raise DefinitionError(
                f"agent {id!r}: goals= has {goal.name!r:.80}, whose priority must be a number, "
                f"1 the most important, got {rank!r:.80}"
            )
    return checked


def _which(discover: str | Iterable[str | int], id: str | int) -> str | tuple[str, ...]:
    if discover == "*":
        return "*"
    if isinstance(discover, str) or not isinstance(discover, Iterable):
        raise DefinitionError(
            f'agent {id!r}: discover= must be "*" or a list of ids, got {discover!r}'
        )
    try:
        return tuple(map(address, discover))
    except InvalidId as error:
        raise DefinitionError(f"agent {id!r}: discover= has an invalid id: {error}") from None
