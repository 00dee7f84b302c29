"""The context length of a remote model: by its name, or as its server states it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

LISTED: Final[Mapping[str, int]] = MappingProxyType(
    {
        "gpt-3.5-turbo": 16_385,
        "gpt-4": 8_192,
        "gpt-4-turbo": 128_000,
        "gpt-4.1": 1_047_576,
        "gpt-4.1-mini": 1_047_576,
        "gpt-4.1-nano": 1_047_576,
        "gpt-4o": 128_000,
        "gpt-4o-mini": 128_000,
        "gpt-5": 400_000,
        "gpt-5-mini": 400_000,
        "gpt-5-nano": 400_000,
        "o1": 200_000,
        "o3": 200_000,
        "o3-mini": 200_000,
        "o4-mini": 200_000,
    }
)
"""Context windows in tokens, by platform.openai.com/docs/models as of 2025-08."""

_CLAUDE: Final = 200_000  # of all, by docs.claude.com/en/docs/about-claude/models as of 2025-08
_DATED: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")
# What servers call it: llama.cpp's own first, as its model may have been trained for more than the
# server holds. Then vLLM and SGLang, OpenRouter, Groq, Mistral, LM Studio.
_FIELDS: Final = (
    *("n_ctx", "max_model_len", "context_length", "context_window", "max_context_length"),
    *("loaded_context_length", "max_input_tokens"),
)


def listed_context(name: str) -> int | None:
    """Return the context of a model of OpenAI or Anthropic, also of a dated one; else None."""
    return _CLAUDE if name.startswith("claude-") else LISTED.get(_DATED.sub("", name))


def stated_context(body: bytes, name: str) -> tuple[int | None, int | None]:
    """Return what a list of models says of one: its context, and what it was trained for."""
    models = _models(body)
    own = [each for each in models if each.get("id") == name] or (
        models if len(models) == 1 else []
    )
    for each in own:
        given = each.get("meta")
        meta: dict[str, Any] = given if isinstance(given, dict) else {}
        stated = _first(each, _FIELDS) or _first(meta, _FIELDS)
        return stated, _first(meta, ("n_ctx_train",))
    return None, None


def served_context(body: bytes) -> int | None:
    """Return the context that llama.cpp's `/props` states."""
    value = _json(body)
    settings = value.get("default_generation_settings") if isinstance(value, dict) else None
    return _first(settings, ("n_ctx",)) if isinstance(settings, dict) else None


def root_of(base_url: str) -> str:
    """Return a server's address without its path."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"


def _models(body: bytes) -> list[dict[str, Any]]:
    value = _json(body)
    listed = value.get("data") if isinstance(value, dict) else value
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _first(given: Mapping[str, Any], names: Iterable[str]) -> int | None:
    found = (given.get(name) for name in names)
    return next((each for each in found if type(each) is int and each > 0), None)
