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

from civitas.errors import ModelError
from civitas.models import ModelReply, OpenAIModel, Usage
from civitas.reasoning.react import ReActAgent
from models.openai_server import Answer, OpenAIServer, answer, call, completion, http, text

MESSAGE = {
    "role": "assistant",
    "content": "Let me see.",
    "refusal": None,
    "reasoning_content": "hm",
    "tool_calls": [call("add", '{"a": 1, "b": 2}', "c1"), call("add", "{}", "c2")],
}
GOOD = completion(MESSAGE, "tool_calls")
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

    def check(self, given: Answer) -> None:
        """Whatever is given, what comes of it is what a caller can rely on."""
        came = self.ask(given)
        if isinstance(came, ModelError):
            said = str(came)
            assert said.startswith(f"{self.model.name}: ")
            assert said.isprintable()
            assert len(said) < 600
            return
        came.text.encode()
        assert came.finish_reason in ("stop", "calls", "length")
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


def changed(path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    whole = [copy.deepcopy(GOOD)]
    parent: Any = whole
    for key in (0, *path)[:-1]:
        parent = parent[key]
    change(parent, (0, *path)[-1])
    return whole[0] if whole else None


@pytest.mark.parametrize("path", tuple(places(GOOD)), ids=lambda path: ".".join(map(str, path)))
def test_every_field_wrong_in_turn(asker: Asker, path: tuple[Any, ...]) -> None:
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


@settings(max_examples=300)
@given(st.sampled_from(tuple(places(GOOD))), JSON)
def test_any_value_in_any_field(asker: Asker, path: tuple[Any, ...], value: Any) -> None:
    asker.check(answer(changed(path, lambda parent, key: parent.__setitem__(key, value))))
    asker.good()


@settings(max_examples=150)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body(asker: Asker, body: bytes) -> None:
    asker.check(http(body))
    asker.good()


@settings(max_examples=150)
@given(
    st.integers(100, 999).filter(lambda code: code not in (101, 204, 304) and code >= 200),
    st.binary(max_size=60) | JSON.map(lambda value: json.dumps({"error": value}).encode()),
    st.sampled_from(
        ("", "0", "-1", "nan", "inf", "1e999", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")
    ),
)
def test_any_status(asker: Asker, code: int, body: bytes, wait: str) -> None:
    asker.check(http(body, code, {"Retry-After": wait, "X-Should-Retry": "true"}))
    asker.good()


@settings(max_examples=100)
@given(st.binary(max_size=200) | st.binary(max_size=100).map(b"HTTP/1.1 200 OK\r\n".__add__))
def test_any_bytes_in_place_of_http(asker: Asker, sent: bytes) -> None:
    asker.check(Answer((sent,), cut=True))
    asker.good()


@pytest.mark.parametrize("depth", (1_000, 100_000))
def test_an_answer_nested_deep(asker: Asker, depth: int) -> None:
    for field in ("content", "tool_calls"):
        start = '{"choices": [{"message": {"' + field + '": '
        deep = start + "[" * depth + "]" * depth + "}}]}"
        asker.check(http(deep.encode()))
    asker.good()


def test_a_bomb_of_zeros_is_not_unpacked(asker: Asker) -> None:
    import gzip

    packed = gzip.compress(b" " * (100 * 2**20), 9)
    came = asker.ask(http(packed, 200, {"Content-Encoding": "gzip"}))
    assert isinstance(came, ModelError)
    assert "bytes" in str(came)
    asker.good()


def test_a_wrong_answer_ends_a_run_of_an_agent_with_its_reason(asker: Asker) -> None:
    asker.next = http(b"nonsense")
    agent = ReActAgent("thinker", asker.model)
    reply = asker.runner.run(agent.reply("Hi"))
    assert reply.stop_reason == "error"
    assert "the answer is not JSON" in reply.detail
    asker.next = text("fine")
    assert asker.runner.run(agent.reply("Hi")).text == "fine"
