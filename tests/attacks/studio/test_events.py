"""The stream of events: who may open it, who is slow, and what is kept for whom."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import tracemalloc
from contextlib import ExitStack, aclosing
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from attacks.studio.conftest import KNOWN, TOKEN, Port, served
from moothall.studio import Studio
from moothall.studio.event_feed import EventFeed


def listen(
    port: Port, query: str = "", *headers: tuple[str, str], **options: Any
) -> ClientConnection:
    """A page's socket, with the token unless headers are given."""
    told = {"origin": port.origin, "proxy": None, "compression": None, "max_size": None, **options}
    url = f"ws://{port.host}/studio/events{query}"
    return connect(url, additional_headers=list(headers or (KNOWN,)), **told)


def frame(page: ClientConnection) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(page.recv(timeout=20))
    return told


def until(page: ClientConnection, last: int) -> list[Any]:
    """The events up to a number."""
    found: list[Any] = []
    while True:
        told = frame(page)
        found += told["events"]
        if told["last"] >= last:
            return found


# -- who may open it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "headers"),
    (
        (None, [KNOWN]),
        ("null", [KNOWN]),
        ("http://evil.example", [KNOWN]),
        ("http://127.0.0.1:3000", [KNOWN]),
        ("http://localhost:{port}", [KNOWN]),
        ("https://127.0.0.1:{port}", [KNOWN]),
        ("http://127.0.0.1:{port}", [KNOWN, ("Origin", "http://evil.example")]),
        ("http://127.0.0.1:{port}", [KNOWN, ("Sec-Fetch-Site", "same-site")]),
        ("http://127.0.0.1:{port}", [("Authorization", "Bearer wrong")]),
        ("http://127.0.0.1:{port}", [("X-Nothing", "")]),
        ("http://127.0.0.1:{port}", [("Sec-WebSocket-Protocol", TOKEN)]),
    ),
)
def test_event_socket_of_another_origin_or_without_the_token_is_refused(
    port: Port,
    origin: str | None,
    headers: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is refused writes nothing to the terminal of the studio."""
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    origin = origin and origin.format(port=port.number)
    with pytest.raises(InvalidStatus) as refused:
        listen(port, f"?token={TOKEN}", *headers, origin=origin)
    assert refused.value.response.status_code in (400, 403)
    assert caplog.text == ""


def test_websockets_at_other_addresses_are_refused(port: Port) -> None:
    for path in ("/", "/runs/x", "/queue/join", "/studio/cards", "/studio/events/"):
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"ws://{port.host}{path}",
                additional_headers=[KNOWN],
                origin=port.origin,  # type: ignore[arg-type]
                proxy=None,
            )
        assert refused.value.response.status_code == 403


# -- what is asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize("after", ("-1", "999999999", "-99999999999999999999", "9" * 4000))
def test_event_stream_after_an_unknown_number_begins_with_reset(port: Port, after: str) -> None:
    """The page loads anew, and hears what comes next."""
    feed = port.studio.feed
    with listen(port, f"?epoch={feed.epoch}&after={after}") as page:
        told = frame(page)
        assert (told["reset"], told["last"], told["events"]) == (True, feed.last, [])
        feed.publish("next", after[:9])
        assert ["next", after[:9]] in [told for _, *told in until(page, feed.last)]


def test_epoch_of_another_studio_is_answered_by_reset(port: Port) -> None:
    """A page of a studio that was started again; one with quotes in its name, too."""
    for epoch in ("", "00000000", "%22%2C%22x", "%00", "%ed%a0%80"):
        with listen(port, f"?epoch={epoch}&after=0") as page:
            assert frame(page)["reset"] is True


def test_event_stream_after_that_is_no_number_is_refused(port: Port) -> None:
    for after in ("x", "1.5", "NaN", "", "1;2", "0x1"):
        with pytest.raises(InvalidStatus):
            listen(port, f"?after={after}")


def test_event_stream_sends_a_returning_page_what_it_missed_at_once(port: Port) -> None:
    """It need not wait for the next event."""
    feed = port.studio.feed
    before = feed.last
    for number in range(3):
        feed.publish("missed", number)
    with listen(port, f"?epoch={feed.epoch}&after={before}") as page:
        assert [each[2] for each in until(page, feed.last)] == [0, 1, 2]


def test_pages_say_nothing_that_counts(port: Port) -> None:
    """Text, bytes and garbage are passed over; what is too long ends that page alone."""
    feed = port.studio.feed
    with listen(port) as talker, listen(port) as other:
        for said in ("x", b"\0" * 1000, '{"reset": true}', "[" * 60_000):
            talker.send(said)
        feed.publish("still", 1)
        assert until(talker, feed.last)[-1][1:] == ["still", 1]
        talker.send("x" * (1 << 17))
        with pytest.raises(ConnectionClosed):
            until(talker, feed.last + 1)
        feed.publish("still", 2)
        assert until(other, feed.last)[-1][1:] == ["still", 2]


# -- many, and slow --------------------------------------------------------------------------------


def test_events_of_many_threads_are_published_in_order(port: Port) -> None:
    """A hundred pages each get every event, numbered without a gap; a thread's own in its order."""
    feed = port.studio.feed
    before = feed.last
    with ExitStack() as stack:
        pages = [stack.enter_context(listen(port)) for _ in range(100)]
        for page in pages:
            assert frame(page)["last"] == before

        def publish(name: int) -> None:
            for number in range(100):
                feed.publish("count", [name, number])

        threads = [threading.Thread(target=publish, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        for page in pages:
            found = until(page, before + 800)
            assert [each[0] for each in found] == list(range(before + 1, before + 801))
            for name in range(8):
                assert [each[2][1] for each in found if each[2][0] == name] == list(range(100))


def test_pages_that_never_read_cost_nobody(port: Port) -> None:
    """Of 25,000 events others get theirs; no queue is kept for the deaf, who are told later."""
    feed = port.studio.feed
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    start = (
        f"GET /studio/events HTTP/1.1\r\nHost: {port.host}\r\nOrigin: {port.origin}\r\n"
        f"{KNOWN[0]}: {KNOWN[1]}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}\r\n"
    )
    with ExitStack() as stack:
        for _ in range(10):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(20)
            deaf.connect(("127.0.0.1", port.number))
            deaf.sendall(start.encode())
            assert deaf.recv(12) == b"HTTP/1.1 101"
        other = stack.enter_context(listen(port))
        before = frame(other)["last"]
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for number in range(25):
            for _ in range(1000):
                feed.publish("much", "x" * 400)
            assert len(until(other, before + 1000 * (number + 1))) == 1000
        # Ten queues of them would be 100 MB; what is kept for all together is eight.
        assert tracemalloc.get_traced_memory()[1] < 40e6
    with listen(port, f"?epoch={feed.epoch}&after={before}") as back:
        assert frame(back)["reset"] is True


def test_long_events_are_kept_by_their_length() -> None:
    """Forty texts of a megabyte do not stay; each travels in a frame of its own."""
    feed = EventFeed()
    for _ in range(40):
        feed.publish("long", "x" * (1 << 20))

    async def frames(after: int, count: int) -> list[Any]:
        async with aclosing(feed.frames(feed.epoch, after)) as found:
            return [json.loads(await anext(found)) for _ in range(count)]

    (missed,) = asyncio.run(frames(0, 1))
    assert missed["reset"] is True
    first, *told = asyncio.run(frames(38, 3))
    assert "reset" not in first
    assert [[number for number, *_ in each["events"]] for each in told] == [[39], [40]]


@pytest.mark.parametrize(
    ("data", "told"),
    (
        ({"a": float("nan"), "b": [float("-inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
        ("\ud800 \u2028 </script> \x1b[31m \u202e", "\ud800 \u2028 </script> \x1b[31m \u202e"),
        ({1: {2}}, {"1": "{2}"}),
        (10**400, 10**400),
    ),
)
def test_event_of_any_data_is_json_that_browsers_read(port: Port, data: Any, told: Any) -> None:
    """No number that JSON lacks, no half character: one of them would stop every page for good."""
    feed = port.studio.feed
    with listen(port) as page:
        frame(page)
        feed.publish("odd", data)
        text = page.recv(timeout=20)
        assert isinstance(text, str)
        assert text.isascii()
        assert "NaN" not in text
        assert "Infinity" not in text
        assert json.loads(text)["events"][0][1:] == ["odd", told]


def test_studio_close_does_not_wait_for_slow_pages(tmp_path: Any) -> None:
    with Studio() as studio:
        port = served(studio, tmp_path / "runs.db", token=TOKEN)
        with listen(port) as page, port.connect() as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: x")
            frame(page)
            studio.close()
            assert studio.url is None
            with pytest.raises(ConnectionRefusedError):
                port.connect()


def test_studio_closes_while_its_pages_do(tmp_path: Any) -> None:
    """Pages that leave at that moment, with a word or without, are no fault of the server's."""
    with Studio() as studio, ExitStack() as stack:
        port = served(studio, tmp_path / "runs.db", token=TOKEN)
        pages = [stack.enter_context(listen(port)) for _ in range(40)]
        for page in pages:
            frame(page)
        for number, page in enumerate(pages):
            if number % 2:
                page.socket.sendall(bytes((0x88, 0x80, 0, 0, 0, 0)))  # a close
            else:
                page.socket.shutdown(socket.SHUT_WR)
        studio.close()
        with pytest.raises(ConnectionRefusedError):
            port.connect()
