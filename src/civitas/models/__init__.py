"""Models, which answer a list of chat messages. Each provider is one file, loaded on first use."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "local": "LocalModel",
    "local_embedder": "LocalEmbedder",
    "names": "model",
    "protocol": "Call Model ModelReply ReasoningPiece StreamingModel TextPiece Usage",
    "remote.litellm": "LiteLLMModel",
    "remote.openai": "OpenAIModel",
    "transformers": "TransformersModel",
    "wrappers.budgeted": "BudgetedModel",
    "wrappers.fallback": "FallbackModel",
    "wrappers.prices": "Price Prices",
    "wrappers.rate_limit": "RateLimit",
    "wrappers.recorded": "RecordedModel",
    "wrappers.scripted": "ScriptedModel",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.models.{home}"), name)
