"""What a user reads when a server cannot be used as it is: what happened, and what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from conformance.model import ACTIONS, parts_of, run, user
from models.openai_server import OpenAIServer, events, http
from models.openai_server import status as refusal
from moothall.foundation.errors import ModelError
from moothall.models import AnthropicModel, OpenAIModel

KEY = "sk-a-secret-of-mine"
FORMS: dict[str, Callable[..., Any]] = {
    "chat": lambda url: OpenAIModel("m", url, KEY, max_retries=0),
    "responses": lambda url: OpenAIModel("m", url, KEY, max_retries=0, api="responses"),
    "messages": lambda url: AnthropicModel("m", url, KEY, max_retries=0),
}
PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Hello</body></html>"
NO_ACTIONS = "choose a model and a server that take actions, or give the agent none"


def said(form: str, given: Any, streams: bool = False) -> str:
    """The line of the error, without the model's name and the server's address."""
    with OpenAIServer(given) as server:
        model = FORMS[form](server.url)
        ask = parts_of if streams else type(model).complete
        with pytest.raises(ModelError) as caught:
            run(ask(model, user("Hi"), ACTIONS))
    line = str(caught.value).replace(server.url, "URL")
    assert "\n" not in line
    assert KEY not in line
    return line.partition(": ")[2].removeprefix("the server answered ")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("code", "told", "advice"),
    (
        (401, f"wrong key {KEY}", "check api_key="),
        (400, "API key not valid. Please pass a valid API key.", "check api_key="),
        (404, "model 'm' not found", "check the name of the model and the address URL"),
        (400, "Model Not Exist", "check the name of the model"),
        (400, "Invalid model: m", "check the name of the model"),
        (400, "m is not a valid model ID", "check the name of the model"),
        (405, "Method Not Allowed", "check the name of the model and the address URL"),
        (400, "library/gemma does not support tools", NO_ACTIONS),
        (404, "No endpoints found that support tool use.", NO_ACTIONS),
        (400, '"auto" tool choice requires --enable-auto-tool-choice', NO_ACTIONS),
        (500, "tools param requires --jinja flag", NO_ACTIONS),
    ),
)
def test_server_refusal_says_what_to_do(form: str, code: int, told: str, advice: str) -> None:
    line = said(form, refusal(code, told))
    shown, _, hint = line.rpartition("; ")
    assert shown == f"{code}: {told}".replace(KEY, "…").removesuffix(".")
    assert hint.startswith(advice)


@pytest.mark.parametrize("form", FORMS)
def test_server_answer_that_is_a_web_page_is_named_by_its_title(form: str) -> None:
    page = {"Content-Type": "text/html"}
    advice = "check the address URL, and any proxy before it"
    assert said(form, http(PAGE, 403, page)) == f"403: a web page, 'Sign in'; {advice}"
    told = "the answer is a web page, 'Sign in', not JSON: check the address of the server"
    for streams in (False, True):
        assert said(form, http(PAGE, headers=page), streams) == told
    assert said(form, http(b"")) == "the answer is empty, not JSON: check the address of the server"


@pytest.mark.parametrize("form", FORMS)
def test_server_stream_of_plain_text_shows_what_came(form: str) -> None:
    told = "the answer broke off after 'upstream connect error', before its end"
    assert said(form, events(b"upstream connect error"), streams=True) == told


@pytest.mark.parametrize("form", FORMS)
def test_server_redirect_names_where_it_leads(form: str) -> None:
    line = said(form, http(b"", 307, {"Location": "https://login.example/x"}))
    assert line.endswith("and the address URL (it names https://login.example/x)")


def test_https_of_a_server_without_it_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(9999)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ModelError, match="does the server speak http rather than https"):
            run(FORMS["chat"](url).complete(user("Hi")))
        thread.join()
