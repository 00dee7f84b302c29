"""The context length of a remote model, as its server states it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

# What servers call it: vLLM and SGLang, OpenRouter, Groq, Mistral, LM Studio; llama.cpp says in
# `meta` what it holds, which may be less than what the model was trained for.
_FIELDS: Final = (
    *("max_model_len", "context_length", "context_window", "max_context_length"),
    *("loaded_context_length", "max_input_tokens", "n_ctx", "n_ctx_train"),
)


def stated_context(body: bytes, name: str) -> int | None:
    """Return what a list of models says of one; that of the only model, whatever its name."""
    models: Any = None
    with suppress(ValueError, RecursionError):
        models = json.loads(body)
    models = models.get("data") if isinstance(models, dict) else models
    models = [each for each in models if isinstance(each, dict)] if isinstance(models, list) else []
    named_models = [each for each in models if each.get("id") == name] or models
    if len(named_models) != 1:
        return None
    meta = named_models[0].get("meta")
    places = (named_models[0], meta if isinstance(meta, dict) else {})
    values = (place.get(field) for place in places for field in _FIELDS)
    return next((each for each in values if type(each) is int and each > 0), None)
