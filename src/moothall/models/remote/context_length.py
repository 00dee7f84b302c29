"""The context length of a remote model, as its server states it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final
from urllib.parse import urlsplit

# What servers call it: llama.cpp's own first, as its model may have been trained for more than the
# server holds. Then vLLM and SGLang, OpenRouter, Groq, Mistral, LM Studio.
_FIELDS: Final = (
    *("n_ctx", "max_model_len", "context_length", "context_window", "max_context_length"),
    *("loaded_context_length", "max_input_tokens"),
)


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
    if not isinstance(value, dict):
        return None
    settings = value.get("default_generation_settings")
    inner = _first(settings, ("n_ctx",)) if isinstance(settings, dict) else None
    return inner or _first(value, ("n_ctx",))


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
    found = (_number(given.get(name)) for name in names)
    return next((each for each in found if each > 0), None)


def _number(given: Any) -> int:
    """Return a number of tokens that may be written as text; 0 for anything else."""
    if isinstance(given, str) and given.isascii() and given.isdecimal():
        given = float(given)
    is_whole = type(given) in (int, float) and isfinite(given) and given == int(given)
    return int(given) if is_whole else 0
