"""Agents by MODULE:NAME: an agent, a class of agents, or a function that makes one."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from moothall.agents.agent import Agent
from moothall.foundation.errors import ConfigError, DefinitionError


@dataclass(frozen=True)
class AgentSource:
    """What MODULE:NAME names, and how errors name that.

    Args:
        name: `MODULE:NAME`, or, with a folder, also `FILE.py:NAME`
        param: how errors name what was given
        folder: where modules are searched first, and from where a file is meant; default: the
            current folder
    """

    name: str
    param: str = ""
    folder: Path | None = None

    def __str__(self) -> str:
        return f"{self.param} {self.name}".strip()

    def make(self, id: str | None = None, options: Mapping[str, Any] | None = None) -> Agent:
        """Return the agent; a class gets its own name as the default id.

        A class is called with the id and the options, a function with the options, and with the
        id if it takes one.

        Raises:
            ConfigError: there is no such thing, or it is no agent and makes none
            DefinitionError: importing or calling it failed, or it made something else
        """
        agent_or_call = self.prepared(id, options)
        if isinstance(agent_or_call, Agent):
            return agent_or_call
        try:
            agent = agent_or_call()
        except Exception as error:
            raise DefinitionError(
                f"{self}: calling it failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(agent, Agent):
            raise DefinitionError(f"{self}: it made a {type(agent).__name__}, not an agent")
        if id is not None and str(agent.id) != id:
            raise DefinitionError(
                f"{self}: it made an agent of the id {str(agent.id)!r}, not {id!r}: let it take id"
            )
        return agent

    def prepared(
        self, id: str | None = None, options: Mapping[str, Any] | None = None
    ) -> Agent | Callable[[], Any]:
        """Return the agent, or a call that makes it: what is named takes these arguments.

        Raises:
            ConfigError: there is no such thing, it makes no agent, or it takes other arguments
            DefinitionError: importing it failed
        """
        target = self._checked_source()
        if isinstance(target, Agent):
            if options:
                raise ConfigError(f"{self.name!r} is an agent already, which takes no options")
            if id is not None and id != str(target.id):
                raise ConfigError(
                    f"{self.name!r} is an agent already, whose id is {str(target.id)!r}: "
                    + ("leave --id out" if self.folder is None else f"name it {str(target.id)!r}")
                )
            return target
        call = partial(target, **(options or {}))
        if isinstance(target, type):
            call = partial(call, self._attribute if id is None else id)
        elif not (id is None or (self.folder is not None and not _takes_id(target))):
            call = partial(call, id)
        try:
            inspect.signature(target).bind(*call.args, **call.keywords)
        except TypeError as error:
            raise ConfigError(f"{self.name!r} cannot be called: {error}") from None
        except ValueError:  # Python does not know its signature
            pass
        return call

    def _checked_source(self) -> Any:
        """Return what is named, which is an agent, a class of agents, or callable."""
        target = self.load()
        if isinstance(target, Agent):
            return target
        if not callable(target):
            raise ConfigError(
                f"{self.name!r} is of type {type(target).__name__}: neither an agent, nor a class "
                "of agents, nor a function that makes one"
            )
        if isinstance(target, type) and not issubclass(target, Agent):
            raise ConfigError(f"{self.name!r} is a class, but not of agents")
        return target

    @property
    def _attribute(self) -> str:
        return self.name.rpartition(":")[2]

    def load(self) -> Any:
        """Return what is named; import its module, once."""
        module_name, _, attribute = self.name.rpartition(":")
        if module_name.endswith(".py"):
            module = self._of_file((self.folder or Path()) / module_name)
        else:
            parts = module_name.split(".")
            if not all(each.isidentifier() for each in (*parts, attribute)):
                raise ConfigError(
                    f"{self.name!r} is not of the form MODULE:NAME, such as my_agents:Calculator"
                )
            place = "" if self.folder is None else str(self.folder)
            if place not in sys.path:
                sys.path.insert(0, place)
            module = self._import_module(module_name)
        if not hasattr(module, attribute):
            raise ConfigError(f"{self.name!r}: the module {module_name!r} has no {attribute!r}")
        return getattr(module, attribute)

    def _import_module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing and f"{name}.".startswith(f"{missing}."):
                raise ConfigError(f"{self.name!r}: there is no module {missing!r}") from None
            raise self._load_error(name, error) from error

    def _of_file(self, path: Path) -> Any:
        """Return the module of a file, which may import others of its folder."""
        path = path.resolve()
        if not path.is_file():
            raise ConfigError(f"{self.name!r}: there is no file {str(path)!r}")
        imported = sys.modules.get(path.stem)
        if (
            imported is not None
            and Path(getattr(imported, "__file__", None) or "").resolve() == path
        ):
            return imported
        name = path.stem if imported is None else f"{path.stem}@{path.parent}"
        if name in sys.modules:
            return sys.modules[name]
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise self._load_error(path.name, error) from error
        return module

    def _load_error(self, module: str, error: BaseException) -> DefinitionError:
        # A SyntaxError names its line itself, and was raised in no line of the user's.
        locations = [
            f" ({Path(each.filename).name}, line {each.lineno})"
            for each in traceback.extract_tb(error.__traceback__)
            if each.filename != __file__ and not each.filename.startswith("<")
        ]
        place = "" if isinstance(error, SyntaxError) or not locations else locations[-1]
        return DefinitionError(
            f"{self}: importing {module} failed: {type(error).__name__}: {error}{place}"
        )


def _takes_id(function: Any) -> bool:
    """Return whether a function has a first parameter to which an id can be given."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return True
    if not parameters:
        return False
    first = parameters[0]
    positional = first.kind in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD)
    return first.name == "id" or (positional and first.default is first.empty)
