from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.model import ACTIONS, PERSON, ModelConformance, run, user
from models import messages_format
from models.openai_server import (
    HANG,
    RESET,
    SOON,
    Answer,
    OpenAIServer,
    Request,
    call,
    calls,
    completion,
    http,
    status,
    text,
)
from models.openai_server import (
    streamed as in_pieces,
)
from moothall.foundation.errors import ContextOverflow, DefinitionError, ModelError, RemoteForbidden
from moothall.models import (
    Call,
    LiteLLMModel,
    Model,
    ModelReply,
    OpenAIModel,
    RateLimit,
    Usage,
    model,
)
from moothall.models.protocol import ReasoningPiece, StreamPart, TextPiece

KEY = "sk-a-secret-of-mine"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
    """A piece of a streamed answer in OpenAI's form, as a chunk of HTTP."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event(json.dumps(about | {"choices": [choice]} | more))


def event(data: str) -> bytes:
    line = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(line), line)


USAGE = chunk(
    {}, choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
)
END = (USAGE, event("[DONE]"), b"0\r\n\r\n")


def streamed(*pieces: bytes, **more: Any) -> Answer:
    return Answer((HEAD, *pieces), **more)


def of(server: OpenAIServer, **more: Any) -> LiteLLMModel:
    return LiteLLMModel("openai/m", base_url=server.url, **more)


def anthropic(server: OpenAIServer, **more: Any) -> LiteLLMModel:
    return LiteLLMModel("anthropic/m", base_url=server.url.removesuffix("/v1"), **more)


async def parts(stream: Any) -> list[StreamPart]:
    return [part async for part in stream]


def error(
    *answers: Any,
    make: Callable[..., LiteLLMModel] = of,
    kind: type[ModelError] = ModelError,
    **more: Any,
) -> str:
    """The one line that a model says of a server's answers."""
    with OpenAIServer(*answers) as server:
        asked = make(server, **more)
        with pytest.raises(kind) as caught:
            run(asked.complete(user("Hi")))
    said = str(caught.value)
    assert said.startswith(f"{asked.name}: ")
    assert "\n" not in said
    return said.removeprefix(f"{asked.name}: ").replace(asked.base_url or "", "URL")


# -- the suite, in two providers' forms ------------------------------------------------------------


class Suite(ModelConformance):
    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        self.servers: list[OpenAIServer] = []
        yield
        for server in self.servers:
            server.__exit__(None, None, None)

    def serve(self, answers: list[Any]) -> OpenAIServer:
        server = OpenAIServer(*answers)
        server.__enter__()
        self.servers.append(server)
        return server


def whichever(whole: Answer, streamed: Answer) -> Callable[[Request], Answer]:
    """An answer whole, or in pieces where that is asked for."""
    return lambda request: streamed if request.body.get("stream") else whole


class TestOpenAIForm(Suite):
    def make(self, *answers: Any) -> Model:
        def form(given: Any, n: int) -> Any:
            if isinstance(given, str):
                return whichever(text(given), in_pieces(given))
            if isinstance(given, Call):
                given = {"name": given.name, "args": given.args}
            if isinstance(given, dict):
                made = call(given["name"], json.dumps(given.get("args", {})), f"call_{n}")
                return whichever(calls(made), in_pieces([made]))
            return HANG

        return of(self.serve([form(each, n) for n, each in enumerate(answers or ("",))]))

    def test_model_concurrent_calls_get_their_own_answers(self) -> None:
        def echo(request: Request) -> Any:
            schema = request.body["response_format"]["json_schema"]["schema"]
            return text(json.dumps(schema["const"]))

        echoing = of(self.serve([echo]))
        self.make = lambda *answers: echoing  # type: ignore[method-assign]
        super().test_model_concurrent_calls_get_their_own_answers()


class TestAnthropicForm(Suite):
    def make(self, *answers: Any) -> Model:
        def form(given: Any, n: int) -> Any:
            if isinstance(given, str):
                said = {"type": "text", "text": given}
                return whichever(messages_format.text(given), messages_format.streamed(said))
            if isinstance(given, Call):
                given = {"name": given.name, "args": given.args}
            if isinstance(given, dict):
                name, args = given["name"], given.get("args", {})
                used = {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": args}
                return whichever(
                    messages_format.call(name, args, f"toolu_{n}"),
                    messages_format.streamed(used, stop_reason="tool_use"),
                )
            return HANG

        return anthropic(self.serve([form(each, n) for n, each in enumerate(answers or ("",))]))

    def test_model_concurrent_calls_get_their_own_answers(self) -> None:
        def echo(request: Request) -> Any:
            number = request.body["messages"][0]["content"][0]["text"].removeprefix("Number ")
            return messages_format.text(json.dumps(f"answer {number}"))

        echoing = anthropic(self.serve([echo]))
        self.make = lambda *answers: echoing  # type: ignore[method-assign]
        super().test_model_concurrent_calls_get_their_own_answers()


# -- both ways -------------------------------------------------------------------------------------


def test_a_conversation_goes_out_in_openais_form() -> None:
    messages = [
        *user("Add 1 and 2"),
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
    ]  # fmt: skip
    with OpenAIServer(text("ok")) as server:
        asked = of(server, api_key=KEY, max_tokens=9, temperature=0, seed=1, options={"top_p": 0.5})
        run(asked.complete(messages, ACTIONS[:1], PERSON))
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = request.body
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
    assert body["messages"][1]["tool_calls"] == [call("add", '{"a": 1, "b": 2}', "c1")]
    assert body["tools"][0]["function"]["parameters"] == ACTIONS[0].parameters
    assert body["response_format"]["json_schema"]["schema"] == PERSON
    sent = {key: body[key] for key in ("model", "max_tokens", "temperature", "seed", "top_p")}
    assert sent == {"model": "m", "max_tokens": 9, "temperature": 0, "seed": 1, "top_p": 0.5}


def test_a_conversation_goes_out_in_anthropics_form() -> None:
    messages = [{"role": "system", "content": "Be brief."}, *user("Add 1 and 2")]
    with OpenAIServer(messages_format.call("add", {"a": 1, "b": 2})) as server:
        reply = run(anthropic(server, api_key=KEY, max_tokens=9).complete(messages, ACTIONS[:1]))
    request = server.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.body["max_tokens"] == 9
    assert request.body["system"][0]["text"] == "Be brief."
    assert request.body["tools"][0]["name"] == "add"
    assert [(made.name, json.loads(made.args)) for made in reply.calls] == [
        ("add", {"a": 1, "b": 2})
    ]
    assert reply.usage == Usage(7, 3)


def test_anthropic_is_told_what_was_called_when_nothing_may_be_called_any_more() -> None:
    listed = [{"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}]
    messages = [
        *user("Add 1 and 2"),
        {"role": "assistant", "content": "", "tool_calls": listed},
        {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
    ]
    with OpenAIServer(messages_format.text("3")) as server:
        assert run(anthropic(server).complete(messages)).text == "3"
    body = server.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["add"]
    assert body["tool_choice"] == {"type": "none"}


def test_reasoning_is_kept_apart() -> None:
    message = {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}
    with OpenAIServer(http(json.dumps(completion(message)).encode())) as server:
        reply = run(of(server).complete(user("Hi")))
    assert (reply.text, reply.reasoning) == ("4", "2 and 2")
    thought = {"type": "thinking", "thinking": "2 and 2", "signature": "s"}
    with OpenAIServer(messages_format.message(thought, {"type": "text", "text": "4"})) as server:
        reply = run(anthropic(server).complete(user("Hi")))
    assert (reply.text, reply.reasoning) == ("4", "2 and 2")


def test_no_key_of_a_provider_goes_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for make, said in ((of, text("ok")), (anthropic, messages_format.text("ok"))):
        with OpenAIServer(said) as server:
            run(make(server).complete(user("Hi")))
            assert KEY not in str(server.requests[0].headers)


# -- streams ---------------------------------------------------------------------------------------


def test_a_server_that_refuses_a_schema_is_asked_in_words() -> None:
    refusal = status(400, "This response_format type is unavailable now")
    with OpenAIServer(refusal, text("{}")) as server:
        assert run(of(server).complete(user("Who?"), schema=PERSON)).text == "{}"
    system, asked = server.requests[-1].body["messages"]
    assert system["content"].endswith(json.dumps(PERSON))
    assert asked == user("Who?")[0]


def test_a_stream_in_openais_form() -> None:
    pieces = (
        chunk({"role": "assistant", "reasoning_content": "hm"}),
        chunk({"content": "Go"}),
        chunk({"content": "od"}),
        chunk({}, "stop"),
    )
    with OpenAIServer(streamed(*pieces, *END)) as server:
        got = run(parts(of(server).stream(user("Hi"))))
    assert got == [
        ReasoningPiece("hm"),
        TextPiece("Go"),
        TextPiece("od"),
        ModelReply("Good", (), Usage(7, 3, reasoning_tokens=1), "stop", "hm"),
    ]


def test_a_stream_of_calls_in_openais_form() -> None:
    def part(index: int, arguments: str, **more: Any) -> bytes:
        function = {"arguments": arguments} | ({"name": more.pop("name")} if more else {})
        return chunk(
            {"tool_calls": [{"index": index, "function": function, "type": "function"} | more]}
        )

    pieces = (
        part(0, "", id="c1", name="add"),
        part(0, '{"a": 1,'),
        part(0, ' "b": 2}'),
        part(1, "{}", id="c2", name="list_files"),
        chunk({}, "tool_calls"),
    )
    with OpenAIServer(streamed(*pieces, *END)) as server:
        got = run(parts(of(server).stream(user("Hi"), ACTIONS)))
    made = (Call("c1", "add", '{"a": 1, "b": 2}'), Call("c2", "list_files", "{}"))
    assert got == [ModelReply("", made, Usage(7, 3), "calls")]


def test_a_stream_in_anthropics_form() -> None:
    answer = messages_format.streamed(
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Good"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
        stop_reason="tool_use",
    )
    with OpenAIServer(answer) as server:
        got = run(parts(anthropic(server).stream(user("Hi"), ACTIONS)))
    last = got.pop()
    assert [piece for piece in got if piece.kind == "reasoning"] == [ReasoningPiece("hm")]
    assert "".join(piece.text for piece in got if piece.kind == "text") == last.text == "Good"
    assert [(made.name, json.loads(made.args)) for made in last.calls] == [
        ("add", {"a": 1, "b": 2})
    ]
    assert (last.finish_reason, last.usage, last.reasoning) == ("calls", Usage(7, 3), "hm")


@pytest.mark.parametrize(
    "end", ({"cut": True}, {"pieces": (b"0\r\n\r\n",)}), ids=("cut", "ended-early")
)
def test_a_stream_that_breaks_off_says_so(end: dict[str, Any]) -> None:
    pieces = (chunk({"content": "Go"}), *end.pop("pieces", ()))
    with OpenAIServer(streamed(*pieces, **end)) as server:
        got: list[StreamPart] = []

        async def read() -> None:
            async for part in of(server).stream(user("Hi")):
                got.append(part)  # noqa: PERF401 - what came before it broke off is looked at

        with pytest.raises(ModelError, match="the answer broke off"):
            run(read())
        assert got == [TextPiece("Go")]
        assert len(server.requests) == 1


def test_an_error_within_a_stream_is_not_tried_again() -> None:
    pieces = (chunk({"content": "Go"}), event('{"error": {"message": "worn out"}}'), b"0\r\n\r\n")
    with OpenAIServer(streamed(*pieces)) as server:
        with pytest.raises(ModelError, match="the answer broke off: worn out") as caught:
            run(parts(of(server).stream(user("Hi"))))
        assert "\n" not in str(caught.value)
        assert len(server.requests) == 1


def test_a_stream_that_is_refused_is_tried_again_before_anything_came() -> None:
    good = streamed(chunk({"content": "ok"}), chunk({}, "stop"), *END)
    with OpenAIServer(status(503, **SOON), good) as server:
        assert run(parts(of(server).stream(user("Hi"))))[-1].text == "ok"
        assert len(server.requests) == 2


@pytest.mark.parametrize("way", ("closed", "cancelled"))
def test_a_stream_that_is_left_closes_its_connection(way: str) -> None:
    with OpenAIServer(streamed(chunk({"content": "Go"}), hang=True)) as server:

        async def leave() -> None:
            stream = of(server).stream(user("Hi"))
            assert await anext(stream) == TextPiece("Go")
            if way == "closed":
                await stream.aclose()  # type: ignore[attr-defined]
                return
            more = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            more.cancel()
            with pytest.raises(asyncio.CancelledError):
                await more

        run(leave())
        server.wait_for_close()


def test_a_long_stream_waits_for_a_reader_slower_than_the_servers_time() -> None:
    pieces = [chunk({"content": f"{n} "}) for n in range(120)]
    with OpenAIServer(streamed(*pieces, chunk({}, "stop"), *END)) as server:

        async def read() -> str:
            text = ""
            async for part in of(server, timeout=3.0).stream(user("Hi")):
                await asyncio.sleep(0 if text else 3.2)
                text = text + part.text if isinstance(part, TextPiece) else text
                last = part
            assert isinstance(last, ModelReply)
            assert last.text == text
            return text

        assert run(read()) == "".join(f"{n} " for n in range(120))


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", (of, anthropic), ids=("openai", "anthropic"))
def test_litellm_retries_only_transient_failures(make: Callable[..., LiteLLMModel]) -> None:
    good = text("back") if make is of else messages_format.text("back")
    for failure in (status(429, **SOON), status(500, **SOON), status(529, **SOON)):
        with OpenAIServer(failure, good) as server:
            assert run(make(server).complete(user("Hi"))).text == "back"
            assert len(server.requests) == 2
    refusals = [status(code) for code in (400, 401, 404, 422)]
    for refusal in (*refusals, status(429, retry_after="121")):
        with OpenAIServer(refusal) as server:
            with pytest.raises(ModelError):
                run(make(server).complete(user("Hi")))
            assert len(server.requests) == 1


@pytest.mark.parametrize("make", (of, anthropic), ids=("openai", "anthropic"))
@pytest.mark.parametrize(
    ("given", "said"),
    (
        (status(400, "bad\nrequest \x1b[2J"), "the server answered 400: bad request [2J"),
        (status(401, f"wrong: {KEY}"), "the server answered 401: wrong: …; check api_key="),
        (status(404, "none"), "the server answered 404: none; check the name of the model"),
        (
            status(429, "slow down", retry_after="9999"),
            "the server answered 429: slow down; it asks to wait 9999 s",
        ),
        (status(500, "boom"), "the server answered 500: boom"),
        (http(b"<p>Bad gateway</p>", 502), "the server answered 502: <p>Bad gateway</p>"),
        (RESET, "no answer from URL: the server closed the connection"),
        (http(b"{}"), "what URL answered cannot be read"),
        (http(b"<html>"), "what URL answered cannot be read"),
    ),
    ids=("400", "401", "404", "429", "500", "502", "reset", "empty", "no-json"),
)
def test_failures_are_one_line(make: Callable[..., LiteLLMModel], given: Answer, said: str) -> None:
    told = error(given, make=make, api_key=KEY, max_retries=0)
    assert told.startswith(said)
    assert KEY not in told
    assert len(told) < 500


@pytest.mark.parametrize("provider", ("openai", "anthropic", "ollama_chat"))
def test_a_server_that_does_not_run_is_told_of_as_by_openai_model(provider: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        for asked in (
            LiteLLMModel(f"{provider}/m", base_url=url, max_retries=0),
            OpenAIModel("m", url, max_retries=0),
        ):
            with pytest.raises(ModelError) as caught:
                run(asked.complete(user("Hi")))
            assert str(caught.value) == (
                f"{asked.name}: no answer from {url}: Connection refused; "
                "is the server running there?"
            )


def test_a_server_that_is_silent_is_given_up() -> None:
    assert error(HANG, timeout=0.2, max_retries=1) == (
        "URL gave no answer within 0.2 s; tried 2 times; timeout= gives it longer"
    )


def test_a_prompt_too_long_says_so() -> None:
    body = {"error": {"message": "too many tokens", "code": "context_length_exceeded"}}
    told = error(http(json.dumps(body).encode(), 400), kind=ContextOverflow)
    assert told == "the server answered 400: too many tokens; nothing was cut"
    body = {"type": "error", "error": {
        "type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum",
    }}  # fmt: skip
    told = error(http(json.dumps(body).encode(), 400), kind=ContextOverflow, make=anthropic)
    assert told == (
        "the server answered 400: prompt is too long: 9 tokens > 8 maximum; nothing was cut"
    )


def test_litellm_parameter_that_a_provider_lacks_is_named_before_sending() -> None:
    with OpenAIServer(messages_format.text("ok")) as server:
        with pytest.raises(ModelError, match=r"anthropic does not support parameters: .*seed"):
            run(anthropic(server, seed=1).complete(user("Hi")))
        assert server.requests == []


def test_a_provider_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE")
    with pytest.raises(ModelError, match=r"^litellm:nobody/m: .*LLM Provider NOT provided"):
        run(LiteLLMModel("nobody/m", base_url="http://127.0.0.1:9").complete(user("Hi")))


@pytest.mark.parametrize("name", ("openai/gpt-4o", "anthropic/claude-3-5-haiku-latest"))
def test_without_a_key_it_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MOOTHALL_OFFLINE", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelError, match=r"(?i)^litellm:[^\n]*key[^\n]* set [^\n]*$"):
        run(LiteLLMModel(name, max_retries=0).complete(user("Hi")))


@pytest.mark.parametrize("make", (of, anthropic), ids=("openai", "anthropic"))
def test_cancelled_the_connection_is_closed(make: Callable[..., LiteLLMModel]) -> None:
    with OpenAIServer(HANG) as server:

        async def cancel() -> None:
            task = asyncio.create_task(make(server).complete(user("Hi")))
            await asyncio.to_thread(server.wait_for_request)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(cancel())
        server.wait_for_close()


def test_a_rate_limit_is_kept_to() -> None:
    limit = RateLimit(requests_per_minute=1)
    with OpenAIServer(text("ok")) as server:
        asked = of(server, rate_limit=limit)

        async def two() -> None:
            await asked.complete(user("Hi"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asked.complete(user("Hi")), 0.2)

        run(two())
        assert len(server.requests) == 1


# -- what leaves the machine -----------------------------------------------------------------------


def test_offline_a_provider_is_not_called() -> None:
    for asked in (
        LiteLLMModel("openai/m", KEY),
        LiteLLMModel("anthropic/m", KEY, base_url="https://models.example"),
    ):
        with pytest.raises(RemoteForbidden, match="MOOTHALL_OFFLINE=1 forbids calls to"):
            run(asked.complete(user("Hi")))


def test_offline_links_are_not_fetched() -> None:
    picture = {"type": "image_url", "image_url": {"url": "http://192.0.2.1/a.png"}}
    with OpenAIServer(messages_format.text("ok")) as server:
        with pytest.raises(RemoteForbidden, match=r"forbids calls to 192\.0\.2\.1"):
            run(anthropic(server).complete([{"role": "user", "content": [picture]}]))
        assert server.requests == []


@pytest.mark.parametrize("make", (of, anthropic), ids=("openai", "anthropic"))
def test_offline_a_redirect_to_another_machine_is_not_followed(
    make: Callable[..., LiteLLMModel],
) -> None:
    redirect = http(b"", 307, {"Location": "http://192.0.2.1/v1"})
    refused = pytest.raises(RemoteForbidden, match=r"forbids calls to 192\.0\.2\.1")
    with OpenAIServer(redirect) as server, refused:
        run(make(server).complete(user("Hi")))


@pytest.mark.parametrize("provider", ("openai", "anthropic"))
def test_offline_a_proxy_on_another_machine_is_not_used(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:8080")
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:8080")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    asked = LiteLLMModel(f"{provider}/m", base_url="http://127.0.0.2:9/v1")
    with pytest.raises(RemoteForbidden, match=r"forbids calls to 192\.0\.2\.1"):
        run(asked.complete(user("Hi")))


@pytest.mark.long
def test_litellm_loads_offline_and_ends_silently(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A_SECRET_FROM_DOTENV=1\n")
    # litellm knows neither such a finish reason nor such a number of tokens, and warns of both.
    usage = {"prompt_tokens": 7.0, "completion_tokens": 3, "total_tokens": 10}
    odd = completion({"role": "assistant", "content": "ok"}, "odd", usage=usage)
    with OpenAIServer(http(json.dumps(odd).encode()), HANG) as server:
        script = f"""
import asyncio, os, sys
called = []
sys.addaudithook(
    lambda event, args: called.append(args[-1]) if event == "socket.connect" else None
)
from moothall.models import LiteLLMModel
asked = LiteLLMModel("openai/m", base_url="{server.url}")
assert "litellm" not in sys.modules
hi = [{{"role": "user", "content": "Hi"}}]
async def both():
    print((await asked.complete(hi)).text)
    try:
        await asyncio.wait_for(asked.complete(hi), 0.2)
    except TimeoutError:
        print("cancelled")
asyncio.run(both())
assert "litellm" in sys.modules
print({{address[0] for address in called}}, "A_SECRET_FROM_DOTENV" in os.environ)
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert (done.stdout, done.stderr) == ("ok\ncancelled\n{'127.0.0.1'} False\n", "")


# -- making one ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    (
        {"name": "m"},
        {"name": ""},
        {"name": 5},
        {"name": "openai/\n"},
        {"base_url": ""},
        {"base_url": "ftp://127.0.0.1"},
        {"base_url": "http://me:secret@127.0.0.1/v1"},
        {"context_tokens": 0},
        {"max_tokens": True},
        {"max_retries": -1},
        {"timeout": 0},
        {"options": {"messages": []}},
        {"options": {"fallbacks": ["openai/gpt"]}},
    ),
    ids=str,
)
def test_litellm_wrong_arguments_are_refused_by_the_constructor(more: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as caught:
        LiteLLMModel(**({"name": "openai/m"} | more))
    assert "secret" not in str(caught.value)


def test_a_key_with_a_line_break_is_named_and_not_shown() -> None:
    with pytest.raises(ModelError, match="a character that no key has") as caught:
        LiteLLMModel("openai/m", KEY + "\n")
    assert KEY not in str(caught.value)


def test_by_name() -> None:
    named = model("litellm:openai/m")
    assert isinstance(named, LiteLLMModel)
    assert named.name == "litellm:openai/m"
    assert model(named.name) is named
    with pytest.raises(ModelError, match=r"there is no such model: .*PROVIDER/NAME"):
        model("litellm:m")


def test_without_the_extra_it_says_which() -> None:
    script = (
        "import sys\n"
        "sys.modules['litellm'] = None\n"
        "from moothall.foundation.errors import MissingExtra\n"
        "from moothall.models import LiteLLMModel\n"
        "try:\n"
        "    LiteLLMModel('openai/m')\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        "LiteLLMModel needs the extra 'litellm': pip install 'moothall[litellm]'\n"
    ), done.stderr


def test_find_context_is_that_of_the_list_of_litellm() -> None:
    listed = LiteLLMModel("openai/gpt-4o", "key")
    assert asyncio.run(listed.find_context()) == listed.context_tokens == 128_000
    assert asyncio.run(LiteLLMModel("openai/nobody", "key").find_context()) is None
    elsewhere = LiteLLMModel("openai/gpt-4o", "key", base_url="http://127.0.0.1:9/v1")
    assert asyncio.run(elsewhere.find_context()) is None
