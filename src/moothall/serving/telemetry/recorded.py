"""The spans of a run, made from its journal afterwards: the ids are those of the spans then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from moothall.journal import Entry
from moothall.models.protocol import Usage
from moothall.serving.telemetry import content, names
from moothall.serving.telemetry.beginning import VERSION, context_of
from moothall.serving.telemetry.ids import span_id_of, trace_id_of

_SOCIETY: Final = "Society"
_STEPS: Final = frozenset(("plan", "narrate", "evaluate"))
"""The recorded steps of research, whose keys are such as `1.plan`."""
_STOPPED: Final = "stopped"
"""The reason of a reply whose process ended and recorded no end, as in `moothall runs`."""


@dataclass(slots=True)
class _Reply:
    """A reply of a part of a run: from its begin to its end, or to the stop before it resumed."""

    id: bytes
    parent: int | None
    begun: Mapping[str, Any]
    entries: list[Entry] = field(default_factory=list)

    @property
    def over(self) -> Mapping[str, Any]:
        last = self.entries[-1]
        return last.data if last.kind == "over" else {"reason": _STOPPED}

    @property
    def model(self) -> str | None:
        """The name of the first model that it asked."""
        asked = (entry.data.get("about") or {} for entry in self.entries)
        return next((str(each["model"]) for each in asked if "model" in each), None)


class RecordedSpans:
    """Makes the spans of one run."""

    def __init__(self, run_id: str, entries: Sequence[Entry]) -> None:
        self._run_id = run_id
        self._parts: dict[str, list[Entry]] = {}
        for entry in entries:
            self._parts.setdefault(entry.path, []).append(entry)
        begun = _begun(self._parts.get("", []))
        joined = context_of(begun, Context())
        around = None if joined is None else trace.get_current_span(joined).get_span_context()
        self._trace = trace_id_of(run_id) if around is None else around.trace_id
        self._around = None if around is None else around.span_id
        self._resource = Resource.create()

    def __iter__(self) -> Iterator[ReadableSpan]:
        """Yield the spans; a reply's come before it."""
        replies: dict[str, list[_Reply]] = {}
        for path, entries in sorted(self._parts.items(), key=lambda part: part[1][0].sequence):
            replies[path] = self._replies(path, entries, replies)
        for path in reversed(replies):
            for reply in replies[path]:
                yield from self._steps(reply)
                yield self._reply(reply)

    def _replies(
        self, path: str, entries: list[Entry], known: Mapping[str, list[_Reply]]
    ) -> list[_Reply]:
        made: list[_Reply] = []
        begun = _begun(entries)
        above = [other for other in known if other != path and path.startswith(f"{other}/")]
        outer = known.get(max(above, key=len, default="")) if path else None
        resumed = True
        for entry in entries:
            if resumed:
                id = span_id_of("reply", self._run_id, path, str(len(made)))
                parent = self._around
                if outer is not None:
                    before = [each for each in outer if each.entries[0].at <= entry.at]
                    parent = _number((before or outer)[-1].id)
                made.append(_Reply(id, parent, begun))
            made[-1].entries.append(entry)
            resumed = entry.kind == "over"
        return made

    def _reply(self, reply: _Reply) -> ReadableSpan:
        begun, over = reply.begun, reply.over
        id, kind = str(begun.get("agent")), begun.get("kind")
        operation = names.INVOKE_WORKFLOW if kind in names.WORKFLOWS else names.INVOKE_AGENT
        about: dict[str, Any] = {
            names.OPERATION: operation,
            names.AGENT_NAME: id,
            names.RUN_ID: self._run_id,
            names.STOP_REASON: over["reason"],
            names.FINISH_REASONS: (over["reason"],),
        }
        if begun.get("schema") is not None:
            about[names.OUTPUT_TYPE] = "json"
        if kind not in names.WORKFLOWS and (model := reply.model) is not None:
            known = content.about_name(model)
            for name in (names.PROVIDER, names.REQUEST_MODEL):
                if name in known:
                    about[name] = known[name]
        if (thread := begun.get("thread")) is not None:
            about[names.CONVERSATION_ID] = thread
        if isinstance(spent := over.get("usage"), list) and any(spent):
            about[names.TOTAL_INPUT_TOKENS], about[names.TOTAL_OUTPUT_TOKENS] = spent[:2]
        error = over["reason"] if over["reason"] in ("error", _STOPPED) else None
        times = (reply.entries[0].at, reply.entries[-1].at)
        return self._span(f"{operation} {id}", reply.id, reply.parent, about, times, error)

    def _steps(self, reply: _Reply) -> Iterator[ReadableSpan]:
        began: dict[str, float] = {}
        parts: dict[str, list[float]] = {}  # the steps of research, with all of their times
        before = reply.entries[0].at
        for entry in reply.entries:
            data, key = entry.data, entry.data.get("key")
            if entry.kind == "state" and reply.begun.get("kind") == _SOCIETY:
                for row in data["appended"].get("rows", ()):
                    parts.setdefault(str(row["step"]), []).extend((before, entry.at))
            elif not isinstance(key, str):
                pass
            elif entry.kind == "started" and "part" not in data:
                began[key] = entry.at
            elif entry.kind in ("ended", "failed"):
                times = (began.pop(key, before), entry.at)
                base = reply.id
                if (part := _part(reply, key, data)) is not None:
                    base = _child(base, f"part {part}")
                    parts.setdefault(part, []).extend(times)
                yield from self._step(reply, base, key, data, times, entry.kind == "failed")
            before = entry.at
        for part, all_times in parts.items():
            if reply.begun.get("kind") == _SOCIETY:
                yield self._society_step(reply, part, (min(all_times), max(all_times)))
                continue
            id, name = str(reply.begun.get("agent")), part.rpartition(".")[2]
            about = {names.AGENT_NAME: id, names.STEP: part}
            if name == names.PLAN:
                about[names.OPERATION] = names.PLAN
            child, span = _child(reply.id, f"part {part}"), (min(all_times), max(all_times))
            yield self._span(f"{name} {id}", child, _number(reply.id), about, span)

    def _society_step(self, reply: _Reply, number: str, times: tuple[float, float]) -> ReadableSpan:
        about = {
            names.OPERATION: names.INVOKE_WORKFLOW,
            names.AGENT_NAME: _SOCIETY,
            names.STEP: number,
        }
        title = f"{names.INVOKE_WORKFLOW} {_SOCIETY}"
        return self._span(
            title, _child(reply.id, f"part {number}"), _number(reply.id), about, times
        )

    def _step(
        self,
        reply: _Reply,
        base: bytes,
        key: str,
        data: Mapping[str, Any],
        times: tuple[float, float],
        failed: bool,
    ) -> Iterator[ReadableSpan]:
        about = data.get("about", {})
        error = str(data.get("error", "_OTHER")).partition(":")[0] if failed else None
        made: dict[str, Any] = {}
        if (thread := reply.begun.get("thread")) is not None:
            made[names.CONVERSATION_ID] = thread
        parent = _number(base)
        if "action" in about:
            name = about["action"]
            made |= {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_CALL_ID: str(about.get("id")),
                names.TOOL_TYPE: "function",
                names.AGENT_NAME: str(reply.begun.get("agent")),
            }
            result = (data.get("result") or {}).get("result")
            if isinstance(result, dict) and result.get("error") is not None:
                error = content.type_in(result)
            id = _child(base, f"tool {key}")
            if (source := about.get("source")) is not None:
                searched = {names.OPERATION: names.RETRIEVAL, names.DATA_SOURCE_ID: source}
                if thread is not None:
                    searched[names.CONVERSATION_ID] = thread
                name_of = f"{names.RETRIEVAL} {source}"
                child = _child(id, names.RETRIEVAL)
                yield self._span(name_of, child, _number(id), searched, times)
            yield self._span(f"{names.EXECUTE_TOOL} {name}", id, parent, made, times, error)
        elif "model" in about:
            model = str(about["model"])
            named = content.about_name(model)
            made |= {names.OPERATION: names.CHAT, **named}
            answer = data.get("result") or {}
            if answer.get("usage") is not None:
                made |= content.spent(Usage(*answer["usage"]), answer.get("finish_reason"))
            if (
                base != reply.id and reply.begun.get("kind") != _SOCIETY
            ):  # asked within a step that is recorded too
                base = span_id_of(base, "step", key.rpartition(".")[0].rpartition(".")[0])
            id = _child(span_id_of(base, "step", key), names.CHAT)
            kind = SpanKind.INTERNAL if content.runs_here(named) else SpanKind.CLIENT
            yield self._span(f"{names.CHAT} {model}", id, parent, made, times, error, kind)

    def _span(
        self,
        name: str,
        id: bytes,
        parent: int | None,
        attributes: Mapping[str, Any],
        times: tuple[float, float],
        error: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        began, ended = (int(each * 1e9) for each in times)
        flags = TraceFlags(TraceFlags.SAMPLED)
        more = {} if error is None else {names.ERROR_TYPE: error}
        return ReadableSpan(
            name,
            context=SpanContext(self._trace, _number(id), False, flags),
            parent=None if parent is None else SpanContext(self._trace, parent, False, flags),
            resource=self._resource,
            attributes={**attributes, **more},
            kind=kind,
            status=Status(StatusCode.UNSET if error is None else StatusCode.ERROR),
            start_time=began,
            end_time=max(ended, began),
            instrumentation_scope=InstrumentationScope(names.SCOPE, VERSION),
        )


def _begun(entries: Sequence[Entry]) -> Mapping[str, Any]:
    return next((entry.data for entry in entries if entry.kind == "begun"), {})


def _child(base: bytes, label: str) -> bytes:
    """Return the id of the first child by a label."""
    return span_id_of(base, label, "0")


def _number(id: bytes) -> int:
    return int.from_bytes(id, "big") or 1


def _part(reply: _Reply, key: str, data: Mapping[str, Any]) -> str | None:
    """Return the step of research that a recorded step belongs to, such as `1.plan`."""
    if reply.begun.get("kind") == _SOCIETY:
        return key.partition("/")[0]
    if reply.begun.get("kind") != "Researcher":
        return None
    iteration, _, rest = key.partition(".")
    if "action" in data.get("about", {}):
        return f"{iteration}.research"
    name = rest.partition(".")[0]
    return f"{iteration}.{name}" if name in _STEPS else None
