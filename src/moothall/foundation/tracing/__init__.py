"""The calls by which the package reports what it does to the telemetry, if that is on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Span(Protocol):
    """A span that has begun. It ends once; a span that is never ended is never exported."""

    def enter(self) -> Any:
        """Make it the parent of what begins in this context; return what `leave` takes.

        No function may `yield` between the two.
        """
        ...

    def leave(self, entered: Any) -> None:
        """Make it the parent no more."""
        ...

    def piece(self) -> None:
        """Note that a piece of a streamed answer has come."""
        ...

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """End it with what was returned or raised."""
        ...


class Tracing(ABC):
    """What agents, models and spaces report to; OpenTelemetry's is switched on by `instrument`.

    Its methods begin spans and pass them on. A span has four methods: `enter()` makes it the parent
    of what begins in this context and returns what `leave(entered)` takes, `piece()` hears of each
    piece of a streamed answer, `end(result, error)` of its end. The static methods are for callers:
    while none is active, they do nothing.
    """

    HEADERS: ClassVar[tuple[str, ...]] = ("traceparent", "tracestate")
    """The headers of a trace."""

    @staticmethod
    def set_active(tracing: Tracing | None) -> None:
        """Have this process report to one from now on; None reports nothing."""
        global active
        active = tracing

    @staticmethod
    def join_trace(headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[None]:
        """Return a `with` block whose spans belong to the trace that a request's headers state."""
        if active is None:
            return nullcontext()
        texts = {name.decode("latin-1").lower(): each.decode("latin-1") for name, each in headers}
        trace = {name: texts[name] for name in Tracing.HEADERS if name in texts}
        return active.joining(trace) if trace else nullcontext()

    @staticmethod
    def carry() -> Callable[[], None] | None:
        """Return what makes the current span the current one of another task; None without one."""
        return None if active is None else active.carrying()

    @staticmethod
    def trace_headers() -> dict[str, str]:
        """Return the headers by which a server of another process joins the current trace."""
        return {} if active is None else active.current_headers()

    @abstractmethod
    def reply(self, agent: Any, request: Any) -> Span:
        """Begin the span of a reply; its ids follow from the record, if there is a journal."""

    @abstractmethod
    def chat(self, model: Any, request: Any) -> Span:
        """Begin the span of a call of a model."""

    @abstractmethod
    def tool(self, agent: Any, call: Any, key: str) -> Span:
        """Begin the span of a call of an action."""

    @abstractmethod
    def workflow(self, name: str, record: Any) -> Span:
        """Begin the span of the run of an orchestrator, such as a society."""

    @abstractmethod
    def retrieval(self, source: str, query: Any) -> Span:
        """Begin the span of a search in a source, such as a folder."""

    @abstractmethod
    def part(self, name: str, agent: Any, key: str) -> Span:
        """Begin the span of a step of research, such as `plan`, or of a society."""

    def grading(self, grader: str, run_id: str, stop_count: int) -> Span:
        """Begin the span of a grader of a run that was stopped so often before its reply began.

        By default it is that of a workflow.
        """
        return self.workflow(grader, None)

    @abstractmethod
    def step(self, key: str) -> AbstractContextManager[None]:
        """Derive ids in a `with` block from the key of a recorded step too."""

    @abstractmethod
    def handling(self, delivery: Any) -> Span:
        """Begin the span of a message that is handled."""

    @abstractmethod
    def outgoing(self, envelope: Any) -> Any:
        """Return a message with the context that its receiver continues in `meta`."""

    @abstractmethod
    def answering(self, delivery: Any) -> dict[str, Any] | None:
        """Return the `meta` of the answer to a message."""

    @abstractmethod
    def carrying(self) -> Callable[[], None]:
        """Return what makes the current span the current one of another task, to its end."""

    @abstractmethod
    def joining(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Make what begins in a `with` block part of the trace that a request states."""

    @abstractmethod
    def current_headers(self) -> dict[str, str]:
        """Return the headers of the current trace."""


active: Tracing | None = None
"""The telemetry, or None: nothing else is looked at then."""


Kind: TypeAlias = Literal["reply", "chat", "tool", "workflow", "part", "handling", "grading"]
"""A method of `Tracing` that begins a span."""


def source_of(action: Any) -> str | None:
    """Return the source in which an action searches, if its function is marked so."""
    return getattr(getattr(action, "function", None), "searches", None)


def search_work(call: Any, work: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return the work of a call of an action, within a span of its own if it is a search."""
    source = source_of(call.action)
    if source is None:
        return work

    async def search() -> T:
        assert active is not None
        return await traced(active.retrieval(source, call.args.get("query")), work)

    return search


def search_in_span(source: str, query: Any, work: Callable[[], T]) -> T:
    """Search by a plain function, within a span if there is somebody to tell."""
    if active is None:
        return work()
    span = active.retrieval(source, query)
    entered = span.enter()
    try:
        result = work()
    except BaseException as error:
        span.leave(entered)
        span.end(error=error)
        raise
    span.leave(entered)
    span.end(result)
    return result


async def in_span(work: Callable[[], Awaitable[T]], kind: Kind, *subject: Any) -> T:
    """Do some work within a span of a kind, about that, if there is somebody to tell."""
    if active is None:
        return await work()
    return await traced(getattr(active, kind)(*subject), work)


def stream_in_span(
    parts: AsyncGenerator[T, None], model: Any, request: Callable[[], Any]
) -> AsyncGenerator[T, None]:
    """Return the parts of a model's answer, within a span if there is somebody to tell."""
    return parts if active is None else stream_within(active.chat(model, request()), parts)


def with_step_key(key: str) -> AbstractContextManager[None]:
    """Return a `with` block in which ids are derived from the key of a recorded step too."""
    return nullcontext() if active is None else active.step(key)


class WorkSpan:
    """The span of some work, if there is somebody to tell.

    Args:
        kind: the method of `Tracing` that begins it, such as `part`
        subject: what that takes
    """

    def __init__(self, kind: Kind, *subject: Any) -> None:
        self._span: Span | None = None if active is None else getattr(active, kind)(*subject)

    @staticmethod
    def searches(source: str) -> Callable[[F], F]:
        """Mark the function of an action as a search in a source, which has a span of its own."""

        def mark(function: F) -> F:
            function.searches = source  # type: ignore[attr-defined]
            return function

        return mark

    async def hold(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work within it, which ends it."""
        return await (work() if self._span is None else traced(self._span, work))

    async def below(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do below it, in another task, the work of a recorded step with a key."""
        if self._span is None:
            return await work()
        entered = self._span.enter()
        try:
            with with_step_key(key):
                return await work()
        finally:
            self._span.leave(entered)


def with_trace(envelope: Any) -> Any:
    """Return a message with the context that its receiver continues."""
    return envelope if active is None else active.outgoing(envelope)


def answer_meta(delivery: Any) -> dict[str, Any] | None:
    """Return the `meta` of the answer to a message."""
    return None if active is None else active.answering(delivery)


async def traced(span: Span, work: Callable[[], Awaitable[T]]) -> T:
    """Do some work within a span."""
    try:
        entered = span.enter()
        try:
            result = await work()
        finally:
            span.leave(entered)
    except BaseException as error:
        span.end(error=error)
        raise
    span.end(result)
    return result


async def stream_within(span: Span, parts: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield the parts of a streamed answer, and end its span, which is never current meanwhile."""
    last: T | None = None
    try:
        async with aclosing(parts):
            async for part in parts:
                span.piece()
                last = part
                yield part
    except BaseException as error:
        span.end(last, error)
        raise
    span.end(last)
