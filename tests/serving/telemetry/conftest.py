"""Spans in memory, and the telemetry switched off after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from moothall.serving.telemetry import instrument, uninstrument


class Traced:
    """A program's providers, with what they were given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def instrument(self, *, content: bool = False) -> None:
        instrument(self.provider, self.meters, content)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> dict[str, str | None]:
        """The name of each span's parent, by the span's own name."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return {
            span.name: None if span.parent is None else names.get(span.parent.span_id, "unknown")
            for span in self.spans
        }


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    made.instrument()
    yield made
    uninstrument()
    made.provider.shutdown()
    made.meters.shutdown()
