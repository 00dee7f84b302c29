"""Beginning a span: its parent and its ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from moothall.build import Tracing, log_failure
from moothall.serving.telemetry import names
from moothall.serving.telemetry.span_scope import CURRENT_SCOPE, OpenSpan, SpanScope, logger

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

VERSION: str | None = None
"""The version of the package; None if it runs from a folder that is not installed."""
with suppress(PackageNotFoundError):
    VERSION = version(names.SCOPE)
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NEXT_IDS: Final = otel_context.create_key("moothall_next_ids")


def _end_silently(span: OpenSpan, result: Any, error: str | None) -> None:
    """End a span that has no more to say."""


def with_ids(ids: tuple[int | None, int] | None) -> otel_context.Context:
    """Return the context in which a span begins: the id of its trace, if that is new, and its own.

    Without them, the ids are another generator's.
    """
    return otel_context.set_value(_NEXT_IDS, ids)


def _next_ids() -> tuple[int | None, int] | None:
    return otel_context.get_value(_NEXT_IDS)  # type: ignore[return-value]


class DerivedIds:
    """The id generator of a tracer: the ids of the context if there are any, else another's."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        ids = _next_ids()
        return self._generator.generate_span_id() if ids is None else ids[1]

    def generate_trace_id(self) -> int:
        """Return the id of the next trace."""
        ids = _next_ids()
        if ids is None or ids[0] is None:
            return self._generator.generate_trace_id()  # type: ignore[no-any-return]
        return ids[0]

    def is_trace_id_random(self) -> bool:
        """Return whether the next trace's id is random, as W3C's flag says."""
        ids = _next_ids()
        if ids is not None and ids[0] is not None:
            return False
        is_random = getattr(self._generator, "is_trace_id_random", None)
        return bool(is_random is not None and is_random())


class SpanStarter(Tracing):
    """Begins spans with one provider's tracer, and measures with another's meter."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        self._provider = tracer_provider
        self._cached_tracer: Tracer | None = None
        provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
        meter = provider.get_meter(names.SCOPE, VERSION)
        self._histograms = {
            name: meter.create_histogram(
                name,
                instrument.unit,
                instrument.description,
                explicit_bucket_boundaries_advisory=instrument.buckets,
            )
            for name, instrument in names.METRICS.items()
        }

    def measure(
        self, span: OpenSpan, metric: str, value: float, attributes: dict[str, Any]
    ) -> None:
        """Record a value of a metric, with its attributes, in the context of a span."""
        self._histograms[metric].record(value, attributes, span.scope.otel)

    @property
    def _tracer(self) -> Tracer:
        if self._cached_tracer is not None:
            return self._cached_tracer
        # The program may set its provider after `instrument()`: until then there is only a proxy.
        provider = trace.get_tracer_provider() if self._provider is None else self._provider
        tracer: Any = provider.get_tracer(names.SCOPE, VERSION)
        if hasattr(tracer, "id_generator"):
            if not isinstance(tracer.id_generator, DerivedIds):
                tracer.id_generator = DerivedIds(tracer.id_generator)
            self._cached_tracer = tracer
        return tracer  # type: ignore[no-any-return]

    def carrying(self) -> Callable[[], None]:
        """Return what makes the current span the current one of another task, to its end."""
        scope, current = CURRENT_SCOPE.get(), otel_context.get_current()

        def enter() -> None:
            CURRENT_SCOPE.set(scope)
            otel_context.attach(current)

        return enter

    @contextmanager
    def joining(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Make what begins in a `with` block part of the trace that a request states."""
        token = otel_context.attach(_PROPAGATOR.extract(headers, otel_context.get_current()))
        try:
            yield
        finally:
            otel_context.detach(token)

    def current_headers(self) -> dict[str, str]:
        """Return the headers of the current trace."""
        scope, headers = CURRENT_SCOPE.get(), dict[str, str]()
        parent = otel_context.get_current() if scope is None else scope.parent()
        _PROPAGATOR.inject(headers, parent)
        return headers

    def begin(
        self,
        name: str,
        attributes: dict[str, Any],
        on_end: Any = _end_silently,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        label: str | None = None,
        ids: tuple[int | None, bytes] | None = None,
        context: Context | None = None,
        links: list[Link] | None = None,
        conversation: str | None = None,
    ) -> OpenSpan:
        """Begin a span, below the innermost of ours if no context is given."""
        base_id: bytes | None = None
        trace_id: int | None = None
        if context is None:
            scope = CURRENT_SCOPE.get()
            if scope is None:
                context = otel_context.get_current()
            else:
                context = scope.parent()
                base_id = scope.id_of(name if label is None else label)
                if conversation is None:
                    conversation = scope.conversation
                    if conversation is not None:
                        attributes[names.CONVERSATION_ID] = conversation
        if ids is not None:
            trace_id, base_id = ids
        next_ids = None if base_id is None else (trace_id, int.from_bytes(base_id, "big") or 1)
        token = otel_context.attach(with_ids(next_ids))
        try:
            span = self._tracer.start_span(name, context, kind, attributes, links)
        except Exception as failure:  # of a processor or a sampler: what is traced goes on
            log_failure(logger, "a span could not be begun", failure)
            span = trace.INVALID_SPAN
        finally:
            otel_context.detach(token)
        return OpenSpan(
            SpanScope(span, context, trace.get_current_span(), base_id, conversation), on_end
        )


def trace_headers(span: OpenSpan) -> dict[str, str]:
    """Return the context of a span in W3C's form, as the `meta` of a message has it."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, span.scope.otel)
    return headers


def context_of(meta: Mapping[str, Any], context: Context) -> Context | None:
    """Return the context in a message's `meta` or a run's record; None if none is valid."""
    headers = {each: meta[each] for each in Tracing.HEADERS if isinstance(meta.get(each), str)}
    if not headers:
        return None
    empty_context = trace.set_span_in_context(trace.INVALID_SPAN, context)
    message_context = _PROPAGATOR.extract(headers, empty_context)
    return (
        message_context
        if trace.get_current_span(message_context).get_span_context().is_valid
        else None
    )
