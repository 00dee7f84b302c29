"""Models: what answers a list of chat messages. A provider a file; each loads when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.models.fallback import FallbackModel as FallbackModel
    from civitas.models.limits import RateLimit as RateLimit
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.names import model as model
    from civitas.models.openai import OpenAIModel as OpenAIModel
    from civitas.models.protocol import Call as Call
    from civitas.models.protocol import Model as Model
    from civitas.models.protocol import ModelReply as ModelReply
    from civitas.models.protocol import Usage as Usage
    from civitas.models.recorded import RecordedModel as RecordedModel
    from civitas.models.scripted import ScriptedModel as ScriptedModel

_HOME = {
    "Call": "protocol",
    "FallbackModel": "fallback",
    "LocalModel": "local",
    "Model": "protocol",
    "ModelReply": "protocol",
    "OpenAIModel": "openai",
    "RateLimit": "limits",
    "RecordedModel": "recorded",
    "ScriptedModel": "scripted",
    "Usage": "protocol",
    "model": "names",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.models' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"civitas.models.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
