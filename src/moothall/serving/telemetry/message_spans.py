"""The spans of messages: sent, and handled by their receiver."""

from __future__ import annotations

from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.trace import SpanKind

from moothall.build import Envelope, Tracing
from moothall.serving.telemetry import names
from moothall.serving.telemetry.ids import span_id_of
from moothall.serving.telemetry.span_scope import OpenSpan
from moothall.serving.telemetry.span_starter import SpanStarter, context_of, trace_headers


class Meta(dict[str, Any]):
    """The `meta` of a message of this process, with a context of ours."""

    has_derived_ids = False
    """Whether the ids of what handles it follow from the sender's."""


class MessageSpans(SpanStarter):
    """Makes the spans of messages."""

    def outgoing(self, envelope: Envelope) -> Envelope:
        """Return a message with the context that its receiver continues in `meta`."""
        meta = envelope.meta
        if meta is not None and Tracing.HEADERS[0] in meta:
            return envelope
        attributes: dict[str, Any] = {
            names.MESSAGING_SYSTEM: names.SCOPE,
            names.MESSAGING_OPERATION: names.SEND,
            names.MESSAGING_OPERATION_TYPE: names.SEND,
            names.MESSAGING_DESTINATION: envelope.to,
            names.ACTION: envelope.name,
            names.SENDER: envelope.sender,
        }
        if envelope.id is not None:
            attributes[names.MESSAGING_ID] = envelope.id
        label = f"send {envelope.to}.{envelope.name}"
        span = self.begin(
            f"{names.SEND} {envelope.to}", attributes, kind=SpanKind.PRODUCER, label=label
        )
        span.end()
        new_meta = Meta(meta or (), **trace_headers(span))
        new_meta.has_derived_ids = span.scope.base_id is not None
        return envelope._replace(meta=new_meta)

    def answering(self, delivery: Any) -> dict[str, Any] | None:
        """Return the `meta` of the answer to a message."""
        span = getattr(delivery, "span", None)
        return None if span is None else {**trace_headers(span)}

    def handling(self, delivery: Any) -> OpenSpan:
        """Begin the span of a message that is handled."""
        envelope, receiver = delivery.envelope, delivery.mailbox.id
        recorder = delivery.recorder
        is_durable = recorder is not None
        attributes: dict[str, Any] = {
            names.MESSAGING_SYSTEM: recorder.messaging_system if is_durable else names.SCOPE,
            names.MESSAGING_OPERATION: names.PROCESS,
            names.MESSAGING_OPERATION_TYPE: names.PROCESS,
            names.MESSAGING_DESTINATION: receiver,
            names.ACTION: envelope.name,
            names.SENDER: envelope.sender,
        }
        id = envelope.id or (delivery.key if is_durable else None)
        if id:
            attributes[names.MESSAGING_ID] = id
        meta = envelope.meta or {}
        trace_parent = meta.get(Tracing.HEADERS[0])
        context = context_of(meta, otel_context.get_current())
        ids = None
        if context is not None and is_durable:  # a message that is delivered again has the same ids
            ids = (None, span_id_of("process", str(trace_parent), delivery.key, receiver))
        elif context is not None and type(meta) is Meta and meta.has_derived_ids:
            ids = (None, span_id_of("process", str(trace_parent), receiver))
        span = self.begin(
            f"{names.PROCESS} {receiver}",
            attributes,
            kind=SpanKind.CONSUMER,
            ids=ids,
            context=context,
        )
        delivery.span = span
        return span
