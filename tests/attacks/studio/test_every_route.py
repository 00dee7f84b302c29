"""Each route that the studio's application has: asked well, by strangers, and in bad faith.

A route that is added is attacked from the same day; `world.py` has a good request of each.
"""

from __future__ import annotations

import json
import logging
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from attacks.studio.conftest import KNOWN, TOKEN, Answer, Port, answered
from attacks.studio.every_route import Asking, askings
from attacks.studio.world import World, living

HUGE = "9" * 5_000
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
REFUSED = (
    "act/resume",
    "stop_experiment",
    "space/fetch",
    *(f"{tab}/forms/new" for tab in ("doors", "runs", "space")),
)
"""What is refused even if it is asked well: there is nothing to resume, stop, fetch or begin."""

TEXTS = (
    "",
    " ",
    "nobody",
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "..\\..\\x",
    "file:///etc/passwd",
    "\0",
    "a\r\nSet-Cookie: a=b\r\n\r\n<b>",
    "\ud800",
    "\u202etxt.exe\u2066\u200b\ufeff",
    "\x1b[2J\x1b]0;taken\x07",
    SCRIPT,
    "' OR 1=1; DROP TABLE runs; --",
    '" NEAR( * OR [a-',
    "{{7*7}}${7*7}%(x)s{0.__class__}",
    "__class__",
    "x" * 40_000,
    HUGE,
)
NUMBERS = (
    "-1",
    "0",
    str(1 << 31),
    str(1 << 63),
    str(1 << 64),
    "9" * 400,
    "1e400",
    "NaN",
    "1.5",
    "²",
    "0x1",
)
TYPES: Sequence[Any] = (
    None, True, -1, 1 << 63, 1 << 64, 10**400, 1.5, 1e308, float("inf"), float("nan"),
    [], {}, [[]], {"x": 1}, ["x", None],
)  # fmt: skip


BODIES = (
    b"",
    b"x=y",
    b"3",
    b'"x"',
    b"[1]",
    b"[[]]",
    b"{",
    b'{"run": "\xff\xfe"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 10_000,
    b" " * ((1 << 20) + 1),
)


@pytest.fixture(scope="module")
def world(port: Port, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """What the studio has that can be asked for."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("world")
        patch.chdir(folder)  # what a relative path leads to
        patch.setenv("MOOTHALL_HOME", str(folder))  # there is no model in the box
        patch.setenv("MOOTHALL_OFFLINE", "1")
        with living(port, folder) as world:
            yield world


@pytest.fixture(scope="module")
def asked(port: Port, world: World) -> list[Asking]:
    """A good request of each route, or some."""
    return askings(port.studio, world)


class Faults(logging.Handler):
    """The errors that the program of a studio writes to its terminal."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said.append(self.format(record))


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What went wrong so that nobody was told in words: of each test, nothing."""
    kept = Faults()
    names = ("uvicorn", "uvicorn.error", "asyncio")
    for each in names:
        logging.getLogger(each).addHandler(kept)
    yield kept.said
    for each in names:
        logging.getLogger(each).removeHandler(kept)
    assert kept.said == []


def sent(port: Port, asking: Asking, *headers: tuple[str, str], **how: Any) -> Answer:
    """Send it with these headers."""
    body = asking.body
    if body is not None:
        headers = (*headers, ("Content-Type", "application/json"))
    return port.send(asking.address, *headers, method=asking.route.method, body=body, **how)


def works(port: Port) -> None:
    """A good request is answered as ever."""
    assert port.post("/studio/space/line", {"line": " "}).status == 200


def test_studio_routes_answer_what_is_asked_well(port: Port, asked: list[Asking]) -> None:
    """So that what else is sent to it here goes as far as it can."""
    assert len(asked) > 90
    for each in asked:
        told = sent(port, each, KNOWN)
        if told.status == 409:  # a page asks the person, and then says so
            ends = {("query", "ends"): json.loads(told.text)["ends"]}
            told = sent(port, replace(each, given=each.given | ends), KNOWN)
        wanted = 400 if each.address.endswith(REFUSED) else 200
        assert told.status == wanted, (each, told.text[:300])


# -- strangers -------------------------------------------------------------------------------------


def strangers(port: Port) -> dict[str, dict[str, Any]]:
    """What is sent by who is no page of this studio."""
    evil, page = ("Origin", "http://evil.example"), ("Origin", port.origin)
    fetch = [("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")]
    sent: dict[str, list[tuple[str, str]]] = {
        "nothing": [],
        "a wrong token": [("Authorization", "Bearer wrong")],
        "a part of the token": [("Authorization", f"Bearer {TOKEN[:-1]}")],
        "another scheme": [("Authorization", f"Basic {TOKEN}")],
        "two tokens": [KNOWN, ("Authorization", "Bearer wrong")],
        "a forged key": [("X-Moothall-Key", "x" * 64), page],
        "a forged cookie": [("Cookie", f"moothall_studio_00000000={TOKEN}"), page],
        "a claimed address": [("X-Forwarded-For", "127.0.0.1"), ("X-Real-IP", "::1")],
        "another address": [("X-Original-URL", "/login"), ("X-Rewrite-URL", "/login")],
        "a foreign origin": [KNOWN, evil],
        "no origin": [KNOWN, ("Origin", "null")],
        "two origins": [KNOWN, page, evil],
        "another site": [KNOWN, ("Sec-Fetch-Site", "cross-site"), *fetch],
        "another port": [KNOWN, ("Sec-Fetch-Site", "same-site"), *fetch],
    }
    hosts = {"a foreign host": ["evil.example"], "two hosts": [port.host, "evil.example"]}
    told: dict[str, dict[str, Any]] = {name: {"headers": each} for name, each in sent.items()}
    return told | {name: {"headers": [KNOWN], "hosts": each} for name, each in hosts.items()}


def test_studio_routes_refuse_strangers_whatever_they_forge(
    port: Port, asked: list[Asking], faults: list[str]
) -> None:
    """Whatever they forge; nor is done what they ask for.

    Who says nothing asks for each; the others for every fourth, in turns.
    """
    for each in asked:
        assert each.address  # puts up the cards that it names: one is of a run of its own
    runs = port.studio.journal.runs()
    for number, (name, how) in enumerate(strangers(port).items()):
        for each in asked[number % 4 :: 4] if number else asked:
            told = sent(port, each, *how["headers"], hosts=how.get("hosts"))
            assert told.status in (400, 401, 403), (name, each, told.text[:300])
            assert "set-cookie" not in told.headers
    assert [each.id for each in port.studio.journal.runs()] == [each.id for each in runs]


def test_studio_routes_are_no_sockets(port: Port, asked: list[Asking]) -> None:
    for address in {each.address for each in asked}:
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"ws://{port.host}{address}",
                additional_headers=[KNOWN],
                origin=port.origin,  # type: ignore[arg-type]
                proxy=None,
            )
        assert refused.value.response.status_code == 403


def test_studio_routes_take_their_own_method_alone(port: Port, asked: list[Asking]) -> None:
    """One that another header names is none."""
    paths = {
        each.address: each.route.method
        for each in asked
        if not each.route.path.startswith("/studio/act")
    }
    for path, own in paths.items():
        for method in {"GET", "POST", "PUT", "DELETE", "OPTIONS"} - {own}:
            body = b"{}" if method in ("POST", "PUT", "PATCH") else None
            told = port.send(path, KNOWN, ("X-HTTP-Method-Override", own), method=method, body=body)
            assert told.status in (404, 405), (method, path)


# -- in bad faith ----------------------------------------------------------------------------------


def wrong(asking: Asking) -> list[Asking]:
    """Return a request with each bad value in each place, one at a time, and without each."""
    made = []
    for place, name in asking.given:
        values = (*TEXTS, *NUMBERS, *(TYPES if place == "body" else ()))
        made += [asking.without(place, name), *(asking.but(place, name, each) for each in values)]
    return made


def check(told: Answer, asking: Asking) -> None:
    """It was answered, or refused in words that a page can show; no file and no script came."""
    assert told.status in (200, 400, 404, 405, 409, 413, 422), (told.status, asking)
    if told.status in (400, 409, 422):
        assert json.loads(told.text)["error"], asking
    for never in ("root:x:", "Traceback", TOKEN):
        assert never not in told.text, asking
    assert "set-cookie" not in told.headers, asking
    assert told.headers["x-content-type-options"] == "nosniff", asking
    is_page = told.headers.get_content_type() == "text/html"
    assert not (is_page and "<script>alert" in told.text), asking


PARTS = 16
"""A part of the bad requests is sent every time, another one for each place; with `long`, all."""


@pytest.mark.parametrize(
    "part", (0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, PARTS)))
)
def test_studio_routes_refuse_malformed_values_in_every_place(
    port: Port, world: World, asked: list[Asking], faults: list[str], part: int
) -> None:
    """Paths, signs, types, numbers and lengths that no page sends, in every place that there is."""
    bad = [each for asking in asked for each in wrong(asking)]
    assert len(bad) > 1_600
    for each in bad[part::PARTS]:
        check(sent(port, each, KNOWN), each)
    works(port)


def test_studio_routes_refuse_malformed_bodies(
    port: Port, world: World, asked: list[Asking], faults: list[str]
) -> None:
    """No JSON, of another kind, too deep or too long; a length is announced in one way."""
    for each in asked:
        if not any(place == "body" for place, _ in each.given):
            continue
        for body in BODIES:
            told = port.post(each.address, body)
            assert told.status in (400, 409, 413, 422), (each, body[:40], told.text[:300])
            assert told.status == 413 or json.loads(told.text)["error"], each
        assert port.post(each.address, b"{}", ("Content-Encoding", "gzip")).status != 500
    works(port)


def test_studio_routes_hear_no_second_request_smuggled_behind_a_first(
    port: Port, asked: list[Asking]
) -> None:
    """What is smuggled behind a request of two lengths is not answered, whoever sends it."""
    hidden = f"GET /studio/cards HTTP/1.1\r\nHost: {port.host}\r\n{KNOWN[0]}: {KNOWN[1]}\r\n\r\n"
    for each in asked:
        head = f"{each.route.method} {each.address} HTTP/1.1\r\nHost: {port.host}\r\n"
        for lengths in (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            f"Content-Length: 5\r\nContent-Length: {5 + len(hidden)}",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding : chunked",
            "X: y\r\n Content-Length: 5\r\nContent-Length: 0\nX",
        ):
            with port.connect() as connection:
                connection.sendall(f"{head}{lengths}\r\n\r\n0\r\n\r\n{hidden}".encode())
                told = answered(connection)
                assert told.status in (400, 401), (each, lengths)


def test_studio_routes_do_not_wait_for_slow_bodies(port: Port, asked: list[Asking]) -> None:
    """A stopped client of each, at once: others are answered, and nothing is done for it."""
    with ExitStack() as stack:
        takes_body: dict[socket.socket, Asking] = {}
        for each in asked:
            connection = stack.enter_context(port.connect())
            if each.body is not None:
                takes_body[connection] = each
            head = f"{each.route.method} {each.address} HTTP/1.1\r\nHost: {port.host}\r\n"
            connection.sendall(
                f"{head}{KNOWN[0]}: {KNOWN[1]}\r\nContent-Length: 9\r\n\r\n{{".encode()
            )
        works(port)
        assert takes_body
        answers = select.select([*takes_body], [], [], 0)[0]
        assert [takes_body[each] for each in answers if answered(each).status < 400] == []
