"""civitas: agents that talk, act and check each other's work, in one vocabulary.

The public names are here; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.action import ACCESS_DENIED as ACCESS_DENIED
    from civitas.action import ACCESS_PERMITTED as ACCESS_PERMITTED
    from civitas.action import ACCESS_REQUESTED as ACCESS_REQUESTED
    from civitas.action import Action as Action
    from civitas.action import ActionRegistry as ActionRegistry
    from civitas.action import action as action
    from civitas.agent import Agent as Agent
    from civitas.agent import Context as Context
    from civitas.spaces.native import NativeSpace as NativeSpace

_HOMES = {
    "civitas.action": (
        "ACCESS_DENIED",
        "ACCESS_PERMITTED",
        "ACCESS_REQUESTED",
        "Action",
        "ActionRegistry",
        "action",
    ),
    "civitas.agent": ("Agent", "Context"),
    "civitas.spaces.native": ("NativeSpace",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps the name `action` for the decorator; importing the module of that name would take it."""

    @property
    def action(self) -> Any:
        """The `@action` decorator."""
        return importlib.import_module("civitas.action").action

    @action.setter
    def action(self, module: ModuleType) -> None:
        """Called by the import system with the module."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
