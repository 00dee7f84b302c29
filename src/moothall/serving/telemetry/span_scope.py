"""The span that is the parent of what begins now, and the spans of ours."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode

from moothall.build import context_value, log_failure
from moothall.serving.telemetry import names
from moothall.serving.telemetry.ids import span_id_of

logger: logging.Logger = logging.getLogger("moothall.serving.telemetry")

CURRENT_SCOPE: ContextVar[SpanScope | None] = ContextVar("moothall_span", default=None)
"""The scope of the innermost span of ours in this task or thread."""
CUT_OFF_ERRORS: Final = (asyncio.CancelledError, GeneratorExit)


class SpanScope:
    """A span as the parent of others."""

    __slots__ = (
        "_context",
        "_otel",
        "base_id",
        "conversation",
        "label_counts",
        "outer_span",
        "span",
    )

    def __init__(
        self,
        span: Span,
        context: Context,
        outer_span: Span,
        base_id: bytes | None,
        conversation: str | None,
    ) -> None:
        self.span: Span = span
        self._context = context  # OpenTelemetry's context in which it began
        self._otel: Context | None = None
        self.outer_span: Span = (
            outer_span  # the span that was current in OpenTelemetry as this one began
        )
        # What the ids of its children follow from; None if they are random.
        self.base_id: bytes | None = base_id
        self.conversation: str | None = conversation
        self.label_counts: dict[str, int] | None = None

    @property
    def otel(self) -> Context:
        """Return OpenTelemetry's context with the span as the current one."""
        if self._otel is None:
            self._otel = trace.set_span_in_context(self.span, self._context)
        return self._otel

    def parent(self) -> Context:
        """Return the context in which a child begins."""
        if self.base_id is None:
            current = trace.get_current_span()
            if current is not self.span and current is not self.outer_span:
                return otel_context.get_current()  # within a span of the user's own
        return self.otel

    def id_of(self, label: str) -> bytes | None:
        """Return the id of a child; the next of several by the same label has another."""
        if self.base_id is None:
            return None
        counts = self.label_counts
        if counts is None:
            counts = self.label_counts = {}
        number = counts[label] = counts.get(label, -1) + 1
        return span_id_of(self.base_id, label, str(number))

    @contextmanager
    def within_step(self, key: str) -> Iterator[None]:
        """Derive the ids of children from the key of a step too."""
        base_id = None if self.base_id is None else span_id_of(self.base_id, "step", key)
        scope = SpanScope(self.span, self._context, self.outer_span, base_id, self.conversation)
        with context_value(CURRENT_SCOPE, scope):
            yield


class OpenSpan:
    """A span of ours that has begun."""

    __slots__ = ("_finish", "_span", "_start", "first_seconds", "scope")

    def __init__(
        self, scope: SpanScope, finish: Callable[[OpenSpan, Any, str | None], None]
    ) -> None:
        self.scope: SpanScope = scope
        self._span = scope.span
        self._finish = finish
        self._start = time.perf_counter()
        # After how long the first piece came; None if the answer came whole.
        self.first_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Return how long it has lasted."""
        return time.perf_counter() - self._start

    def enter(self) -> tuple[Token[Any], Token[Any]]:
        """Make it the parent of what begins in this context, ours and others' alike."""
        return CURRENT_SCOPE.set(self.scope), otel_context.attach(self.scope.otel)

    def leave(self, tokens: tuple[Token[Any], Token[Any]]) -> None:
        """Make it the parent no more."""
        for token in reversed(tokens):
            try:
                token.var.reset(token)
            except ValueError:  # a coroutine is closed in another context
                pass

    def piece(self) -> None:
        """Note that a piece of a streamed answer has come."""
        if self.first_seconds is None:
            self.first_seconds = self.seconds

    def set(self, **attributes: Any) -> None:
        """Set attributes by the names of the constants in `names`."""
        self._span.set_attributes(attributes)

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """End it with what was returned or raised."""
        span = self._span
        error_type: str | None = None
        if isinstance(error, CUT_OFF_ERRORS):
            # A stream may be closed once its whole answer has come: nothing is missing then.
            error_type = None if hasattr(result, "usage") else "cancelled"
        elif error is not None:
            error_type = type(error).__qualname__
        try:
            self._finish(self, result, error_type)
            if error_type is not None:
                span.set_attribute(names.ERROR_TYPE, error_type)
                if error_type != "cancelled":
                    span.set_status(Status(StatusCode.ERROR))
            span.end()
        except Exception as failure:  # of a processor: what is traced goes on
            log_failure(logger, "a span could not be ended", failure)
