"""What a request ends as is the same between processes as in one: type, text and attributes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.conftest import message
from conformance.gate import Holder
from moothall import (
    ActionError,
    Agent,
    AskAgain,
    InvalidArguments,
    InvalidMessage,
    Journal,
    Later,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.foundation.errors import RequestError
from spaces.amqp.conftest import WAIT_S, MakeSpace
from spaces.amqp.worker import Notes, Worker


class Odd(Agent):
    """Fails in the ways that are hard to tell over a wire."""

    @action
    async def raises(self, what: str) -> None:
        raise {
            "own": lambda: ActionError("Remote", "said", "Some.where"),
            "own without where": lambda: ActionError("Remote", "said"),
            "own without text": lambda: ActionError("Remote", ""),
            "own, long": lambda: ActionError("Remote", "ü" * 300_000, "w" * 1000),
            "own, endless": lambda: ActionError("T" * 300_000, "x", "w" * 300_000),
            "own, surrogate": lambda: ActionError("T\ud800", "a\ud800b", "w\ud800"),
            "own, control": lambda: ActionError("T\n", "\x00\r\n", ""),
            "own, named as ours": lambda: ActionError("InvalidArguments", "x"),
            "ours": lambda: InvalidArguments("raised inside"),
            "again": lambda: AskAgain("once more"),
            "empty": lambda: ValueError(),
            "long": lambda: ValueError("x" * 100_000),
            "wide": lambda: ValueError("🙂" * 10_000),
            "surrogate": lambda: ValueError("\ud800"),
            "lines": lambda: ValueError("a\nb\r\x00c"),
            "key": lambda: KeyError("k"),
            "long name": lambda: type("N" * 300, (Exception,), {})("x"),
            "wide name": lambda: type("Ünï", (Exception,), {})("x"),
            "timeout": lambda: TimeoutError("of its own"),
        }[what]()

    @action
    async def not_json(self) -> Any:
        return object()

    @action(timeout=0.05)
    async def slow(self) -> None:
        await self.ask("holder", "hold")

    @action
    async def value(self, what: str) -> Any:
        return {
            "none": None,
            "big int": 10**300,
            "negative": -(2**63) - 1,
            "float": 1e-300,
            "long": "ü" * 1_000_000,
            "deep": [[[{"a": [{}]}]]],
            "odd keys": {"": 1, "ü": 2, "\x00": 3, "data": 4},
            "false": False,
            "empty": "",
            "separators": "\u2028\u2029",
        }[what]


RAISED = (
    "own",
    "own without where",
    "own without text",
    "own, long",
    "own, surrogate",
    "own, control",
    "own, named as ours",
    "ours",
    "again",
    "empty",
    "long",
    "wide",
    "surrogate",
    "lines",
    "key",
    "long name",
    "wide name",
    "timeout",
)
VALUES = (
    "none",
    "big int",
    "negative",
    "float",
    "long",
    "deep",
    "odd keys",
    "false",
    "empty",
    "separators",
)


def told(request: Any) -> Any:
    """A request's outcome: the value, or all that its error is."""
    try:
        return request.result(timeout=WAIT_S)
    except RequestError as error:
        facts = {name: getattr(error, name, None) for name in ("type", "text", "where")}
        return type(error).__name__, str(error), facts


Ask = Callable[[Agent, Any], Any]


def held(me: Agent, space: Any, id: str) -> tuple[Holder, Any]:
    """An agent that nobody else has asked, handling a request, and that request."""
    holder = space.add(Holder(id))
    request = me.request(message(id, "hold"), timeout=None)
    holder.begun.wait_for(1)
    return holder, request


def full(me: Agent, space: Any) -> Any:
    _, first = held(me, space, "busy")
    waiting = [me.ask("busy", "hold", name=str(n)) for n in range(3)]
    found = told(me.ask("busy", "hold", name="too much"))
    for request in (first, *waiting):
        request.cancel()
        told(request)
    return found


def cancelled(me: Agent, _: Any) -> Any:
    request = me.ask("holder", "hold")
    request.cancel()
    return told(request)


def removed(me: Agent, space: Any) -> Any:
    _, request = held(me, space, "leaves")
    space.remove("leaves")
    return told(request)


def closed(me: Agent, space: Any) -> Any:
    _, request = held(me, space, "last")
    space.close()
    return told(request)


CASES: dict[str, Ask] = {
    **{
        f"raises {what}": lambda me, _, what=what: told(me.ask("odd", "raises", what=what))  # type: ignore[misc]
        for what in RAISED
    },
    **{
        f"gives {what}": lambda me, _, what=what: told(me.ask("odd", "value", what=what))  # type: ignore[misc]
        for what in VALUES
    },
    "a failure": lambda me, _: told(me.ask("worker", "fail", kind="OSError", text="no\ndisk")),
    "of another": lambda me, _: told(
        me.ask("worker", "ask_on", to="odd", name="raises", args={"what": "key"})
    ),
    "none of another": lambda me, _: told(
        me.ask("worker", "ask_on", to="nobody", name="x", args={})
    ),
    "an argument too few": lambda me, _: told(me.ask("worker", "note")),
    "an argument too many": lambda me, _: told(me.ask("worker", "note", text="a", more=1)),
    "a wrong argument": lambda me, _: told(me.ask("worker", "note", text=5)),
    "no such action": lambda me, _: told(me.ask("worker", "dance")),
    "not permitted": lambda me, _: told(me.ask("worker", "forbidden")),
    "nobody to approve": lambda me, _: told(me.ask("worker", "hold_approved", text="a")),
    "nobody there": lambda me, _: told(me.ask("nobody", "dance")),
    "no JSON": lambda me, _: told(me.ask("odd", "not_json")),
    "an action's own timeout": lambda me, _: told(me.ask("odd", "slow")),
    "a deadline": lambda me, _: told(me.request(message("holder", "hold"), timeout=0.1)),
    "a deadline of 0": lambda me, _: told(me.request(message("holder", "hold"), timeout=0)),
    "a long deadline": lambda me, _: told(
        me.request(message("worker", "echo", value=1), timeout=1e300)
    ),
    "an endless deadline": lambda me, _: told(
        me.request(message("worker", "echo", value=1), timeout=float("inf"))
    ),
    "too many hops": lambda me, _: told(me.ask("worker", "hop", to=["worker"], left=40)),
    "a full mailbox": full,
    "cancelled": cancelled,
    "removed": removed,
    "closed": closed,
}


def populate(space: Any) -> None:
    space.add(Worker("worker", Notes("/dev/null")))
    space.add(Odd("odd"))
    space.add(Holder("holder"))


def test_amqp_outcomes_equal_those_of_native_space(make_space: MakeSpace) -> None:
    with NativeSpace(mailbox=3) as one:
        populate(one)
        me = one.add(Agent("me"))
        expected = {name: ask(me, one) for name, ask in CASES.items()}
    there = make_space(mailbox=3)
    populate(there)
    me = make_space(mailbox=3).add(Agent("me"))
    different = {}
    for name, ask in CASES.items():
        found = ask(me, there)
        if found != expected[name]:
            different[name] = (found, expected[name])
    assert different == {}


def test_amqp_action_error_too_long_is_cut(make_space: MakeSpace) -> None:
    make_space().add(Odd("odd"))
    me = make_space().add(Agent("me"))
    with pytest.raises(ActionError) as caught:
        me.ask("odd", "raises", what="own, endless").result(timeout=WAIT_S)
    assert caught.value.type == "T" * 1000
    assert caught.value.where == "w" * 1000
    assert "T: x" in str(caught.value)


def test_amqp_request_of_a_reply_that_waits_names_the_run(
    make_space: MakeSpace, tmp_path: Path
) -> None:
    def send_batch() -> Later:
        """Send a batch."""
        return Later("batch")

    model = ScriptedModel([{"name": "send_batch", "args": {}}])
    with Journal(tmp_path / "runs.db") as journal:
        make_space().add(ReActAgent("clerk", model, actions=[send_batch], journal=journal))
        me = make_space().add(Agent("me"))
        with pytest.raises(ActionError, match="waiting for the result 'batch'") as told:
            me.ask("clerk", "say", content="Send it.").result(timeout=WAIT_S)
        assert told.value.type == "RunWaiting"
        assert told.value.run_id is not None
        assert [each.key for each in journal.waiting(told.value.run_id)] == ["batch"]


@pytest.mark.parametrize("size", (2**20, 5_000_000))
def test_amqp_message_of_the_largest_size_arrives(make_space: MakeSpace, size: int) -> None:
    make_space().add(Worker("worker", Notes("/dev/null")))
    me = make_space().add(Agent("me"))
    text = "x" * size
    assert me.ask("worker", "echo", value=text).result(timeout=WAIT_S) == text


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_amqp_message_of_the_greatest_depth_arrives(make_space: MakeSpace) -> None:
    """What one process may send, another can read: the sender is refused what is deeper."""
    make_space().add(Worker("worker", Notes("/dev/null")))
    me = make_space().add(Agent("me"))
    depth = 1
    with NativeSpace() as one:
        one.add(Worker("worker", Notes("/dev/null")))
        alone = one.add(Agent("me"))
        for step in (256, 128, 64, 32, 16, 8, 4, 2, 1):
            try:
                alone.ask("worker", "echo", value=nested(depth + step)).result(timeout=WAIT_S)
                depth += step
            except (InvalidMessage, RequestError):
                continue
    assert depth > 50
    assert me.ask("worker", "echo", value=nested(depth)).result(timeout=WAIT_S) == nested(depth)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_amqp_delivers_any_json_value_unchanged(make_space: MakeSpace) -> None:
    worker = make_space().add(Worker("worker", Notes("/dev/null")))
    me = make_space().add(Agent("me"))

    @settings(max_examples=2 * settings().max_examples, suppress_health_check=list(HealthCheck))
    @given(JSON)
    def ask(value: Any) -> None:
        found = me.ask(worker.id, "echo", value=value).result(timeout=WAIT_S)
        assert found == value
        assert repr(found) == repr(value), "of the same types, and -0.0 is not 0.0"

    ask()
    for number in (2**63, -(2**63), 2**64, -0.0, 5e-324, 1.7976931348623157e308, 10**4000):
        found = me.ask("worker", "echo", value=[number]).result(timeout=WAIT_S)
        assert repr(found) == repr([number])
