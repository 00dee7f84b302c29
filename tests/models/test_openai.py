from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.openai_server import (
    HANG,
    SOON,
    Answer,
    OpenAIServer,
    Request,
    call,
    calls,
    http,
    status,
    streamed,
    text,
)
from models.server_conformance import ServerConformance
from moothall.foundation.errors import (
    ConfigError,
    ContextOverflow,
    DefinitionError,
    ModelError,
    RemoteForbidden,
)
from moothall.models import Model, ModelReply, OpenAIModel, model
from moothall.testing.model_suite import (
    ACTIONS,
    StreamingModelConformance,
    parts_of,
    run,
    user_message,
)

KEY = "sk-a-secret-of-mine"


def ask(*answers: Any, **more: Any) -> ModelReply:
    """What a model gives of a server's answers."""
    with OpenAIServer(*answers) as server:
        return run(OpenAIModel("m", server.url, **more).complete(user_message("Hi")))  # type: ignore[no-any-return]


def error(*answers: Any, kind: type[ModelError] = ModelError, **more: Any) -> str:
    """The one line that a model says of a server's answers."""
    with OpenAIServer(*answers) as server:
        named = OpenAIModel("m", server.url, **more)
        with pytest.raises(kind) as caught:
            run(named.complete(user_message("Hi")))
    said = str(caught.value)
    assert said.startswith(f"{named.name}: ")
    assert "\n" not in said
    return said.removeprefix(f"{named.name}: ").replace(server.url, "URL")


# -- the suite -------------------------------------------------------------------------------------


class TestOpenAIModel(ServerConformance):
    def of(self, server: OpenAIServer) -> Model:
        return OpenAIModel("m", server.url)

    def text(self, said: str, stream: bool) -> Any:
        return streamed(said) if stream else text(said)

    def call(self, name: str, args: Any, id: str, stream: bool) -> Any:
        called = call(name, json.dumps(args), id)
        return streamed([called]) if stream else calls(called)

    def echo(self, request: Request) -> Any:
        schema = request.body["response_format"]["json_schema"]["schema"]
        return text(json.dumps(schema["const"]))


@pytest.fixture(scope="module")
def llama(weights: Path) -> Iterator[str]:
    """llama.cpp's own server, with the default weights."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 4
    params.n_ctx = 4 * 2048
    params.n_threads_http = 8
    params.cache_ram_mib = 0
    params.ctx_shift = params.warmup = params.ui = params.fit_params = False
    params.verbosity = -1
    params.api_keys = [KEY]
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.long
@pytest.mark.xdist_group("local_model")
class TestLlamaServer(StreamingModelConformance):
    @pytest.fixture(autouse=True)
    def _address(self, llama: str) -> None:
        self.url = llama

    def make(self, *answers: Any) -> Model:
        return OpenAIModel("m", self.url, KEY, max_tokens=60, temperature=0)

    # The format of this model's chats has no place for actions, so the server leaves them out. What
    # can be seen is that it takes them, and a conversation with calls and results.

    def test_model_calls_one_of_the_actions_with_valid_arguments(self) -> None:
        reply = run(self.make().complete(user_message("Add 2 and 3"), ACTIONS))
        assert reply.text.strip() or reply.calls
        assert reply.usage.input_tokens > 0

    def test_model_stream_gives_calls_like_complete(self) -> None:
        reply = self.check(run(parts_of(self.make(), user_message("Add 2 and 3"), ACTIONS)))
        assert reply.text.strip() or reply.calls
        assert reply.usage.output_tokens > 0

    def test_model_calls_of_a_conversation_have_different_ids(self) -> None:
        listed = [{"id": f"call_{n}", "name": "add", "args": {"a": n, "b": 3}} for n in (1, 2)]
        messages = [
            *user_message("Add 1 and 3, and 2 and 3"),
            {"role": "assistant", "content": "", "tool_calls": listed},
            {"role": "tool", "tool_call_id": "call_1", "content": "4"},
            {"role": "tool", "tool_call_id": "call_2", "content": "5"},
        ]
        reply = run(self.make().complete(messages, ACTIONS))
        assert reply.text.strip() or reply.calls
        assert not {"call_1", "call_2"} & {call.id for call in reply.calls}

    def test_openai_prompt_too_long_says_so(self) -> None:
        small = OpenAIModel("m", self.url, KEY, max_tokens=4)
        with pytest.raises(ContextOverflow, match="nothing was cut"):
            run(small.complete(user_message("word " * 6000)))
        with pytest.raises(ContextOverflow, match="nothing was cut"):
            run(parts_of(small, user_message("word " * 6000)))
        assert run(small.complete(user_message("Say hello"))).text

    def test_openai_wrong_key_is_named_and_not_shown(self) -> None:
        with pytest.raises(ModelError, match=r"answered 401: .*check api_key=") as caught:
            run(OpenAIModel("m", self.url, "sk-another-secret").complete(user_message("Hi")))
        assert "another" not in str(caught.value)


# -- what goes out ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fault"),
    (
        ("text", r"messages\[1\] is of type string, not a chat message"),
        ({"role": "robot", "content": ""}, r"messages\[1\]: role must be .*got 'robot'"),
        ({"role": "user", "content": 5}, r"messages\[1\]: content must be text .*got .*integer"),
        ({"role": "user", "content": [{"x": {1, 2}}]}, "not JSON"),
        ({"role": "user", "content": [float("nan")]}, "not JSON"),
        ({"role": "assistant", "tool_calls": [5]}, r"tool_calls\[0\] is not a call"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, r"tool_calls\[0\] is not a call"),
        *(
            (
                {"role": "assistant", "tool_calls": [{"id": "1", "name": "a", "args": it}]},
                "not JSON",
            )
            for it in ({"x": b""}, {"x": float("nan")})
        ),
    ),
)
def test_openai_wrong_message_is_named_before_sending(message: Any, fault: str) -> None:
    with OpenAIServer(text("ok")) as server:
        asked = OpenAIModel("m", server.url)
        with pytest.raises(ModelError, match=fault):
            run(asked.complete([*user_message("Hi"), message]))
        assert server.requests == []
        assert run(asked.complete(user_message("Hi"))).text == "ok"


# -- failures --------------------------------------------------------------------------------------


def test_openai_without_retry_after_waits_by_itself() -> None:
    with OpenAIServer(status(429), text("back")) as server:

        async def ask() -> tuple[float, str]:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            reply = await OpenAIModel("m", server.url).complete(user_message("Hi"))
            return loop.time() - begun, reply.text

        took_s, said = run(ask())
    assert said == "back"
    assert took_s > 0.3


def test_tries_are_bounded() -> None:
    with OpenAIServer(status(503, **SOON)) as server:
        asked = OpenAIModel("m", server.url, max_retries=3)
        with pytest.raises(ModelError, match="answered 503: try later; tried 4 times"):
            run(asked.complete(user_message("Hi")))
        assert len(server.requests) == 4
    assert error(status(429, "slow down", retry_after="9999")) == (
        "the server answered 429: slow down; it asks to wait 9999 s"
    )
    told = error(status(429, "slow down", retry_after="Fri, 31 Dec 9999 23:59:59 GMT"))
    assert re.search(r"it asks to wait \d{12} s$", told), told


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (status(418, "x" * 9000), "the server answered 418: xxx"),
        (http(b"[" * 200_000), "the answer is nested too deep"),
        (calls(*[call("add", "{}")] * 1025), "the answer has 1025 calls, more than 1024"),
    ),
    ids=("long", "deep", "many-calls"),
)
def test_openai_answer_of_a_great_size_is_a_short_error(given: Any, said: str) -> None:
    line = error(given)
    assert said in line
    assert len(line) < 500


@pytest.mark.parametrize(
    ("head", "said"),
    (
        (b"220 mail.example ESMTP\r\n\r\n", "Bad status line:"),
        (b"HTTP/1.1 200 OK\r\n", "the server closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}", "Can not decode content-enc"),
    ),
    ids=("no-http", "half-a-head", "no-gzip"),
)
def test_openai_answer_that_is_no_http_is_named(head: bytes, said: str) -> None:
    line = error(Answer((head,), cut=True), max_retries=0)
    assert line.startswith(f"no answer from URL: {said}")


def test_openai_server_that_is_down_is_one_plain_line(capfd: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(text("ok")) as server:
        url = server.url
    with pytest.raises(ModelError) as caught:
        run(OpenAIModel("tiny", url, max_retries=0).complete(user_message("Hi")))
    assert str(caught.value) == (
        f"{url}#tiny: no answer from {url}: Connection refused; is the server running there?"
    )
    error = caught.value
    assert error.__cause__ is None or error.__cause__.__cause__ is None
    assert len(traceback.format_exception(error)) < 20
    assert capfd.readouterr().err == ""


def test_openai_answer_too_late_closes_the_connection() -> None:
    with OpenAIServer(HANG, text("ok")) as server:
        asked = OpenAIModel("m", server.url, timeout=2, max_retries=0)
        with pytest.raises(
            ModelError, match=r"gave no answer within 2 s; timeout= gives it longer$"
        ):
            run(asked.complete(user_message("Hi")))
        server.wait_for_close()
        assert run(asked.complete(user_message("Hi"))).text == "ok"


def test_openai_https_of_a_server_without_it_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(9999)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ModelError, match="does the server speak http rather than https"):
            run(OpenAIModel("m", url, KEY, max_retries=0).complete(user_message("Hi")))
        thread.join()


# -- keys and the switch ---------------------------------------------------------------------------


def test_openai_missing_key_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    with pytest.raises(ModelError, match=r"^openai:gpt: .*set OPENAI_API_KEY, or pass api_key="):
        run(OpenAIModel("gpt").complete(user_message("Hi")))


@pytest.mark.parametrize(
    ("options", "told"),
    (
        ({"seed": "7"}, "seed= must be an integer, got '7'"),
        ({"api_key": 5}, "the key must be text, got int"),
    ),
)
def test_openai_setting_of_a_wrong_type_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        OpenAIModel("m", "http://127.0.0.1:1/v1", **options)


def test_openai_wrong_address_is_told_without_its_password() -> None:
    with pytest.raises(ConfigError, match="got 'ftp://…@x/v1'"):
        OpenAIModel("m", "ftp://me:hunter2@x/v1")


def test_openai_key_of_the_environment_is_not_for_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    with OpenAIServer(text("ok")) as server:
        run(OpenAIModel("m", server.url).complete(user_message("Hi")))
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        mine = OpenAIModel("m")
        run(mine.complete(user_message("Hi")))
    assert mine.name == "openai:m"
    stranger, own = server.requests
    assert KEY not in str(stranger.headers)
    assert "org-mine" not in str(stranger.headers)
    assert own.headers["authorization"] == f"Bearer {KEY}"
    with OpenAIServer(status(401, "no")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(ModelError, match="no; check api_key=, or OPENAI_API_KEY"):
            run(OpenAIModel("m").complete(user_message("Hi")))


def test_openai_key_is_in_no_error_log_or_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    line = error(status(401, f"the key {KEY} is wrong"), api_key=KEY)
    assert line == (
        "the server answered 401: the key … is wrong; check api_key=, or MOOTHALL_KEY of a command"
    )
    with OpenAIServer(text("ok")) as server:
        asked = OpenAIModel("m", server.url, KEY)
        run(asked.complete(user_message("Hi")))
        assert KEY not in repr(asked) + asked.name
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "host",
    (
        *("api.openai.com", "192.0.2.1", "10.0.0.1", "[2001:db8::1]", "0.0.0.0", "2130706433"),
        *("localhost.example", "127.0.0.1.example", "my-localhost", "LOCALHOST.example"),
    ),
)
def test_offline_forbids_other_machines(host: str) -> None:
    with pytest.raises(RemoteForbidden, match=r"MOOTHALL_OFFLINE=1 forbids calls to"):
        run(OpenAIModel("m", f"https://{host}/v1", KEY).complete(user_message("Hi")))


def test_offline_allows_this_machine() -> None:
    with OpenAIServer(text("ok")) as server:
        for host in ("127.0.0.1", "localhost", "LocalHost"):
            named = OpenAIModel("m", server.url.replace("127.0.0.1", host))
            assert run(named.complete(user_message("Hi"))).text == "ok"


@pytest.mark.parametrize(
    "more",
    (
        {"name": ""},
        {"name": 5},
        {"name": "a\nb"},
        {"base_url": ""},
        {"base_url": "host:80"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "http://me:secret@host/v1"},
        {"base_url": "http://host/v1?key=1"},
        {"base_url": "http://host:port/v1"},
        {"base_url": "http://ho st/v1"},
        {"base_url": "http://host/ü"},
        {"timeout": 0},
        {"max_retries": -1},
        {"max_tokens": 0},
        {"context_tokens": True},
        {"connections": 0},
        {"rate_limit": 5},
        {"options": 5},
        {"options": {"messages": []}},
        {"options": {"stream_options": {}}},
        {"options": {"max_tokens": 0}},
    ),
    ids=str,
)
def test_openai_wrong_arguments_are_refused_by_the_constructor(more: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as caught:
        OpenAIModel(**({"name": "m", "base_url": "http://127.0.0.1/v1"} | more))
    assert "secret" not in str(caught.value)


def test_openai_key_with_a_line_break_is_named_and_not_shown() -> None:
    with pytest.raises(ModelError, match="a character that no key has") as caught:
        OpenAIModel("m", "http://127.0.0.1/v1", KEY + "\n")
    assert KEY not in str(caught.value)


def test_openai_key_that_expires_during_the_retries_of_a_request_is_asked_for_again() -> None:
    keys = iter(("old", "new"))
    answers = status(429, **SOON), status(401, "expired"), text("ok")
    with OpenAIServer(*answers) as server:
        asked = OpenAIModel("m", server.url, lambda: next(keys))
        assert run(asked.complete(user_message("Hi"))).text == "ok"
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer old", "Bearer old", "Bearer new"]


# -- loops and connections -------------------------------------------------------------------------


async def test_closed_it_opens_anew() -> None:
    with OpenAIServer(text("ok")) as server:
        async with OpenAIModel("m", server.url) as asked:
            await asked.complete(user_message("Hi"))
        await asked.complete(user_message("Hi"))
        assert server.connections == 2


async def test_openai_calls_beyond_its_connections_wait() -> None:
    with OpenAIServer(text("ok")) as server:
        asked = OpenAIModel("m", server.url, connections=2)
        assert [
            reply.text
            for reply in list(
                await asyncio.gather(*(asked.complete(user_message("Hi")) for _ in range(20)))
            )
        ] == ["ok"] * 20
        assert server.connections == 2


def test_openai_model_that_ends_with_its_loop_lets_the_script_end_silently() -> None:
    with OpenAIServer(text("ok")) as server:
        script = (
            "import asyncio\n"
            "from moothall import ReActAgent\n"
            "async def main():\n"
            f"    agent = ReActAgent('a', '{server.url}#m')\n"
            "    return (await agent.reply('Hi')).text\n"
            "for _ in range(3): print(asyncio.run(main()))\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("ok\nok\nok\n", "")


# -- by name ---------------------------------------------------------------------------------------


def test_openai_server_is_named_by_its_address() -> None:
    with OpenAIServer(text("ok")) as server:
        named = model(f"{server.url}#org/name")
        assert named.name == f"{server.url}#org/name"
        assert model(f"{server.url}#org/name") is named
        assert run(named.complete(user_message("Hi"))).text == "ok"
    assert server.requests[0].body["model"] == "org/name"


@pytest.mark.parametrize(
    ("name", "said"),
    (
        ("http://127.0.0.1/v1", r"does not say which model: write http://127\.0\.0\.1/v1#NAME"),
        ("http://127.0.0.1/v1#", "does not say which model"),
        ("http://#m", "there is no such model: its address must be like http://host/v1"),
        ("http://key@127.0.0.1/v1#m", "its address must hold no password"),
        ("http://:key@127.0.0.1/v1#m", "its address must hold no password"),
        ("openai:", "there is no model 'openai:'; names are"),
    ),
)
def test_names_that_lack_something_say_what(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        model(name)
