"""Hostile bodies: too long, too slow, no JSON, too deep, of other types; and answers to cards."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from attacks.studio.conftest import KNOWN, Asker, Port, answered, cancel_the_rest
from moothall import Agent, NativeSpace, action
from moothall.actions.approval import ApprovalRequest, Question

LINE = "/studio/space/line"
DEEP = "[" * 100_000
HUGE = "9" * 10_000


class Clerk(Agent):
    """Keeps what it is told."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.heard: list[str] = []

    @action
    async def say(self, content: str) -> None:
        """Say something to the clerk."""
        self.heard.append(content)


@pytest.fixture(scope="module")
def clerk(port: Port) -> Iterator[Clerk]:
    with NativeSpace() as space:
        clerk = Clerk("Clerk")
        space.add(clerk)
        space.add(port.studio.user)
        yield clerk


def works(port: Port) -> None:
    """A good request is answered as ever."""
    assert port.post(LINE, {"line": "  "}).text == '{"sent":null,"notice":null}'


# -- too long, too slow ----------------------------------------------------------------------------


def test_request_body_of_two_megabytes_is_refused(port: Port, clerk: Clerk) -> None:
    """At once where its length is announced, and after a megabyte where it is not."""
    told = port.post(LINE, {"line": "x" * (2 << 20)})
    assert (told.status, "1,048,576 bytes" in told.text) == (413, True)
    head = f"POST {LINE} HTTP/1.1\r\nHost: {port.host}\r\n{KNOWN[0]}: {KNOWN[1]}\r\n"
    with port.connect() as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(17):
            connection.sendall(chunk)
        assert answered(connection).status == 413
    longest = b'{"line":" "}'.ljust(1 << 20)
    assert [port.post(LINE, longest + more).status for more in (b"", b" ")] == [200, 413]
    works(port)


@pytest.mark.parametrize(
    "length", ("1073741824", "9" * 30, "0" * 30 + "1", "-1", "1e3", "+1", "0x10", "²", "1, 2", "")
)
def test_content_length_that_is_no_small_number_is_refused_before_the_body(
    port: Port, length: str
) -> None:
    """Nothing is waited for: the answer is there before the body."""
    told = port.send(LINE, KNOWN, ("Content-Length", length), method="POST")
    assert told.status in (400, 413)


def test_strangers_bodies_are_not_read(port: Port, clerk: Clerk) -> None:
    """Who has no token is answered before the body has come, and what then comes is not heard."""
    line = b'{"line": "/Clerk.say content:x"}'
    head = f"POST {LINE} HTTP/1.1\r\nHost: {port.host}\r\nContent-Length: {len(line)}\r\n\r\n"
    with port.connect() as connection:
        connection.sendall(head.encode())
        assert answered(connection).status == 401
        with suppress(ConnectionError):  # it may be closed already
            connection.sendall(line)
    works(port)
    assert clerk.heard == []


def test_bodies_that_never_end_hold_up_nobody(port: Port, clerk: Clerk) -> None:
    """Fifty clients that stop in the middle of headers or bodies: others are answered."""
    head = f"POST {LINE} HTTP/1.1\r\nHost: {port.host}\r\n{KNOWN[0]}: {KNOWN[1]}\r\n"
    stuck = [port.connect() for _ in range(50)]
    for number, connection in enumerate(stuck):
        rest = "Content-Length: 100\r\n\r\n{" if number % 2 else "X-Slow: "
        connection.sendall((head + rest).encode())
    for _ in range(10):
        works(port)
    for connection in stuck:
        connection.close()
    works(port)


def test_garbage_is_no_request(port: Port, clerk: Clerk) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 1000 + b"\0" * 1000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost : y\r\n\r\n",
        b"GET " + b"/" * (2 << 20) + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        with port.connect() as connection:
            try:
                connection.sendall(garbage)
                assert answered(connection).status in (400, 403)
            except ConnectionError:
                pass  # it was cut off before all was sent
    works(port)


# -- no JSON, and other types ----------------------------------------------------------------------

BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"line=x",
    "no UTF-8": b'{"line": "\xff\xfe"}',
    "deep lists": b'{"line": ' + DEEP.encode() + b"}",
    "deep objects": b'{"a":' * 100_000,
    "huge number": f'{{"line": {HUGE}}}'.encode(),
    "NaN": b'{"line": NaN}',
    "list": b"[]",
    "null": b"null",
    "text": b'"line"',
    "missing": b"{}",
    "number": b'{"line": 1}',
    "object": b'{"line": {"line": "x"}}',
    "lone surrogate": b'{"line": "\\ud800"}',
    "surrogate in a column": b'{"line": "/Clerk.say content:\\udfff"}',
    "deep line": json.dumps({"line": "/Clerk.say content:" + DEEP}).encode(),
    "long number": json.dumps({"line": f"/Clerk.say content:{HUGE}"}).encode(),
    "long line": json.dumps({"line": "/Clerk.say content:" + "x" * 500_000}).encode(),
    "null character": json.dumps({"line": "/\0.say"}).encode(),
}


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("path", (LINE, "/studio/cards/1"))
def test_bad_bodies_are_refused_in_words(port: Port, clerk: Clerk, path: str, case: str) -> None:
    """With a fault that a page can show, in JSON; nothing is sent to anybody."""
    told = port.post(path, BODIES[case])
    assert told.status in (400, 409, 422), told.text
    assert json.loads(told.text)
    assert clerk.heard == []
    works(port)


@pytest.mark.parametrize(
    "path",
    (
        "/studio/cards/x",
        "/studio/cards/-1",
        "/studio/cards/1.5",
        f"/studio/cards/{HUGE}",
        "/studio/cards/%00",
        "/studio/cards/1%2f..",
    ),
)
def test_card_number_that_is_no_cards_is_refused(port: Port, path: str) -> None:
    assert port.post(path, {"permit": True}).status in (404, 409, 422)


@pytest.mark.parametrize(
    "query",
    ("", "?text=" + "%2FClerk.say" * 5000, "?text=%ed%a0%80", "?text=%00", "?id=%F0", "?id="),
)
def test_odd_questions_are_answered(port: Port, clerk: Clerk, query: str) -> None:
    for path in ("/studio/space/complete", "/studio/space/help", "/studio/space/agents"):
        assert port.send(path + query, KNOWN).status in (200, 400, 422)


def test_odd_runs_are_refused_in_words(port: Port) -> None:
    """By every route that takes one, and by the decisions about one."""
    for path in ("stop", "pause", "unpause", "resume", "steer"):
        told = port.post(f"/studio/act/{path}", b'{"run": "\\ud800", "text": "x"}')
        assert (told.status in (400, 404), "error" in json.loads(told.text)) == (True, True), path
    for number in ("x", "-1", HUGE, "\u00b2"):
        told = port.post("/studio/runs/decide?run=x", {number: "skip"})
        assert (told.status, "has a number" in told.text) == (400, True), number


def test_static_files_of_odd_names_are_not_there(port: Port) -> None:
    for name in ("x" * 5000, "%00", "..%2f..%2fetc%2fpasswd"):
        assert port.send(f"/studio/static/{name}", KNOWN).status in (400, 403, 404), name[:9]


@pytest.mark.parametrize("form", ("act/forms/new", "research/forms/new", "society/forms/new"))
def test_forms_take_no_nonsense(port: Port, form: str) -> None:
    """Each fault is said in words; nothing begins, and nothing of it becomes a path or a name."""
    for body in (b"", b"[]", b"3", b"{", b"{" + b'"task":' * 9):
        assert port.post(f"/studio/{form}", body).status == 422
    for given in (
        {"__class__": "x"},
        {"start": "x"},
        {"task": [], "objectives": {}, "citizens": "x"},
        {"max_usd": 1e999, "days": float("nan")},
        {"max_tokens": True, "seed": False},
        {"yes_read": "yes", "search_web": 1, "step": "1 day"},
        {"max_seconds": -1, "seed": -1},
        {"task": "x" * 100_001, "objectives": "x" * 100_001, "model": "x" * 100_001},
    ):
        body = json.dumps(given).encode()
        told = port.post(f"/studio/{form}", body)
        assert told.status in (400, 422), given
        assert "error" in json.loads(told.text)
    assert port.post("/studio/act/forms/%2e%2e", {}).status in (400, 404)
    assert port.studio.jobs.running() == []


# -- cards -----------------------------------------------------------------------------------------


@pytest.fixture
def asker(port: Port) -> Iterator[Asker]:
    asker = Asker(port)
    yield asker
    asyncio.run_coroutine_threadsafe(cancel_the_rest(), asker.loop).result(10)
    asker.close()


def delete(path: Any) -> ApprovalRequest:
    return ApprovalRequest("Clerk", "delete", {"path": path}, "User", {})


def test_card_permits_only_by_its_exact_permission(port: Port, asker: Asker) -> None:
    """Not that of another call, not one that is nearly true; the card stays until then."""
    number, answer = asker.ask(delete("notes"))
    right = delete("notes").fingerprint
    for wrong in (
        {"permit": True},
        {"permit": True, "fingerprint": delete("other").fingerprint},
        {"permit": True, "fingerprint": right.upper()},
        {"permit": True, "fingerprint": None},
        {"permit": True, "fingerprint": [right]},
        {"permit": 1, "fingerprint": right},
        {"permit": "true", "fingerprint": right},
        {"permit": None},
        {"fingerprint": right},
        {"text": "yes"},
        {},
    ):
        told = port.post(f"/studio/cards/{number}", wrong)
        assert (told.status, answer.done()) == (400, False), wrong
    assert (
        port.post(f"/studio/cards/{number}", {"permit": True, "fingerprint": right}).status == 200
    )
    assert answer.result(10) is True


def test_card_answered_by_many_pages_takes_one_answer(port: Port, asker: Asker) -> None:
    """Of many pages at once, one is told yes, the rest what it came to; no later word counts."""
    number, answer = asker.ask(Question("Clerk", "How many?"))
    codes: list[int] = []

    def say(word: int) -> None:
        codes.append(port.post(f"/studio/cards/{number}", {"text": str(word)}).status)

    pages = [threading.Thread(target=say, args=(word,)) for word in range(8)]
    for page in pages:
        page.start()
    for page in pages:
        page.join(20)
    assert sorted(codes) == [200] + [409] * 7
    assert answer.result(10) in map(str, range(8))
    told = port.post(f"/studio/cards/{number}", {"text": "again"})
    assert (told.status, "answered" in told.text) == (409, True)


def test_question_card_takes_words_alone(port: Port, asker: Asker) -> None:
    number, answer = asker.ask(Question("Clerk", "\ud800 How many?"))
    assert port.send("/studio/cards", KNOWN).status == 200
    for wrong in ({"text": ""}, {"text": " \n"}, {"text": 3}, {"text": ["a"]}, {"permit": True}):
        assert port.post(f"/studio/cards/{number}", wrong).status == 400
    assert port.post(f"/studio/cards/{number}", {"text": "three"}).status == 200
    assert answer.result(10) == "three"


def test_card_whose_asker_has_ended_is_refused_with_that_reason(port: Port, asker: Asker) -> None:
    """It was cancelled, or its loop was closed without a word: the page is told."""
    number, answer = asker.ask(Question("Clerk", "How many?"))
    answer.cancel()
    asyncio.run_coroutine_threadsafe(cancel_the_rest(), asker.loop).result(10)
    told = port.post(f"/studio/cards/{number}", {"text": "three"})
    assert (told.status, "what asked has ended" in told.text) == (409, True)
    gone = Asker(port)
    number, _ = gone.ask(Question("Clerk", "How many?"))
    gone.close()
    told = port.post(f"/studio/cards/{number}", {"text": "three"})
    assert told.status == 409
