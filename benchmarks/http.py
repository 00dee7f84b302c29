"""What a call of OpenAIModel costs, against a server on loopback that answers at once.

    python -m benchmarks.http [--quick]

The limit is the same request and answer over one socket of asyncio's streams, with the answer
parsed. Beside it, in turns: the `openai` SDK as its makers show it, the SDK over aiohttp, aiohttp
alone. The server is a process of its own. `ratio` is how many times as long as the limit; `cpu` is
this process's own time, which other work on the machine changes less.

Then the same answer streamed in CHUNKS pieces, each of them an event that the server writes by
itself: the time of the whole, divided by its pieces.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable

from benchmarks.measure import emit, side_by_side
from moothall.models import OpenAIModel, TextPiece

MESSAGES = [{"role": "user", "content": "Say hello to everyone in the room."}]
REQUEST = json.dumps({"model": "m", "messages": MESSAGES}).encode()
MESSAGE = {"role": "assistant", "content": "Hello, everyone!"}
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
    }
).encode()
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
TARGET = "<= 600"  # µs
AT_ONCE = 100
CHUNKS = 20
PIECE = "word "


def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
    """An event as OpenAI's own server writes it, in a chunk of HTTP."""
    event = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
    }
    return framed(json.dumps(event))


def framed(data: str) -> bytes:
    """An event in a chunk of HTTP."""
    event = f"data: {data}\n\n"
    return f"{len(event):x}\r\n{event}\r\n".encode()


STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    *[chunk({"content": PIECE})] * CHUNKS,
    chunk({}, "stop"),
    framed('{"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 20}}'),
    framed("[DONE]"),
    b"0\r\n\r\n",
)


class Server(asyncio.Protocol):
    """Reads whole requests, and gives each the same answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            size = end + 4 + length(self.data[:end])
            if len(self.data) < size:
                return
            body = self.data[end + 4 : size]
            self.data = self.data[size:]
            if b'"stream": true' in body or b'"stream":true' in body:
                for piece in STREAM:
                    self.transport.write(piece)
            else:
                self.transport.write(HEAD.encode() + ANSWER)


def length(head: bytes) -> int:
    lowered = head.lower() + b"\r\n"
    start = lowered.index(b"content-length:") + 15
    return int(lowered[start : lowered.index(b"\r\n", start)])


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measure(port: int, quick: bool) -> None:
    import aiohttp
    import openai

    url = f"http://127.0.0.1:{port}/v1"
    calls = 100 if quick else 300
    with asyncio.Runner() as runner:
        model = OpenAIModel("m", url)

        async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", port)

        reader, writer = runner.run(opened())
        start = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        raw = f"{start}Content-Length: {len(REQUEST)}\r\n\r\n".encode() + REQUEST

        async def socket() -> str:
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            answer = json.loads(await reader.readexactly(length(head[:-4])))
            return str(answer["choices"][0]["message"]["content"])

        async def ours() -> str:
            return (await model.complete(MESSAGES)).text

        async def made() -> tuple[openai.AsyncOpenAI, openai.AsyncOpenAI, aiohttp.ClientSession]:
            return (
                openai.AsyncOpenAI(base_url=url, api_key="none"),
                openai.AsyncOpenAI(
                    base_url=url, api_key="none", http_client=openai.DefaultAioHttpClient()
                ),
                aiohttp.ClientSession(),
            )

        sdk, sdk_aiohttp, session = runner.run(made())

        def by(client: openai.AsyncOpenAI) -> Callable[[], Awaitable[str | None]]:
            async def ask() -> str | None:
                answer = await client.chat.completions.create(model="m", messages=MESSAGES)  # type: ignore[arg-type]
                return answer.choices[0].message.content

            return ask

        async def bare_aiohttp() -> str:
            async with session.post(f"{url}/chat/completions", data=REQUEST) as response:
                answer = json.loads(await response.read())
            return str(answer["choices"][0]["message"]["content"])

        async def times(ask: Callable[[], Awaitable[str | None]]) -> int:
            for _ in range(calls):
                assert await ask() == "Hello, everyone!"
            return calls

        forms: dict[str, Callable[[], Awaitable[str | None]]] = {
            "limit": socket,
            "moothall": ours,
            "openai SDK": by(sdk),
            "openai SDK over aiohttp": by(sdk_aiohttp),
            "aiohttp": bare_aiohttp,
        }
        works = {
            name: (lambda ask=ask: runner.run(times(ask)))  # type: ignore[misc]
            for name, ask in forms.items()
        }
        figures = side_by_side(works, 3 if quick else 9)
        limit = figures.pop("limit")
        for name, figure in figures.items():
            emit(
                "http call",
                f"one at a time, {name}",
                figure.seconds * 1e6,
                "us",
                limit=limit.seconds * 1e6,
                ratio=figure.over(limit),
                best=min(figure.wall) * 1e6,
                cpu=statistics.median(figure.cpu) * 1e6,
                **({"target": TARGET} if name == "moothall" else {}),
            )

        async def at_once() -> int:
            async def one_after_the_other() -> None:
                for _ in range(5):
                    await ours()

            await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
            return AT_ONCE * 5

        many = side_by_side({"moothall": lambda: runner.run(at_once())}, 3 if quick else 9)
        rate = 1 / many["moothall"].seconds
        emit("http calls", f"{AT_ONCE} at once, moothall", rate, "calls/s", target=">= 1000")

        async def streamed() -> int:
            pieces = 0
            async for part in model.stream(MESSAGES):
                pieces += isinstance(part, TextPiece)
            return pieces

        def streamed_by(client: openai.AsyncOpenAI) -> Callable[[], Awaitable[int]]:
            async def ask() -> int:
                pieces = 0
                async for event in await client.chat.completions.create(
                    model="m",
                    messages=MESSAGES,  # type: ignore[arg-type]
                    stream=True,
                    stream_options={"include_usage": True},
                ):
                    pieces += bool(event.choices and event.choices[0].delta.content)
                return pieces

            return ask

        async def streams(ask: Callable[[], Awaitable[int]]) -> int:
            for _ in range(calls // 4):
                assert await ask() == CHUNKS
            return calls // 4

        stream_forms: dict[str, Callable[[], Awaitable[int]]] = {
            "moothall": streamed,
            "openai SDK": streamed_by(sdk),
            "openai SDK over aiohttp": streamed_by(sdk_aiohttp),
        }
        stream_works = {
            name: (lambda ask=ask: runner.run(streams(ask)))  # type: ignore[misc]
            for name, ask in stream_forms.items()
        }
        figures = side_by_side(stream_works, 3 if quick else 9)
        for name, figure in figures.items():
            emit(
                "http stream",
                f"a piece of {CHUNKS}, {name}",
                figure.seconds * 1e6 / CHUNKS,
                "us",
                ratio=figure.over(figures["openai SDK"]),
                best=min(figure.wall) * 1e6 / CHUNKS,
                cpu=statistics.median(figure.cpu) * 1e6 / CHUNKS,
            )

        async def close() -> None:
            writer.close()
            await sdk.close()
            await sdk_aiohttp.close()
            await session.close()

        runner.run(close())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "benchmarks.http", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            measure(int(server.stdout.readline()), options.quick)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
