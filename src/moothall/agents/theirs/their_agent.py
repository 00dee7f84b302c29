"""An agent whose program another framework runs, as an agent of ours."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_origin

from moothall.actions import Action
from moothall.actions.marking import ACCESS_REQUESTED, ActionOptions, check_guard, check_options
from moothall.agents.dispatch import block_name
from moothall.agents.loop.parts import LOOP_SETTINGS
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.state import codec_of
from moothall.agents.theirs.their_run import TheirRun
from moothall.agents.theirs.their_turns import TheirState
from moothall.foundation.errors import ConfigError, MissingExtra, StateError
from moothall.foundation.jsonvalue import as_json

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply import Stop
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.budget.budget import Budget
    from moothall.journal.journal import Journal
    from moothall.memory.memory import MemoryPart

_REFUSED: Final = {"actions", "goals", "system_prompt", "environment", "discover", "budget_line"}
_REFUSED_OPTIONS: Final = {*_REFUSED, "warn_at", "model", *LOOP_SETTINGS} - {"outside_policy"}
_REFUSED_HOOKS: Final = ("pre_reasoning", "post_reasoning")
_REFUSED_PARTS: Final = ("around_model", "guidance", "offers")


class TheirFault(RuntimeError):
    """What a tool or a model of a program raised before its run was resumed."""


class _TheirModels:
    """The models of a program, which the agent does not ask itself: their name, for prices."""

    answer_to = None  # in a frozen world another stands here, which gives recorded answers

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        """Refuse: the program asks its models."""
        raise ConfigError(f"{self.name} is asked by its own program only")


@cache
def _version_of(framework: str) -> str:
    """Return the version of a framework that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(framework)
    except PackageNotFoundError:
        return ""


async def _execute(**args: Any) -> Any:
    raise ConfigError("a tool of another framework is executed by its own program only")


class TheirTools:
    """The tools of a program as actions, with the options that its user stated by name."""

    def __init__(self, agent: TheirAgent, options: Mapping[str, Any]) -> None:
        self._agent = agent
        self._options = options
        self.ours: dict[str, Action] = {
            name: each for name, each in options.items() if isinstance(each, Action)
        }
        """Actions that take the place of tools, such as those that ask an agent of ours."""
        self._actions: dict[str, tuple[Any, Action]] = {}

    def action(
        self,
        name: str,
        description: str = "",
        parameters: Any = None,
        *,
        asks: bool = False,
        **options: Any,
    ) -> Action:
        """Return the action of a tool, with the options that its user states.

        Args:
            name: its name
            description: what a model reads of it
            parameters: the JSON schema of its arguments
            asks: whether a person is asked before a call, if the user states nothing
            **options: other options of `@action`, likewise, such as `outside=`
        """
        if name in self.ours:
            return self.ours[name]
        parameters = {} if parameters is None else parameters
        parts = (description, parameters, asks, options)
        entry = self._actions.get(name)
        if entry is None or entry[0] != parts:
            policy = {"access_policy": ACCESS_REQUESTED} if asks else {}
            tool_options = self._options.get(name, {})
            if "properties" in parameters:
                label = f"agent {self._agent.id!r}: tools={{{name!r}: …}}"
                check_guard(label, tool_options, [*parameters["properties"]])
            action_options = {**policy, **options, **tool_options}
            action = Action.unchecked(name, _execute, description, parameters, **action_options)
            action.injected = {}  # else each call reads the signature of what executes it
            entry = self._actions[name] = (parts, action)
        return entry[1]

    def offered(self, name: str, description: str, parameters: Any) -> Action:
        """Return the action of a tool that a model is shown, with what is known of it."""
        entry = self._actions.get(name)
        if entry is not None and entry[0][:2] == (description, parameters):
            return entry[1]
        return self.action(name, description, parameters)

    def get_action(self, name: str) -> Action | None:
        """Return the action of a name: one that nobody knows yet is the program's own, too.

        A dynamic tool is known only once it is called. What it gave before is not from outside.
        """
        entry = self._actions.get(name)
        return self.action(name or "tool") if entry is None else entry[1]

    def get_actions(self) -> list[Action]:
        """Return the actions that are known before a run."""
        return self._agent.known_tools()


class TheirAgent(ReActAgent):
    """An agent whose program another framework runs: it asks models and calls tools itself.

    Its requests and calls are the steps of a run of ours, with its budget, its approver, its
    record, the origins of values, and streams. A framework has a subclass, which runs the program
    and has `TheirRun.ask` and `TheirRun.call` stand between that and its models and tools.

    Args:
        id: its id
        theirs: the framework's own agent
        tools: by the name of a tool, options of `@action`: `{"pay": {"guard": ("to", "amount")}}`,
            or an action that takes its place: `{"ask": helper.as_action("ask")}`
        memory: as for `ReActAgent`: the conversations of its threads
        budget: what its replies together may spend
        journal: a `Journal`, or the path of one, that records its replies
        **options: the options of `Agent`, `outside_policy=`, `blocks=` with `around_action` alone

    Raises:
        ConfigError: an argument is not valid, or not possible for a program of others
        DefinitionError: an option of a tool is not one of its values
        MissingExtra: the framework is not installed
    """

    run_kind: str = "TheirAgent"
    state_type: type[Any] = TheirState
    run_class: ClassVar[type[Any]] = TheirRun
    framework: ClassVar[str] = ""
    """The framework's package."""
    extra: ClassVar[tuple[str, ...]] = ()
    """The extra that brings the framework, and the module that must be there."""
    their_class: ClassVar[str] = ""
    """The class of the framework's agents, as MODULE:NAME; empty for any."""

    def __init__(
        self,
        id: str | int,
        theirs: Any,
        *,
        tools: Mapping[str, Mapping[str, Any] | Action] | None = None,
        memory: MemoryPart | None = None,
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if self.extra:
            MissingExtra.unless(f"agent {id!r}", *self.extra)
        if refused := sorted(_REFUSED_OPTIONS & options.keys()):
            raise ConfigError(
                f"agent {id!r}: {refused[0]}= is not possible: its program decides that itself"
            )
        for hook in _REFUSED_HOOKS:
            if hook in (options.get("hooks") or {}):
                raise ConfigError(f"agent {id!r}: the hook {hook} is not possible for a program")
        for block in options.get("blocks") or ():
            if part := next((p for p in _REFUSED_PARTS if getattr(block, p, None)), None):
                name = block_name(block)
                raise ConfigError(f"agent {id!r}: block {name!r} has {part}, which is not possible")
        if self.their_class and not isinstance(theirs, resolve_name(self.their_class)):
            module, _, name = self.their_class.partition(":")
            raise ConfigError(
                f"agent {id!r}: theirs must be of the class {name} of {module}, got {theirs!r:.80}"
            )
        self.theirs = theirs
        self.tools: TheirTools = TheirTools(self, self._checked_tools(id, tools or {}))
        model: Any = _TheirModels(self.model_name())
        parts: Any = {"memory": memory, "budget": budget, "journal": journal, **options}
        super().__init__(id, model, actions=self.tools, **parts)
        names = {each.name for each in self.known_tools()}
        if self.tools_are_known() and (unknown := sorted({*(tools or {})} - names)):
            raise ConfigError(
                f"agent {id!r}: tools= has {unknown[0]!r}, which its program has not; it has "
                f"{', '.join(sorted(names)) or 'none'}"
            )

    @staticmethod
    def _checked_tools(
        id: str | int, tools: Mapping[str, Mapping[str, Any] | Action]
    ) -> Mapping[str, Mapping[str, Any] | Action]:
        if not isinstance(tools, Mapping):
            raise ConfigError(
                f"agent {id!r}: tools= must be a dict by the names of tools, got {tools!r:.80}"
            )
        for name, options in tools.items():
            label = f"agent {id!r}: tools={{{name!r}: …}}"
            if isinstance(options, Action):
                if options.name != name:
                    raise ConfigError(
                        f"{label}: the action must have that name, got {options.name!r}"
                    )
                continue
            if not isinstance(options, Mapping):
                raise ConfigError(
                    f"{label} must be options of @action or an Action, got {options!r:.80}"
                )
            if unknown := [each for each in options if each not in ActionOptions.__annotations__]:
                raise ConfigError(f"{label}: {unknown[0]!r} is no option of @action")
            check_options(label, options)
        return tools

    # -- what a framework says ---------------------------------------------------------------------

    async def run_theirs(self, run: TheirRun) -> Any:
        """Run the program to its end; return its value, which `schema=` of a reply reads."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its program runs")

    def known_tools(self) -> list[Action]:
        """Return the tools that are known before a run, made by `self.tools.action`."""
        return []

    def tools_are_known(self) -> bool:
        """Return whether the program has no other tools than these."""
        return False

    def model_name(self) -> str:
        """Return the name of the model that the program asks, as prices know it."""
        return self.framework

    def stop_of(self, error: Exception) -> Stop | None:
        """Return how a run ends by what its program raised, if that is no error."""
        return None

    def write_value(self, value: Any) -> Any:
        """Return what a tool returned as JSON data."""
        return as_json(value)

    def read_value(self, data: Any) -> Any:
        """Return what the program gets of such data."""
        return data

    def output_type(self) -> Any:
        """Return the type of the program's value, if that has one."""
        return None

    def read_output(self, data: Any) -> Any:
        """Return the value of a reply that is recorded."""
        kind = self.output_type()
        is_type = isinstance(kind, type) or get_origin(kind) is not None
        return codec_of(kind).load(data) if is_type and kind is not str else data

    def write_error(self, error: BaseException) -> Any:
        """Return what a tool or a model raised as JSON data."""
        return {"type": type(error).__name__, "text": str(error)}

    def read_error(self, data: Any) -> BaseException:
        """Return what the program gets of such data: the same class, if that is Python's own."""
        kind = getattr(builtins, data["type"], None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(data["text"])
            except TypeError:
                pass
        return TheirFault(f"{data['type']}: {data['text']}")

    def unreadable(self, error: Exception, record: Record[Any] | None) -> StateError:
        """Return the error of a recorded answer that the framework does not read any more."""
        start = {} if record is None else record.start or {}
        before, now = start.get("framework", {}).get("version", "?"), _version_of(self.framework)
        text = f"agent {self.id!r}: a recorded answer cannot be read by {self.framework} {now}"
        return StateError(f"{text} (the run began with {before}): {error}")

    # -- as an agent of ours -----------------------------------------------------------------------

    def begin_data(self, record: Record[Any], request: ReplyRequest) -> dict[str, Any]:
        """Return what else is recorded of how a run begins: with which framework."""
        framework = {"name": self.framework, "version": _version_of(self.framework)}
        return {**super().begin_data(record, request), "framework": framework}

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""
        if request.offered:
            raise ConfigError(
                f"agent {self.id!r}: a caller's own tools are not possible: its program has its own"
            )
        if request.options.get("options"):
            raise ConfigError(f"agent {self.id!r}: options= is for a model of ours")
        super().check_request(request)
