"""Makes the agents of a company's file: of the program's own classes, or of a built-in kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from moothall import Agent, ConfigError, DefinitionError, MoothallError
from moothall.agents import AgentSource

Maker: TypeAlias = Callable[[str, dict[str, Any], Path], Agent]


def make_agent(
    name: str, kind: str | None, options: dict[str, Any], source: AgentSource | None, folder: Path
) -> Agent:
    """Make an agent of a company: of its source, or of a kind.

    Raises:
        ConfigError: an option is wrong
        DefinitionError: making it failed
    """
    if source is not None:
        return source.make(name, options)
    try:
        return AGENT_KINDS[kind or ""](name, options, folder)
    except MoothallError:
        raise
    except TypeError as error:
        raise ConfigError(f"agent {name!r}: options: {error}") from error
    except Exception as error:
        raise DefinitionError(
            f"agent {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error


def fault_of(name: str, error: Exception) -> str:
    """Return what is wrong with an agent's part of the file, with the agent in front."""
    prefix = f"agent {name!r}: "
    return prefix + str(error).removeprefix(prefix)


def _maker_with_model(module: str, name: str) -> Maker:
    """Return what makes agents of a class that takes a model, which options name."""

    def make(id: str, options: dict[str, Any], folder: Path) -> Agent:
        from moothall.models import made_model

        arguments = dict(options)
        if isinstance(arguments.get("memory"), str):
            arguments["memory"] = folder / arguments["memory"]
        model = made_model(arguments.pop("model", "local"), arguments.pop("key", None))
        agent: Agent = getattr(import_module(module), name)(id, model, **arguments)
        return agent

    return make


def _make_host(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall import Host

    arguments = dict(options)
    return Host(name, folder / str(arguments.pop("root", ".")), **arguments)


def _make_mcp_agent(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.serving.mcp.mcp_agent import MCPAgent

    arguments = dict(options)
    if "target" not in arguments:
        raise ConfigError(f"agent {name!r}: options need target, a command or an address")
    if "lock" in arguments:
        arguments["lock"] = folder / str(arguments["lock"])
    return MCPAgent(name, arguments.pop("target"), **arguments)


AGENT_KINDS: Final[dict[str, Maker]] = {
    "chatty": _maker_with_model("moothall.agents.ready.chatty", "ChattyAI"),
    "function": _maker_with_model("moothall.agents.ready.function_agent", "OpenAIFunctionAgent"),
    "react": _maker_with_model("moothall.agents.loop.react", "ReActAgent"),
    "host": _make_host,
    "mcp": _make_mcp_agent,
}
"""What makes an agent of each kind, by its name, its options and the file's folder."""
