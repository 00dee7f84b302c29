"""A server on loopback that speaks OpenAI's chat interface, as well or as badly as a test says.

    with OpenAIServer(text("Hello"), status(429), CUT) as server: …

Each request takes the next of the answers, and the last again when there are no more. An answer is
bytes for the whole of HTTP, or one of the forms below. What is asked about its models is no request
of these: `about=` has the answers, `looked_up` the paths. `server.requests` holds what came in, and
`server.closed` counts the connections that the client closed while its request was unanswered.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

WAIT_S = 30


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    method: str = "POST"


@dataclass(frozen=True)
class Answer:
    """A response in pieces, each `pause_s` after the one before.

    A piece that is an event is waited for. After them, `cut` closes the connection, `reset` ends it
    hard, and `hang` leaves it open.
    """

    pieces: Iterable[bytes | threading.Event] = ()
    cut: bool = False
    hang: bool = False
    reset: bool = False
    pause_s: float = 0.0


def http(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [
        f"{k}: {v}" for k, v in ({"Content-Type": "application/json"} | (headers or {})).items()
    ]
    return Answer(("\r\n".join(lines).encode() + b"\r\n\r\n" + body,))


def answer(value: Any) -> Answer:
    return http(json.dumps(value).encode())


def completion(message: dict[str, Any], finish_reason: Any = "stop", **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    } | more


def text(content: str, **more: Any) -> Answer:
    return answer(completion({"role": "assistant", "content": content}, **more))


def call(name: str, arguments: str, id: str = "call_x") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*listed: dict[str, Any]) -> Answer:
    message = {"role": "assistant", "content": None, "tool_calls": list(listed)}
    return answer(completion(message, "tool_calls"))


def status(code: int, message: str = "try later", **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return http(json.dumps({"error": {"message": message}}).encode(), code, named)


_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def events(*data: Any, **more: Any) -> Answer:
    """Server-sent events, each in a piece of its own; text and bytes go out as they are.

    What is a `threading.Event` is waited for.
    """
    pieces = [each if isinstance(each, threading.Event) else _chunk(_event(each)) for each in data]
    if not (more.get("cut") or more.get("hang") or more.get("reset")):
        pieces.append(b"0\r\n\r\n")
    return Answer((_STREAM, *pieces), **more)


def endless(data: Any, **more: Any) -> Answer:
    """One event over and over."""
    return Answer(itertools.chain([_STREAM], itertools.repeat(_chunk(_event(data)))), **more)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


DONE = "[DONE]"


def delta(content: Any = None, finish_reason: Any = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a streamed answer."""
    if content is not None:
        fields["content"] = content
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def counted(**usage: Any) -> dict[str, Any]:
    """The chunk that comes last, of usage alone."""
    usage = usage or {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return delta() | {"choices": [], "usage": usage}


def call_piece(index: Any, **function: Any) -> dict[str, Any]:
    """A chunk with a piece of a call; `id` goes beside its function."""
    piece: dict[str, Any] = {"index": index}
    if "id" in function:
        piece |= {"id": function.pop("id"), "type": "function"}
    return delta(tool_calls=[piece | {"function": function}])


def streamed(given: Any) -> Answer:
    """The same answer as `text` or `calls` give whole, cut into small pieces."""
    chunks = [delta("", role="assistant")]
    if isinstance(given, str):
        chunks += [delta(given[at : at + 3]) for at in range(0, len(given), 3)]
        chunks.append(delta(finish_reason="stop"))
    else:
        for n, each in enumerate(given):
            function = each["function"]
            chunks.append(call_piece(n, id=each["id"], name=function["name"], arguments=""))
            for part in function["arguments"]:
                chunks.append(call_piece(n, arguments=part))
        chunks.append(delta(finish_reason="tool_calls"))
    return events(*chunks, counted(), DONE)


HANG = Answer(hang=True)
RESET = Answer(reset=True)
CUT = Answer((b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",), cut=True)
SOON = {"retry_after_ms": "1"}


class OpenAIServer:
    """The server; `url` is what a model is given as `base_url`."""

    def __init__(self, *answers: Any, about: dict[str, Any] | None = None, port: int = 0) -> None:
        self.about = about or {}  # what it says of its models and itself, by path
        self.looked_up: list[str] = []
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)
        self.came = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.url = ""
        self.port = port  # by default one that is free
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="openai-server")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        assert self._ready.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def wait_for_request(self) -> None:
        assert self.came.acquire(timeout=WAIT_S), "no request came"

    def wait_for_close(self) -> None:
        assert self.closed.acquire(timeout=WAIT_S), "the client did not close its connection"

    def wait_for_end(self) -> None:
        assert self.ended.acquire(timeout=WAIT_S), "the client did not end a connection"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=2**24)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._ready.set()
        await self._stop.wait()
        # A connection that was taken just now has a task that has not begun: Python's server would
        # leave it open if it were closed before.
        for each in server.sockets:
            self._loop.remove_reader(each.fileno())
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:  # what its client has not read yet would keep it open
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.append(writer)
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            self._tasks.discard(task)
            writer.close()
            self.ended.release()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = head[0].split(" ")
        request = Request(path, headers, json.loads(body) if body else None, method)
        if method == "GET" and path in ("/v1/models", "/props"):
            self.looked_up.append(path)
            known = self.about.get(path)
            given = http(b"{}", 404) if known is None else known
            given = given if isinstance(given, Answer) else answer(given)
            return await self._given(given, reader, writer)
        place = min(len(self.requests), len(self.answers) - 1)
        self.requests.append(request)
        self.came.release()
        given = self.answers[place]
        if callable(given):
            given = given(request)
        return await self._given(given, reader, writer)

    async def _given(
        self, given: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        for piece in given.pieces:
            if isinstance(piece, threading.Event):
                await asyncio.to_thread(piece.wait, WAIT_S)
                continue
            writer.write(piece)
            await writer.drain()
            if given.pause_s:
                await asyncio.sleep(given.pause_s)
        if given.reset:
            writer.transport.abort()
            return False
        if given.hang:
            # Nothing more is sent, so what comes is the end of the connection.
            await reader.read(1)
            self.closed.release()
            return False
        return not given.cut
