"""What a line of recorded exchanges says: the answer of the server, and the model that asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from models.openai_server import Answer, events, http
from moothall import AnthropicModel, OpenAIModel

FORMS: dict[str, Callable[..., Any]] = {
    "chat": lambda url, **more: OpenAIModel("m", url, **more),
    "responses": lambda url, **more: OpenAIModel("m", url, api="responses", **more),
    "messages": lambda url, **more: AnthropicModel(
        "m", url.removesuffix("/v1"), **{"api_key": "k"} | more
    ),
}


def ways(exchange: dict[str, Any]) -> list[str]:
    """How it is asked for: whole, as a stream, or both."""
    return [exchange["asked"]] if "asked" in exchange else ["whole", "streamed"]


def answer_of(exchange: dict[str, Any]) -> Answer:
    if "frames" in exchange:
        return events(
            *(
                frame["raw"].encode("latin-1") if "raw" in frame else frame
                for frame in exchange["frames"]
            )
        )
    body = exchange["text"] if "text" in exchange else json.dumps(exchange["body"])
    return http(body.encode("latin-1"), exchange.get("status", 200), exchange.get("headers"))


def request_of(exchange: dict[str, Any]) -> tuple[Any, ...]:
    """The messages, the actions and the schema that the model is asked with."""
    from moothall.testing.model_suite import ACTIONS

    actions = [each for each in ACTIONS if each.name in exchange.get("actions", ())]
    return [{"role": "user", "content": "Hi"}], actions or None, exchange.get("schema")
