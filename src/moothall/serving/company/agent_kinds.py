"""Makes the agents of a company's file: of the program's own classes, or of a built-in kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from moothall import Agent, ConfigError, DefinitionError, MoothallError
from moothall.agents import AgentSource

Maker: TypeAlias = Callable[[str, dict[str, Any], Path], Agent]


def agent_of(
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
        return KINDS[kind or ""](name, options, folder)
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
    where = f"agent {name!r}: "
    return where + str(error).removeprefix(where)


def _with_model(module: str, name: str) -> Maker:
    """Return what makes agents of a class that takes a model, which options name."""

    def build(id: str, options: dict[str, Any], folder: Path) -> Agent:
        from moothall.models import made_model

        rest = dict(options)
        if isinstance(rest.get("memory"), str):
            rest["memory"] = folder / rest["memory"]
        model = made_model(rest.pop("model", "local"), rest.pop("key", None))
        agent: Agent = getattr(import_module(module), name)(id, model, **rest)
        return agent

    return build


def _host(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall import Host

    rest = dict(options)
    return Host(name, folder / str(rest.pop("root", ".")), **rest)


def _mcp(name: str, options: dict[str, Any], folder: Path) -> Agent:
    from moothall.serving.mcp.mcp_agent import MCPAgent

    rest = dict(options)
    if "target" not in rest:
        raise ConfigError(f"agent {name!r}: options need target, a command or an address")
    if "lock" in rest:
        rest["lock"] = folder / str(rest["lock"])
    return MCPAgent(name, rest.pop("target"), **rest)


KINDS: Final[dict[str, Maker]] = {
    "chatty": _with_model("moothall.agents.ready.chatty", "ChattyAI"),
    "function": _with_model("moothall.agents.ready.function_agent", "OpenAIFunctionAgent"),
    "react": _with_model("moothall.agents.loop.react", "ReActAgent"),
    "host": _host,
    "mcp": _mcp,
}
"""What makes an agent of each kind, by its name, its options and the file's folder."""
