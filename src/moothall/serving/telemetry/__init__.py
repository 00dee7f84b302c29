"""Spans and metrics of what agents do, by OpenTelemetry's conventions for generative AI.

Nothing is imported, and nothing is measured, before `instrument` is called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from moothall.foundation import tracing
from moothall.foundation.arguments import check_boolean
from moothall.foundation.errors import ConfigError, MissingExtra, TelemetryError
from moothall.foundation.http.addresses import told
from moothall.foundation.http.network import check_allowed
from moothall.foundation.text import error_text

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider

    from moothall.journal import Journal

__all__ = ["export", "export_otlp", "instrument", "uninstrument"]

_AT_ONCE: Final = 512
"""How many spans an exporter is given at a time, as OpenTelemetry's own batches have."""


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
    for name, given, makes in (
        ("tracer_provider", tracer_provider, "get_tracer"),
        ("meter_provider", meter_provider, "get_meter"),
    ):
        if given is not None and not callable(getattr(given, makes, None)):
            raise ConfigError(
                f"instrument: {name}= must be a {makes[4:].title()}Provider of OpenTelemetry, "
                f"got {type(given).__name__}"
            )
    MissingExtra.unless("telemetry", "otel", "opentelemetry")
    from moothall.serving.telemetry.spans import Telemetry

    tracing.switch(Telemetry(tracer_provider, meter_provider, content))


def uninstrument() -> None:
    """Make no more spans and metrics; spans that have begun are still ended."""
    tracing.switch(None)


def export(journal: Journal | str | os.PathLike[str], run_id: str, exporter: SpanExporter) -> int:
    """Make the spans of a recorded run from its journal, and give them to an exporter.

    Trace, ids, parents and names are those of the spans that the run makes while `instrument` is
    on; what was exported before is completed and not doubled in a back end that keeps one span for
    each id. The times are those of the journal's entries. Only what a journal records has a span:
    replies, calls of models and actions, searches that are calls, steps of research and of
    societies. A reply whose process ended, and that was not resumed, ends with its last entry and
    the error type `stopped`.

    Returns:
        how many spans there are

    Raises:
        ConfigError: the exporter has the wrong type
        NoSuchRun: there is no run of that id
        JournalError: the journal cannot be read
        TelemetryError: the exporter did not take the spans
        MissingExtra: OpenTelemetry's SDK is not installed
    """
    MissingExtra.unless("telemetry", "otel", "opentelemetry.sdk")
    from opentelemetry.sdk.trace.export import SpanExportResult

    from moothall.journal.journal_argument import as_journal
    from moothall.serving.telemetry.recorded import RecordedSpans

    if not callable(getattr(exporter, "export", None)):
        raise ConfigError(
            f"export: exporter= must be a SpanExporter, got {type(exporter).__name__}"
        )
    entries = as_journal(journal, "export").entries(run_id)
    spans = list(RecordedSpans(run_id, entries))
    for first in range(0, len(spans), _AT_ONCE):
        part = spans[first : first + _AT_ONCE]
        why = "failed; OpenTelemetry's log says why"
        try:
            done = exporter.export(part) is SpanExportResult.SUCCESS
        except Exception as error:
            done, why = False, f"raised {error_text(error, 400)}"
        if not done:
            text = f"the spans of run {run_id!r} were not exported: {type(exporter).__name__} {why}"
            raise TelemetryError(text)
    return len(spans)


def export_otlp(journal: Journal | str | os.PathLike[str], run_id: str, url: str) -> int:
    """Make the spans of a recorded run from its journal, and send them to a collector by OTLP.

    What `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_SERVICE_NAME` say holds, as for a program.

    Args:
        journal: the journal, or the path of one
        run_id: the run's id
        url: the collector, as `OTEL_EXPORTER_OTLP_ENDPOINT` names it, without `/v1/traces`

    Returns:
        how many spans there are

    Raises:
        ConfigError: the URL is not valid
        RemoteForbidden: `MOOTHALL_OFFLINE=1`, and the collector is not on this machine
        NoSuchRun, JournalError, TelemetryError, MissingExtra: as for `export`
    """
    try:
        parts = urlsplit(url)
        plain = isinstance(url, str) and parts.scheme in ("http", "https") and bool(parts.hostname)
    except (AttributeError, TypeError, ValueError):
        plain = False
    if not plain:
        raise ConfigError(f"the address of a collector must be an http URL, got {told(url)}")
    MissingExtra.unless("export by OTLP", "otel", "opentelemetry.exporter.otlp.proto.http")
    check_allowed(url, "export by OTLP")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter: SpanExporter = OTLPSpanExporter(
        f"{url.rstrip('/').removesuffix('/v1/traces')}/v1/traces"
    )
    try:
        return export(journal, run_id, exporter)
    except TelemetryError as error:
        there = parts.netloc.rpartition("@")[2]
        raise TelemetryError(f"{error}; is a collector at {there}?") from None
    finally:
        exporter.shutdown()
