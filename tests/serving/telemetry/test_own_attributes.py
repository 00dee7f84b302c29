"""An attribute of a user's own on each span: a span processor of the program's provider sets it."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from moothall import ReActAgent, ScriptedModel
from moothall.serving.telemetry import instrument, uninstrument


class Team(SpanProcessor):
    """Says on the spans of an agent which team has it."""

    def __init__(self, teams: dict[str, str]) -> None:
        self._teams = teams

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Set the attribute."""
        agent = span.attributes.get("gen_ai.agent.name")
        if agent in self._teams:
            span.set_attribute("shop.team", self._teams[agent])


def test_span_attribute_of_a_users_own_is_on_the_spans_of_its_agents() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(Team({"Ann": "sales"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(provider)
    try:
        for name in ("Ann", "Bob"):
            ReActAgent(name, ScriptedModel(["Hello."])).reply_sync("Hi")
    finally:
        uninstrument()
        provider.shutdown()
    found = {
        span.attributes["gen_ai.agent.name"]: span.attributes.get("shop.team")
        for span in exporter.get_finished_spans()
        if span.attributes and span.name.startswith("invoke_agent")
    }
    assert found == {"Ann": "sales", "Bob": None}
