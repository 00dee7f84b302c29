"""Answers of OpenAI's chat interface that come piece by piece, well and badly."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

from models.openai_server import (
    DONE,
    HANG,
    Answer,
    OpenAIServer,
    answer,
    call_piece,
    completion,
    counted,
    delta,
    endless,
    events,
    status,
    streamed,
    text,
)
from moothall.foundation.errors import ModelError
from moothall.models import (
    ModelReply,
    OpenAIModel,
    RateLimit,
    ReasoningPiece,
    TextPiece,
    Usage,
)
from moothall.testing.model_suite import (
    ACTIONS,
    PERSON_SCHEMA,
    joined_text,
    parts_of,
    run,
    until_error,
    user_message,
)

KEY = "sk-a-secret-of-mine"
END = (delta(finish_reason="stop"), counted(), DONE)


def stream(*answers: Any, **more: Any) -> list[Any]:
    """What a model streams of a server's answers."""
    with OpenAIServer(*answers) as server:
        return run(parts_of(OpenAIModel("m", server.url, **more), user_message("Hi")))  # type: ignore[no-any-return]


def begun(*answers: Any, **more: Any) -> tuple[str, str, int]:
    """What came before the error of a stream, the error, and how many requests there were."""
    with OpenAIServer(*answers) as server:
        asked = OpenAIModel("m", server.url, **more)
        came, error = run(until_error(asked, user_message("Hi")))
    said = str(error)
    assert said.startswith(f"{asked.name}: ")
    assert said.isprintable()
    assert not any(isinstance(part, ModelReply) for part in came)
    said = said.removeprefix(f"{asked.name}: ").replace(server.url, "URL")
    return joined_text(came), said, len(server.requests)


# -- what goes out ---------------------------------------------------------------------------------


def test_openai_streamed_request_is_the_same_but_asks_for_the_usage() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    content = [{"type": "text", "text": "What is this?"}, picture, sound]
    messages = [{"role": "user", "content": content}]
    with OpenAIServer(text("ok"), streamed("ok")) as server:
        asked = OpenAIModel("big", server.url, KEY, seed=1)
        run(asked.complete(messages, ACTIONS, PERSON_SCHEMA))
        run(parts_of(asked, messages, ACTIONS, PERSON_SCHEMA))
    whole, pieces = (request.body for request in server.requests)
    assert pieces.pop("stream") is True
    assert pieces.pop("stream_options") == {"include_usage": True}
    assert pieces == whole
    assert pieces["messages"][0]["content"] == content


def test_openai_answer_that_has_begun_is_not_asked_for_again_in_words() -> None:
    late = events(delta('{"name": '), {"error": {"message": "json_schema is not supported"}})
    with OpenAIServer(late, streamed("{}")) as server:
        came, error = run(
            until_error(OpenAIModel("m", server.url), user_message("Hi"), None, PERSON_SCHEMA)
        )
        assert len(server.requests) == 1
    assert (joined_text(came), "json_schema is not" in str(error)) == ('{"name": ', True)


# -- what comes in ---------------------------------------------------------------------------------


def test_openai_server_that_does_not_stream_gives_its_answer_whole() -> None:
    message = {"role": "assistant", "content": "It is 5.", "reasoning": "2 and 3"}
    (sent,) = answer(completion(message)).pieces
    in_two = Answer((sent[:-30], sent[-30:]), pause_s=0.02)
    assert stream(in_two) == [
        ReasoningPiece("2 and 3"),
        TextPiece("It is 5."),
        ModelReply("It is 5.", usage=Usage(7, 3), reasoning="2 and 3"),
    ]


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
        assert parts[-1].text == joined_text(parts) == "abcé!d"


def test_openai_stream_may_cut_a_line_end_in_two() -> None:
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
        async for part in OpenAIModel("m", url).stream(user_message("Hi")):
            go_on.set()  # what came before is read
            parts.append(part)
        return parts

    with OpenAIServer(answers) as server:
        assert joined_text(run(read(server.url))) == "ab"


async def test_openai_stream_after_its_end_is_not_read_and_the_connection_is_reused() -> None:
    after = events(delta("ok"), *END, delta("no"), b"data: nonsense\n\n")
    with OpenAIServer(after) as server:
        asked = OpenAIModel("m", server.url)
        assert ([(await parts_of(asked, user_message("Hi")))[-1].text for _ in range(3)]) == [
            "ok"
        ] * 3
        assert server.connections == 1


async def test_openai_stream_does_not_wait_for_a_server_that_does_not_close_after_the_end() -> None:
    with OpenAIServer(events(delta("ok"), *END, hang=True)) as server:
        loop = asyncio.get_running_loop()
        start = loop.time()
        parts = await parts_of(OpenAIModel("m", server.url), user_message("Hi"))
        assert parts[-1].text == "ok"
        assert (loop.time() - start) < 5
        await asyncio.to_thread(server.wait_for_close)


async def test_openai_stream_settles_its_rate_limit() -> None:
    limit = RateLimit(tokens_per_minute=5000)
    with OpenAIServer(streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, rate_limit=limit)
        # At the estimate of 4096 tokens each, the second would wait for a minute.
        for _ in range(3):
            await parts_of(asked, user_message("Hi"))
        assert len(server.requests) == 3


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    (
        events(delta("It is"), delta(" so"), cut=True),
        events(delta("It is"), delta(" so"), reset=True, pause_s=0.02),
        Answer(
            (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
                f"data: {json.dumps(delta('It is so'))}\n\n".encode(),
            ),
            cut=True,
        ),
    ),
    ids=("cut", "reset", "no-length"),
)
def test_stream_that_breaks_off_is_no_answer_and_is_not_asked_for_again(given: Any) -> None:
    came, said, requests = begun(given, streamed("never"))
    assert came == "It is so"
    assert re.match(r"the answer broke off(: \w+| after event \d, before its end)", said)
    assert requests == 1


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (("[" * 200_000,), "event 2 of the answer is nested too deep"),
        (
            (*(call_piece(n, name="a") for n in range(1100)), *END),
            "the answer has 1100 calls",
        ),
        ((b"data: " + b" " * (9 * 2**20),), "an event has more than 8388608 bytes"),
        (tuple([b"data: " + b" " * 2**20 + b"\n"] * 9), "an event has more than 8388608 bytes"),
    ),
    ids=("deep", "many-calls", "long-line", "long-event"),
)
def test_openai_event_of_a_great_size_ends_a_stream(given: Any, said: str) -> None:
    came, line, requests = begun(events(delta("so"), *given), streamed("never"))
    assert came == "so"
    assert said in line
    assert len(line) < 500
    assert requests == 1


def test_openai_key_is_not_in_what_an_answer_fails_with() -> None:
    told = {"error": {"message": f"the key {KEY} is wrong"}}
    assert begun(events(delta("so"), told), api_key=KEY)[1].endswith("the key … is wrong")
    with (
        OpenAIServer(answer(told)) as server,
        pytest.raises(ModelError, match=r"the key … is wrong$"),
    ):
        run(OpenAIModel("m", server.url, KEY).complete(user_message("Hi")))


def test_openai_stream_that_stays_open_after_the_answer_ends_soon() -> None:
    with OpenAIServer(events(delta("ok", "stop"), counted(), hang=True)) as server:
        asked = OpenAIModel("m", server.url, timeout=600)
        *_, reply = run(parts_of(asked, user_message("Hi")))
    assert (reply.text, reply.usage) == ("ok", Usage(7, 3))


@pytest.mark.parametrize("given", (HANG, events(hang=True)), ids=("no-head", "no-body"))
def test_openai_stream_that_does_not_begin_is_late(given: Any) -> None:
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
def test_openai_stream_that_does_not_end_is_late(given: Any) -> None:
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
def test_openai_stream_without_end_is_not_read_for_ever(data: Any, said: str) -> None:
    assert begun(endless(data))[1] == said


def test_openai_stream_does_not_count_the_readers_time() -> None:
    async def read(asked: OpenAIModel) -> str:
        said = ""
        async for part in asked.stream(user_message("Hi")):
            if isinstance(part, TextPiece):
                said += part.text
                await asyncio.sleep(0.6)
        return said

    with OpenAIServer(events(delta("a"), delta("b"), delta("c"), *END)) as server:
        assert run(read(OpenAIModel("m", server.url, timeout=1.5))) == "abc"


# -- left before their end -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ("close", "cancel", "error"))
def test_openai_stream_that_is_left_closes_its_connection_at_once(how: str) -> None:
    with OpenAIServer(events(delta("so"), hang=True), streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=1)

        async def leave() -> float:
            first = asyncio.Event()

            async def read() -> None:
                stream = asked.stream(user_message("Hi"))
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
            assert joined_text(await parts_of(asked, user_message("Hi"))) == "ok"
            return took_s

        assert run(leave()) < 10


async def test_openai_stream_frees_its_place_after_whatever_end() -> None:
    ends = (
        events(delta("so"), cut=True),
        events("nonsense"),
        status(400, "no"),
        HANG,
    )
    with OpenAIServer(*ends, streamed("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=1, timeout=2, max_retries=0)
        for _ in ends:
            with pytest.raises(ModelError):
                await parts_of(asked, user_message("Hi"))
        assert ([joined_text(await parts_of(asked, user_message("Hi"))) for _ in range(2)]) == [
            "ok",
            "ok",
        ]
