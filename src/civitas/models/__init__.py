"""Models: what answers a list of chat messages. A provider a file; each loads when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.local_embedder import LocalEmbedder as LocalEmbedder
    from civitas.models.names import model as model
    from civitas.models.protocol import Call as Call
    from civitas.models.protocol import Model as Model
    from civitas.models.protocol import ModelReply as ModelReply
    from civitas.models.protocol import ReasoningPiece as ReasoningPiece
    from civitas.models.protocol import StreamingModel as StreamingModel
    from civitas.models.protocol import TextPiece as TextPiece
    from civitas.models.protocol import Usage as Usage
    from civitas.models.remote.litellm import LiteLLMModel as LiteLLMModel
    from civitas.models.remote.openai import OpenAIModel as OpenAIModel
    from civitas.models.transformers import TransformersModel as TransformersModel
    from civitas.models.wrappers.budgeted import BudgetedModel as BudgetedModel
    from civitas.models.wrappers.fallback import FallbackModel as FallbackModel
    from civitas.models.wrappers.prices import Price as Price
    from civitas.models.wrappers.prices import Prices as Prices
    from civitas.models.wrappers.rate_limit import RateLimit as RateLimit
    from civitas.models.wrappers.recorded import RecordedModel as RecordedModel
    from civitas.models.wrappers.scripted import ScriptedModel as ScriptedModel

_HOME = {
    "BudgetedModel": "wrappers.budgeted",
    "Call": "protocol",
    "FallbackModel": "wrappers.fallback",
    "LiteLLMModel": "remote.litellm",
    "LocalEmbedder": "local_embedder",
    "LocalModel": "local",
    "Model": "protocol",
    "ModelReply": "protocol",
    "OpenAIModel": "remote.openai",
    "Price": "wrappers.prices",
    "Prices": "wrappers.prices",
    "RateLimit": "wrappers.rate_limit",
    "ReasoningPiece": "protocol",
    "RecordedModel": "wrappers.recorded",
    "ScriptedModel": "wrappers.scripted",
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
