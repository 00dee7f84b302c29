"""What a server's refusal is of, and whether the same request goes to it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.openai_server import (
    Answer,
    OpenAIServer,
    delta,
    events,
    http,
    text,
)
from moothall import FallbackModel, OpenAIModel
from moothall.foundation.errors import ModelError
from moothall.testing.models import parts_of, run, user

PEG = "The model produced output that does not match the expected peg-native format"


def refused(
    status: int, message: str, headers: dict[str, str] | None = None, /, **more: Any
) -> Answer:
    return http(json.dumps({"error": {"message": message} | more}).encode(), status, headers)


def failure(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": 500, "message": message, "type": "server_error"} | more}


# -- an answer that the server cannot read ---------------------------------------------------------


def test_answer_that_a_server_could_not_read_without_actions_is_its_error() -> None:
    with (
        OpenAIServer(refused(500, PEG, {"retry-after-ms": "1"}, type="server_error")) as server,
        pytest.raises(ModelError, match=r"answered 500: .*; tried 3 times"),
    ):
        run(OpenAIModel("m", server.url).complete(user("Hi")))
    with (
        OpenAIServer(events(delta("Let me "), failure(PEG))) as server,
        pytest.raises(ModelError, match="peg-native"),
    ):
        run(parts_of(OpenAIModel("m", server.url), user("Hi")))


# -- whether the same request goes again -----------------------------------------------------------


def test_spent_account_of_one_server_leaves_the_next_model() -> None:
    with (
        OpenAIServer(refused(429, "no", type="insufficient_quota")) as first,
        OpenAIServer(text("Hi")) as second,
    ):
        model = FallbackModel([OpenAIModel("a", first.url), OpenAIModel("b", second.url)])
        assert run(model.complete(user("Hi"))).text == "Hi"
    assert len(first.requests) == 1
