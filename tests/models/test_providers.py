"""Names of providers: their servers, keys and forms; headers and keys of one's own."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from typing import Any

import pytest

from models import messages_format
from models.openai_server import OpenAIServer, text
from moothall import AnthropicModel, OpenAIModel, ReActAgent
from moothall.foundation.errors import ConfigError, ModelError
from moothall.models import PROVIDERS, model
from moothall.testing.model_suite import run, user_message

CHAT = [name for name in PROVIDERS if name != "anthropic"]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_ENDPOINT", "OLLAMA_HOST")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", CHAT)
def test_providers_model_is_asked_with_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    about = PROVIDERS[name]
    with OpenAIServer(text("Hi")) as server:
        monkeypatch.setenv(PROVIDERS[name].address, server.url)
        if about.key:
            monkeypatch.setenv(about.key, "sk-mine")
        made = model(f"{name}:org/m:1")
        assert run(made.complete(user_message("Hi"))).text == "Hi"
    assert made.name == f"{name}:org/m:1"
    sent = server.requests[0]
    assert (sent.path, sent.body["model"]) == ("/v1/chat/completions", "org/m:1")
    key = sent.headers[about.key_header or "authorization"]
    assert key.removeprefix("Bearer ") == ("sk-mine" if about.key else "none")


@pytest.mark.parametrize("name", [name for name in PROVIDERS if PROVIDERS[name].url])
def test_provider_without_its_key_says_which_variable_at_the_first_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    made = model(f"{name}:m")
    if key := PROVIDERS[name].key:
        with pytest.raises(ModelError, match=f"there is no key: set {key}, or pass api_key=$"):
            run(made.complete(user_message("Hi")))
        reply = ReActAgent("a", f"{name}:m").reply_sync("Hi")
        assert (reply.stop_reason, f"set {key}" in reply.detail) == ("error", True)
    assert made.name == model(f"{name}:m", "my-key").name == f"{name}:m"


@pytest.mark.parametrize("name", [name for name in PROVIDERS if PROVIDERS[name].key])
def test_key_that_comes_after_the_model_was_made_is_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nobody is there: nothing is sent
    if not PROVIDERS[name].url:
        monkeypatch.setenv(PROVIDERS[name].address, "https://mine.example")
    made = model(f"{name}:m", max_retries=0)
    monkeypatch.setenv(PROVIDERS[name].key, "sk-mine")
    with pytest.raises(ModelError, match=r"through 127\.0\.0\.1:9, the proxy of the environment"):
        run(made.complete(user_message("Hi")))


@pytest.mark.parametrize(
    ("host", "address"),
    (
        ("127.0.0.1:11435", "http://127.0.0.1:11435/v1"),
        ("box", "http://box:11434/v1"),
        (":9000", "http://localhost:9000/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),
        ("0.0.0.0:9000", "http://localhost:9000/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://box:9000/", "http://box:9000/v1"),
        ("https://ollama.example", "https://ollama.example/v1"),
        ("https://ollama.example/of/ann", "https://ollama.example/of/ann/v1"),
        ("", "http://localhost:11434/v1"),
    ),
)
def test_ollama_is_asked_where_its_own_variable_says(
    host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    made: Any = model("ollama:m")
    assert made.base_url == address
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://first:1/v1")
    first: Any = model("ollama:m")
    assert first.base_url == "http://first:1/v1"


def test_azure_without_its_address_says_which_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="there is no address: set AZURE_OPENAI_ENDPOINT"):
        model("azure:m", "my-key")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    made: Any = model("azure:m", "my-key")
    assert made.base_url == "https://mine.openai.azure.com/openai/v1"


@pytest.mark.parametrize(
    ("name", "context"),
    (
        ("openai:gpt-5.6", 1_050_000),
        ("openai:gpt-4o-2024-08-06", 128_000),
        ("anthropic:claude-opus-4-6", 1_000_000),
        ("gemini:gemini-2.5-flash", 1_048_576),
        ("https://api.openai.com/v1#gpt-5", 400_000),
        ("openai:gpt-of-tomorrow", None),
        ("https://models.example/v1#gpt-5", None),
        ("ollama:gpt-5", None),
    ),
)
def test_listed_models_context_is_known(name: str, context: int | None) -> None:
    assert model(name, "my-key").context_tokens == context


def test_openais_name_behind_another_address_is_any_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with OpenAIServer(text("Hi")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run(model("openai:m").complete(user_message("Hi")))
    assert "max_tokens" in server.requests[0].body


def test_provider_that_is_unknown_is_refused() -> None:
    with pytest.raises(ConfigError, match="provider= must be one of openai, anthropic"):
        OpenAIModel("m", provider="acme")


# -- headers, keys, addresses ----------------------------------------------------------------------


def made_of(form: str, server: OpenAIServer, **more: Any) -> Any:
    if form == "chat":
        return OpenAIModel("m", f"{server.url}?api-version=2026-01-01", **more)
    url = f"{server.url.removesuffix('/v1')}?api-version=2026-01-01"
    return AnthropicModel("m", url, **more)


@pytest.mark.parametrize("form", ("chat", "messages"))
def test_headers_and_a_query_go_with_each_request(form: str) -> None:
    said = text("Hi") if form == "chat" else messages_format.text("Hi")
    with OpenAIServer(said) as server:
        headers = {"X-Portkey": "mine", "ACCEPT": "text/plain"}
        run(made_of(form, server, api_key="k", headers=headers).complete(user_message("Hi")))
    sent = server.requests[0]
    assert sent.path.endswith("?api-version=2026-01-01")
    assert (sent.headers["x-portkey"], sent.headers["accept"]) == ("mine", "text/plain")


@pytest.mark.parametrize("form", ("chat", "messages"))
@pytest.mark.parametrize("waits", (False, True), ids=("plain", "async"))
def test_functions_give_the_key_and_headers_of_each_request(form: str, waits: bool) -> None:
    numbers = iter(range(1, 9))

    def key() -> str:
        return f"token-{next(numbers)}"

    async def later() -> str:
        return key()

    async def headers() -> dict[str, str]:
        return {"X-Trace": "t"}

    said = text("Hi") if form == "chat" else messages_format.text("Hi")
    with OpenAIServer(said) as server:
        made = made_of(form, server, api_key=later if waits else key, headers=headers)
        for _ in range(2):
            run(made.complete(user_message("Hi")))
    field = "authorization" if form == "chat" else "x-api-key"
    keys = [each.headers[field].removeprefix("Bearer ") for each in server.requests]
    assert keys == ["token-1", "token-2"]
    assert server.requests[0].headers["x-trace"] == "t"


@pytest.mark.parametrize("form", ("chat", "messages"))
def test_function_of_the_key_gives_it_to_the_request_that_asked(form: str) -> None:
    """Such as the token of whoever is served now, while another one's request waits."""
    caller, both = ContextVar("caller", default=""), asyncio.Barrier(2)

    async def headers() -> dict[str, str]:
        await both.wait()
        return {"X-Caller": caller.get()}

    async def ask(name: str) -> None:
        caller.set(name)
        await made.complete(user_message("Hi"))

    async def main() -> None:
        await asyncio.gather(*map(ask, ("ada", "bob")))

    said = text("Hi") if form == "chat" else messages_format.text("Hi")
    with OpenAIServer(said) as server:
        made = made_of(form, server, api_key=caller.get, headers=headers)
        run(main())
    field = "authorization" if form == "chat" else "x-api-key"
    sent = [
        (e.headers["x-caller"], e.headers[field].removeprefix("Bearer ")) for e in server.requests
    ]
    assert sorted(sent) == [("ada", "ada"), ("bob", "bob")]


def test_errors_show_neither_a_functions_key_nor_headers() -> None:
    from models.openai_server import status

    said = status(401, "wrong: token-of-mine and header-of-mine")
    with OpenAIServer(said) as server:
        made = OpenAIModel(
            "m", server.url, lambda: "token-of-mine", headers={"X-Key": "header-of-mine"}
        )
        with pytest.raises(ModelError) as caught:
            run(made.complete(user_message("Hi")))
    assert "of-mine" not in str(caught.value)


def test_errors_show_no_key_of_another_request_that_is_under_way() -> None:
    from models.openai_server import status

    keys, both = ["token-of-ada", "token-of-bob"], asyncio.Barrier(2)

    async def headers() -> dict[str, str]:
        await both.wait()
        return {}

    async def main() -> list[Any]:
        asked = [made.complete(user_message("Hi")) for _ in keys]
        return await asyncio.gather(*asked, return_exceptions=True)

    said = status(403, f"wrong: {' and '.join(keys)}")
    left = iter(keys)
    with OpenAIServer(said) as server:
        made = OpenAIModel("m", server.url, lambda: next(left), headers=headers)
        errors = run(main())
    assert all(isinstance(each, ModelError) for each in errors)
    assert "of-ada" not in str(errors)
    assert "of-bob" not in str(errors)


@pytest.mark.parametrize("headers", ("X: y", {"X": 1}, {"X": "a\nb"}, {"Ä": "b"}))
def test_headers_that_cannot_be_sent_are_refused(headers: Any) -> None:
    with pytest.raises(ConfigError, match="headers= must be names and texts"):
        OpenAIModel("m", "http://127.0.0.1:1/v1", headers=headers)
    with OpenAIServer(text("Hi")) as server:
        of_function = OpenAIModel("m", server.url, headers=lambda: headers)
        with pytest.raises(ConfigError, match="headers= must be names and texts"):
            run(of_function.complete(user_message("Hi")))
    assert server.requests == []
