"""Makes the agents of a company's file: of the program's own classes, or of a built-in kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moothall.agent import Agent
from moothall.company.settings import AgentSettings
from moothall.errors import ConfigError, DefinitionError, MoothallError
from moothall.orders.named_agents import AgentSource


def agent_of(name: str, given: AgentSettings, source: AgentSource | None, folder: Path) -> Agent:
    """Make an agent of a company.

    Raises:
        ConfigError: an option is wrong
        DefinitionError: making it failed
    """
    options = {**given.options, **given.secrets}
    if source is not None:
        return source.make(name, options)
    try:
        return _KINDS[given.kind or ""](name, options, folder)
    except MoothallError:
        raise
    except TypeError as error:
        raise ConfigError(f"agent {name!r}: options: {error}") from error
    except Exception as error:
        raise DefinitionError(
            f"agent {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error


def _with_model(options: dict[str, Any], folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the model that options name, and the other options."""
    from moothall.orders.named_models import made_model

    rest = dict(options)
    if isinstance(rest.get("memory"), str):
        rest["memory"] = folder / rest["memory"]
    return made_model(rest.pop("model", "local"), rest.pop("key", None)), rest


def _chatty(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.agents.chatty import ChattyAI

    model, rest = _with_model(options, folder)
    return ChattyAI(name, model, **rest)


def _function(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.agents.function import OpenAIFunctionAgent

    model, rest = _with_model(options, folder)
    return OpenAIFunctionAgent(name, model, **rest)


def _react(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.reasoning.loop.react import ReActAgent

    model, rest = _with_model(options, folder)
    return ReActAgent(name, model, **rest)


def _host(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.agents.host import Host

    rest = dict(options)
    return Host(name, folder / str(rest.pop("root", ".")), **rest)


def _mcp(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.mcp import MCPAgent

    rest = dict(options)
    if "target" not in rest:
        raise ConfigError(f"agent {name!r}: options need target, a command or an address")
    if "lock" in rest:
        rest["lock"] = folder / str(rest["lock"])
    return MCPAgent(name, rest.pop("target"), **rest)


_KINDS: Final[dict[str, Callable[[str, dict[str, Any], Path], Agent]]] = {
    "chatty": _chatty,
    "function": _function,
    "react": _react,
    "host": _host,
    "mcp": _mcp,
}
