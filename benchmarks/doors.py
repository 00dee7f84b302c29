"""What a call through MCPAgent costs beside the SDK's own client, and what a span costs.

    python -m benchmarks.doors [--quick]

Both call a tool of the same server, a process over standard streams that answers at once. Ours goes
through a space: with the check of the arguments, the policy, and the hand-over to the thread that
owns the connection. They take turns; `ratio` is how many times as long ours takes.

A span of a call of an action is begun, made the current one, ended and kept in memory. `limit` is
the same with OpenTelemetry's own `start_as_current_span`, and the same attributes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import mcp
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.measure import emit, side_by_side
from moothall import ACCESS_PERMITTED, Agent, NativeSpace
from moothall.foundation import tracing
from moothall.serving import MCPAgent
from moothall.serving.telemetry import instrument, uninstrument

TARGET = "<= 1.3 ratio"
SPAN_TARGET = "<= 15"  # µs
SERVER = '''
from mcp.server import MCPServer

app = MCPServer("sums")

@app.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b

app.run()
'''


def spans(count: int, rounds: int) -> None:
    """Measure what a span costs: ours, and one of OpenTelemetry alone."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(provider)
    telemetry: Any = tracing.active
    agent = SimpleNamespace(id="a")
    call = SimpleNamespace(name="add", id="1", args={}, result=None, action=None)
    telemetry.tool(agent, call, "1.0").end({"result": 3})
    attributes = exporter.get_finished_spans()[0].attributes
    tracer = provider.get_tracer("bare")

    def ours() -> int:
        exporter.clear()
        for _ in range(count):
            span = telemetry.tool(agent, call, "1.0")
            span.leave(span.enter())
            span.end({"result": 3})
        return count

    def bare() -> int:
        exporter.clear()
        for _ in range(count):
            with tracer.start_as_current_span("execute_tool add", attributes=attributes):
                pass
        return count

    found = side_by_side({"span": ours, "bare": bare}, rounds)
    uninstrument()
    emit(
        "a span of a call of an action, kept in memory",
        "instrument",
        found["span"].seconds * 1e6,
        "µs",
        limit=found["bare"].seconds * 1e6,
        ratio=found["span"].over(found["bare"]),
        target=SPAN_TARGET,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    calls, rounds = (30, 5) if quick else (200, 21)
    spans(calls * 10, rounds)
    command = [sys.executable, "-c", SERVER]
    loop = asyncio.new_event_loop()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(work)

    parameters = mcp.StdioServerParameters(command=command[0], args=command[1:])
    client = mcp.Client(parameters)
    opened, over = asyncio.Event(), asyncio.Event()

    async def own() -> None:
        async with client:  # one task must enter and leave it
            await client.list_tools()
            opened.set()
            await over.wait()

    owner = loop.create_task(own())
    run(opened.wait())
    with NativeSpace() as space:
        space.add(MCPAgent("sums", command, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))

        async def of_ours() -> None:
            for _ in range(calls):
                assert await me.ask("sums", "add", a=1, b=2) == {"result": 3}

        async def of_the_sdk() -> None:
            for _ in range(calls):
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert result.structured_content == {"result": 3}

        def ours() -> int:
            run(of_ours())
            return calls

        def bare() -> int:
            run(of_the_sdk())
            return calls

        found = side_by_side({"MCPAgent": ours, "bare": bare}, rounds)
    over.set()
    run(owner)
    loop.close()
    emit(
        "MCP call",
        "MCPAgent, over the SDK's own client",
        found["MCPAgent"].seconds * 1e6,
        "us",
        limit=found["bare"].seconds * 1e6,
        ratio=found["MCPAgent"].over(found["bare"]),
        target=TARGET,
    )


if __name__ == "__main__":
    main()
