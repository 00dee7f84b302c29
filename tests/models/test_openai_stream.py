"""Answers of OpenAI's chat interface that come piece by piece, well and badly."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

from conformance.model import ACTIONS, PERSON, joined, parts_of, run, until_error, user
from models.openai_server import (
    DONE,
    HANG,
    RESET,
    SOON,
    Answer,
    OpenAIServer,
    Request,
    answer,
    call,
    call_piece,
    completion,
    counted,
    delta,
    endless,
    events,
    http,
    status,
    streamed,
    text,
)
from moothall.foundation.errors import ContextOverflow, ModelError, RemoteForbidden
from moothall.models import (
    Call,
    ModelReply,
    OpenAIModel,
    RateLimit,
    ReasoningPiece,
    TextPiece,
    Usage,
)

KEY = "sk-a-secret-of-mine"
END = (delta(finish_reason="stop"), counted(), DONE)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def stream(*answers: Any, **more: Any) -> list[Any]:
    """What a model streams of a server's answers."""
    with OpenAIServer(*answers) as server:
        return run(parts_of(OpenAIModel("m", server.url, **more), user("Hi")))  # type: ignore[no-any-return]


def begun(*answers: Any, **more: Any) -> tuple[str, str, int]:
    """What came before the error of a stream, the error, and how many requests there were."""
    with OpenAIServer(*answers) as server:
        asked = OpenAIModel("m", server.url, **more)
        came, error = run(until_error(asked, user("Hi")))
    said = str(error)
    assert said.startswith(f"{asked.name}: ")
    assert said.isprintable()
    assert not any(isinstance(part, ModelReply) for part in came)
    said = said.removeprefix(f"{asked.name}: ").replace(server.url, "URL")
    return joined(came), said, len(server.requests)


# -- what goes out ---------------------------------------------------------------------------------


def test_a_streamed_request_is_the_same_and_asks_for_the_usage() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    content = [{"type": "text", "text": "What is this?"}, picture, sound]
    messages = [{"role": "user", "content": content}]
    with OpenAIServer(text("ok"), streamed("ok")) as server:
        asked = OpenAIModel("big", server.url, KEY, seed=1)
        run(asked.complete(messages, ACTIONS, PERSON))
        run(parts_of(asked, messages, ACTIONS, PERSON))
    whole, pieces = (request.body for request in server.requests)
    assert pieces.pop("stream") is True
    assert pieces.pop("stream_options") == {"include_usage": True}
    assert pieces == whole
    assert pieces["messages"][0]["content"] == content


@pytest.mark.parametrize(
    "refusal",
    (
        "property 'stream_options' is unsupported, did you mean 'stream'?",
        "body.stream_options.include_usage: Extra inputs are not permitted",
    ),
)
def test_a_server_that_refuses_to_count_is_asked_without(refusal: str) -> None:
    with OpenAIServer(status(422, refusal), streamed("one"), streamed("two")) as server:
        asked = OpenAIModel("m", server.url)
        said = [joined(run(parts_of(asked, user("Hi")))) for _ in range(2)]
    assert said == ["one", "two"]
    options = [request.body.get("stream_options") for request in server.requests]
    assert options == [{"include_usage": True}, None, None]


@pytest.mark.parametrize(
    ("refusal", "system"),
    (
        ("This response_format type is unavailable now", None),
        ("This model does not support response format `json_schema`", "Be kind."),
        ("the JSON schema has what no grammar has", [{"type": "text", "text": "Be kind."}]),
    ),
)
def test_a_server_that_refuses_a_schema_is_asked_in_words(refusal: str, system: Any) -> None:
    before = [{"role": "system", "content": system}] if system else []
    messages = [*before, *user("Who?")]

    def answers(request: Request) -> Answer:
        if "response_format" in request.body:
            return status(400, refusal)
        return streamed("{}") if request.body.get("stream") else text("{}")

    with OpenAIServer(answers) as server:
        asked = OpenAIModel("m", server.url)
        assert run(asked.complete(messages, schema=PERSON)).text == "{}"
        assert joined(run(parts_of(asked, messages, schema=PERSON))) == "{}"
    sent = ["response_format" in request.body for request in server.requests]
    assert sent == [True, False, False]  # it is refused once
    asked_in_words = server.requests[-1].body["messages"]
    assert asked_in_words[0]["content"].endswith(f"and nothing else: {json.dumps(PERSON)}")
    assert asked_in_words[-1] == messages[-1]
    assert ("Be kind." in json.dumps(asked_in_words)) is bool(system)


def test_an_answer_that_has_begun_is_not_asked_for_again_in_words() -> None:
    late = events(delta('{"name": '), {"error": {"message": "json_schema is not supported"}})
    with OpenAIServer(late, streamed("{}")) as server:
        came, error = run(until_error(OpenAIModel("m", server.url), user("Hi"), None, PERSON))
        assert len(server.requests) == 1
    assert (joined(came), "json_schema is not" in str(error)) == ('{"name": ', True)


REPEATS = {
    "role": "assistant",
    "content": "Hello",
    "reasoning_content": "Hm",
    "tool_calls": [call("add", '{"a": 1, "b": 2}', "c1"), call("add", '{"a": 3, "b": 4}', "c2")],
}


@pytest.mark.parametrize("pieces", (1, 2), ids=("in-one-piece", "in-pieces"))
def test_a_last_event_that_repeats_the_answer_adds_nothing(pieces: int) -> None:
    first, second = ({"index": n, **each} for n, each in enumerate(REPEATS["tool_calls"]))
    came = [delta(reasoning_content="Hm"), delta("Hel"), delta("lo"), delta(tool_calls=[first])]
    came.append(delta(tool_calls=[second]))
    last = completion(REPEATS, "tool_calls")
    with OpenAIServer(events(*came, *[last] * pieces, b"[DONE]")) as server:
        parts = run(parts_of(OpenAIModel("m", server.url), user("Hi"), ACTIONS))
    reply = parts[-1]
    assert joined(parts) == reply.text == "Hello"
    assert joined(parts, ReasoningPiece) == reply.reasoning == "Hm"
    assert [each.id for each in reply.calls] == ["c1", "c2"]
    assert (reply.usage, reply.finish_reason) == (Usage(7, 3), "calls")


def test_reasoning_that_a_last_event_repeats_in_another_field_is_told_once() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "signature": "S"}]
    last = completion({"content": "Hello", "reasoning_details": details})
    with OpenAIServer(events(delta(reasoning_content="Hm"), delta("Hello"), last)) as server:
        reply = run(parts_of(OpenAIModel("m", server.url), user("Hi")))[-1]
    assert (reply.text, reply.reasoning) == ("Hello", "Hm")


def test_a_last_event_has_what_did_not_come_in_pieces() -> None:
    came = [delta("", role="assistant"), delta(reasoning_content="Hm")]
    with OpenAIServer(events(*came, completion(REPEATS, "tool_calls"), b"[DONE]")) as server:
        reply = run(parts_of(OpenAIModel("m", server.url), user("Hi"), ACTIONS))[-1]
    assert (reply.text, reply.reasoning, len(reply.calls)) == ("Hello", "Hm", 2)


def test_a_last_event_with_an_empty_piece_and_a_message_is_the_message() -> None:
    last = completion(REPEATS, "tool_calls")
    last["choices"][0]["delta"] = {}
    with OpenAIServer(events(last, b"[DONE]")) as server:
        reply = run(parts_of(OpenAIModel("m", server.url), user("Hi"), ACTIONS))[-1]
    assert (reply.text, len(reply.calls)) == ("Hello", 2)


def test_offline_forbids_streams_from_other_machines() -> None:
    with pytest.raises(RemoteForbidden):
        run(parts_of(OpenAIModel("m", "https://models.example/v1", KEY), user("Hi")))


# -- what comes in ---------------------------------------------------------------------------------


def test_a_stream_is_pieces_of_reasoning_and_text_and_the_whole() -> None:
    given = events(
        delta("", role="assistant"),
        delta(reasoning_content="Let me "),
        delta(reasoning_content="think."),
        delta("It "),
        delta("is 👋"),
        *END,
    )
    assert stream(given) == [
        ReasoningPiece("Let me "),
        ReasoningPiece("think."),
        TextPiece("It "),
        TextPiece("is 👋"),
        ModelReply("It is 👋", usage=Usage(7, 3), reasoning="Let me think."),
    ]


@pytest.mark.parametrize(
    ("message", "reasoning"),
    (
        ({"content": "4", "reasoning_content": "2 and 2", "reasoning": ""}, "2 and 2"),
        ({"content": "4", "reasoning_content": None, "reasoning": "2 and 2"}, "2 and 2"),
        ({"content": "4", "reasoning_content": "the same", "reasoning": "the same"}, "the same"),
        ({"content": "4", "reasoning": {"effort": "low"}}, ""),
        (
            {"content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "4"}]},
            "hm",
        ),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2"}]},
                    {"type": "text", "text": "4"},
                ]
            },
            "2 and 2",
        ),
    ),
    ids=("reasoning_content", "reasoning", "both", "no-text", "block", "thinking"),
)
def test_reasoning_is_kept_apart_streamed_or_not(message: dict[str, Any], reasoning: str) -> None:
    given = completion({"role": "assistant"} | message)
    with OpenAIServer(answer(given)) as server:
        whole = run(OpenAIModel("m", server.url).complete(user("Hi")))
    assert (whole.text, whole.reasoning) == ("4", reasoning)
    thought = [ReasoningPiece(reasoning)] if reasoning else []
    parts = stream(events(delta(**message), *END))
    assert parts == [*thought, TextPiece("4"), whole]


def test_streamed_calls_are_joined_by_their_index() -> None:
    given = events(
        delta("Let me see."),
        call_piece(0, id="x", name="add", arguments=""),
        call_piece(0, arguments='{"a": 1, '),
        call_piece(1, id="y", name="add", arguments='{"a"'),
        call_piece(0, arguments='"b": 2}'),
        call_piece(1, arguments=": 3}"),
        call_piece(2, name="list_files"),
        delta(finish_reason="tool_calls"),
        DONE,
    )
    assert stream(given) == [
        TextPiece("Let me see."),
        ModelReply(
            "Let me see.",
            (
                Call("x", "add", '{"a": 1, "b": 2}'),
                Call("y", "add", '{"a": 3}'),
                Call("call_3", "list_files", ""),
            ),
            finish_reason="calls",
        ),
    ]


@pytest.mark.parametrize(
    "pieces",
    (
        (
            call_piece(0, id="x", name="add", arguments="{}"),
            call_piece(0, id="y", name="add", arguments="[]"),
        ),
        (
            call_piece(None, id="x", name="add", arguments="{"),
            call_piece(None, arguments="}"),
            call_piece(None, id="y", name="add", arguments="[]"),
        ),
        (
            call_piece(0, id="x", name="add", arguments="{"),
            call_piece(0, id="z", arguments="}"),
            call_piece(1, id="y", name="add", arguments="["),
            call_piece(1, id="zz", arguments="]"),
        ),
        (
            call_piece(0, id="x", name="add", arguments="{"),
            call_piece(0, id="x", name="add", arguments="}"),
            call_piece(1, id="y", name="add", arguments="[]"),
        ),
    ),
    ids=("one-index", "no-index", "many-ids", "names-again"),
)
def test_servers_number_the_pieces_of_calls_in_ways_of_their_own(pieces: Any) -> None:
    reply = stream(events(*pieces, *END))[-1]
    assert reply.calls == (Call("x", "add", "{}"), Call("y", "add", "[]"))


def test_a_whole_answer_in_one_event_is_an_answer() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call("add", "{}", "x")]}
    reply = stream(events(completion(message, "tool_calls"), DONE))[-1]
    assert reply == ModelReply("Hi", (Call("x", "add", "{}"),), Usage(7, 3), "calls")


def test_calls_of_a_whole_answer_are_not_joined() -> None:
    calls = [{"function": {"name": name}} for name in ("list", "list", "")]
    whole = completion({"content": None, "tool_calls": calls}, "tool_calls")
    names = [(f"call_{n}", name) for n, name in enumerate(("list", "list", ""), 1)]
    for given in (events(whole, DONE), answer(whole)):
        assert [(each.id, each.name) for each in stream(given)[-1].calls] == names


def test_a_report_of_a_content_filter_is_no_part_of_an_answer() -> None:
    report = {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]}
    parts = stream(events(delta("It is "), report, delta("5."), report, *END, report))
    assert joined(parts) == parts[-1].text == "It is 5."


def test_a_server_that_does_not_stream_gives_its_answer_whole() -> None:
    message = {"role": "assistant", "content": "It is 5.", "reasoning": "2 and 3"}
    (sent,) = answer(completion(message)).pieces
    in_two = Answer((sent[:-30], sent[-30:]), pause_s=0.02)
    assert stream(in_two) == [
        ReasoningPiece("2 and 3"),
        TextPiece("It is 5."),
        ModelReply("It is 5.", usage=Usage(7, 3), reasoning="2 and 3"),
    ]


def test_a_streamed_refusal_is_text() -> None:
    parts = stream(events(delta(refusal="I would "), delta(refusal="rather not."), *END))
    assert joined(parts) == parts[-1].text == "I would rather not."
    parts = stream(events(delta(content="It is 5."), delta(refusal="No."), *END))
    assert joined(parts) == parts[-1].text == "It is 5."


@pytest.mark.parametrize(
    ("given", "meant"),
    (
        *(("stop", "stop"), ("length", "length"), ("tool_calls", "stop")),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
    ),
)
def test_finish_reasons_of_streams_are_ours(given: str, meant: str) -> None:
    assert stream(events(delta("x"), delta(finish_reason=given), DONE))[-1].finish_reason == meant


def test_usage_that_a_stream_lacks_or_makes_up_counts_nothing() -> None:
    assert stream(events(delta("x", "stop"), DONE))[-1].usage == Usage()
    false = counted(prompt_tokens=-1, completion_tokens="many")
    assert stream(events(delta("x", "stop"), false, DONE))[-1].usage == Usage()
    running = delta("x") | {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    assert stream(events(running, *END))[-1].usage == Usage(7, 3)


def test_events_are_read_as_their_format_is_written() -> None:
    before, after = json.dumps(delta("é!"), ensure_ascii=False).split(" ", 1)
    lines = (
        ": a comment\r\n\r\nid: 7\r\nretry: 10\r\nevent: message\r\n"
        f"data:{json.dumps(delta('a'))}\r\n\r\n"
        f"data: {json.dumps(delta('b'))}\n\ndata:\n\nevent: alive\ndata: \n\nevent: error\n\n"
        f"data: {json.dumps(delta('c'))}\r\r"
        f":\nunknown: field\ndata: {before}\r\ndata: {after}\r\n\r\n\n\n"
        f"data: {json.dumps(delta('d', 'stop'))}\n\ndata: [DONE]"
    ).encode()
    for size in (len(lines), 1, 7):
        pieces = [lines[at : at + size] for at in range(0, len(lines), size)]
        parts = stream(events(*pieces))
        assert parts[-1].text == joined(parts) == "abcé!d"


def test_the_two_characters_of_a_line_end_may_come_apart() -> None:
    first = json.dumps(delta("a")).encode()
    begins, ends = json.dumps(delta("b", "stop")).encode().split(b" ", 1)
    go_on = threading.Event()
    answers = events(
        b"data: " + first + b"\r\n\r\ndata: " + begins + b"\r",
        go_on,
        b"\ndata: " + ends + b"\r\n\r\ndata: [DONE]\r\n\r\n",
    )

    async def read(url: str) -> list[Any]:
        parts = []
        async for part in OpenAIModel("m", url).stream(user("Hi")):
            go_on.set()  # what came before is read
            parts.append(part)
        return parts

    with OpenAIServer(answers) as server:
        assert joined(run(read(server.url))) == "ab"


def test_openai_stream_after_its_end_is_not_read_and_the_connection_is_reused() -> None:
    after = events(delta("ok"), *END, delta("no"), b"data: nonsense\n\n")
    with OpenAIServer(after) as server:
        asked = OpenAIModel("m", server.url)

        async def thrice() -> list[Any]:
            return [(await parts_of(asked, user("Hi")))[-1].text for _ in range(3)]

        assert run(thrice()) == ["ok"] * 3
        assert server.connections == 1


def test_a_server_that_does_not_close_after_the_end_is_not_waited_for() -> None:
    with OpenAIServer(events(delta("ok"), *END, hang=True)) as server:

        async def read() -> float:
            loop = asyncio.get_running_loop()
            start = loop.time()
            parts = await parts_of(OpenAIModel("m", server.url), user("Hi"))
            assert parts[-1].text == "ok"
            return loop.time() - start

        assert run(read()) < 5
        server.wait_for_close()


def test_a_stream_settles_its_limit() -> None:
    limit = RateLimit(tokens_per_minute=5000)
    with OpenAIServer(streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, rate_limit=limit)

        async def thrice() -> int:
            # At the estimate of 4096 tokens each, the second would wait for a minute.
            for _ in range(3):
                await parts_of(asked, user("Hi"))
            return len(server.requests)

        assert run(thrice()) == 3


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    (
        *(status(429, **SOON), status(500, **SOON), events(cut=True)),
        *(RESET, events(reset=True)),
        *(events(delta("", role="assistant"), cut=True), events(b": nothing\n\n")),
    ),
    ids=("429", "500", "cut", "reset", "reset-after-head", "cut-after-role", "ended"),
)
def test_before_its_first_byte_a_stream_is_tried_again(failure: Any) -> None:
    with OpenAIServer(failure, streamed("back")) as server:
        assert joined(run(parts_of(OpenAIModel("m", server.url), user("Hi")))) == "back"
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "given",
    (
        events(delta("It is"), delta(" so"), cut=True),
        events(delta("It is"), delta(" so"), reset=True, pause_s=0.02),
        events(delta("It is"), delta(" so")),
        events(delta("It is"), delta(" so"), b'data: {"choices": ['),
        events(delta("It is"), delta(" so"), counted()),
        Answer(
            (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
                f"data: {json.dumps(delta('It is so'))}\n\n".encode(),
            ),
            cut=True,
        ),
    ),
    ids=("cut", "reset", "ended", "half-an-event", "no-end", "no-length"),
)
def test_half_an_answer_is_none_and_is_not_asked_for_again(given: Any) -> None:
    came, said, requests = begun(given, streamed("never"))
    assert came == "It is so"
    assert re.match(r"the answer broke off(: \w+| after event \d, before its end)", said)
    assert requests == 1


def test_an_answer_whose_end_was_said_may_be_cut_after_it() -> None:
    assert stream(events(delta("ok", "stop"), cut=True))[-1] == ModelReply("ok")
    assert stream(events(delta("ok"), DONE, cut=True))[-1] == ModelReply("ok")


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (("{nonsense",), "event 2 of the answer is not JSON"),
        (("[" * 200_000,), "event 2 of the answer is nested too deep"),
        ((b"data: \xff\xfe\n\n",), "event 2 of the answer is not JSON"),
        (([1],), "event 2 of the answer is of type array, not an object"),
        (({"error": {"message": "no\nroom"}},), "answered with an error: no room"),
        (
            (b'event: error\ndata: {"message": "no room"}\n\n',),
            "answered with an error: no room",
        ),
        ((delta(finish_reason="stop"), {"error": "late"}), "answered with an error: late"),
        ((delta(5),), "event 2 of the answer's choices[0].delta.content is of type integer"),
        ((delta("", "error") | {"error": {"message": "no room"}},), "an error: no room"),
        (({"choices": [{"finish_reason": "error", "error": {"message": "no room"}}]},), "no room"),
        ((delta("", "insufficient_system_resource"),), "an error: insufficient_system_resource"),
        (({"choices": ["x"]},), "choices[0] is of type string, not an object"),
        (({"choices": [{"index": "x"}]},), "choices[0].index is of type string"),
        ((delta(finish_reason=5),), "choices[0].finish_reason is of type integer"),
        ((delta(tool_calls={"a": 1}),), "choices[0].delta.tool_calls is of type object"),
        ((delta(tool_calls=[5]),), "choices[0].delta.tool_calls[0] is of type integer"),
        ((call_piece("0", name="x"),), "tool_calls[0].index is of type string"),
        ((call_piece(-1, name="x"),), "tool_calls[0].index is of type integer"),
        ((call_piece(0, name=5),), "tool_calls[0].function.name is of type integer"),
        ((call_piece(0, arguments=5),), "tool_calls[0].function.arguments is of type integer"),
        ((call_piece(0, arguments="{}"), *END), "function.name is missing, not text"),
        (
            (*(call_piece(n, name="a") for n in range(1100)), *END),
            "the answer has 1100 calls, more than 1024",
        ),
        ((b"data: " + b" " * (9 * 2**20),), "an event has more than 8388608 bytes"),
        (tuple([b"data: " + b" " * 2**20 + b"\n"] * 9), "an event has more than 8388608 bytes"),
    ),
    ids=lambda given: given[:60] if isinstance(given, str) else "",
)
def test_a_wrong_event_ends_a_stream_with_what_is_wrong(given: Any, said: str) -> None:
    came, line, requests = begun(events(delta("so"), *given), streamed("never"))
    assert came == "so"
    assert said in line
    assert len(line) < 500
    assert requests == 1


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (http(b""), "the answer broke off after event 0"),
        (http(b"hello"), "the answer broke off after 'hello'"),
        (http(b"<html>", 200, {"Content-Type": "text/html"}), "the answer is a web page"),
        (events(DONE), "the answer's events hold no answer"),
        (events(counted(), DONE), "the answer's events hold no answer"),
        (events({"choices": [{}]}, DONE), "the answer's events hold no answer"),
        (events(b": nothing\n\n"), "the answer broke off after event 0"),
        (events(delta(finish_reason="content_filter"), DONE), "content filter withheld"),
        (status(400, "bad"), "the server answered 400: bad"),
        (http(b"", 307, {"Location": "http://elsewhere/"}), "the server answered 307"),
        (answer({"choices": []}), "the answer's choices is empty"),
    ),
)
def test_openai_stream_of_a_wrong_form_is_named(given: Any, said: str) -> None:
    came, line, _ = begun(given, max_retries=0)
    assert came == ""
    assert said in line


def test_a_prompt_too_long_to_be_streamed_is_an_overflow() -> None:
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    for given in (http(json.dumps(body).encode(), 400), answer(body), events(body)):
        with pytest.raises(ContextOverflow, match="too long; nothing was cut"):
            stream(given)


def test_the_key_is_not_in_what_an_answer_fails_with() -> None:
    told = {"error": {"message": f"the key {KEY} is wrong"}}
    assert begun(events(delta("so"), told), api_key=KEY)[1].endswith("the key … is wrong")
    with (
        OpenAIServer(answer(told)) as server,
        pytest.raises(ModelError, match=r"the key … is wrong$"),
    ):
        run(OpenAIModel("m", server.url, KEY).complete(user("Hi")))


@pytest.mark.parametrize("given", (HANG, events(hang=True)), ids=("no-head", "no-body"))
def test_a_stream_that_does_not_begin_is_late(given: Any) -> None:
    came, said, requests = begun(given, timeout=0.5, max_retries=1)
    assert (came, requests) == ("", 2)
    assert said == "URL gave no answer within 0.5 s; tried 2 times; timeout= gives it longer"


@pytest.mark.parametrize(
    "given",
    (
        events(delta("so"), hang=True),
        events(delta("so"), *[b": alive\n\n"] * 200, hang=True, pause_s=0.02),
        endless(delta("so"), pause_s=0.02),
    ),
    ids=("silent", "alive", "endless"),
)
def test_a_stream_that_does_not_end_is_late(given: Any) -> None:
    came, said, requests = begun(given, timeout=1.5)
    assert came.startswith("so")
    assert said == "the answer did not end within 1.5 s"
    assert requests == 1


@pytest.mark.parametrize(
    ("data", "said"),
    (
        (b":\n" * 30_000, "the answer has more than 1048576 lines"),
        (delta("so" * 30_000), "the answer has more than 67108864 bytes"),
    ),
    ids=("comments", "text"),
)
def test_a_stream_without_end_is_not_read_for_ever(data: Any, said: str) -> None:
    assert begun(endless(data))[1] == said


def test_the_time_of_whoever_reads_is_not_the_servers() -> None:
    async def read(asked: OpenAIModel) -> str:
        said = ""
        async for part in asked.stream(user("Hi")):
            if isinstance(part, TextPiece):
                said += part.text
                await asyncio.sleep(0.6)
        return said

    with OpenAIServer(events(delta("a"), delta("b"), delta("c"), *END)) as server:
        assert run(read(OpenAIModel("m", server.url, timeout=1.5))) == "abc"


# -- left before their end -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ("close", "cancel", "error"))
def test_a_stream_that_is_left_closes_its_connection_at_once(how: str) -> None:
    with OpenAIServer(events(delta("so"), hang=True), streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=1)

        async def leave() -> float:
            first = asyncio.Event()

            async def read() -> None:
                stream = asked.stream(user("Hi"))
                try:
                    async for part in stream:
                        first.set()
                        if how == "error":
                            raise LookupError(part)
                        if how == "close":
                            break
                finally:
                    if how != "cancel":
                        await stream.aclose()

            task = asyncio.create_task(read())
            await first.wait()
            start = asyncio.get_running_loop().time()
            if how == "cancel":
                task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() == (how == "cancel")
            assert how != "error" or isinstance(task.exception(), LookupError)
            await asyncio.to_thread(server.wait_for_close)
            took_s = asyncio.get_running_loop().time() - start
            # The only connection there may be is free again.
            assert joined(await parts_of(asked, user("Hi"))) == "ok"
            return took_s

        assert run(leave()) < 10


def test_after_whatever_end_the_place_of_a_stream_is_free() -> None:
    ends = (
        events(delta("so"), cut=True),
        events("nonsense"),
        status(400, "no"),
        HANG,
    )
    with OpenAIServer(*ends, streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=1, timeout=2, max_retries=0)

        async def each() -> list[str]:
            for _ in ends:
                with pytest.raises(ModelError):
                    await parts_of(asked, user("Hi"))
            return [joined(await parts_of(asked, user("Hi"))) for _ in range(2)]

        assert run(each()) == ["ok", "ok"]


def test_no_more_streams_at_once_than_connections_and_the_others_wait() -> None:
    with OpenAIServer(streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=2)

        async def many() -> list[Any]:
            return list(await asyncio.gather(*(parts_of(asked, user("Hi")) for _ in range(20))))

        assert [parts[-1].text for parts in run(many())] == ["ok"] * 20
        assert server.connections == 2
