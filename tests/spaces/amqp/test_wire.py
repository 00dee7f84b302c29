"""What travels over a broker is on the other side what it was, or is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moothall.actions.message import Envelope
from moothall.foundation.errors import (
    ActionError,
    ActionNotFound,
    AgentNotFound,
    AgentStopped,
    Deadlock,
    HopLimitExceeded,
    InDoubt,
    InvalidArguments,
    MailboxFull,
    NotPermitted,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)
from moothall.spaces import delivery as kinds
from moothall.spaces.amqp import wire
from moothall.spaces.delivery import Delivery

KINDS = {wire.SEND: kinds.SEND, wire.REQUEST: kinds.REQUEST, wire.ANSWER: kinds.ANSWER}
MESSAGE = Envelope("a", "b", "do", {"x": [1, {"y": "ü\x00"}]}, "id", {"m": None})


def outbound(kind: str = wire.REQUEST, **more: Any) -> wire.Outbound:
    envelope = MESSAGE._replace(**{k: more.pop(k) for k in ("thread", "within") if k in more})
    delivery = Delivery(envelope, KINDS[kind], timeout=wire.DEFAULT_TIMEOUT_S)
    delivery.call_chain = ()
    for name, value in more.items():
        setattr(delivery, name, value)
    beside = wire.headers_of(kind, envelope, delivery)
    return wire.Outbound(
        "key", kind, "agent.b", wire.encode(envelope), reply_to="me", headers=beside
    )


def came(kind: str = wire.REQUEST, **more: Any) -> wire.Inbound:
    made = outbound(kind, **more)
    return wire.read_message(made.properties(), made.body)


def test_wire_read_returns_the_sent_envelope() -> None:
    found = came()
    assert (found.key, found.kind, found.reply_to) == ("key", wire.REQUEST, "me")
    assert found.envelope == MESSAGE
    usual = {"hops": 1, "call_chain": (), "timeout": 300, "on_event": None}
    assert found.delivery_fields == usual
    assert found.raw[0].headers is None  # most have none
    assert found.raw[0].delivery_mode == 2  # kept by a broker that is stopped


@pytest.mark.parametrize("hops", (1, 2, 33))
@pytest.mark.parametrize("chain", ((), ("one",), ("one", "two")))
def test_wire_read_returns_hops_and_call_chain(hops: int, chain: tuple[str, ...]) -> None:
    found = came(hops=hops, call_chain=chain, within="r")
    usual = {"timeout": 300, "on_event": None}
    assert found.delivery_fields == {"hops": hops, "call_chain": chain, **usual}
    assert found.envelope == MESSAGE._replace(within="r")


def test_wire_read_returns_thread_and_original_of_an_answer() -> None:
    found = came(wire.ANSWER, original_id="", thread="t")
    assert found.delivery_fields == {"original_id": ""}
    assert found.envelope == MESSAGE._replace(thread="t")
    assert came(wire.SEND, thread="t", within="r").delivery_fields == {}


@pytest.mark.parametrize("timeout", (None, 300, 5, 2.5, 0, 0.0, 1e12, float("inf")))
def test_wire_read_keeps_type_and_value_of_timeout(timeout: float | None) -> None:
    found = came(timeout=timeout).delivery_fields["timeout"]
    assert (found, type(found)) == (timeout, type(timeout))


def test_wire_restored_equals_stored_message_without_headers() -> None:
    made = outbound()
    found, permission = wire.read_stored(wire.stored_bytes_of(made.properties(), made.body))
    assert (found[1:], permission) == (came()[1:], None)


@pytest.mark.parametrize("permission", (None, "granted"))
def test_wire_restored_equals_stored_message_with_headers(permission: str | None) -> None:
    told_beside = {"timeout": None, "within": "r"}
    made = outbound(hops=3, call_chain=("one",), **told_beside)
    properties = made.properties()
    properties.headers |= {"x-death": "of the broker's own"}
    found, told = wire.read_stored(wire.stored_bytes_of(properties, made.body, permission))
    assert told == permission
    assert found[1:] == came(hops=3, call_chain=("one",), **told_beside)[1:]
    assert "x-death" not in found.raw[0].headers
    again = wire.Outbound.unpack(made.pack())
    assert (again.key, again.kind, again.body) == (made.key, made.kind, made.body)
    assert (again.headers, again.routing_key) == (made.headers, made.routing_key)


@pytest.mark.parametrize("kind", (None, "", wire.SEND))
def test_wire_message_without_a_type_is_a_send_with_its_own_or_a_new_key(
    kind: str | None,
) -> None:
    first, second = (
        wire.read_message(given(message_id=None, type=kind), wire.encode(MESSAGE)) for _ in range(2)
    )
    assert (first.kind, first.envelope) == (wire.SEND, MESSAGE)
    assert first.key != second.key
    assert wire.read_message(given(type=kind), wire.encode(MESSAGE)).key == "key"
    stored = wire.stored_bytes_of(*first.raw)
    assert wire.read_stored(stored)[0].key == first.key


def given(**wrong: Any) -> Any:
    properties = {"message_id": "key", "type": wire.SEND, "reply_to": None, "headers": None}
    return SimpleNamespace(**properties | wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    (
        ({"message_id": "", "type": wire.REQUEST}, "no message_id"),
        ({"message_id": None, "type": wire.ANSWER}, "no message_id"),
        ({"type": "other"}, "its type is 'other'"),
        ({"reply_to": 5}, "reply_to is not text"),
        *(({"headers": {"hops": wrong}}, "hops is") for wrong in (0, -1, True, "2", 1.0)),
        *(
            ({"headers": {name: 5}}, f"{name} is int")
            for name in ("trail", "original", "thread", "within")
        ),
        *(({"headers": {"timeout": wrong}}, "timeout is") for wrong in ("nan", "soon", "", 5)),
    ),
    ids=str,
)
def test_wire_read_refuses_invalid_properties(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(wire.Unreadable, match=told):
        wire.read_message(given(**wrong), wire.encode(MESSAGE))


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"[]",
        b"{}",
        b'{"from": "a", "to": "b", "action": {"name": "do", "args": {"x": NaN}}}',
        b'{"from": "", "to": "b", "action": {"name": "do"}}',
        b'{"to": "b", "action": {"name": "do"}}',
        b'{"from": "a", "to": "b", "action": {"name": ""}}',
        b"[" * 100_000,
    ),
    ids=lambda body: body.decode()[:20],
)
def test_wire_read_refuses_invalid_body(body: bytes) -> None:
    with pytest.raises(wire.Unreadable):
        wire.read_message(given(), body)


def test_wire_body_is_bounded() -> None:
    with pytest.raises(wire.Unreadable, match=f"it has {wire.MAX_MESSAGE_BYTES + 1} bytes"):
        wire.read_json(b" " * (wire.MAX_MESSAGE_BYTES + 1))
    assert wire.read_json(b" " * (wire.MAX_MESSAGE_BYTES - 1) + b"1") == 1


@pytest.mark.parametrize("body", (b"NaN", b"[Infinity]", b"[" * 100_000))
def test_wire_read_json_refuses_invalid_json(body: bytes) -> None:
    with pytest.raises(wire.Unreadable, match="it is not JSON"):
        wire.read_json(body)


PLAIN = (
    *(InvalidArguments, ActionNotFound, NotPermitted, AgentNotFound, MailboxFull),
    *(RequestTimeout, RequestCancelled, AgentStopped, SpaceClosed),
)


@pytest.mark.parametrize(
    "error",
    (
        *(kind("what went wrong") for kind in PLAIN),
        ActionError("ValueError", "no such door", "Host.open"),
        ActionError("ValueError", "no such door"),
        ActionError("KeyError", ""),
        HopLimitExceeded("too far"),
        Deadlock("a waits for b"),
        InDoubt("begun and not ended", "Host.open"),
        InDoubt("begun and not ended"),
    ),
    ids=lambda error: type(error).__name__,
)
def test_wire_error_of_restores_type_and_text(error: RequestError) -> None:
    found = wire.error_of(wire.error_headers(error), {"error": str(error)})
    assert (type(found), str(found)) == (type(error), str(error))
    for part in ("type", "text", "where"):
        assert getattr(found, part, None) == getattr(error, part, None)


def test_wire_error_of_unknown_type_is_action_error() -> None:
    found = wire.error_of({"outcome": "OSError", "where": 5}, {"error": "no"})
    assert isinstance(found, ActionError)
    assert (found.type, found.text, found.where) == ("OSError", "no", None)
    assert type(wire.error_of({"outcome": 5}, {})) is ActionError
    assert wire.error_of({}, {"error": "no"}) is None


def test_wire_headers_of_an_error_fit_a_frame() -> None:
    error = ActionError("E" * 200_000, "text", "w" * 200_000)
    assert all(len(value) <= 1000 for value in wire.error_headers(error).values())


def test_wire_fingerprint_differs_by_action_and_arguments() -> None:
    one = wire.fingerprint(MESSAGE._replace(args={"a": 1, "b": 2}), "b")
    assert one == wire.fingerprint(MESSAGE._replace(args={"b": 2, "a": 1}), "b")
    others = (
        wire.fingerprint(MESSAGE._replace(args={"a": 1}), "b"),
        wire.fingerprint(MESSAGE._replace(args={"a": 1, "b": 2}), "c"),
        wire.fingerprint(MESSAGE._replace(args={"a": 1, "b": 2}, name="other"), "b"),
    )
    assert len({one, *others}) == 4
