"""Spans of one's own: what derives from `Tracing` hears of what agents do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from moothall import Call, ReActAgent, ScriptedModel, action
from moothall.build import Tracing


class Line:
    """A span that is a line of a list once it has ended, indented below those around it."""

    def __init__(self, lines: Lines, text: str) -> None:
        self.lines = lines
        self.text = "  " * lines.depth + text

    def enter(self) -> None:
        self.lines.depth += 1

    def leave(self, entered: None) -> None:
        self.lines.depth -= 1

    def piece(self) -> None:
        pass

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        self.lines.ended.append(self.text if error is None else f"{self.text}: {error}")


class Lines(Tracing):
    """The spans of a program, as lines."""

    def __init__(self) -> None:
        self.depth = 0
        self.ended: list[str] = []

    def reply(self, agent: Any, request: Any) -> Line:
        return Line(self, f"{agent.id} replies to {request.content}")

    def chat(self, model: Any, request: Any) -> Line:
        return Line(self, f"{model.name} is asked")

    def tool(self, agent: Any, call: Any, key: str) -> Line:
        return Line(self, f"{agent.id} calls {call.name}")

    def workflow(self, name: str, record: Any) -> Line:
        return Line(self, name)

    def retrieval(self, source: str, query: Any) -> Line:
        return Line(self, source)

    def part(self, name: str, agent: Any, key: str) -> Line:
        return Line(self, name)

    def handling(self, delivery: Any) -> Line:
        return Line(self, delivery.envelope.name)

    def step(self, key: str) -> AbstractContextManager[None]:
        return nullcontext()

    def outgoing(self, envelope: Any) -> Any:
        return envelope

    def answering(self, delivery: Any) -> None:
        return None

    def carrying(self) -> Callable[[], None]:
        return lambda: None

    def joining(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()

    def current_headers(self) -> dict[str, str]:
        return {}


@contextmanager
def reported_to(tracing: Tracing) -> Iterator[None]:
    Tracing.set_active(tracing)
    try:
        yield
    finally:
        Tracing.set_active(None)


@action
def add(a: int, b: int) -> int:
    return a + b


def test_tracing_of_ones_own_hears_of_a_reply_its_calls_and_no_later_one() -> None:
    lines = Lines()
    model = ScriptedModel([Call("1", "add", {"a": 1, "b": 2}), "3", "Bye."], "counting")
    agent = ReActAgent("a", model, actions=[add])
    with reported_to(lines):
        agent.reply_sync("Add.")
    agent.reply_sync("Bye.")

    assert lines.ended == [
        "  counting is asked",
        "  a calls add",
        "  counting is asked",
        "a replies to Add.",
    ]
