"""The spans and metrics of what the package does, as it happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind

from moothall import Usage
from moothall.serving.telemetry import names, span_content
from moothall.serving.telemetry.ids import span_id_of, trace_id_of
from moothall.serving.telemetry.message_spans import MessageSpans
from moothall.serving.telemetry.span_scope import CURRENT_SCOPE, OpenSpan
from moothall.serving.telemetry.span_starter import context_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Telemetry(MessageSpans):
    """Makes the spans and metrics; what `instrument` sets active."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        content: bool,
    ) -> None:
        super().__init__(tracer_provider, meter_provider)
        self._content = content
        self._attributes_by_model: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()

    # -- replies -----------------------------------------------------------------------------------

    def reply(self, agent: Any, request: Any) -> OpenSpan:
        """Begin the span of a reply; its ids follow from the record, if there is a journal."""
        id, kind = str(agent.id), getattr(agent, "run_kind", "")
        is_remote = getattr(agent, "is_remote", False)
        attributes: dict[str, Any] = {names.AGENT_NAME: id}
        if is_remote:
            attributes[names.AGENT_ID] = id
        thread = None
        if request is not None:
            attributes[names.RUN_ID] = request.run_id
            thread = request.thread
            if request.answer is not None:
                attributes[names.OUTPUT_TYPE] = "json"
            for name, value in _flat_attributes(request.attributes):
                attributes[f"{names.RUN_PREFIX}.{name}"] = value
        if thread is not None:
            attributes[names.CONVERSATION_ID] = thread
        model = getattr(agent, "model_or_name", None)
        if kind in names.WORKFLOWS:
            operation = attributes[names.OPERATION] = names.INVOKE_WORKFLOW
        else:
            operation = attributes[names.OPERATION] = names.INVOKE_AGENT
            attributes[names.PROVIDER] = names.SCOPE
            if model is not None and not isinstance(model, str):
                model_attributes = self._model_attributes(model)
                for name in (names.PROVIDER, names.REQUEST_MODEL):
                    attributes[name] = model_attributes[name]
        if self._content and request is not None:
            message = {"role": "user", "content": request.content}
            attributes |= span_content.message_attributes([message])
        span_kind = SpanKind.CLIENT if is_remote else SpanKind.INTERNAL
        name = f"{operation} {id}"
        run_options = self._run_options(request, getattr(request, "recorded", None))
        options: Any = {"kind": span_kind, "conversation": thread, **run_options}
        own_names = (names.OPERATION, names.AGENT_NAME, names.REQUEST_MODEL)
        metric_attributes = {each: attributes[each] for each in own_names if each in attributes}

        def end(span: OpenSpan, result: Any, error: str | None) -> None:
            error = self._end_reply(span, result, error)
            self._record_duration(span, names.AGENT_DURATION, metric_attributes, error)

        return self.begin(name, attributes, end, **options)

    def _record_duration(
        self, span: OpenSpan, metric: str, attributes: dict[str, Any], error: str | None
    ) -> None:
        """Record how long an operation took."""
        error_attributes = {} if error is None else {names.ERROR_TYPE: error}
        self.measure(span, metric, span.seconds, {**attributes, **error_attributes})

    def _run_options(self, request: Any, record: Any) -> dict[str, Any]:
        """Return a recorded reply's ids, the context that it begins in, and its links."""
        if record is None:
            return {}
        path = record.path
        # One that was stopped is over, and goes on as another span of the same trace.
        stop_count = sum(entry.reason is not None for entry in record.entries())
        id = span_id_of("reply", record.run_id, path, str(stop_count))
        scope, current = CURRENT_SCOPE.get(), otel_context.get_current()
        is_member = request is not None and request.record is not None
        if is_member and scope is not None:  # a member, within its group's reply
            return {"ids": (None, id), "context": scope.otel}
        parent_context = context_of(record.start or {}, current)
        if parent_context is not None:
            return {"ids": (None, id), "context": parent_context}
        span = trace.get_current_span() if scope is None else scope.span
        links = [Link(span.get_span_context())] if span.get_span_context().is_valid else []
        root_context = trace.set_span_in_context(trace.INVALID_SPAN, current)
        return {"ids": (trace_id_of(record.run_id), id), "context": root_context, "links": links}

    def workflow(self, name: str, record: Any) -> OpenSpan:
        """Begin the span of the run of an orchestrator, such as a society."""
        workflow_fields = {names.OPERATION: names.INVOKE_WORKFLOW, names.AGENT_NAME: name}
        attributes: dict[str, Any] = {**workflow_fields}
        if record is not None:
            attributes[names.RUN_ID] = record.run_id
        span_name = f"{names.INVOKE_WORKFLOW} {name}"

        def end(span: OpenSpan, result: Any, error: str | None) -> None:
            self._record_duration(span, names.AGENT_DURATION, workflow_fields, error)

        return self.begin(span_name, attributes, end, **self._run_options(None, record))

    def _end_reply(self, span: OpenSpan, result: Any, error: str | None) -> str | None:
        """Say what came of a reply; return the type of its error, or None."""
        attributes: dict[str, Any] = {}
        reason = getattr(result, "stop_reason", None)
        if reason is not None:
            usage = result.usage
            attributes[names.STOP_REASON] = reason
            attributes[names.FINISH_REASONS] = [reason]
            if usage.total:
                attributes[names.TOTAL_INPUT_TOKENS] = usage.input_tokens
                attributes[names.TOTAL_OUTPUT_TOKENS] = usage.output_tokens
            if self._content and result.text:
                message = {"role": "assistant", "content": result.text}
                attributes[names.OUTPUT_MESSAGES] = span_content.message_attributes([message])[
                    names.INPUT_MESSAGES
                ]
            if result.error is not None:
                error = type(result.error).__qualname__
                attributes[names.ERROR_TYPE] = error
                span.scope.span.set_status(trace.Status(trace.StatusCode.ERROR))
        if attributes:
            span.scope.span.set_attributes(attributes)
        return error

    # -- models ------------------------------------------------------------------------------------

    def chat(self, model: Any, request: Any) -> OpenSpan:
        """Begin the span of a call of a model."""
        model_attributes = self._model_attributes(model)
        attributes = {
            names.OPERATION: names.CHAT,
            **model_attributes,
            **span_content.request_attributes(model),
        }
        if request.stream:
            attributes[names.REQUEST_STREAM] = True
        if request.schema is not None:
            attributes[names.OUTPUT_TYPE] = "json"
        if self._content:
            attributes |= span_content.message_attributes(request.messages)
            if request.actions:
                attributes[names.TOOL_DEFINITIONS] = span_content.tools_text(request.actions)
        metric_attributes = {names.OPERATION: names.CHAT, **model_attributes}

        def end(span: OpenSpan, result: Any, error: str | None) -> None:
            self._end_chat(span, result, error, metric_attributes)

        name = f"{names.CHAT} {model_attributes[names.REQUEST_MODEL]}"
        span_kind = (
            SpanKind.INTERNAL if span_content.is_local(model_attributes) else SpanKind.CLIENT
        )
        return self.begin(name, attributes, end, kind=span_kind, label=names.CHAT)

    def _end_chat(
        self, span: OpenSpan, result: Any, error: str | None, metric_attributes: dict[str, Any]
    ) -> None:
        attributes: dict[str, Any] = {}
        usage = Usage.in_answer(result)
        if error is not None:
            metric_attributes = {**metric_attributes, names.ERROR_TYPE: error}
        if hasattr(result, "finish_reason"):
            attributes |= span_content.usage_attributes(usage, result.finish_reason)
            meta = getattr(result, "meta", None) or {}
            for key, name in (("model", names.RESPONSE_MODEL), ("id", names.RESPONSE_ID)):
                if isinstance(value := meta.get(key), str):
                    attributes[name] = value
            if self._content:
                attributes[names.OUTPUT_MESSAGES] = span_content.answer_text(result)
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count:
                    self.measure(
                        span,
                        names.TOKEN_USAGE,
                        count,
                        {**metric_attributes, names.TOKEN_TYPE: kind},
                    )
        if (first_seconds := span.first_seconds) is not None:
            attributes[names.FIRST_CHUNK] = first_seconds
            self.measure(span, names.TIME_TO_FIRST_CHUNK, first_seconds, metric_attributes)
        if attributes:
            span.scope.span.set_attributes(attributes)
        self.measure(span, names.DURATION, span.seconds, metric_attributes)

    def _model_attributes(self, model: Any) -> dict[str, Any]:
        try:
            return self._attributes_by_model[model]
        except (KeyError, TypeError):
            attributes = span_content.model_attributes(model)
        try:
            self._attributes_by_model[model] = attributes
        except TypeError:
            pass  # a user's own class may have no weak references, or no hash
        return attributes

    # -- actions and steps -------------------------------------------------------------------------

    def tool(self, agent: Any, call: Any, key: str) -> OpenSpan:
        """Begin the span of a call of an action."""
        attributes: dict[str, Any] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: "function",
            names.AGENT_NAME: str(agent.id),
        }
        metric_attributes = {
            key: attributes[key] for key in (names.TOOL_NAME, names.TOOL_TYPE, names.AGENT_NAME)
        }
        if call.action is not None:
            attributes |= {
                f"{names.ACTION_FACTS_PREFIX}.{name}": fact
                for name, fact in call.action.facts.items()
            }

        def end(span: OpenSpan, result: Any, error: str | None) -> None:
            if self._content:
                span.scope.span.set_attribute(names.TOOL_ARGUMENTS, span_content.as_text(call.args))
            if result is None and call.result is not None:
                result = call.result.data
            has_failed = isinstance(result, dict) and result.get("error") is not None
            error = span_content.error_type_in(result) if has_failed else error
            self._record_duration(span, names.TOOL_DURATION, metric_attributes, error)
            if not isinstance(result, dict):
                return
            if has_failed:
                span.scope.span.set_attribute(names.ERROR_TYPE, error)
                span.scope.span.set_status(trace.Status(trace.StatusCode.ERROR))
            elif self._content:
                value = span_content.as_text(result.get("result"))
                span.scope.span.set_attribute(names.TOOL_RESULT, value)

        return self.begin(f"{names.EXECUTE_TOOL} {call.name}", attributes, end, label=f"tool {key}")

    def retrieval(self, source: str, query: Any) -> OpenSpan:
        """Begin the span of a search in a source, such as a folder."""
        attributes: dict[str, Any] = {
            names.OPERATION: names.RETRIEVAL,
            names.DATA_SOURCE_ID: source,
        }
        if self._content and isinstance(query, str):
            attributes[names.QUERY_TEXT] = query
        return self.begin(f"{names.RETRIEVAL} {source}", attributes, label=names.RETRIEVAL)

    def part(self, name: str, agent: Any, key: str) -> OpenSpan:
        """Begin the span of a step of research, such as `plan`, or of a society."""
        id = type(agent).__name__ if name == names.INVOKE_WORKFLOW else str(agent.id)
        attributes: dict[str, Any] = {names.STEP: key, names.AGENT_NAME: id}
        if name in (names.INVOKE_WORKFLOW, names.PLAN):
            attributes[names.OPERATION] = name
        return self.begin(f"{name} {id}", attributes, label=f"part {key}")

    def grading(self, grader: str, run_id: str, stop_count: int) -> OpenSpan:
        """Begin the span of a grader, below that of the reply; each grade is an event of it."""
        reply_id = int.from_bytes(span_id_of("reply", run_id, "", str(stop_count)), "big") or 1
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        reply_context = trace.SpanContext(trace_id_of(run_id), reply_id, True, flags)
        attributes: dict[str, Any] = {names.EVALUATION_NAME: grader, names.RUN_ID: run_id}

        def end(span: OpenSpan, result: Any, error: str | None) -> None:
            for name, grade in (result or {}).items():
                event: dict[str, Any] = {names.EVALUATION_NAME: name}
                if isinstance(grade.value, str):
                    event[names.EVALUATION_LABEL] = grade.value
                else:
                    event[names.EVALUATION_VALUE] = float(grade.value)
                if self._content:
                    event[names.EVALUATION_EXPLANATION] = grade.why
                span.scope.span.add_event(names.EVALUATION_RESULT, event)

        parent = trace.set_span_in_context(trace.NonRecordingSpan(reply_context))
        return self.begin(f"evaluate {grader}", attributes, end, context=parent)

    def step(self, key: str) -> AbstractContextManager[None]:
        """Derive ids in a `with` block from the key of a recorded step too."""
        scope = CURRENT_SCOPE.get()
        return nullcontext() if scope is None or scope.base_id is None else scope.within_step(key)


def _flat_attributes(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each attribute, and each of its parts by name, such as `tags.customer`."""
    for name, value in attributes.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", each) for part, each in value.items())
        else:
            yield name, value
