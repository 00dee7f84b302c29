"""The loop: a model chooses actions, an environment executes them, memory keeps the results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from civitas.action import ACCESS_DENIED, AccessPolicy, Action, ActionRegistry
from civitas.agent import Agent
from civitas.environment import Environment
from civitas.errors import DefinitionError, StateError
from civitas.goal import Goal
from civitas.memory.memory import Memory
from civitas.reasoning.asked import Asked
from civitas.reasoning.conversational import ConversationalAgent
from civitas.reasoning.memories import Memories, thread_of
from civitas.reasoning.names import Shown
from civitas.reasoning.parts import check_part
from civitas.reasoning.prompts import MAX_RESULT_CHARS, json_text
from civitas.reasoning.reply import Reply
from civitas.reasoning.run import Run
from civitas.reasoning.state import memory_state, opened, restore_memory, state

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Journal, Record
    from civitas.models.protocol import Model

__all__ = ["MAX_ITERATIONS", "ReActAgent"]

MAX_ITERATIONS = 10
"""How many answers a model may give for one reply."""

_ENVIRONMENT = Environment()
KIND = "ReActAgent"


class ReActAgent(ConversationalAgent):
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
        budget: what its replies together may spend; a reply that would go beyond stops
        journal: where its replies are recorded, so that they go on after a crash: a `Journal`, or
            the path of one
        **options: what every `Agent` takes

    Attributes:
        actions: the registry of what its model may call
        discovered: what it found by `discover` at its last reply, beside them
        budget: what its replies together may spend, or None
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
    _own: Memory | None = None
    _journal: Journal | None = None
    _records = True
    _threads: Memories | None = None

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
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(id, **options)
        if not isinstance(model, str):
            check_part(model, ("complete",), "model", id)
        # Only what differs from the class is stored: a society holds very many agents.
        self._model = model
        self.actions = _registry(actions)
        if goals is not None:
            self.goals = goals
        if memory is not None:
            check_part(memory, ("add_memory", "get_memories"), "memory", id)
            self._memory = memory
        if environment is not None:
            check_part(environment, ("execute_action",), "environment", id)
            self.environment = environment
        if system_prompt is not None:
            if not isinstance(system_prompt, str):
                raise DefinitionError(
                    f"agent {id!r}: system_prompt= must be text, got {system_prompt!r:.80}"
                )
            self.system_prompt = system_prompt
        if max_iterations != MAX_ITERATIONS:
            self.max_iterations = _positive(max_iterations, "max_iterations", id)
        if max_result_chars != MAX_RESULT_CHARS:
            self.max_result_chars = _positive(max_result_chars, "max_result_chars", id)
        if discover is not None:
            self.discover = _which(discover, id)
        if budget is not None:
            check_part(budget, ("reserve", "deadline"), "budget", id)
            self.budget = budget
        if journal is not None:
            self.journal = journal

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
            if self._own is None:
                self._own = self._bounded()
            return self._own
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory

    def _bounded(self) -> Memory:
        """A memory for an agent that was given none."""
        from civitas.memory.bounded import DEFAULT_TOKENS, TokenBoundedMemory

        model = self.model
        room = getattr(model, "context_tokens", None)
        # The other half is for the system part, the actions' descriptions and the answer.
        bound = max(room // 2, 1) if isinstance(room, int) else DEFAULT_TOKENS
        return TokenBoundedMemory(bound, getattr(model, "count_tokens", None))

    @property
    def goals(self) -> list[Goal]:
        """What it is to achieve."""
        if self._goals is None:
            self._goals = []
        return self._goals

    @goals.setter
    def goals(self, goals: Iterable[Goal]) -> None:
        self._goals = _checked_goals(goals, self.id)

    @property
    def discovered(self) -> dict[str, Action]:
        """The actions of other agents, found at its last reply, by name."""
        return self._discovered or {}

    @property
    def journal(self) -> Journal | None:
        """Where its replies are recorded, or None."""
        return self._journal

    @journal.setter
    def journal(self, journal: Journal | str | os.PathLike[str] | None) -> None:
        from civitas.journal.journal import as_journal

        self._journal = None if journal is None else as_journal(journal, f"agent {self.id!r}")

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, as JSON: to be kept, and loaded into an agent made in the same way.

        Valid between two replies; during one it is what is remembered until then.

        Raises:
            StateError: something remembered is not JSON
        """
        threads = {id: memory_state(memory) for id, memory in self._threads or ()}
        return state(KIND, memory=memory_state(self.memory), threads=threads)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Remember what the agent did whose state this is, and nothing else.

        Raises:
            StateError: it is no such state; then nothing has changed, unless the memory is not
                civitas's own
        """
        found = opened(saved, KIND)
        threads = found.get("threads")
        if not isinstance(threads, dict):
            raise StateError(f"agent {self.id!r}: the state of its threads is no object")
        made = Memories(self._bounded)
        for thread, given in threads.items():
            restore_memory(made.get(thread), given, self.id)
        restore_memory(self.memory, found.get("memory"), self.id)
        self._threads = made if threads else None

    # -- the loop ----------------------------------------------------------------------------------

    async def _respond(self, asked: Asked) -> Reply:
        if self.discover is not None and self._seat is not None:
            await self._discover()
        memory = self.memory if asked.thread is None else self._memory_of(asked.thread)
        record = asked.record
        if record is None:
            if self._journal is None:
                return await self._run(Run(self, asked, memory, self.model))
            record = await self._journal.begin(
                asked.run_id, KIND, str(self.id), json_text(asked.content)
            )
        from civitas.reasoning.recording import begun

        try:
            recording = begun(self, asked, record, memory)
            return await self._run(Run(self, asked, memory, self.model, recording))
        finally:
            if asked.record is None:
                record.close()

    def _program(self) -> dict[str, Any]:
        """What it does, as the record of a group that it is in has it."""
        from civitas.reasoning.recording import program_of

        return program_of(self)

    async def _recall(self, record: Record) -> None:
        """Know what it did in a part of a run that is over."""
        from civitas.reasoning.recording import catch_up

        begun = next((entry.data for entry in record.past if entry.kind == "begun"), None)
        if begun is not None:
            thread = begun["thread"]
            catch_up(self, record, self.memory if thread is None else self._memory_of(thread))

    async def _run(self, run: Run) -> Reply:
        if self._underway is None:
            self._underway = run
        return await run.reply()

    async def _remember(self, message: dict[str, Any]) -> None:
        once = self._as_once()
        add_once: Any = None if once is None else getattr(self.memory, "add_once", None)
        if once is not None and callable(add_once):
            add_once(message, *once)
        else:
            self.memory.add_memory(message)

    def _memory_of(self, thread: str) -> Memory:
        if self._memory is not None:
            return thread_of(self._memory, thread, self.id)
        if self._threads is None:
            self._threads = Memories(self._bounded)
        return self._threads.get(thread)

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


def _checked_goals(goals: Iterable[Goal], id: str | int) -> list[Goal]:
    """Goals as a list.

    Raises:
        DefinitionError: they are none, or one that cannot be ordered is among them
    """
    if isinstance(goals, str) or not isinstance(goals, Iterable):
        wanted = "goals= is a list of goals"
        given = "one: put it in a list" if hasattr(goals, "priority") else repr(goals)[:80]
        raise DefinitionError(f"agent {id!r}: {wanted}, not {given}")
    checked = list(goals)
    for goal in checked:
        check_part(goal, ("priority", "name", "description"), "goals", id)
        _rank(goal, id)
    return checked


def _rank(goal: Goal, id: str | int) -> None:
    """Refuse a priority that cannot be ordered with others: every reply would fail by it."""
    given: Any = goal.priority
    # Only what is no number, such as NaN, differs from itself.
    if not isinstance(given, Real) or isinstance(given, bool) or given != given:
        raise DefinitionError(
            f"agent {id!r}: goals= has {goal.name!r:.80}, whose priority is a number, 1 the most "
            f"important, not {given!r:.80}"
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
