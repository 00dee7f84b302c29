"""Whom `civitas chat` and `civitas studio` bring into a space."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from civitas.agent import Agent
from civitas.agents.chatty import ChattyAI
from civitas.agents.function import OpenAIFunctionAgent
from civitas.agents.host import Host
from civitas.approval import escaped
from civitas.cli.completion import folders, models
from civitas.cli.named_agents import named_agent, permitted_agents
from civitas.cli.options import FILE, settings, usage
from civitas.memory.bounded import TokenBoundedMemory
from civitas.orders.act import is_small
from civitas.orders.models import chosen_model, made_model

_OPTIONS = (
    click.option(
        "--model",
        "model_name",
        metavar="MODEL",
        envvar="CIVITAS_MODEL",
        shell_complete=models,
        help="The agents' model; `civitas models` lists them.  [default: local]",
    ),
    click.option(
        "--root",
        metavar="DIR",
        envvar="CIVITAS_ROOT",
        shell_complete=folders,
        help="The folder that the host's files are in.  [default: .]",
    ),
    click.option(
        "--agent",
        "agents",
        metavar="MODULE:NAME",
        multiple=True,
        envvar="CIVITAS_AGENTS",
        help="An agent of yours: an agent, a class or a function that makes one. May be repeated.",
    ),
    click.option("--network", is_flag=True, help="Give the host's commands the network."),
)


def company_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who is brought."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def brought_by(ctx: click.Context, amqp: bool) -> set[str]:
    """By which parameters agents are brought; to those of others, only by what was typed."""
    bringing = {"model_name", "root", "agents"}
    if not amqp:
        return bringing
    typed = click.core.ParameterSource.COMMANDLINE
    return {each for each in bringing if ctx.get_parameter_source(each) is typed}


class _Forgetful(ChattyAI):
    """Answers each text by itself: a small model repeats what it has said before."""

    def _conversation(self) -> TokenBoundedMemory:
        return TokenBoundedMemory(1)


@dataclass
class Company:
    """Chatty and FunctionAI by the model, Host by the folder, and the user's own agents.

    Attributes:
        members: the agents
        small: whether the model is the small one, which is not up to calling anything
        notes: what the person is told about them
        model: the model that they share, or None
    """

    members: list[Agent]
    small: bool
    notes: list[str] = field(default_factory=list)
    model: Any = None

    @classmethod
    def of(
        cls,
        brought: set[str],
        model_name: str | None,
        root: str | None,
        agents: Sequence[str],
        network: bool,
        me: str,
    ) -> Company:
        """Those whom a command line, the environment and civitas.toml name together."""
        said = settings("chat")
        chosen, key = chosen_model(said, model_name, os.environ.get("CIVITAS_KEY"))
        listed: Sequence[str] = ()
        if "agents" in brought:
            listed = agents or permitted_agents(said.get("agents", []))
        with usage():
            model = made_model(chosen, key) if "model_name" in brought else None
        made = cls([named_agent(each) for each in listed], is_small(chosen), model=model)
        if "root" in brought:
            with usage(f"--root, CIVITAS_ROOT or {FILE}"):
                host = Host("Host", root or said.get("root", "."), network=network)
            made.members.insert(0, host)
        if model is not None:
            # Chatty has nothing to call, and is busy whenever something is said to all.
            called = [str(each.id) for each in made.members]
            function = OpenAIFunctionAgent("FunctionAI", model, user_id=me, discover=called)
            chatty = (_Forgetful if made.small else ChattyAI)("Chatty", model)
            made.members[:0] = [chatty, function]
            if made.small:
                made.notes.append(
                    "The model is small and often wrong. FunctionAI needs a larger one, and hears "
                    "only what is said to it by name."
                )
            if not model_name and "model" in said:
                made.notes.append(f"{FILE} says that the model is {escaped(chosen)}.")
        return made

    def close(self) -> None:
        """Give back what the model holds."""
        close = getattr(self.model, "close", None)
        if callable(close):
            close()
