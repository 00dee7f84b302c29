"""What a request through a door costs over the agent's own reply.

    python -m benchmarks.door_requests [--quick]

An agent with a scripted model replies: called directly, and through `/v1/responses`, by uvicorn in
a process of its own and a client that keeps its connection. The figure is the difference of the
medians. Without uvicorn and a socket, in this process, it is the part that is ours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from benchmarks.measure import emit
from moothall import NativeSpace, ReActAgent, ScriptedModel
from moothall.serving import asgi

REQUEST = json.dumps({"model": "bot", "input": "Hello", "store": False}).encode()
TARGET = "<= 2"  # ms


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.door_requests", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return _serve()
    asyncio.run(_measure(200 if options.quick else 1000))
    return 0


def _agent() -> ReActAgent:
    return ReActAgent("bot", ScriptedModel(lambda messages, actions: "Hello."))


def _serve() -> int:
    """A server in a process of its own, until its standard input ends."""
    import threading

    import uvicorn

    # With the protocol named, asyncio lets no small piece wait for the one before.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    server = uvicorn.Server(uvicorn.Config(asgi(_agent()), log_level="error", access_log=False))
    print(listening.getsockname()[1], flush=True)

    def wait() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    server.run(sockets=[listening])
    return 0


async def _median_ms(call: Callable[[], Awaitable[Any]], times: int) -> float:
    for _ in range(20):
        await call()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000


async def _measure(times: int) -> None:
    metric = "doors: a request of /v1/responses over the agent's own reply"
    number = iter(range(10**9))
    async with NativeSpace() as space:
        agent = space.add(_agent())
        own = await _median_ms(lambda: agent.reply("Hello", thread=next(number)), times)
        emit("doors: the agent's own reply", "in a space", own, "ms")
    app = asgi(_agent())
    here = await _median_ms(lambda: _called(app), times)
    emit(metric, "without a socket", here - own, "ms")
    command = (sys.executable, "-m", "benchmarks.door_requests", "--serve")
    pipe = subprocess.PIPE
    serving = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert serving.stdout is not None
    url = f"http://127.0.0.1:{int(await serving.stdout.readline())}/v1/responses"
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as client:

        async def post() -> None:
            async with client.post(url, data=REQUEST) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

        there = await _median_ms(post, times)
    await serving.communicate(b"")
    emit(metric, "by uvicorn over loopback", there - own, "ms", target=TARGET)


async def _called(app: Any) -> None:
    """Call an ASGI application with one request."""
    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(REQUEST)).encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "headers": headers,
        "query_string": b"",
        "client": ("127.0.0.1", 1),
    }
    come: list[dict[str, Any]] = [{"type": "http.request", "body": REQUEST, "more_body": False}]
    sent = []

    async def receive() -> dict[str, Any]:
        if come:
            return come.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent


if __name__ == "__main__":
    sys.exit(main())
