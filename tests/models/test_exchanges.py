"""Answers of servers, each a line of a file in `exchanges/`, and what a model reads from it.

A line has its `case` and the answer: JSON as `body`, other text as `text`, or the `frames` of a
stream (JSON, `[DONE]`, or lines as they are, as `raw`), with its `status` and `headers`. It
`gives` the fields of a reply, or the `error`, its `kind`, whether it is `of_content`, and the
`tries` where one more is allowed. Each is asked for whole and as a stream, unless `asked` says how.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from exchanges import lines_of
from models.openai_server import Answer, OpenAIServer, events, http
from moothall.foundation.errors import ModelError
from moothall.models import (
    AnthropicModel,
    Call,
    ModelReply,
    OpenAIModel,
    ReasoningPiece,
    Usage,
)
from moothall.testing.model_suite import joined_text, parts_of, run, user_message

FORMS: dict[str, Callable[..., Any]] = {
    "chat": lambda url, **more: OpenAIModel("m", url, **more),
    "responses": lambda url, **more: OpenAIModel("m", url, api="responses", **more),
    "messages": lambda url, **more: AnthropicModel(
        "m", url.removesuffix("/v1"), **{"api_key": "k"} | more
    ),
}
EXCHANGES = [
    pytest.param(form, *line.values, asked, id=f"{form}-{asked}-{line.id}")
    for form in FORMS
    for line in lines_of(__file__, form)
    for asked in ("whole", "streamed")
    if line.values[0].get("asked", asked) == asked
]


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


def fault(model: Any, asked: str, server: OpenAIServer) -> dict[str, Any]:
    """What is raised; the model's name and the server's address are left out."""
    with pytest.raises(ModelError) as caught:
        run(
            parts_of(model, user_message("Hi"))
            if asked == "streamed"
            else model.complete(user_message("Hi"))
        )
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 500
    shown = said.removeprefix(f"{model.name}: ").replace(server.url, "URL")
    kind = type(caught.value).__name__
    of_content = caught.value.of_content
    return {"error": shown, "kind": kind, "of_content": of_content, "tries": len(server.requests)}


@pytest.mark.parametrize(("form", "exchange", "asked"), EXCHANGES)
def test_exchange_gives_what_its_line_says(form: str, exchange: dict[str, Any], asked: str) -> None:
    gives = exchange["gives"]
    with OpenAIServer(answer_of(exchange)) as server:
        options = exchange.get("options", {})
        model = FORMS[form](server.url, max_retries=int("tries" in gives), **options)
        if "error" in gives:
            came, expected = fault(model, asked, server), {"kind": "ModelError"} | gives
            assert {name: came[name] for name in expected} == expected
            return
        parts = run(parts_of(model, user_message("Hi"))) if asked == "streamed" else None
        reply = parts[-1] if parts else run(model.complete(user_message("Hi")))
        address = model.base_url
    if parts:
        assert joined_text(parts) == reply.text
        assert joined_text(parts, ReasoningPiece) == reply.reasoning
    assert reply == ModelReply(
        gives.get("text", ""),
        tuple(Call(*each) for each in gives.get("calls", ())),
        Usage(*gives.get("usage", ())),
        gives.get("finish", "stop"),
        gives.get("reasoning", ""),
        tuple(each | {"server": address} for each in gives.get("thinking", ())),
        gives.get("meta", {}),
        tuple(gives.get("blocks", ())),
    )
