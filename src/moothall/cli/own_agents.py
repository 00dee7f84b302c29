"""The user's own agents, by MODULE:NAME, and the agents that chat and studio add to a space."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from moothall import (
    Action,
    Agent,
    ChattyAI,
    ConfigError,
    DefinitionError,
    Host,
    Model,
    ModelReply,
    MoothallError,
    OpenAIFunctionAgent,
    TokenBoundedMemory,
    WeightsError,
)
from moothall.agents import AgentSource
from moothall.build import Space, Thread, escaped
from moothall.cli.run.watch import keyboard, says_yes
from moothall.cli.shared_options import (
    SETTINGS_FILE,
    as_usage_error,
    is_on_command_line,
    model_option,
    read_settings,
    root_option,
    source_of,
)
from moothall.models import ListedWeights, ModelName, chosen_model, made_model
from moothall.studio.orders import is_small_model

_OPTIONS = (
    model_option(
        "model_name",
        envvar="MOOTHALL_MODEL",
        help="Model of the agents; `moothall models` lists names.  [default: local]",
    ),
    root_option(help="Folder whose files Host offers.  [default: .]"),
    click.option(
        "--agent",
        "agents",
        metavar="MODULE:NAME",
        multiple=True,
        envvar="MOOTHALL_AGENTS",
        help="Your own agent: an agent, a class, or a function that returns one. May be repeated.",
    ),
    click.option("--network", is_flag=True, help="Let Host's commands use the network."),
)


class AwaitedWeights:
    """The model of a name in this process, made at the first call for which its weights are there.

    A call before that raises the WeightsError that says what to fetch.
    """

    in_process = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._loaded_model: Any = None

    @property
    def missing_weights(self) -> ListedWeights | None:
        """What is to be fetched; None once it is there."""
        return ModelName(self.name).missing_weights

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None until it is there."""
        return getattr(self._loaded_model, "context_tokens", None)

    @property
    def _model(self) -> Any:
        if self._loaded_model is None:
            self._loaded_model = made_model(self.name, None)
        return self._loaded_model

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation, or raise WeightsError."""
        model: Model = self._model
        return await model.complete(messages, actions, schema)

    def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[Any]:
        """Answer a conversation in pieces, or raise WeightsError."""
        stream: AsyncIterator[Any] = self._model.stream(messages, actions, schema)
        return stream

    def close(self) -> None:
        """Release what the model holds."""
        if self._loaded_model is not None:
            self._loaded_model.close()


def participant_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the agents."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class Forgetful(ChattyAI):
    """Answers each text without the ones before: a small model repeats what it has said."""

    async def _say(self, content: str, thread: Thread) -> str:
        thread.memory = TokenBoundedMemory(1)
        return await super()._say(content, thread)


@dataclass
class ChatParticipants:
    """Chatty and FunctionAI by the model, Host by the folder, and the user's own agents."""

    members: list[Agent]
    has_small_model: bool  # one that cannot call actions
    notes: list[str] = field(default_factory=list)  # shown to the person
    model: Any = None

    @classmethod
    def of(
        cls,
        person_id: str,
        over_broker: bool,
        *,
        model_name: str | None,
        root: str | None,
        agents: Sequence[str],
        network: bool,
    ) -> ChatParticipants:
        """Make the agents that the command line, the environment and moothall.toml name."""
        settings_used = {"model_name", "root", "agents"}
        if over_broker:  # then only what the command line names is added
            settings_used = {each for each in settings_used if is_on_command_line(each)}
        configured = read_settings("chat")
        model_text, key = chosen_model(configured, model_name, os.environ.get("MOOTHALL_KEY"))
        agent_names: Sequence[str] = ()
        if "agents" in settings_used:
            agent_names = agents or permitted_agents(configured.get("agents", []))
        with as_usage_error(source_of("model_name", of_file="model" in configured)):
            model = _model_of(model_text, key) if "model_name" in settings_used else None
        participants = cls(
            [named_agent(each) for each in agent_names], is_small_model(model_text), model=model
        )
        if "root" in settings_used:
            with as_usage_error(source_of("root", of_file="root" in configured)):
                host = Host("Host", root or configured.get("root", "."), network=network)
            participants.members.insert(0, host)
        if model is not None:
            # Not Chatty, which has nothing to call, and is busy whenever something is said to all.
            agent_ids = [str(each.id) for each in participants.members]
            function_ai = OpenAIFunctionAgent(
                "FunctionAI", model, user_id=person_id, discover=agent_ids
            )
            chatty = (Forgetful if participants.has_small_model else ChattyAI)("Chatty", model)
            participants.members[:0] = [chatty, function_ai]
            if participants.has_small_model:
                participants.notes.append(
                    "The model is small (135 million parameters) and often wrong. A larger one: "
                    "moothall chat --model NAME; `moothall models` lists the names."
                )
                participants.notes.append(
                    "FunctionAI needs a larger one, and hears only what is said to it by name."
                )
            if isinstance(model, AwaitedWeights) and (weights := model.missing_weights):
                participants.notes.append(
                    f"Chatty cannot answer yet: {weights.title} ({weights.size / 1e6:.0f} MB, "
                    f"{weights.license}) is not on this machine. Fetch it, also while this chat is "
                    f"open: moothall models fetch {weights.name}"
                )
            if not model_name and "model" in configured:
                participants.notes.append(
                    f"{SETTINGS_FILE} says that the model is {escaped(model_text)}."
                )
        return participants

    def close(self) -> None:
        """Release what the model holds."""
        close = getattr(self.model, "close", None)
        if callable(close):
            close()


def _model_of(name: str, key: str | None) -> Model:
    """Return the model of a name; of one whose weights can be fetched later, one that awaits them.

    Any other model that cannot be used is refused, as `made_model` does.
    """
    try:
        return made_model(name, key)
    except WeightsError:
        if ModelName(name).missing_weights is None:
            raise
        return AwaitedWeights(name)


def permitted_agents(names: list[str]) -> list[str]:
    """Return the agents that moothall.toml names if the person permits them, else none."""
    # Somebody else may have made the folder with the file, and an import runs code.
    if not names:
        return []
    reader = keyboard()
    names_text = ", ".join(escaped(name) for name in names)
    if reader is None:
        raise click.UsageError(
            f"{SETTINGS_FILE} names agents ({names_text}), which are programs of this folder, and "
            "standard input is not a terminal, so nobody can be asked: name them by --agent"
        )
    print(f"{SETTINGS_FILE} would have this run, from this folder: {names_text}", file=sys.stderr)
    return names if says_yes(reader, "Permit this?") else []


def named_agent(
    name: str, id: str | None = None, param: str = "--agent", description: str | None = None
) -> Agent:
    """Return the agent that MODULE:NAME is or makes; a class gets its own name as default id."""
    try:
        agent = AgentSource(name, param).make(id)
        agent.description = agent.description if description is None else description
        return agent
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint=f"'{param}'") from None


def add_agent(space: Space, agent: Agent, **options: Any) -> None:
    """Add the user's own agent to a space; DefinitionError if its `after_add` fails."""
    try:
        space.add(agent, **options)
    except MoothallError:
        raise
    except Exception as error:
        fault = f"agent {str(agent.id)!r}: its after_add failed: {type(error).__name__}: {error}"
        raise DefinitionError(fault) from error
