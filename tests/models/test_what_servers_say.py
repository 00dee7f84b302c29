"""What servers say in their own ways: ends, passing failures, refused calls, marks of reasoning."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from conformance.model import ACTIONS, joined, parts_of, run, user
from models import messages_format, responses_format
from models.openai_server import (
    OpenAIServer,
    Request,
    answer,
    call,
    calls,
    completion,
    delta,
    events,
    http,
    status,
    text,
)
from moothall import AnthropicModel, FallbackModel, OpenAIModel, ReActAgent, Reply
from moothall.foundation.errors import ContextOverflow, ModelError
from moothall.models import ModelReply, ReasoningPiece, Usage
from moothall.models.ask import ask_json

ADD = call("add", '{"a": 1, "b": 2}', "c1")


@dataclass
class Sum:
    total: int


def said(content: str | None, reason: Any = "stop", **more: Any) -> Any:
    return answer(completion({"role": "assistant", "content": content, **more}, reason))


def ask(*answers: Any, **more: Any) -> ModelReply:
    with OpenAIServer(*answers) as server:
        return run(OpenAIModel("m", server.url, **more).complete(user("Hi")))  # type: ignore[no-any-return]


def agent_says(*answers: Any, schema: Any = None, **more: Any) -> Reply:
    with OpenAIServer(*answers) as server:
        model = OpenAIModel("m", server.url, **more)
        return ReActAgent("a", model, actions=ACTIONS[:1]).reply_sync("Add", schema=schema)


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "ours"),
    (
        *(("sensitive", "content_filter"), ("guardrail_intervened", "content_filter")),
        *(("SAFETY", "content_filter"), ("MAX_TOKENS", "length"), ("eos", "stop"), ("", "stop")),
        *(("model_context_window_exceeded", "length"), ("token_limit", "length")),
        *(("max_completion_tokens", "length"), ("context_length_exceeded", "length")),
        ("refusal", "refusal"),
        *(("content_filter: PROHIBITED_CONTENT", "content_filter"), ("null", "stop")),
        *(("content_filtered", "content_filter"), ("IMAGE_SAFETY", "content_filter")),
        *(
            ("FINISH_REASON_STOP", "stop"),
            ("COMPLETE", "stop"),
            ("content-filter", "content_filter"),
        ),
    ),
)
def test_every_providers_end_is_one_of_ours(reason: str, ours: str) -> None:
    assert ask(said("Once", reason)).finish_reason == ours


@pytest.mark.parametrize("reason", ("abort", "cancelled", "OTHER"))
def test_an_end_that_nobody_knows_is_not_whole(reason: str) -> None:
    with pytest.raises(ModelError, match=f"the answer is not whole: it ended with '{reason}'"):
        ask(said("Once", reason))
    block = {"type": "text", "text": "Once"}
    with OpenAIServer(messages_format.message(block, stop_reason=reason)) as server:
        claude = AnthropicModel("m", server.url, "k")
        with pytest.raises(ModelError, match="not whole"):
            run(claude.complete(user("Hi")))


def test_a_refusal_with_a_schema_is_not_asked_again() -> None:
    reply = agent_says(said(None, refusal="I will not."), schema=Sum)
    assert (reply.stop_reason, reply.detail) == ("unreadable", "refused by the model: I will not.")


def test_a_call_that_was_cut_says_so_to_the_model() -> None:
    cut = completion({"content": None, "tool_calls": [call("add", '{"a": 1,', "c1")]}, "length")
    with OpenAIServer(answer(cut), text("3")) as server:
        ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1]).reply_sync("Add")
    assert "cut at its length limit" in server.requests[1].body["messages"][-1]["content"]


# -- failures that pass ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "tries"),
    (
        ({"code": 502, "message": "bad gateway"}, 2),
        ({"code": "429", "message": "slow down"}, 2),
        ({"type": "overloaded_error", "message": "Overloaded"}, 2),
        *(({"code": "1305", "message": "busy"}, 2), ({"status": "UNAVAILABLE"}, 2)),
        *(({"code": "Throttling.RateQuota"}, 2), ("internalServerException", 2)),
        *(({"message": "Please try again later."}, 2), ({"code": 401, "message": "overloaded"}, 1)),
        *(({"code": "capacity_exceeded"}, 2), ({"message": "The model is currently loading"}, 2)),
        *(({"code": 400, "message": "no"}, 1), ({"type": "invalid_request_error"}, 1)),
    ),
)
@pytest.mark.parametrize("streams", (False, True), ids=("whole", "streamed"))
def test_a_passing_failure_within_an_answer_is_tried_again(
    error: dict[str, Any], tries: int, streams: bool
) -> None:
    given = events({"error": error}) if streams else answer({"error": error})
    with OpenAIServer(given) as server:
        model = OpenAIModel("m", server.url, max_retries=1)
        with pytest.raises(ModelError, match="answered with an error") as caught:
            run(parts_of(model, user("Hi")) if streams else model.complete(user("Hi")))
    assert len(server.requests) == tries
    assert ("tried 2 times" in str(caught.value)) is (tries == 2)


@pytest.mark.parametrize(
    "body",
    (
        [{"error": {"code": 503, "message": "The model is overloaded."}}],
        {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None},
        {"object": "error", "message": "busy", "code": 503},
        {"code": "Throttling", "message": "too fast", "request_id": "1"},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "ERROR"}]},
        {"error": {"message": "Upstream request timed out", "type": "upstream_error"}},
        {"error": {"message": "upstream connect error or disconnect/reset before headers"}},
        b"event: error\ndata: overloaded, try again later\n\n",
    ),
    ids=(
        *("gemini", "minimax", "vllm", "dashscope", "openrouter", "gateway", "envoy"),
        "text",
    ),
)
def test_a_failure_in_any_form_within_a_200_is_tried_again(body: Any) -> None:
    with OpenAIServer(events(body), events(delta("Hi", "stop"), b"[DONE]")) as server:
        parts = run(parts_of(OpenAIModel("m", server.url, max_retries=1), user("Hi")))
    assert (parts[-1].text, len(server.requests)) == ("Hi", 2)


@pytest.mark.parametrize("kind", ("text/plain", "application/json", "text/event-stream"))
@pytest.mark.parametrize("whole", (False, True), ids=("streamed", "whole"))
def test_a_stream_is_read_as_what_comes_not_as_what_it_is_called(kind: str, whole: bool) -> None:
    given = completion({"role": "assistant", "content": "Hi"}) if whole else delta("Hi", "stop")
    body = json.dumps(given) if whole else f"data: {json.dumps(given)}\n\ndata: [DONE]\n\n"
    for before in ("\n", ""):
        said = http((before + body).encode(), headers={"Content-Type": kind})
        with OpenAIServer(said) as server:
            model = OpenAIModel("m", server.url)
            parts = run(parts_of(model, user("Hi")))
            assert run(model.complete(user("Hi"))).text == "Hi"
        assert [part.text for part in parts] == ["Hi", "Hi"]


def test_an_answer_without_a_byte_is_asked_for_again() -> None:
    with OpenAIServer(http(b""), text("Hi")) as server:
        assert run(OpenAIModel("m", server.url, max_retries=1).complete(user("Hi"))).text == "Hi"


def test_json_that_the_server_finds_wrong_is_asked_for_again() -> None:
    error = {"message": "Failed to generate JSON", "code": "json_validate_failed"}
    error |= {"failed_generation": '{"total": "many"}'}
    refusal = http(json.dumps({"error": error}).encode(), 400)
    with OpenAIServer(refusal, text('{"total": 3}')) as server:
        reply = ReActAgent("a", OpenAIModel("m", server.url)).reply_sync("Sum?", schema=Sum)
        assert reply.value == Sum(3)
        assert '"many"' in server.requests[1].body["messages"][1]["content"]


@pytest.mark.parametrize("streams", (False, True), ids=("whole", "streamed"))
def test_openai_text_in_place_of_an_answer_is_the_error_that_is_raised(streams: bool) -> None:
    given = {"detail": "no such deployment"}
    with OpenAIServer(events(given) if streams else answer(given)) as server:
        model = OpenAIModel("m", server.url)
        with pytest.raises(ModelError, match="answered with an error: no such deployment"):
            run(parts_of(model, user("Hi")) if streams else model.complete(user("Hi")))


def test_anthropic_overloaded_within_a_stream_is_tried_again() -> None:
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    start = {"type": "message_start", "message": {}}
    with OpenAIServer(events(start, busy), messages_format.text("Hi")) as server:
        assert run(parts_of(AnthropicModel("m", server.url, "k"), user("Hi")))[-1].text == "Hi"


# -- calls that the server refuses -----------------------------------------------------------------

FAILED = {"message": "tool call validation failed", "code": "tool_use_failed"}


@pytest.mark.parametrize("inside", (False, True), ids=("400", "200"))
@pytest.mark.parametrize(
    "generated",
    (
        '{"name": "add", "arguments": {"foo": 1}}',
        '<function=add{"foo": 1}</function>',
        '<tool_call>\n{"name": "add", "arguments": {"foo": 1}}\n</tool_call>',
        '{"tool_calls": [{"function": {"name": "add", "arguments": "{\\"foo\\": 1}"}}]}',
    ),
)
def test_a_call_that_the_server_refuses_is_asked_for_again(generated: str, inside: bool) -> None:
    body = json.dumps({"error": FAILED | {"failed_generation": generated}}).encode()
    with OpenAIServer(http(body, 200 if inside else 400), calls(ADD), text("3")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[:1])
        reply = agent.reply_sync("Add")
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])
    told = server.requests[1].body["messages"]
    assert told[1]["tool_calls"][0]["function"]["name"] == "add"
    assert told[2]["role"] == "tool"


def test_text_that_the_server_refuses_for_a_call_is_the_answer() -> None:
    body = json.dumps({"error": FAILED | {"failed_generation": "It is 3."}}).encode()
    assert ask(http(body, 400)).text == "It is 3."


def test_a_call_that_a_provider_behind_another_refuses_is_asked_for_again() -> None:
    behind = {"error": FAILED | {"failed_generation": '{"name": "add", "arguments": {"foo": 1}}'}}
    about = {"raw": json.dumps(behind), "provider_name": "Groq"}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": about}}
    reply = agent_says(http(json.dumps(body).encode(), 400), calls(ADD), text("3"))
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])


@pytest.mark.parametrize(
    "refusal",
    (
        answer(completion({"content": None}, "MALFORMED_FUNCTION_CALL")),
        answer(completion({"content": ""}, "function_call_filter: UNEXPECTED_TOOL_CALL")),
        http(b'{"error": "error parsing tool call: raw=\'{\', err=unexpected end"}', 500),
        http(b'{"error": {"message": "Parsing failed", "code": "output_parse_failed"}}', 400),
    ),
    ids=("gemini", "gemini-filter", "ollama", "groq"),
)
def test_a_call_that_the_server_cannot_read_is_asked_for_again(refusal: Any) -> None:
    reply = agent_says(refusal, calls(ADD), text("3"), max_retries=0)
    assert (reply.text, [step.action for step in reply.steps]) == ("3", ["add"])


# -- reasoning in the text -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    (
        '<think>\nTwo and one.\n</think>\n\n{"total": 3}',
        '\n<thinking>Two and one.</thinking>{"total": 3}',
        'Two and one.\n</think>\n\n{"total": 3}',
        '<think></think>\n<think>Two and one.</think>{"total": 3}',
        '<seed:think>Two and one.</seed:think>{"total": 3}',
        '◁think▷Two and one.◁/think▷{"total": 3}',
        '<|START_THINKING|>Two and one.<|END_THINKING|>{"total": 3}',
        "<|channel|>analysis<|message|>Two and one.<|end|><|start|>assistant<|channel|>final"
        '<|message|>{"total": 3}',
        "<|channel|>analysis<|message|>Two and one.<|end|><|start|>assistant<|channel|>final"
        ' <|constrain|>json<|message|>{"total": 3}',
        '[THINK]Two and one.[/THINK]{"total": 3}',
        '<|channel>thought\nTwo and one.<channel|>{"total": 3}',
    ),
)
def test_marked_reasoning_is_no_part_of_the_answer(content: str) -> None:
    reply = ask(said(content))
    assert (reply.text, reply.reasoning) == ('{"total": 3}', "Two and one.")
    assert agent_says(said(content), schema=Sum).value == Sum(3)
    with OpenAIServer(said(content)) as server:
        found = ask_json(OpenAIModel("m", server.url), user("Hi"), None, json.loads)
        assert run(found) == {"total": 3}


@pytest.mark.parametrize(
    "content", ("<think>Two and one.</think>\n\nThree", "</think>\n\nThree", "Three")
)
def test_reasoning_that_comes_apart_and_marked_is_shown_once(content: str) -> None:
    given = said(content, reasoning_content="Two and one.")
    pieces = [delta(content[at : at + 4]) for at in range(0, len(content), 4)]
    streamed = events(delta(reasoning_content="Two and one."), *pieces, delta(None, "stop"))
    reply = ask(given)
    with OpenAIServer(streamed) as server:
        parts = run(parts_of(OpenAIModel("m", server.url), user("Hi")))
    assert (reply.text, reply.reasoning) == ("Three", "Two and one.")
    assert joined(parts) == parts[-1].text == "Three"
    assert joined(parts, ReasoningPiece) == parts[-1].reasoning == "Two and one."


@pytest.mark.parametrize("form", ("messages", "responses"))
@pytest.mark.parametrize("streams", (False, True), ids=("whole", "streamed"))
def test_marked_reasoning_is_told_apart_in_every_form(form: str, streams: bool) -> None:
    content = "<think>\nTwo and one.\n</think>\n\nThree"
    if form == "messages":
        block = {"type": "text", "text": content}
        given = (messages_format.streamed if streams else messages_format.message)(block)
    else:
        item = responses_format.said(content)
        given = (responses_format.streamed if streams else responses_format.response)(item)
    with OpenAIServer(given) as server:
        model: Any = AnthropicModel("m", server.url.removesuffix("/v1"), "k")
        if form == "responses":
            model = OpenAIModel("m", server.url, api="responses")
        reply = run(parts_of(model, user("Hi")))[-1] if streams else run(model.complete(user("Hi")))
    assert (reply.text, reply.reasoning) == ("Three", "Two and one.")


def test_marked_reasoning_is_streamed_as_reasoning() -> None:
    pieces = ("<th", "ink>Two ", "and <b> one.", "</thin", "k>", "\n\n", "Three", " < four")
    given = events(*map(delta, pieces), delta(None, "stop"), b"[DONE]")
    with OpenAIServer(given) as server:
        parts = run(parts_of(OpenAIModel("m", server.url), user("Hi")))
    assert joined(parts) == parts[-1].text == "Three < four"
    assert joined(parts, ReasoningPiece) == parts[-1].reasoning == "Two and <b> one."


@pytest.mark.parametrize("content", ("Write `</think>` at the end.", "I think <think> is a mark."))
def test_marks_within_a_text_are_text(content: str) -> None:
    assert ask(said(content)).text == content


# -- forms -----------------------------------------------------------------------------------------


def test_events_that_say_nothing_are_passed_over() -> None:
    nothing = ({"type": "ping"}, {"choices": None}, {}, None, b"event: ping\ndata: ping\n\n")
    given = events(*nothing, delta("Hi"), *nothing, delta(None, "stop"), b"[DONE]")
    with OpenAIServer(given) as server:
        assert run(parts_of(OpenAIModel("m", server.url), user("Hi")))[-1].text == "Hi"


@pytest.mark.parametrize("arguments", ('{}{"a": 1, "b": 2}', '{} {"a": 1, "b": 2}'))
def test_an_empty_object_before_the_arguments_is_passed_over(arguments: str) -> None:
    reply = agent_says(calls(call("add", arguments, "c1")), text("3"))
    assert [step.args for step in reply.steps] == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("arguments", ("null", "[]"))
def test_null_or_an_empty_list_is_no_arguments(arguments: str) -> None:
    with OpenAIServer(calls(call("list_files", arguments, "c1")), text("none")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=ACTIONS[1:2])
        assert [step.args for step in agent.reply_sync("List").steps] == [{}]


def test_an_answer_withheld_without_a_message_names_the_filter() -> None:
    with pytest.raises(ModelError, match="content filter withheld the answer"):
        ask(answer({"choices": [{"index": 0, "finish_reason": "content_filter"}]}))


@pytest.mark.parametrize("field", ("cache_write_tokens", "cache_creation_tokens"))
def test_tokens_written_to_the_cache_are_counted(field: str) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 4, "prompt_tokens_details": {field: 30}}
    assert ask(text("ok", usage=usage)).usage == Usage(40, 4, 0, 30)


@pytest.mark.parametrize(
    ("counted", "usage"),
    (
        ({"cached_tokens": 30}, Usage(40, 4, 30)),
        ({"prompt_cache_hit_tokens": 30, "prompt_cache_miss_tokens": 10}, Usage(40, 4, 30)),
        (
            {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 30},
            Usage(40, 4, 5, 30),
        ),
        ({"prompt_tokens_details": {"cache_creation_input_tokens": 30}}, Usage(40, 4, 0, 30)),
        ({"reasoning_tokens": 3}, Usage(40, 4, 0, 0, 3)),
        ({"input_tokens_details": {"cached_tokens": 30}}, Usage(40, 4, 30)),
    ),
    ids=("kimi", "deepseek", "bridge-to-anthropic", "dashscope", "reasoning", "responses"),
)
def test_every_providers_names_of_tokens_are_read(counted: dict[str, Any], usage: Usage) -> None:
    counted |= {"prompt_tokens": 40, "completion_tokens": 4}
    assert ask(text("ok", usage=counted)).usage == usage


@pytest.mark.parametrize("place", ("choice", "x_groq"))
def test_usage_is_found_where_a_stream_states_it(place: str) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 4}
    last = delta(None, "stop")
    if place == "choice":
        last["choices"][0]["usage"] = usage
    else:
        last["x_groq"] = {"usage": usage}
    with OpenAIServer(events(delta("Hi"), last, b"[DONE]")) as server:
        assert run(parts_of(OpenAIModel("m", server.url), user("Hi")))[-1].usage == Usage(40, 4)


def test_a_server_that_wants_the_other_field_of_a_length_gets_it() -> None:
    refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    with OpenAIServer(status(400, refusal), text("Hi")) as server:
        model = OpenAIModel("gpt-5", server.url, max_tokens=9)
        assert [run(model.complete(user("Hi"))).text for _ in range(2)] == ["Hi", "Hi"]
    sent = [request.body.get("max_completion_tokens") for request in server.requests]
    assert sent == [None, 9, 9]


@pytest.mark.parametrize(
    "said",
    (
        "too many tokens: size limit exceeded by 2011 tokens",
        "prompt token count of 130000 exceeds the limit of 128000",
        "Request body too large for gpt-4o model. Max size: 8000 tokens.",
        "Invalid request: Your request exceeded model token limit: 131072",
        "Prompt exceeds max length",
        "Range of input length should be [1, 129024]",
        "litellm.ContextWindowExceededError: too big",
        "Please reduce the length of the messages or completion.",
        "the request exceeds the available context size, try increasing it",
        "`inputs` must have less than 4096 tokens. Given: 5000",
        "Input length (5000) exceeds the maximum allowed length (4090). Use a shorter input",
        "Prompt length (5000) exceeds maximum input length (4096)",
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
        "Total tokens of image and text exceed max message tokens",
        "Unable to submit request because the input token count is 1048577 but model only supports"
        " up to 1048576.",
        "The sum of prompt length (5000), query length (0) should not exceed max_num_tokens (4096)",
        "prompt tokens too long",
        "max_tokens must be at least 1, got -1234.",
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length 9.",
    ),
)
def test_a_prompt_that_is_too_long_is_told_apart(said: str) -> None:
    with pytest.raises(ContextOverflow):
        ask(status(400, said))


@pytest.mark.parametrize(
    "said",
    (
        "Rate limit reached: too many tokens per minute (TPM): Limit 30000",
        "Too many tokens, please wait before trying again.",
        "You exceeded your token quota",
        "max_tokens is too large: 9999. This model supports at most 4096 completion tokens.",
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a maximum length of 40",
        "Input should be greater than or equal to 1",
        "Invalid 'tools': array too long. Expected an array with maximum length 128",
        "image exceeds 5 MB maximum",
    ),
)
def test_another_fault_is_no_prompt_that_is_too_long(said: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(status(429, said), max_retries=0)
    assert not isinstance(caught.value, ContextOverflow)


def test_anthropic_gets_an_image_whose_address_has_more_than_its_type() -> None:
    url = "data:image/JPEG;charset=utf-8;base64,aGk="
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    with OpenAIServer(messages_format.text("A cat.")) as server:
        run(AnthropicModel("m", server.url, "k").complete([message]))
    source = server.requests[0].body["messages"][0]["content"][0]["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/jpeg")
    assert source["data"] == "aGk="


def test_anthropic_gets_a_text_file_as_its_text() -> None:
    file = {"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"}
    message = {"role": "user", "content": [{"type": "file", "file": file}]}
    with OpenAIServer(messages_format.text("Two.")) as server:
        run(AnthropicModel("m", server.url, "k").complete([message]))
    block = server.requests[0].body["messages"][0]["content"][0]
    assert (block["type"], block["source"]["data"]) == ("document", "a,b")


# -- conversations of another provider -------------------------------------------------------------


def wants_nine(request: Request) -> Any:
    ids = [each["id"] for m in request.body["messages"] for each in m.get("tool_calls", ())]
    ids += [m["tool_call_id"] for m in request.body["messages"] if m["role"] == "tool"]
    if bad := [each for each in ids if len(each) != 9 or not each.isalnum()]:
        form = "must be a-z, A-Z, 0-9, with a length of 9."
        return status(400, f"Tool call id was {bad[0]} but {form}")
    assert len(set(ids)) == len(ids) // 2
    return text("3")


def wants_signatures(request: Request) -> Any:
    made = [m["tool_calls"][0] for m in request.body["messages"] if m.get("tool_calls")]
    if not all("extra_content" in each for each in made):
        return status(400, "Function call is missing a thought_signature in functionCall parts.")
    return text("3")


def wants_reasoning(request: Request) -> Any:
    made = [m for m in request.body["messages"] if m["role"] == "assistant"]
    if not all(m.get("reasoning_content") for m in made):
        return status(400, "thinking is enabled but reasoning_content is missing in message 2")
    return text("3")


def wants_plain_ids(request: Request) -> Any:
    ids = [each["id"] for m in request.body["messages"] for each in m.get("tool_calls", ())]
    if not all(each.replace("_", "").isalnum() for each in ids):
        form = "String should match pattern '^[a-zA-Z0-9_-]+$'"
        return status(400, f"messages.1.content.0.tool_use.id: {form}")
    return text("3")


SERVERS = (wants_nine, wants_plain_ids, wants_signatures, wants_reasoning)


@pytest.mark.parametrize("server", SERVERS)
def test_the_next_model_takes_the_calls_of_the_first(server: Any) -> None:
    busy = status(503, "busy")
    with (
        OpenAIServer(calls(ADD, call("add", "{}", "functions.add:1")), busy) as one,
        OpenAIServer(server) as two,
    ):
        first = OpenAIModel("m", one.url, max_retries=0)
        model = FallbackModel([first, OpenAIModel("m", two.url)])
        agent = ReActAgent("a", model, actions=ACTIONS[:1])
        assert agent.reply_sync("Add").text == "3"
        agent.model = model.models[1]
        assert agent.reply_sync("Again").text == "3"


def test_many_requests_at_once_are_all_adapted() -> None:
    made = [{"id": "c1", "name": "add", "args": {}}]
    messages = [
        *user("Add"),
        {"role": "assistant", "content": "", "tool_calls": made},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]

    async def asked(model: Any) -> list[ModelReply]:
        return list(await asyncio.gather(*(model.complete(messages) for _ in range(8))))

    with OpenAIServer(wants_nine) as server:
        replies = run(asked(OpenAIModel("m", server.url)))
    assert [each.text for each in replies] == ["3"] * 8


def test_a_server_that_wants_an_answer_after_a_result_gets_one() -> None:
    def answers(request: Request) -> Any:
        roles = [m["role"] for m in request.body["messages"]]
        if ("tool", "user") in itertools.pairwise(roles):
            return status(400, "Unexpected role 'user' after role 'tool'")
        return text("ok")

    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    made = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "add"}]}
    with OpenAIServer(answers) as server:
        model = OpenAIModel("m", server.url)
        assert run(model.complete([*user("Add"), made, result, *user("Stop")])).text == "ok"


def alternates(request: Request) -> Any:
    roles = [m["role"] for m in request.body["messages"]]
    if roles[0] == "system" or any(a == b for a, b in itertools.pairwise(roles)):
        return status(400, "Conversation roles must alternate user/assistant/user/assistant/...")
    return text("ok")


def wants_one_system(request: Request) -> Any:
    if "system" in [m["role"] for m in request.body["messages"][1:]]:
        return status(400, "System message must be at the beginning.")
    return text("ok")


def takes_no_system(request: Request) -> Any:
    if request.body["messages"][0]["role"] == "system":
        return status(400, "System role not supported")
    return text("ok")


def takes_no_names(request: Request) -> Any:
    if any("name" in m for m in request.body["messages"]):
        detail = {"type": "extra_forbidden", "loc": ["body", "messages", 1, "user", "name"]}
        return http(json.dumps({"message": {"detail": [detail]}}).encode(), 422)
    return text("ok")


@pytest.mark.parametrize("server", (alternates, wants_one_system, takes_no_system, takes_no_names))
def test_a_conversation_has_the_roles_that_the_server_takes(server: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One.", "name": "ann"},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Two."}, image], "name": "bob"},
    ]
    with OpenAIServer(server) as it:
        model = OpenAIModel("m", it.url)
        assert [run(model.complete(messages)).text for _ in range(2)] == ["ok", "ok"]
    body = it.requests[-1].body["messages"]
    sent = json.dumps(body)
    assert all(each in sent for each in ("Be brief.", "Be kind.", "One.", "Two.", "aGk="))
    assert it.requests[-1].body == it.requests[-2].body
