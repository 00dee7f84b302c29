"""Agents of the user's own, by MODULE:NAME."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import click

from civitas.agent import Agent
from civitas.approval import escaped
from civitas.cli.options import FILE
from civitas.cli.run.permission import keyboard, says_yes
from civitas.errors import DefinitionError


def permitted_agents(names: list[str]) -> list[str]:
    """Those that civitas.toml names, if the person says so: none of them, or all.

    The file may have come with a folder that somebody else made, and to import is to run.
    """
    if not names:
        return []
    lines = keyboard()
    listed = ", ".join(escaped(name) for name in names)
    if lines is None:
        raise click.UsageError(
            f"{FILE} names agents ({listed}), which are programs of this folder, and standard "
            "input is no terminal to ask at: name them by --agent"
        )
    print(f"{FILE} would have this run, from this folder: {listed}", file=sys.stderr)
    return names if says_yes(lines, "Permit this?") else []


def named_agent(name: str, id: str | None = None, param: str = "--agent") -> Agent:
    """The agent that MODULE:NAME is or makes.

    NAME is an agent, a class of agents, which gets its own name as the id, or a function without
    arguments that gives an agent. Modules are looked for in the current folder first.
    """
    module_name, colon, attribute = name.partition(":")
    parts = module_name.split(".")
    if not colon or not attribute.isidentifier() or not all(p.isidentifier() for p in parts):
        raise _wrong(
            param, f"{name!r} is not of the form MODULE:NAME, such as my_agents:Calculator"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise _wrong(param, f"{name!r}: there is no module {missing!r}") from None
        raise DefinitionError(
            f"{param} {name}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        raise _wrong(param, f"{name!r}: the module {module_name!r} has no {attribute!r}")
    found = getattr(module, attribute)
    if isinstance(found, Agent):
        if id is not None and id != str(found.id):
            raise _wrong(
                param,
                f"{name!r} is an agent already, whose id is {str(found.id)!r}: leave --id out",
            )
        return found
    if not callable(found):
        raise _wrong(
            param,
            f"{name!r} is a {type(found).__name__}: neither an agent, nor a class of agents, nor a "
            "function that makes one",
        )
    is_class = isinstance(found, type)
    if is_class and not issubclass(found, Agent):
        raise _wrong(param, f"{name!r} is a class, but not of agents")
    try:
        if id is None:
            agent = found(attribute) if is_class else found()
        else:
            agent = found(id)
    except Exception as error:
        raise DefinitionError(
            f"{param} {name}: calling it failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(agent, Agent):
        raise DefinitionError(f"{param} {name}: it made a {type(agent).__name__}, not an agent")
    return agent


def _wrong(param: str, reason: str) -> click.BadParameter:
    return click.BadParameter(reason, param_hint=f"'{param}'")
