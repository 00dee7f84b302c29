"""One studio for many attackers, by raw HTTP: what a browser would never send is sent too."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import threading
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from moothall.actions.approval import ApprovalRequest, Question
from moothall.studio import Studio

TOKEN = "t" * 20
PASSWORD = "correct horse"
KNOWN = ("Authorization", f"Bearer {TOKEN}")


@dataclass
class Answer:
    """An answer of the studio."""

    status: int
    headers: http.client.HTTPMessage
    text: str


class Port:
    """One studio's port, and what is sent to it."""

    def __init__(self, studio: Studio) -> None:
        assert studio.url is not None
        self.studio = studio
        self.number = int(studio.url.rstrip("/").rpartition(":")[2])
        self.host = f"127.0.0.1:{self.number}"
        self.origin = f"http://{self.host}"

    @classmethod
    def at(cls, studio: Studio, number: int) -> Port:
        """The port of a studio whose address is that of a proxy."""
        port = cls.__new__(cls)
        port.studio, port.number, port.host = studio, number, f"127.0.0.1:{number}"
        port.origin = f"http://{port.host}"
        return port

    def connect(self, source: str = "") -> socket.socket:
        own = (source, 0) if source else None
        return socket.create_connection(("127.0.0.1", self.number), 20, own)

    def send(
        self,
        path: str,
        *headers: tuple[str, str],
        method: str = "GET",
        body: bytes | None = None,
        hosts: Iterable[str] | None = None,
        source: str = "",
    ) -> Answer:
        """Exactly these headers, after the Host (or several) and what ends the connection."""
        hosts = [self.host] if hosts is None else hosts
        told = [*(("Host", each) for each in hosts), *headers, ("Connection", "close")]
        if body is not None:
            told.append(("Content-Length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told)]
        with self.connect(source) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
            return answered(connection, method)

    def post(self, path: str, body: Any, *headers: tuple[str, str]) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = (KNOWN, ("Content-Type", "application/json"), *headers)
        return self.send(path, *told, method="POST", body=data)


def answered(connection: socket.socket, method: str = "GET") -> Answer:
    told = http.client.HTTPResponse(connection, method=method)
    told.begin()
    # A stream of events has no end: its beginning tells that it was let in.
    endless = "event-stream" in told.headers.get("content-type", "")
    text = "" if endless else told.read().decode(errors="replace")
    return Answer(told.status, told.headers, text)


def served(studio: Studio, journal: Any, **options: Any) -> Port:
    studio.launch(0, journal=journal, prevent_thread_lock=True, quiet=True, **options)
    return Port(studio)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    """A studio that a person uses, with a token."""
    with Studio() as studio:
        yield served(studio, tmp_path_factory.mktemp("studio") / "runs.db", token=TOKEN)


@pytest.fixture(scope="module")
def cookie(port: Port) -> tuple[str, str]:
    """What a browser has after it was opened with the token."""
    told = port.send(f"/?token={TOKEN}")
    return "Cookie", told.headers["set-cookie"].partition(";")[0]


@pytest.fixture(scope="module")
def key(port: Port) -> tuple[str, str]:
    """What the page has then beside it, which a browser keeps for this port alone."""
    return key_in(port.send(f"/?token={TOKEN}"))


def key_in(opened: Answer) -> tuple[str, str]:
    """The key, as the answer to the token or password has it."""
    found = re.search(r'name="moothall-studio-key" content="(\w{64})"', opened.text)
    assert found is not None
    return "X-Moothall-Key", found[1]


@pytest.fixture
def public(tmp_path: Any) -> Iterator[Port]:
    """A studio that other machines reach, with a password."""
    with Studio() as studio:
        yield served(studio, tmp_path / "runs.db", host="0.0.0.0", password=PASSWORD)


class Asker:
    """Asks a person, as an action does, in a loop of its own thread."""

    def __init__(self, port: Port) -> None:
        self.cards = port.studio.cards
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def ask(self, asked: ApprovalRequest | Question) -> tuple[int, Any]:
        """Put up a card; gives its number, and the future answer."""
        if isinstance(asked, ApprovalRequest):
            return self.put_up(self.cards.approve(asked), "approval")
        return self.put_up(self.cards.answer(asked), "question")

    def put_up(self, asking: Coroutine[Any, Any, Any], kind: str) -> tuple[int, Any]:
        """Put up a card of a kind in the loop; gives its number, and the future answer.

        A run that began before may put up one of another kind meanwhile.
        """
        before = {card["number"] for card in self.cards.to_json()}
        answer = asyncio.run_coroutine_threadsafe(asking, self.loop)
        # What the loop runs after the first step of `ask` runs after the card is there.
        for _ in range(2):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(10)
        new = (card for card in self.cards.to_json() if card["kind"] == kind)
        (number,) = {card["number"] for card in new} - before
        return number, answer

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


async def cancel_the_rest() -> None:
    """Ask no more."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
