"""Models, which answer a list of chat messages. Each provider is one file, loaded on first use."""

from __future__ import annotations

from moothall.text import lazily

_NAMES = {
    "local": "LocalModel",
    "local_embedder": "LocalEmbedder",
    "names": "model",
    "protocol": "Call Model ModelReply ReasoningPiece StreamingModel TextPiece Usage",
    "remote.anthropic": "AnthropicModel",
    "remote.litellm": "LiteLLMModel",
    "remote.openai": "OpenAIModel",
    "wrappers.budgeted": "BudgetedModel",
    "wrappers.fallback": "FallbackModel",
    "wrappers.prices": "Price Prices",
    "remote.rate_limit": "RateLimit",
    "wrappers.recorded": "RecordedModel",
    "wrappers.scripted": "ScriptedModel",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME)
