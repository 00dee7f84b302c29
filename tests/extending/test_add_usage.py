"""A figure of usage is a field with its names: sums, journals, texts, spans and doors have it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

FIGURE = (
    (
        '"output", "reasoning_tokens", "gen_ai.usage.reasoning.output_tokens"\n    )\n',
        '    audio_tokens: int = _part("input", "audio_tokens", "moothall.usage.audio_tokens")\n',
    ),
)
READS = (
    (
        "        min(reasoning_tokens, output_tokens),\n",
        '        min(token_count(details, "audio_tokens"), input_tokens),\n',
    ),
)
USES = """
import asyncio

from httpx2 import ASGITransport, AsyncClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from moothall import Call, Journal, ModelReply, ReActAgent, ScriptedModel, Usage
from moothall.models.answer_reader import usage_of
from moothall.serving import asgi
from moothall.serving.telemetry import instrument

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
instrument(provider)

def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"

looks = ModelReply(calls=(Call("1", "look", {}),), usage=Usage(9, 4, audio_tokens=2))
model = ScriptedModel([looks, ModelReply("Yes.", usage=Usage(20, 5, audio_tokens=3))])
with Journal("runs.db") as journal:
    agent = ReActAgent("a", model, actions=[look], journal=journal)
    first = agent.reply_sync("go", run_id="r")
with Journal("runs.db") as journal:
    again = ReActAgent("a", model, actions=[look], journal=journal).reply_sync("go", run_id="r")
for reply in (first, again):
    assert (reply.usage.output_tokens, reply.usage.audio_tokens) == (9, 5), reply.usage
assert repr(first.usage) == "Usage(input_tokens=29, output_tokens=9, audio_tokens=5)"
spans = exporter.get_finished_spans()
counts = {each.attributes.get("moothall.usage.audio_tokens") for each in spans}
assert {2, 3} <= counts, counts
read = usage_of({"prompt_tokens": 9, "prompt_tokens_details": {"audio_tokens": 2}})
assert read == Usage(9, audio_tokens=2)
served = ReActAgent("served", ScriptedModel([ModelReply("Yes.", usage=read)] * 2))


async def used(path: str, body: dict) -> dict:
    answer = await client.post(f"/v1/{path}", json={"model": "served", **body})
    return answer.json()["usage"]

async def main() -> None:
    global client
    transport = ASGITransport(asgi(served))
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        body = {"messages": [{"role": "user", "content": "go"}]}
        chat = await used("chat/completions", body)
        response = await used("responses", {"input": "go"})
    assert chat["prompt_tokens_details"]["audio_tokens"] == 2, chat
    assert response["input_tokens_details"]["audio_tokens"] == 2, response

asyncio.run(main())
"""


@pytest.mark.long
def test_figure_of_usage_added_in_two_files_is_read_summed_recorded_on_spans_and_at_doors(
    added: Added,
) -> None:
    added({"models/protocol.py": FIGURE, "models/answer_reader.py": READS})("-c", USES)
