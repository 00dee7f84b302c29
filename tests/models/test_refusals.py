"""What a server's refusal is of, and whether the same request goes to it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conformance.model import ACTIONS, parts_of, run, user
from models import messages_format, responses_format
from models.openai_server import (
    Answer,
    OpenAIServer,
    call,
    calls,
    delta,
    events,
    http,
    text,
)
from moothall import AnthropicModel, FallbackModel, OpenAIModel, ReActAgent
from moothall.foundation.errors import ModelError

ADD = call("add", '{"a": 1, "b": 2}', "c1")
PEG = "The model produced output that does not match the expected peg-native format"
FORMS: dict[str, Callable[..., Any]] = {
    "chat": lambda url, **more: OpenAIModel("m", url, **more),
    "responses": lambda url, **more: OpenAIModel("m", url, api="responses", **more),
    "messages": lambda url, **more: AnthropicModel("m", url, "k", **more),
}


def refused(
    status: int, message: str, headers: dict[str, str] | None = None, /, **more: Any
) -> Answer:
    return http(json.dumps({"error": {"message": message} | more}).encode(), status, headers)


def failure(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": 500, "message": message, "type": "server_error"} | more}


# -- an answer that the server cannot read ---------------------------------------------------------

UNREAD = (
    PEG,
    "The model produced output that does not match the expected Content-only format",
    "Failed to parse input at pos 12: <tool_call>{",
    "Invalid diff: now finding less tool calls!",
)


@pytest.mark.parametrize("said", UNREAD)
@pytest.mark.parametrize("where", ("status", "stream", "after-text"))
def test_call_that_a_server_could_not_read_is_asked_for_again_once(said: str, where: str) -> None:
    given: Any = refused(500, said, type="server_error", code=500)
    if where != "status":
        before = [delta("Let me ")] if where == "after-text" else []
        given = events(*before, failure(said))
    with OpenAIServer(given, calls(ADD), text("3")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1])
        reply = run(last_of(agent)) if where != "status" else agent.reply_sync("Add")
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"]), reply.detail
    assert len(server.requests) == 3
    told = server.requests[1].body["messages"][-2:]
    assert told[0]["content"] == ("Let me " if where == "after-text" else "(no answer)")
    assert "could not be read" in told[1]["content"]


async def last_of(agent: Any) -> Any:
    async with agent.stream("Add") as parts:
        return [each async for each in parts][-1].reply


@pytest.mark.parametrize("form", ("responses", "messages"))
def test_call_that_a_server_could_not_read_is_asked_for_again_in_every_form(form: str) -> None:
    if form == "responses":
        error = {"code": "server_error", "message": PEG}
        failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
        given = events({"type": "response.output_text.delta", "delta": "Let me "}, failed)
        after = responses_format.response(responses_format.said("3"))
    else:
        block = {"type": "text", "text": "Let me "}
        start = {"type": "content_block_start", "index": 0, "content_block": block}
        error = {"type": "api_error", "message": PEG}
        body = json.dumps({"type": "error", "error": error})
        given = events(
            {"type": "message_start", "message": {}},
            start,
            f"{body}".encode().join((b"event: error\ndata: ", b"\n\n")),
        )
        after = messages_format.text("3")
    with OpenAIServer(given, after) as server:
        agent = ReActAgent("a", FORMS[form](server.url), actions=ACTIONS[:1])
        assert run(last_of(agent)).text == "3"
    assert len(server.requests) == 2


def test_call_that_a_server_cannot_read_twice_ends_the_reply() -> None:
    with OpenAIServer(events(delta("Let me "), failure(PEG))) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1])
        reply = run(last_of(agent))
    assert (reply.stop_reason, len(server.requests)) == ("unreadable", 2)


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


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    (
        (500, "CUDA out of memory", "server_error"),
        (500, "tools param requires --jinja flag", "server_error"),
        (500, "Unable to generate parser for this template: no tool calls", "server_error"),
        (400, "Invalid output format for tool calls", "invalid_request_error"),
        (422, "tool_calls: failed to parse the arguments", "invalid_request_error"),
    ),
)
def test_refusal_of_another_kind_is_the_error_although_it_has_actions(
    status: int, said: str, kind: str
) -> None:
    with OpenAIServer(refused(status, said, type=kind)) as server:
        model = OpenAIModel("m", server.url, max_retries=0)
        with pytest.raises(ModelError, match=f"answered {status}: "):
            run(model.complete(user("Hi"), ACTIONS))


# -- whether the same request goes again -----------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("status", "word", "tries"),
    (
        *((429, "false", 1), (500, "false", 1), (503, "False", 1)),
        *((400, "true", 3), (500, "true", 3), (500, "maybe", 3), (404, "", 1)),
    ),
)
def test_word_of_a_server_about_another_try_comes_before_its_status(
    form: str, status: int, word: str, tries: int
) -> None:
    headers = {"x-should-retry": word, "retry-after-ms": "1"}
    with (
        OpenAIServer(refused(status, "no", headers)) as server,
        pytest.raises(ModelError, match=f"answered {status}: no"),
    ):
        run(FORMS[form](server.url).complete(user("Hi")))
    assert len(server.requests) == tries


def test_word_of_a_server_about_another_try_holds_for_a_failure_in_its_stream() -> None:
    body = b"data: " + json.dumps(failure("it broke")).encode() + b"\n\n"
    with (
        OpenAIServer(http(body, headers={"X-Should-Retry": "false"})) as server,
        pytest.raises(ModelError, match="it broke"),
    ):
        run(parts_of(OpenAIModel("m", server.url), user("Hi")))
    assert len(server.requests) == 1


def test_spent_account_of_one_server_leaves_the_next_model() -> None:
    with (
        OpenAIServer(refused(429, "no", type="insufficient_quota")) as first,
        OpenAIServer(text("Hi")) as second,
    ):
        model = FallbackModel([OpenAIModel("a", first.url), OpenAIModel("b", second.url)])
        assert run(model.complete(user("Hi"))).text == "Hi"
    assert len(first.requests) == 1


# -- halves of characters --------------------------------------------------------------------------
