"""A figure of usage is a field: sums, journals and texts have it; a row of names has it on spans.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

FIGURE = (("    reasoning_tokens: int = 0\n", "    audio_tokens: int = 0\n"),)
NAME = (
    (
        '    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",\n',
        '    "audio_tokens": "moothall.usage.audio_tokens",\n',
    ),
)
USES = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from moothall import Call, Journal, ModelReply, ReActAgent, ScriptedModel, Usage
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
"""


def test_figure_of_usage_added_in_two_files_is_summed_recorded_and_on_spans(
    added: Added,
) -> None:
    added({"models/protocol.py": FIGURE, "serving/telemetry/names.py": NAME})("-c", USES)
