"""Models: what answers a list of chat messages. A provider a file; each loads when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.models.budgeted import BudgetedModel as BudgetedModel
    from civitas.models.fallback import FallbackModel as FallbackModel
    from civitas.models.limits import RateLimit as RateLimit
    from civitas.models.litellm import LiteLLMModel as LiteLLMModel
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.local_embedder import LocalEmbedder as LocalEmbedder
    from civitas.models.names import model as model
    from civitas.models.openai import OpenAIModel as OpenAIModel
    from civitas.models.prices import Price as Price
    from civitas.models.prices import Prices as Prices
    from civitas.models.protocol import Call as Call
    from civitas.models.protocol import Model as Model
    from civitas.models.protocol import ModelReply as ModelReply
    from civitas.models.protocol import ReasoningPiece as ReasoningPiece
    from civitas.models.protocol import StreamingModel as StreamingModel
    from civitas.models.protocol import TextPiece as TextPiece
    from civitas.models.protocol import Usage as Usage
    from civitas.models.recorded import RecordedModel as RecordedModel
    from civitas.models.scripted import ScriptedModel as ScriptedModel
    from civitas.models.transformers import TransformersModel as TransformersModel

_HOME = {
    "BudgetedModel": "budgeted",
    "Call": "protocol",
    "FallbackModel": "fallback",
    "LiteLLMModel": "litellm",
    "LocalEmbedder": "local_embedder",
    "LocalModel": "local",
    "Model": "protocol",
    "ModelReply": "protocol",
    "OpenAIModel": "openai",
    "Price": "prices",
    "Prices": "prices",
    "RateLimit": "limits",
    "ReasoningPiece": "protocol",
    "RecordedModel": "recorded",
    "ScriptedModel": "scripted",
    "StreamingModel": "protocol",
    "TextPiece": "protocol",
    "TransformersModel": "transformers",
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
