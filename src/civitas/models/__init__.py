"""Models: what answers a list of chat messages. A provider a file; each loads when first used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.models.fallback import FallbackModel as FallbackModel
    from civitas.models.limits import RateLimit as RateLimit
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.model import Call as Call
    from civitas.models.model import Model as Model
    from civitas.models.model import ModelReply as ModelReply
    from civitas.models.model import Usage as Usage
    from civitas.models.names import model as model
    from civitas.models.openai import OpenAIModel as OpenAIModel
    from civitas.models.recorded import RecordedModel as RecordedModel
    from civitas.models.scripted import ScriptedModel as ScriptedModel

_HOME = {
    "Call": "model",
    "FallbackModel": "fallback",
    "LocalModel": "local",
    "Model": "model",
    "ModelReply": "model",
    "OpenAIModel": "openai",
    "RateLimit": "limits",
    "RecordedModel": "recorded",
    "ScriptedModel": "scripted",
    "Usage": "model",
}

__all__ = [*sorted(_HOME), "model"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.models' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"civitas.models.{home}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps the name `model` for the function; importing the module of that name would take it."""

    @property
    def model(self) -> Any:
        """The function that gives a model by name."""
        return importlib.import_module("civitas.models.names").model

    @model.setter
    def model(self, module: ModuleType) -> None:
        """Called by the import system with the module."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
