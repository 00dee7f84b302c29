"""Spans and metrics of what agents do, by OpenTelemetry's conventions for generative AI.

Nothing is imported, and nothing is measured, before `instrument` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moothall import ConfigError, MissingExtra
from moothall.build import Tracing, check_boolean

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument", "uninstrument"]


def instrument(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> None:
    """Make spans and metrics of what every agent of this process does from now on.

    Spans: `invoke_agent` or `invoke_workflow` for each reply, `chat` for each call of a model,
    `execute_tool` for each call of an action, `plan` and the other steps of research, `send` and
    `process` for each message of a space. Messages carry the context in `meta["traceparent"]`, over
    a broker too. A message that states one keeps it.

    The ids of the spans of a recorded run follow from its id, so that a run that another process
    resumes goes on in its trace. That takes a provider whose tracers have an `id_generator`, as
    OpenTelemetry's own have.

    A second call replaces what the first one set.

    Args:
        tracer_provider: where spans go; the global provider by default
        meter_provider: where metrics go; the global provider by default
        content: whether spans have the texts too: prompts, answers, arguments and results

    Raises:
        ConfigError: `content` is not a bool, or a provider has the wrong type
        MissingExtra: OpenTelemetry is not installed
    """
    check_boolean("instrument: content=", content)
    for name, value, makes in (
        ("tracer_provider", tracer_provider, "get_tracer"),
        ("meter_provider", meter_provider, "get_meter"),
    ):
        if value is not None and not callable(getattr(value, makes, None)):
            raise ConfigError(
                f"instrument: {name}= must be a {makes[4:].title()}Provider of OpenTelemetry, "
                f"got {type(value).__name__}"
            )
    MissingExtra.unless("telemetry", "otel", "opentelemetry")
    from moothall.serving.telemetry.spans import Telemetry

    Tracing.set_active(Telemetry(tracer_provider, meter_provider, content))


def uninstrument() -> None:
    """Make no more spans and metrics; spans that have begun are still ended."""
    Tracing.set_active(None)
