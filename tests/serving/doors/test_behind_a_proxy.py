"""The doors where others stand between them and their callers: proxies, other apps, web pages."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import mcp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.serving.doors.conftest import Waiting, serving

from moothall import ConfigError, ReActAgent, ScriptedModel
from moothall.serving import A2AAgent, asgi
from moothall.serving.doors.server import HTTPServer

CARD = "/.well-known/agent-card.json"
RIGHT = {"authorization": "Bearer s"}
PAGE = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}


def clerk(*answers: Any, **options: Any) -> ReActAgent:
    return ReActAgent("clerk", ScriptedModel(list(answers) or ["hello"] * 50), **options)


@asynccontextmanager
async def calling(app: Any, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    here = httpx2.ASGITransport(app, client=options.pop("client", ("127.0.0.1", 1)))
    address = options.pop("base_url", "http://127.0.0.1:8100")
    async with httpx2.AsyncClient(transport=here, base_url=address, **options) as client:
        yield client


async def test_right_token_is_never_refused_for_wrong_ones_of_the_same_address() -> None:
    async with calling(asgi(clerk(), token={"ada": "s", "eve": "t"})) as client:
        codes = []
        for _ in range(60):
            wrong = {"authorization": "Bearer guess"}
            codes.append((await client.get("/v1/models", headers=wrong)).status_code)
            assert (await client.get("/v1/models", headers=RIGHT)).status_code == 200
        assert codes[0] == 401
        assert codes[-1] == 429


@pytest.mark.parametrize(
    ("given", "headers", "url"),
    (
        ({"public_url": "https://agents.example"}, {}, "https://agents.example/a2a/clerk"),
        (
            {"public_url": "https://agents.example/hall/"},
            {},
            "https://agents.example/hall/a2a/clerk",
        ),
        ({"public_url": "https://Agents.Example:443"}, {}, "https://agents.example/a2a/clerk"),
        (
            {"proxies": ["127.0.0.1"]},
            {"host": "agents.example", "x-forwarded-proto": "https"},
            "https://agents.example/a2a/clerk",
        ),
        (  # of a stranger
            {"proxies": ["10.0.0.1"]},
            {"host": "agents.example", "x-forwarded-proto": "https"},
            "http://agents.example/a2a/clerk",
        ),
    ),
)
async def test_card_names_the_public_address(
    given: dict[str, Any], headers: dict[str, str], url: str
) -> None:
    async with calling(asgi(clerk(), token="s", **given)) as client:
        for path in (CARD, f"/a2a/clerk{CARD}"):
            card = (await client.get(path, headers=headers)).json()
            assert [each["url"] for each in card["supportedInterfaces"]] == [url, url]


@pytest.mark.parametrize(
    "given",
    (
        {"public_url": "agents.example"},
        {"public_url": "https://agents.example"},  # and no token
        {"proxies": ["nginx"]},
        {"origins": ["app.example"]},
        {"origins": ["https://app.example/path"]},
        {"origins": "*"},  # and no token
    ),
)
def test_address_of_a_wrong_form_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        asgi(clerk(), **given)


@pytest.mark.parametrize(
    "address",
    ("unknown:x", "[2001:db8::{0}]:443", "1.2.3.4:55", "::ffff:1.2.3.4", "fe80::1%eth0", ""),
)
async def test_forwarded_address_of_any_form_is_that_of_a_caller(address: str) -> None:
    async with calling(asgi(clerk(), token="s", proxies=["127.0.0.1"])) as client:
        for n in range(25):  # of IPv6, each from another address of one network
            wrong = {"authorization": "Bearer x", "x-forwarded-for": address.format(n)}
            last = await client.get("/v1/models", headers=wrong)
        assert last.status_code == 429
        other = {"authorization": "Bearer x", "x-forwarded-for": "::ffff:9.9.9.9"}
        assert (await client.get("/v1/models", headers=other)).status_code == 401


@pytest.mark.parametrize("path", ("/v1/models/", "/v1/models/clerk", f"/a2a/clerk{CARD}/"))
async def test_address_with_a_slash_at_its_end_is_the_same_one(path: str) -> None:
    headers = {**RIGHT, "a2a-version": "1.0"}
    async with calling(asgi(clerk(), token="s"), base_url="http://agents.example") as client:
        assert (await client.get(path, headers=headers)).status_code == 200
        call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        accept = {**RIGHT, "accept": "application/json, text/event-stream"}
        found = [await client.post(at, json=call, headers=accept) for at in ("/mcp", "/mcp/")]
        assert found[0].status_code == found[1].status_code < 500
        assert not found[1].is_redirect


async def test_card_needs_no_token_and_may_be_kept() -> None:
    async with calling(asgi(clerk(), token="s")) as client:
        found = await client.get(CARD)
        assert found.status_code == 200
        assert "bearer" in found.json()["securitySchemes"]
        assert found.headers["cache-control"] == "public, max-age=300"
        assert found.headers["last-modified"].endswith("GMT")
        again = await client.get(CARD, headers={"if-none-match": found.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await client.head(CARD)).status_code == 200
        assert (await client.post(CARD)).status_code == 401
        assert (await client.post("/a2a/clerk", json={})).status_code == 401


async def test_doors_mounted_below_a_path_serve_every_protocol_there() -> None:
    inner = asgi(clerk(*["hello"] * 9), token="s")
    with serving(Starlette(routes=[Mount("/agents", app=inner)])) as address:
        base = f"{address}/agents"
        async with httpx2.AsyncClient(headers=RIGHT) as client:
            card = (await client.get(f"{base}/a2a/clerk{CARD}")).json()
            assert card["supportedInterfaces"][0]["url"] == f"{base}/a2a/clerk"
            wrong = await client.get(f"{base}/v1/nowhere")
            assert wrong.json()["error"]["code"] == "unknown_url"
            refused = await client.get(f"{base}/v1/models", headers={"authorization": "Bearer x"})
            assert "token" in refused.json()["error"]["message"]
            run = {"threadId": "t", "runId": "r", "messages": [asked("x")]}
            assert "RUN_FINISHED" in (await client.post(f"{base}/ag-ui", json=run)).text
            from mcp.client.streamable_http import streamable_http_client

            transport = streamable_http_client(f"{base}/mcp", http_client=client)
            async with mcp.Client(transport) as session:
                assert [each.name for each in (await session.list_tools()).tools] == ["say"]
        far = A2AAgent("far", f"{base}/a2a/clerk{CARD}", headers=RIGHT)
        assert (await far.reply("hi")).text == "hello"
        await far.aclose()


def asked(text: str) -> dict[str, Any]:
    return {"id": "1", "role": "user", "content": text}


@pytest.mark.parametrize("origin", ("https://app.example/", "https://app.example/page"))
def test_origin_with_a_path_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match=r"origins= must be origins .*, without a path"):
        asgi(clerk(), token="s", origins=[origin])


async def test_page_of_a_named_origin_may_call_and_no_other() -> None:
    app = asgi(clerk(), token="s", origins=["https://App.example:443"])
    async with calling(app) as client:
        for path in ("/v1/chat/completions", "/ag-ui", "/mcp"):
            wants = {"access-control-request-headers": "authorization,content-type"}
            wants["access-control-request-method"] = "POST"
            may = await client.options(path, headers={**PAGE, **wants})
            assert may.status_code == 200
            assert may.headers["access-control-allow-origin"] == "https://app.example"
            assert "authorization" in may.headers["access-control-allow-headers"]
        body = {"model": "clerk", "messages": [asked("x")]}
        path = "/v1/chat/completions"
        found = await client.post(path, json=body, headers={**PAGE, **RIGHT})
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == "https://app.example"
        lost = await client.post(path, json=body, headers=PAGE)
        assert lost.status_code == 401  # which the page can read
        assert lost.headers["access-control-allow-origin"] == "https://app.example"
        other = {**PAGE, "origin": "https://evil.example", **RIGHT}
        assert (await client.post(path, json=body, headers=other)).status_code == 403


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "clerk", "stream": True, "messages": [asked("x")]},
    "/v1/responses": {"model": "clerk", "stream": True, "input": "x"},
    "/ag-ui": {"threadId": "t", "runId": "r", "messages": [asked("x")]},
    "/a2a/clerk": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}},
    },
}


async def begun(address: str, path: str, wanted: str) -> None:
    """Read a stream of an agent that never answers, until a line begins with the wanted text."""
    async with (
        httpx2.AsyncClient(base_url=address, headers={"a2a-version": "1.0"}) as client,
        client.stream("POST", path, json=BODIES[path], timeout=60) as answer,
    ):
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-store"
        async for line in answer.aiter_lines():
            if line.startswith(wanted):
                return
    raise AssertionError(path)


async def test_stream_begins_before_the_model_answers_and_is_not_buffered() -> None:
    with serving(asgi(ReActAgent("clerk", Waiting()))) as address:
        async with asyncio.timeout(10):
            await asyncio.gather(*(begun(address, path, "data:") for path in BODIES))


@pytest.mark.long
async def test_stream_sends_a_comment_while_an_action_takes_long() -> None:
    with serving(asgi(ReActAgent("clerk", Waiting()))) as address:
        async with asyncio.timeout(25):  # a comment each 15 s
            await asyncio.gather(*(begun(address, path, ":") for path in BODIES))


def test_request_with_two_lengths_is_refused_and_nothing_after_it_is_read() -> None:
    with serving(asgi(clerk())) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 20) as one:
            one.sendall(b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n")
            hidden = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            one.sendall(b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n" + hidden)
            said = b""
            with suppress(ConnectionError):
                while part := one.recv(4096):
                    said += part
    assert said.startswith(b"HTTP/1.1 400")
    assert said.count(b"HTTP/1.1") == 1


LONG = "x" * 20_000_000


def read_slowly(place: tuple[str, int], body: bytes) -> int:
    """Ask for an answer, and read it in 30 s; return how many bytes came."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # else the system keeps it
        client.connect(place)
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        client.sendall(b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        read = 0
        with suppress(ConnectionError):
            while part := client.recv(len(LONG) // 100, socket.MSG_WAITALL):
                read += len(part)
                threading.Event().wait(0.3)
        return read


@pytest.mark.long
def test_server_keeps_neither_half_a_request_nor_an_answer_that_nobody_reads() -> None:
    served = HTTPServer(asgi(ReActAgent("clerk", ScriptedModel([LONG] * 2))), "127.0.0.1", 0)
    served.start()
    served.listening.result()
    try:
        deaf = socket.create_connection(served.place, 30)
        body = json.dumps(BODIES["/v1/chat/completions"] | {"stream": False}).encode()
        deaf.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        deaf.sendall(b"content-length: %d\r\n\r\n" % len(body) + body)
        begun = deaf.recv(9999, socket.MSG_PEEK | socket.MSG_WAITALL)  # before the others
        assert begun.startswith(b"HTTP/1.1 200")
        slow = ThreadPoolExecutor().submit(read_slowly, served.place, body)
        halves = [b"", b"GET /", b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: "]
        held = []
        for half in halves:
            one = socket.create_connection(served.place, 30)
            one.sendall(half)
            held.append(one)
        kept = socket.create_connection(served.place, 30)
        kept.sendall(b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert kept.recv(100).startswith(b"HTTP/1.1 200")
        kept.sendall(b"GET /v1/mod")  # half of another one
        head = b"POST /v1/responses HTTP/1.1\r\nhost: evil.example\r\n"  # which is refused
        for more in (b"content-length: 9999\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n1\r\n"):
            one = socket.create_connection(served.place, 30)
            one.sendall(head + more)
            held.append(one)
        for each in (*held, kept):  # after 20 s
            with suppress(ConnectionError):
                while each.recv(4096):
                    each.sendall(b"x")  # until it is closed
            each.close()
        read = 0
        with suppress(ConnectionError):
            while part := deaf.recv(65536):  # its answer is not kept until it is read
                read += len(part)
        assert 0 < read < len(LONG)
        deaf.close()
        assert slow.result(60) > len(LONG)
    finally:
        served.stop()
        served.join()
