"""The HTTP client: answers whole and streamed, redirects, bounds, attempts, loops and addresses."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from conformance.conftest import UNHURRIED
from models.openai_server import (
    CUT,
    HANG,
    RESET,
    SOON,
    Answer,
    OpenAIServer,
    Request,
    http,
    status,
    text,
)
from moothall import ReActAgent
from moothall.build import AllowedHosts, ServerURL
from moothall.foundation.errors import AddressRefused, FileError, MissingExtra, RemoteForbidden
from moothall.foundation.http import HTTPClient, HTTPError, HTTPResponse, retry_after_s
from moothall.testing.model_suite import run


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def get(*answers: Any, **more: Any) -> HTTPResponse:
    """What a client gets of a server's answers."""
    with OpenAIServer(*answers) as server:
        return run(HTTPClient("it", **more).request("GET", server.url))  # type: ignore[no-any-return]


def redirect(to: str, code: int = 302) -> Answer:
    return http(b"moved", code, {"Location": to})


def refused(*answers: Any, **more: Any) -> str:
    """What a client says of a server's answers, with `URL` for the server."""
    with OpenAIServer(*answers) as server:
        with pytest.raises(HTTPError) as caught:
            run(HTTPClient("it", **more).request("GET", server.url))
        assert caught.value.__cause__ is None
        return str(caught.value).replace(server.url, "URL")


# -- answers ---------------------------------------------------------------------------------------


def test_answer_has_its_status_headers_and_body() -> None:
    response = get(http(b"hello", 201, {"ETag": '"1"', "Content-Type": "text/plain"}))
    assert (response.status, response.content) == (201, b"hello")
    assert response.headers["etag"] == response.headers["ETag"] == '"1"'


def test_request_goes_out_as_it_was_given() -> None:
    with OpenAIServer(http(b"ok")) as server:
        client = HTTPClient("it")
        run(client.request("POST", server.url + "/a?b=1", headers={"X-A": "b"}, body=b'{"c": 2}'))
    request = server.requests[0]
    assert (request.path, request.headers["x-a"], request.body) == ("/v1/a?b=1", "b", {"c": 2})


def test_http_unchanged_page_is_not_sent_again() -> None:
    def page(request: Request) -> Answer:
        if request.headers.get("if-none-match") == '"1"':
            return Answer((b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n',))
        return http(b"page", 200, {"ETag": '"1"'})

    async def twice(url: str) -> tuple[HTTPResponse, HTTPResponse]:
        client = HTTPClient("it")
        first = await client.request("GET", url)
        known = {"If-None-Match": first.headers["etag"]}
        return first, await client.request("GET", url, headers=known)

    with OpenAIServer(page) as server:
        first, second = run(twice(server.url))
    assert (first.status, first.content) == (200, b"page")
    assert (second.status, second.content) == (304, b"")


def test_body_may_come_piece_by_piece() -> None:
    go_on = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"

    async def read(url: str) -> list[bytes]:
        response = await HTTPClient("it").request("GET", url, stream=True)
        try:
            pieces = [await response.read()]
            go_on.set()
            while data := await response.read():
                pieces.append(data)
            return pieces
        finally:
            response.close()

    with OpenAIServer(Answer((head, b"one", go_on, b"two"))) as server:
        assert run(read(server.url)) == [b"one", b"two"]


def test_http_failed_response_is_whole_even_if_streamed() -> None:
    with OpenAIServer(http(b"none", 404)) as server:
        response = run(HTTPClient("it").request("GET", server.url, stream=True))
    assert (response.status, response.content) == (404, b"none")


def test_streamed_body_that_is_left_closes_its_connection_and_frees_its_place() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"

    async def leave(url: str, server: OpenAIServer) -> bytes:
        client = HTTPClient("it", connections=1)
        response = await client.request("GET", url, stream=True)
        response.close()
        await asyncio.to_thread(server.wait_for_close)
        return (await client.request("GET", url)).content

    with OpenAIServer(Answer((head, b"some"), hang=True), http(b"ok")) as server:
        assert run(leave(server.url, server)) == b"ok"


@pytest.mark.parametrize(
    ("failure", "options"),
    (
        (CUT, {}),
        (RESET, {}),
        (HANG, {"timeout_s": 0.05}),
        (http(b"long" * 100), {"max_bytes": 10}),
        (redirect("/v1/again"), {}),
    ),
    ids=("cut", "reset", "late", "large", "redirects"),
)
@pytest.mark.parametrize("stream", (False, True), ids=("whole", "streamed"))
def test_http_failed_requests_leave_room_for_as_many_as_before(
    failure: Answer, options: dict[str, Any], stream: bool
) -> None:
    async def fail_then_ask(url: str) -> bytes:
        client = HTTPClient("it", connections=2, max_retries=0, **options)
        async with asyncio.timeout(10):
            for _ in range(3):
                with suppress(HTTPError):
                    response = await client.request("GET", url + "/no", redirects=1, stream=stream)
                    try:
                        while await response.read():
                            pass
                    finally:
                        response.close()
            return (await client.request("GET", url + "/yes")).content

    def answer(request: Request) -> Answer:
        return http(b"ok") if request.path.endswith("/yes") else failure

    with OpenAIServer(answer) as server:
        assert run(fail_then_ask(server.url)) == b"ok"


def test_http_events_have_their_names_and_data_and_nothing_of_other_fields() -> None:
    async def events(url: str) -> list[tuple[str, bytes]]:
        response = await HTTPClient("it").request("GET", url, stream=True)
        try:
            return [each async for each in response.events()]
        finally:
            response.close()

    stream = (
        b": a remark\n\nid: 7\nretry: 500\ndata: one\ndata: more\n\n"
        b"event: end\ncolour: red\ndata: two\n\n"
    )
    with OpenAIServer(http(stream)) as server:
        assert run(events(server.url)) == [("", b"one\nmore"), ("end", b"two")]


# -- redirects -------------------------------------------------------------------------------------


def test_redirect_is_handed_back_or_followed_as_often_as_is_said() -> None:
    answers = (redirect("/v1/b"), redirect("c"), http(b"there"))

    async def ask(redirects: int) -> HTTPResponse:
        with OpenAIServer(*answers) as server:
            return await HTTPClient("it").request("GET", server.url + "/a", redirects=redirects)

    for redirects, code, path in ((0, 302, "a"), (1, 302, "b"), (2, 200, "c"), (9, 200, "c")):
        response = run(ask(redirects))
        assert (response.status, response.url.rpartition("/")[2]) == (code, path)
    assert response.content == b"there"


@pytest.mark.parametrize(
    ("code", "method", "again", "body"),
    (
        *((303, "POST", "GET", None), (302, "POST", "GET", None), (301, "POST", "GET", None)),
        *((307, "POST", "POST", {"a": 1}), (308, "POST", "POST", {"a": 1})),
        *(
            (302, "PUT", "PUT", {"a": 1}),
            (303, "PUT", "GET", None),
            (303, "HEAD", "HEAD", {"a": 1}),
        ),
    ),
)
def test_http_method_and_body_after_a_redirect(
    code: int, method: str, again: str, body: Any
) -> None:
    with OpenAIServer(http(b"", code, {"Location": "b"}), http(b"")) as server:
        run(HTTPClient("it").request(method, server.url, body=b'{"a": 1}', redirects=1))
    assert [(each.path[-1], each.method, each.body) for each in server.requests[1:]] == [
        ("b", again, body)
    ]


def test_keys_do_not_follow_a_redirect_to_another_server() -> None:
    headers = {"Authorization": "Bearer x", "cookie": "y", "X-Other": "z"}
    with OpenAIServer(http(b"ok")) as other:
        answers = (redirect("here"), redirect(other.url + "/there"))
        with OpenAIServer(*answers) as server:
            run(HTTPClient("it").request("GET", server.url, headers=headers, redirects=2))
    kept = ("authorization", "cookie", "x-other")
    assert [server.requests[1].headers.get(each) for each in kept] == ["Bearer x", "y", "z"]
    assert [other.requests[0].headers.get(each) for each in kept] == [None, None, "z"]


def test_offline_holds_for_where_a_redirect_leads() -> None:
    with (
        OpenAIServer(redirect("http://elsewhere.example/")) as server,
        pytest.raises(RemoteForbidden, match=r"^it: MOOTHALL_OFFLINE=1 forbids calls to elsewhere"),
    ):
        run(HTTPClient("it").request("GET", server.url, redirects=5))


def test_redirect_that_fails_names_where_it_led() -> None:
    with OpenAIServer(http(b"ok")) as gone:
        nowhere = gone.url
    leads = redirect(f"{nowhere}/there?key=secret")
    with OpenAIServer(leads) as server, pytest.raises(HTTPError) as caught:
        run(HTTPClient("it", max_retries=0).request("GET", server.url, redirects=1))
    assert str(caught.value) == f"no answer from {nowhere}/there: Connection refused"


def test_cookies_are_not_kept() -> None:
    async def twice(url: str) -> None:
        client = HTTPClient("it")
        for _ in range(2):
            await client.request("GET", url)

    with OpenAIServer(http(b"ok", 200, {"Set-Cookie": "who=me"})) as server:
        run(twice(server.url.replace("127.0.0.1", "localhost")))
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


# -- bounds ----------------------------------------------------------------------------------------


def test_body_has_a_bound_also_when_it_is_unpacked() -> None:
    packed = gzip.compress(b" " * 2**22, 9)
    large = (http(b"x" * 101), http(packed, 200, {"Content-Encoding": "gzip"}))
    for answer in large:
        assert refused(answer, max_bytes=100) == "the answer has more than 100 bytes"
    assert get(http(b"x" * 100), max_bytes=100).content == b"x" * 100


def test_attempt_has_a_bound_of_time_to_the_end_of_its_answer() -> None:
    begun = Answer((b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", b"x"), hang=True)
    for answer in (HANG, begun):
        said = refused(answer, timeout_s=0.5, max_retries=0)
        assert said == "URL gave no answer within 0.5 s"


def test_cancelled_it_closes_the_connection() -> None:
    async def cancel(server: OpenAIServer) -> None:
        task = asyncio.create_task(HTTPClient("it").request("GET", server.url))
        await asyncio.to_thread(server.wait_for_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.wait_for_close)

    with OpenAIServer(HANG) as server:
        run(cancel(server))


# -- attempts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    (*(status(code, **SOON) for code in (408, 409, 429, 503)), CUT, RESET),
    ids=("408", "409", "429", "503", "cut", "reset"),
)
def test_http_transient_failure_is_retried(failure: Answer) -> None:
    assert get(failure, http(b"ok")).content == b"ok"


@pytest.mark.parametrize(
    ("code", "wish", "tries"), ((503, "false", 1), (503, "", 2), (400, "True", 2), (400, "yes", 1))
)
def test_http_what_a_server_says_of_a_retry_decides_before_the_status(
    code: int, wish: str, tries: int
) -> None:
    refusal = http(b"no", code, {"X-Should-Retry": wish, "Retry-After-Ms": "1"})
    assert get(refusal, http(b"ok")).tries == tries


def test_last_answer_of_all_attempts_is_handed_back() -> None:
    with OpenAIServer(status(503, **SOON)) as server:
        response = run(HTTPClient("it", max_retries=2).request("GET", server.url))
        assert (response.status, response.tries) == (503, 3)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "asked", ("9999", formatdate(time.time() + 9999, usegmt=True)), ids=("seconds", "date")
)
def test_server_that_asks_for_a_long_wait_is_not_waited_for(asked: str) -> None:
    assert get(status(429, retry_after=asked)).status == 429


@pytest.mark.parametrize(
    "form",
    (lambda at: formatdate(at, usegmt=True), formatdate, lambda at: time.asctime(time.gmtime(at))),
    ids=("GMT", "-0000", "asctime"),
)
def test_date_to_wait_for_is_told_in_seconds_from_now(
    form: Callable[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        wait_s = retry_after_s({"retry-after": form(time.time() + 100)})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert wait_s is not None
    assert 90 < wait_s <= 100


def test_server_that_is_not_there_is_named_in_words() -> None:
    with OpenAIServer(http(b"ok")) as server:
        url = server.url
    with pytest.raises(HTTPError) as caught:
        run(HTTPClient("it", max_retries=1).request("GET", url + "?key=secret"))
    assert str(caught.value) == f"no answer from {url}: Connection refused; tried 2 times"


class Closing:
    """A server that ends its connections after some answers, without having said that it will.

    It ends one when the next request is there: so that request always meets the end. Before, it
    works on that request for some seconds.
    """

    def __init__(self, answers: int, works_s: float = 0.0) -> None:
        self.answers = answers
        self._works_s = works_s
        self.connections: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Closing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(0)
                with connection:
                    while b"\r\n\r\n" in connection.recv(65536):
                        if self.connections[-1] == self.answers:
                            threading.Event().wait(self._works_s)
                            break
                        self.connections[-1] += 1
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except OSError:
            pass  # closed


def test_kept_connection_that_the_server_closed_is_no_attempt() -> None:
    async def thrice(url: str) -> list[bytes]:
        client = HTTPClient("it", max_retries=0)
        return [(await client.request("POST", url)).content for _ in range(3)]

    with Closing(answers=1) as server:
        assert run(thrice(server.url)) == [b"ok"] * 3
        assert server.connections == [1, 1, 1]


def test_http_kept_connection_that_fails_during_the_work_on_a_request_is_an_attempt() -> None:
    async def twice(url: str) -> None:
        client = HTTPClient("it", max_retries=0)
        await client.request("POST", url)
        with pytest.raises(HTTPError, match="no answer from"):
            await client.request("POST", url)

    with Closing(answers=1, works_s=0.3) as server:
        run(twice(server.url))
        assert server.connections == [1]


def test_new_connection_that_the_server_closes_is_one() -> None:
    with Closing(answers=0) as server, pytest.raises(HTTPError, match="no answer from"):
        run(HTTPClient("it", max_retries=0).request("POST", server.url))
    assert server.connections == [0]


# -- addresses -------------------------------------------------------------------------------------


class Refuse:
    """Refuses addresses, and keeps what it was asked about."""

    def __init__(self, *wrong: str) -> None:
        self.wrong = wrong
        self.asked: list[tuple[str, int, str]] = []

    def __call__(self, host: str, port: int, address: str) -> None:
        self.asked.append((host, port, address))
        if address in self.wrong:
            raise FileError(f"{host} is at {address}, which is private")


@pytest.mark.parametrize("host", ("a.example", "A.Example", "a.example."))
def test_address_of_an_allowed_host_is_its_own_however_the_host_is_written(host: str) -> None:
    AllowedHosts(["a.example"]).check(host, 80, "127.0.0.1")
    with pytest.raises(AddressRefused, match="a loopback address"):
        AllowedHosts(["a.example:81"]).check(host, 80, "127.0.0.1")


@pytest.mark.parametrize(
    ("address", "kind"),
    (
        ("8.8.8.8", ""),
        ("10.0.0.1", "a private address"),
        ("100.64.0.1", "a private address"),
        ("127.0.0.1", "a loopback address"),
        ("169.254.169.254", "a link-local address"),
        ("192.0.2.1", "an address for examples and tests"),
        ("224.0.0.1", "a multicast address"),
        ("0.0.0.0", "an unspecified address"),
        ("255.255.255.255", "an address for something else than the public Internet"),
        ("2001:4860:4860::8888", ""),
        ("::1", "a loopback address"),
        ("fc00::1", "a private address"),
        ("fe80::1%eth0", "a link-local address"),
        ("2001:db8::1", "an address for examples and tests"),
        ("::ffff:8.8.8.8", ""),
        ("::ffff:10.0.0.1", "which stands for 10.0.0.1, a private address"),
        ("64:ff9b::7f00:1", "which stands for 127.0.0.1, a loopback address"),
        ("2002:7f00:1::", "which stands for 127.0.0.1, a loopback address"),
    ),
)
def test_address_that_is_not_public_is_refused_by_its_kind(address: str, kind: str) -> None:
    hosts = AllowedHosts([])
    if not kind:
        hosts.check("a.example", 80, address)
        return
    with pytest.raises(AddressRefused) as refused:
        hosts.check("a.example", 80, address)
    told = f"a.example is at {address}, {kind}: pages are read from public addresses only."
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("url", "origin"),
    (
        ("http://A.example/v1", ("http", "a.example", 80)),
        ("https://a.example./v1", ("https", "a.example", 443)),
        ("HTTPS://a.example:8443", ("https", "a.example", 8443)),
    ),
)
def test_address_of_a_server_has_the_port_that_is_called(url: str, origin: Any) -> None:
    assert ServerURL(url).origin == origin


@pytest.mark.parametrize("host", ("localhost", "127.0.0.1", "LOCALHOST"))
def test_client_looks_at_every_address_before_it_connects(host: str) -> None:
    refuse = Refuse("127.0.0.1", "::1")
    with OpenAIServer(http(b"ok")) as server:
        url = server.url.replace("127.0.0.1", host)
        with pytest.raises(FileError, match=r"is private$"):
            run(HTTPClient("it", check_address=refuse).request("GET", url))
        assert server.connections == 0
        allow = Refuse()
        assert run(HTTPClient("it", check_address=allow).request("GET", url)).content == b"ok"
    port = urlsplit(url).port
    assert (host.lower(), port, "127.0.0.1") in refuse.asked
    assert (host.lower(), port, "127.0.0.1") in allow.asked


def test_address_that_a_redirect_leads_to_is_looked_at() -> None:
    refuse = Refuse("127.0.0.1", "::1")

    def check(host: str, port: int, address: str) -> None:
        if host == "localhost":
            refuse(host, port, address)

    with OpenAIServer(http(b"secret")) as inner:
        leads = redirect(inner.url.replace("127.0.0.1", "localhost"))
        with OpenAIServer(leads) as server:
            client = HTTPClient("it", check_address=check)
            with pytest.raises(FileError, match="localhost is at"):
                run(client.request("GET", server.url, redirects=1))
        assert inner.requests == []


# -- proxies ---------------------------------------------------------------------------------------


def test_proxy_of_the_environment_is_for_other_machines_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    with OpenAIServer(http(b"proxied")) as proxy, OpenAIServer(http(b"direct")) as server:
        at = proxy.url.removesuffix("/v1")
        monkeypatch.setenv("http_proxy", at.replace("http://", "http://me:pass%20word@"))
        assert run(HTTPClient("it").request("GET", server.url)).content == b"direct"
        assert run(HTTPClient("it").request("GET", "http://host.invalid/x")).content == b"proxied"
        monkeypatch.setenv("no_proxy", "host.invalid")
        with pytest.raises(HTTPError, match=r"http://host\.invalid/x: [\w ]+$"):
            run(HTTPClient("it", max_retries=0).request("GET", "http://host.invalid/x"))
        assert len(proxy.requests) == 1
    asked = proxy.requests[0]
    assert asked.path == "http://host.invalid/x"
    assert asked.headers["proxy-authorization"] == "Basic bWU6cGFzcyB3b3Jk"


@pytest.mark.parametrize("variable", ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"))
def test_proxy_without_a_scheme_or_for_all_is_used(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    with OpenAIServer(http(b"proxied")) as proxy:
        monkeypatch.setenv(variable, proxy.url.removeprefix("http://").removesuffix("/v1"))
        assert run(HTTPClient("it").request("GET", "http://host.invalid/x")).content == b"proxied"
    assert proxy.requests[0].path == "http://host.invalid/x"


@pytest.mark.parametrize(
    "exceptions", ("host.invalid:80", ".invalid", "10.0.0.0/8, host.invalid", "*")
)
def test_proxy_exceptions_name_a_host_its_port_or_its_domain(
    monkeypatch: pytest.MonkeyPatch, exceptions: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert ServerURL("http://host.invalid:80/x").proxy is None


def test_proxy_exceptions_name_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "example.org, 10.0.0.0/8, fd00::/8")
    assert ServerURL("http://10.1.2.3:8000/v1").proxy is None
    assert ServerURL("http://[fd00::1]/v1").proxy is None
    assert ServerURL("http://11.1.2.3/v1").proxy == "http://proxy.example:3128"


@pytest.mark.parametrize("scheme", ("socks5", "socks5h", "socks4", "socks", "ftp"))
@pytest.mark.parametrize("variable", ("HTTP_PROXY", "all_proxy"))
def test_proxy_of_another_kind_is_named_and_asked_nothing(
    monkeypatch: pytest.MonkeyPatch, scheme: str, variable: str
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    with OpenAIServer(http(b"proxied")) as proxy:
        place = proxy.url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv(variable, f"{scheme}://me:secret@{place}")
        with pytest.raises(HTTPError) as no:
            run(HTTPClient("it").request("GET", "http://host.invalid/x"))
        reply = ReActAgent("a", "http://host.invalid/v1#m").reply_sync("Hello")
    assert proxy.requests == []
    socks = ": moothall does not speak SOCKS. Many SOCKS proxies speak HTTP too"
    assert str(no.value) == (
        f"no request was sent to http://host.invalid/x: {variable} must be an HTTP proxy, such as "
        f"http://HOST:PORT, got '{scheme}://{place}'{socks if scheme.startswith('socks') else ''}; "
        "NO_PROXY names hosts that need no proxy"
    )
    assert f"{variable} must be an HTTP proxy" in str(reply.error)
    assert "is the server running there" not in str(reply.error)


@pytest.mark.parametrize(
    ("value", "proxy"),
    (
        (" http://proxy.example:3128 ", "http://proxy.example:3128"),
        ("proxy.example:3128\t", "http://proxy.example:3128"),
        (" ", None),
    ),
)
def test_proxy_may_have_spaces_around_it(
    monkeypatch: pytest.MonkeyPatch, value: str, proxy: str | None
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    assert ServerURL("http://host.invalid/v1").proxy == proxy


@pytest.mark.parametrize("value", ("http://proxy.example:99999", "file:///etc/hosts", "http://:80"))
def test_proxy_that_names_no_place_is_refused_and_not_left_out(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(HTTPError, match="HTTP_PROXY must be an HTTP proxy, such as") as no:
        run(HTTPClient("it").request("GET", "http://host.invalid/x"))
    assert "SOCKS" not in str(no.value)


def test_proxy_of_another_kind_does_not_concern_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with OpenAIServer(http(b"direct")) as server:
        assert run(HTTPClient("it").request("GET", server.url)).content == b"direct"


def test_error_of_a_proxy_names_the_proxy_and_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    with pytest.raises(
        HTTPError, match=r"through 127\.0\.0\.1:9, the proxy of the environment"
    ) as no:
        run(HTTPClient("it", max_retries=0).request("GET", "http://host.invalid/x"))
    assert "secret" not in str(no.value)
    reply = ReActAgent("a", "http://host.invalid/v1#m").reply_sync("Hello")
    assert "the proxy of the environment" in str(reply.error)
    assert "is the server running there" not in str(reply.error)


# -- loops -----------------------------------------------------------------------------------------


def test_connections_are_kept_within_a_loop_and_closed_with_it() -> None:
    with OpenAIServer(http(b"ok")) as server:
        client = HTTPClient("it")

        async def thrice() -> None:
            for _ in range(3):
                await client.request("GET", server.url)

        for loops in (1, 2, 3):
            asyncio.run(thrice())
            assert server.connections == loops
    gc.collect()  # an unclosed connection would be a warning, which is an error here


def test_threads_with_loops_of_their_own_share_a_client() -> None:
    with OpenAIServer(http(b"ok")) as server:
        client = HTTPClient("it")
        said: list[bytes] = []
        threads = [
            threading.Thread(
                target=lambda: said.append(run(client.request("GET", server.url)).content)
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == [b"ok"] * 4


def test_client_that_is_forgotten_closes_its_connections() -> None:
    async def forget(server: OpenAIServer) -> None:
        await HTTPClient("it").request("GET", server.url)
        gc.collect()
        await asyncio.to_thread(server.wait_for_end)

    with OpenAIServer(http(b"ok")) as server:
        run(forget(server))


def test_scripts_with_one_loop_after_the_other_end_without_a_word() -> None:
    with OpenAIServer(http(b"ok")) as server:
        script = UNHURRIED + (
            "import asyncio\n"
            "from moothall.foundation.http import HTTPClient\n"
            "client = HTTPClient('it')\n"
            f"async def main(): return await client.request('GET', {server.url!r})\n"
            "for _ in range(3): print(asyncio.run(main()).content)\n"
        )
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("b'ok'\n" * 3, "")


def test_client_without_aiohttp_says_which_extra() -> None:
    script = (
        "import sys; sys.modules['aiohttp'] = None; "
        "from moothall.foundation.http import HTTPClient; HTTPClient('it')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert MissingExtra.__name__ in done.stderr
    assert "it needs the extra 'openai': pip install 'moothall[openai]'" in done.stderr


# -- certificates ----------------------------------------------------------------------------------


def test_http_a_certificate_of_an_unknown_authority_names_the_variable_that_helps() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await HTTPClient("it", max_retries=0).request("GET", f"https://127.0.0.1:{port}")

    with pytest.raises(HTTPError) as caught:
        run(main())
    assert str(caught.value).partition(": ")[2] == (
        "CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate; for certificates of "
        "your own network, set SSL_CERT_FILE to the file that has them"
    )


ASK = """
import asyncio, sys
from moothall import OpenAIModel
model = OpenAIModel("m", sys.argv[1], max_retries=0)
print(asyncio.run(model.complete([{"role": "user", "content": "x"}])).text)
"""


def test_http_a_certificate_of_the_file_that_the_variable_names_is_trusted(tmp_path: Path) -> None:
    """As a program is started: its variables are read once."""
    ours = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("127.0.0.1").configure_cert(context)
    ours.cert_pem.write_to_path(str(tmp_path / "company.pem"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in text("trusted").pieces:
            assert isinstance(piece, bytes)
            writer.write(piece)
        await writer.drain()
        writer.close()

    async def main() -> tuple[bytes, bytes]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            its = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "company.pem")}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ASK, url, env=its, **pipes
            )
            return await child.communicate()

    said, wrong = run(main())
    assert said.decode() == "trusted\n", wrong.decode()
