"""What a provider's server may answer: always a reply or a `ModelError`, and nothing else."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.openai_server import (
    DONE,
    Answer,
    OpenAIServer,
    answer,
    call,
    call_piece,
    completion,
    counted,
    delta,
    events,
    http,
    text,
)
from moothall.agents.loop.react import ReActAgent
from moothall.foundation.errors import ModelError
from moothall.models import ModelReply, OpenAIModel, ReasoningPiece, TextPiece, Usage

MOST = settings().max_examples
"""More with the long tests."""

MESSAGE = {
    "role": "assistant",
    "content": "Let me see.",
    "refusal": None,
    "reasoning_content": "hm",
    "tool_calls": [call("add", '{"a": 1, "b": 2}', "c1"), call("add", "{}", "c2")],
}
GOOD = completion(MESSAGE, "tool_calls")
STREAM = [
    delta("Let me ", role="assistant", refusal=None),
    delta(reasoning_content="hm"),
    delta("see."),
    call_piece(0, id="c1", name="add", arguments='{"a": 1'),
    call_piece(0, arguments=', "b": 2}'),
    call_piece(1, id="c2", name="add", arguments="{}"),
    delta(finish_reason="tool_calls"),
    counted(),
]
WRONG = (
    *(None, True, False, 0, -1, 10**400, 1e308, "", "x", "\ud800", "\x1b[2J\n", "9" * 100),
    *([], [[]], [None], {}, {"": None}, {"message": {}}, [{"type": "text"}], [{"text": 5}]),
)


class Asker:
    """A model, a server that gives whatever it is told, and one loop for both."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.next: Answer = text("ok")
        self.server = OpenAIServer(lambda request: self.next)
        self.server.__enter__()
        self.model = OpenAIModel("m", self.server.url, max_retries=0, timeout=5)

    def ask(self, given: Answer) -> ModelReply | ModelError:
        self.next = given
        try:
            return self.runner.run(self.model.complete([{"role": "user", "content": "Hi"}]))
        except ModelError as error:
            return error

    def stream(self, given: Answer) -> ModelReply | ModelError:
        """What comes at the end of a stream; its pieces are looked at."""
        self.next = given
        pieces: list[TextPiece | ReasoningPiece] = []

        async def read() -> ModelReply:
            reply = None
            async for part in self.model.stream([{"role": "user", "content": "Hi"}]):
                assert reply is None, "something came after the answer"
                if isinstance(part, ModelReply):
                    reply = part
                else:
                    assert part.text.encode()
                    pieces.append(part)
            assert reply is not None
            return reply

        try:
            reply = self.runner.run(read())
        except ModelError as error:
            return error
        for kind, whole in ((TextPiece, reply.text), (ReasoningPiece, reply.reasoning)):
            assert "".join(each.text for each in pieces if isinstance(each, kind)) == whole
        return reply

    def check(self, given: Answer, *, streamed: bool = False) -> None:
        """Whatever is given, what comes of it is what a caller can rely on."""
        came = self.stream(given) if streamed else self.ask(given)
        if isinstance(came, ModelError):
            said = str(came)
            assert said.startswith(f"{self.model.name}: ")
            assert said.isprintable()
            assert len(said) < 600
            return
        came.text.encode()
        came.reasoning.encode()
        assert came.finish_reason in ("stop", "calls", "length", "content_filter")
        assert type(came.usage) is Usage
        for count in (came.usage.input_tokens, came.usage.output_tokens):
            assert type(count) is int
            assert 0 <= count <= 2**53
        assert len({each.id for each in came.calls}) == len(came.calls)
        for each in came.calls:
            assert isinstance(each.id, str)
            assert each.id
            assert isinstance(each.name, str)
            assert isinstance(each.args, str | dict)

    def good(self) -> None:
        """A good answer afterwards is used."""
        came = self.ask(text("fine"))
        assert isinstance(came, ModelReply)
        assert came.text == "fine"


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with asyncio.Runner() as runner:
        asker = Asker(runner)
        yield asker
        asker.server.__exit__(None, None, None)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field of an answer, the whole of it first."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, part in inner:
        yield from places(part, (*path, key))


def changed(path: tuple[Any, ...], change: Callable[[Any, Any], None], good: Any = GOOD) -> Any:
    whole = [copy.deepcopy(good)]
    parent: Any = whole
    for key in (0, *path)[:-1]:
        parent = parent[key]
    change(parent, (0, *path)[-1])
    return whole[0] if whole else None


@pytest.mark.parametrize("path", tuple(places(GOOD)), ids=lambda path: ".".join(map(str, path)))
def test_provider_answer_with_every_field_wrong_in_turn(
    asker: Asker, path: tuple[Any, ...]
) -> None:
    for wrong in WRONG:
        asker.check(answer(changed(path, lambda parent, key: parent.__setitem__(key, wrong))))  # noqa: B023
    asker.check(answer(changed(path, lambda parent, key: parent.__delitem__(key))))
    asker.good()


FIELDS = (
    *("choices", "message", "content", "tool_calls", "function", "name", "arguments", "id"),
    *("usage", "prompt_tokens", "finish_reason", "error", "type", "text"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(FIELDS) | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "path", tuple(places(STREAM))[1:], ids=lambda path: ".".join(map(str, path))
)
def test_provider_stream_with_every_field_wrong_in_turn(
    asker: Asker, path: tuple[Any, ...]
) -> None:
    for wrong in WRONG:
        chunks = changed(path, lambda parent, key: parent.__setitem__(key, wrong), STREAM)  # noqa: B023
        asker.check(events(*map(json.dumps, chunks), DONE), streamed=True)
    chunks = changed(path, lambda parent, key: parent.__delitem__(key), STREAM)
    asker.check(events(*map(json.dumps, chunks), DONE), streamed=True)
    asker.good()


WHOLE = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in STREAM)
LINES = st.sampled_from((b"data: ", b"data:", b"event: error\n", b": x\n", b"\n", b"\r", b"\r\n"))


@settings(max_examples=2 * MOST)
@given(st.lists(LINES | st.binary(max_size=40) | JSON.map(lambda v: json.dumps(v).encode())))
def test_provider_stream_of_any_bytes(asker: Asker, pieces: list[bytes]) -> None:
    asker.check(events(*(piece for piece in pieces if piece)), streamed=True)
    asker.good()


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6).map(sorted))
def test_provider_stream_cut_anywhere_into_packets_is_the_same(
    asker: Asker, cuts: list[int]
) -> None:
    packets = [WHOLE[a:b] for a, b in zip([0, *cuts], [*cuts, len(WHOLE)], strict=True) if a < b]
    came = asker.stream(events(*packets, DONE))
    assert came == asker.ask(answer(GOOD))


@given(st.integers(0, len(WHOLE) - 1))
def test_provider_stream_that_ends_anywhere_is_whole_or_an_error(asker: Asker, end: int) -> None:
    came = asker.stream(events(WHOLE[:end]) if end else events())
    if isinstance(came, ModelReply):
        assert (came.text, len(came.calls)) == ("Let me see.", 2)
    else:
        assert "the answer broke off" in str(came) or "the answer is empty" in str(came)
    asker.good()


@settings(max_examples=2 * MOST)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_provider_answer_with_any_body(asker: Asker, body: bytes) -> None:
    asker.check(http(body))
    asker.good()


@settings(max_examples=2 * MOST)
@given(
    st.integers(100, 999).filter(lambda code: code not in (101, 204, 304) and code >= 200),
    st.binary(max_size=60) | JSON.map(lambda value: json.dumps({"error": value}).encode()),
    st.sampled_from(
        ("", "0", "-1", "nan", "inf", "1e999", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")
    ),
)
def test_provider_answer_with_any_status(asker: Asker, code: int, body: bytes, wait: str) -> None:
    asker.check(http(body, code, {"Retry-After": wait, "X-Should-Retry": "true"}))
    asker.good()


@given(st.binary(max_size=200) | st.binary(max_size=100).map(b"HTTP/1.1 200 OK\r\n".__add__))
def test_provider_answer_of_any_bytes_in_place_of_http(asker: Asker, sent: bytes) -> None:
    asker.check(Answer((sent,), cut=True))
    asker.good()


@pytest.mark.parametrize("depth", (1_000, 100_000))
def test_provider_answer_nested_deep(asker: Asker, depth: int) -> None:
    for field in ("content", "tool_calls"):
        start = '{"choices": [{"message": {"' + field + '": '
        deep = start + "[" * depth + "]" * depth + "}}]}"
        asker.check(http(deep.encode()))
    asker.good()


def test_provider_answer_of_a_gzip_bomb_is_not_unpacked(asker: Asker) -> None:
    import gzip

    packed = gzip.compress(b" " * (100 * 2**20), 9)
    came = asker.ask(http(packed, 200, {"Content-Encoding": "gzip"}))
    assert isinstance(came, ModelError)
    assert "bytes" in str(came)
    asker.good()


def test_provider_answer_that_is_wrong_ends_a_run_with_its_reason(asker: Asker) -> None:
    asker.next = http(b"nonsense")
    agent = ReActAgent("thinker", asker.model)
    reply = asker.runner.run(agent.reply("Hi"))
    assert reply.stop_reason == "error"
    assert "the answer is not JSON" in reply.detail
    asker.next = text("fine")
    assert asker.runner.run(agent.reply("Hi")).text == "fine"
