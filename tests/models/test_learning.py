"""What a model learns of its server: what a refusal asks for, if the request is then answered.

A line of `exchanges/learned.jsonl` has a refusal, its `status` and `body`, and what the model
`learns` of it, in words. One of `exchanges/hostile.jsonl` has the `words` of a message by which its
writer would change the requests of all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from exchanges import lines_of
from models import responses_format
from models.openai_server import Answer, OpenAIServer, Request, http, status, text
from moothall import Action, OpenAIModel
from moothall.foundation.errors import ModelError
from moothall.testing.model_suite import ACTIONS, run

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "You are the bank's clerk."},
    {"role": "user", "content": "Is the user's role supported?", "name": "ann"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "name": "add", "args": {"a": 1, "b": 2}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "name": "add", "content": "3"},
    {"role": "user", "content": "Go on in a missing system.", "name": "ann"},
]


def answered(request: Request) -> Answer:
    if request.path.endswith("/responses"):
        return responses_format.response(responses_format.said("ok"))
    return text("ok")


def ask(model: OpenAIModel, messages: list[dict[str, Any]] | None = None) -> str:
    reply = run(model.complete(messages or CONVERSATION, [*ACTIONS]))
    return str(reply.text)


@pytest.mark.parametrize("line", lines_of(__file__, "learned"))
def test_learning_keeps_what_a_refusal_asks_for_once_it_has_helped(
    line: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    refusals = [
        http(json.dumps(line["body"]).encode(), line["status"], {"x-should-retry": "false"})
    ]
    with OpenAIServer(lambda r: refusals.pop() if refusals else answered(r)) as server:
        model = OpenAIModel("m", server.url, max_retries=0)
        assert [ask(model), ask(model)] == ["ok", "ok"]
        assert len(server.requests) == 3
        assert [*model.learned] == line["learns"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert all(each in record.getMessage() for each in line["learns"])


@pytest.mark.parametrize("line", lines_of(__file__, "learned"))
def test_learning_keeps_nothing_that_did_not_help(
    line: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    refusal = http(json.dumps(line["body"]).encode(), line["status"], {"x-should-retry": "false"})
    with OpenAIServer(lambda request: refusal) as server:
        model = OpenAIModel("m", server.url, max_retries=0)
        with pytest.raises(ModelError):
            ask(model)
        first = server.requests[0].body
        with pytest.raises(ModelError):
            ask(model, [*CONVERSATION[:-1], {**CONVERSATION[-1], "content": "Other words."}])
        again = next(each.body for each in server.requests if "Other words" in str(each.body))
    again["messages"][-1]["content"] = CONVERSATION[-1]["content"]
    assert again == first
    assert model.learned == ()
    assert not caplog.records


ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": repr,
    "JSON in JSON": lambda words: json.dumps(json.dumps([{"content": words}])),
    "in capitals, cut": lambda words: words.upper()[: max(len(words) - 2, 12)],
    "in a URL": quote,
}
WORDINGS = (
    "1 validation error: Input should be a valid string [input_value={}]",
    "Invalid request: {} (see the documentation)",
)


@pytest.mark.parametrize("refuses_once", (False, True))
@pytest.mark.parametrize("line", lines_of(__file__, "hostile"))
def test_learning_takes_no_word_of_a_caller_for_its_servers(
    line: dict[str, Any], refuses_once: bool
) -> None:
    refusal, times = "", 0

    def echoing(request: Request) -> Any:
        nonlocal times
        times += (is_mallory := "mallory" in json.dumps(request.body))
        if not is_mallory or (refuses_once and times > 1):
            return answered(request)
        return status(400, refusal)

    mallory = [*CONVERSATION[:-1], {"role": "user", "content": line["words"], "name": "mallory"}]
    with OpenAIServer(echoing) as server:
        for echo in ECHOES.values():
            for wording in WORDINGS:
                refusal, times = wording.format(echo(line["words"])), 0
                model = OpenAIModel("m", server.url, max_retries=0)
                ask(model)
                before = server.requests[-1].body
                with pytest.raises(ModelError) as caught:
                    ask(model, mallory)
                assert caught.value.of_content
                ask(model)
                assert (server.requests[-1].path, server.requests[-1].body) == (
                    "/v1/chat/completions",
                    before,
                )
                assert model.learned == ()


def test_learning_takes_no_word_that_a_caller_has_cut_into_blocks() -> None:
    blocks = [{"type": "text", "text": each} for each in ("missing", "thought_signature")]
    mallory = [{"role": "user", "content": blocks}]
    refusals = [status(400, f"Input should be a valid string: {blocks}")]
    with OpenAIServer(lambda r: refusals.pop() if refusals else answered(r)) as server:
        model = OpenAIModel("m", server.url)
        with pytest.raises(ModelError, match="valid string"):
            ask(model, mallory)
        assert model.learned == ()


def test_learning_takes_no_word_of_an_action_or_a_schema_of_a_caller() -> None:
    words = "system role is not supported"
    act = Action("act", str, words, parameters={"type": "object", "properties": {words: {}}})
    schema = {"type": "object", "title": words}
    for actions, given in (([act], None), (None, schema)):
        echo = [each.parameters for each in actions] if actions else given
        refusals = [status(400, f"{words}: cannot read {echo}")]
        with OpenAIServer(lambda r, left=refusals: left.pop() if left else answered(r)) as server:
            model = OpenAIModel("m", server.url)
            with pytest.raises(ModelError, match="cannot read"):
                run(model.complete(CONVERSATION, actions, given))


def test_learning_takes_no_word_of_a_filter_or_of_a_busy_server() -> None:
    words = "System role not supported"
    filtered = {"error": {"message": words, "code": "content_filter"}}
    for answer in (http(json.dumps(filtered).encode(), 400), status(429, words)):
        refusals = [answer]
        with OpenAIServer(lambda r, left=refusals: left.pop() if left else answered(r)) as server:
            model = OpenAIModel("m", server.url, max_retries=0)
            with pytest.raises(ModelError):
                ask(model)
            assert len(server.requests) == 1


def test_learning_takes_the_place_of_a_fault_before_its_words() -> None:
    fault = {
        "type": "string_type",
        "loc": ["body", "messages", 1, "user", "content"],
        "msg": "Value error, system role is not supported",
    }
    refusal = http(json.dumps({"detail": [fault]}).encode(), 422)
    with OpenAIServer(refusal) as server:
        model = OpenAIModel("m", server.url)
        with pytest.raises(ModelError):
            ask(model)
        assert len(server.requests) == 1


def test_learning_of_a_provider_leaves_out_what_others_want(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "k")
    with OpenAIServer(status(400, "missing thought_signature")) as server:
        monkeypatch.setenv("GROQ_BASE_URL", server.url)
        with pytest.raises(ModelError):
            ask(OpenAIModel("m", provider="groq"))
        assert len(server.requests) == 1


def test_learning_of_one_model_holds_for_its_copies_with_other_options() -> None:
    refusals = [status(400, "System message must be at the beginning.")]
    with OpenAIServer(lambda r: refusals.pop() if refusals else answered(r)) as server:
        model = OpenAIModel("m", server.url)
        ask(model.with_options({"temperature": 0}))
        ask(model)
        assert len(server.requests) == 3
