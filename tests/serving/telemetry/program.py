"""The processes of one run: an agent that asks others over RabbitMQ, and those that it asks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from moothall import Agent, AMQPOptions, AMQPSpace, Call, ReActAgent, ScriptedModel, action
from moothall.serving.telemetry import instrument

JOB: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
WORKERS = ("one", "two", "one")


class Lines(SpanExporter):
    """Appends each span to a file, which outlives the process."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._path.open("a") as file:
            for span in spans:
                whole = {**json.loads(span.to_json(indent=None)), "pid": os.getpid()}
                file.write(json.dumps(whole) + "\n")
        return SpanExportResult.SUCCESS


class Moments:
    """Kills the process at the moment of this number."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.passed = 0

    def one(self) -> None:
        self.passed += 1
        if self.passed == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


class Worker(Agent):
    """Counts, by an agent of its own."""

    @action
    async def count(self, text: str) -> str:
        """Count the characters of a text."""
        counter = ReActAgent("counter", ScriptedModel([f"{len(text)}"]))
        return (await counter.reply(text)).text


def space() -> AMQPSpace:
    return AMQPSpace(
        amqp_options=AMQPOptions("127.0.0.1", JOB["port"]), exchange=JOB["exchange"], grace=0
    )


def work() -> None:
    with space() as here:
        here.add(Worker(JOB["id"]))
        print("ready", flush=True)
        sys.stdin.read()


def ask() -> None:
    moments = Moments(JOB["kill"])

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        moments.one()
        done = sum(each["role"] == "tool" for each in messages)
        if done == len(WORKERS):
            return "All have counted."
        return Call(f"c{done}", "count", {"who": WORKERS[done], "text": "x" * (done + 1)})

    async def count(who: str, text: str) -> str:
        """Let another agent count."""
        moments.one()
        found: str = await agent.ask(who, "count", text=text)
        moments.one()
        return found

    from moothall import Action

    agent = ReActAgent(
        "asker",
        ScriptedModel(answer),
        actions=[Action("count", count, "Count.", idempotent=True)],
        journal=JOB["journal"],
    )
    with space() as here:
        here.add(agent)
        reply = asyncio.run(agent.reply("Count", run_id="counting"))
        print(reply.stop_reason, reply.text, flush=True)


if __name__ == "__main__":
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Lines(JOB["spans"])))
    instrument(provider)
    ask() if JOB["role"] == "ask" else work()
