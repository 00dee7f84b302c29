"""What comes over the broker and is no message: to the dead letters, and on with the next."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Recorder, message
from conformance.gate import Holder
from moothall import ActionError, Agent, AMQPOptions, AMQPSpace
from spaces.amqp.conftest import WAIT_S, Dead, MakeSpace, until
from spaces.amqp.worker import Notes, Worker

GOOD = {"from": "forger", "to": "there", "action": {"name": "echo", "args": {"value": 1}}}
MANY = 25 * 2**20


class Raw(pika.BasicProperties):  # type: ignore[misc]
    """Properties as any client may write them: `headers` is the table's bytes, names are bytes."""

    def encode(self) -> list[bytes]:
        pieces, flags = [], 0
        if self.headers is not None:
            flags |= self.FLAG_HEADERS
            pieces.append(struct.pack(">I", len(self.headers)) + self.headers)
        for flag, value in (
            (self.FLAG_CORRELATION_ID, self.correlation_id),
            (self.FLAG_REPLY_TO, self.reply_to),
            (self.FLAG_MESSAGE_ID, self.message_id),
            (self.FLAG_TYPE, self.type),
        ):
            if value is not None:
                flags |= flag
                encoded = value.encode() if isinstance(value, str) else value
                pieces.append(bytes([len(encoded)]) + encoded)
        return [struct.pack(">H", flags), *pieces]


def field(name: bytes, kind: bytes, value: bytes) -> bytes:
    """One field of a table of headers."""
    return bytes([len(name)]) + name + kind + value


def nested(depth: int) -> bytes:
    """A table in a table, and so on."""
    table = b""
    for _ in range(depth):
        inner = struct.pack(">I", len(table)) + table
        table = field(b"a", b"F", inner)
    return table


def body(**changes: Any) -> bytes:
    """The good message's, changed."""
    return json.dumps({**GOOD, **changes}).encode()


BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is not JSON"),
    "no JSON": (b"hello", "it is not JSON"),
    "half of one": (body()[:-5], "it is not JSON"),
    "two": (body() + body(), "it is not JSON"),
    "a number": (b"5", "it is not a JSON object"),
    "a list": (b"[]", "it is not a JSON object"),
    "null": (b"null", "it is not a JSON object"),
    "no UTF-8": (b'{"from":"\xff\xfe"}', "it is not JSON"),
    "UTF-16": (body().decode().encode("utf-16"), "it is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + body(), "it is not JSON"),
    "NaN": (body().replace(b"1}", b"NaN}"), "it is not JSON"),
    "Infinity": (body().replace(b"1}", b"-Infinity}"), "it is not JSON"),
    "a float beyond all": (body().replace(b"1}", b"1e999}"), "args"),
    "a huge int": (body().replace(b"1}", b"9" * 5000 + b"}"), ""),
    "deep": (b"[" * 100_000 + b"]" * 100_000, "it is not JSON"),
    "deep arguments": (
        body().replace(b"1}", b"[" * 900 + b"]" * 900 + b"}"),
        "",
    ),
    "a pickle": (b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07os.exit\x94.", "not JSON"),
    "nobody's": (json.dumps({k: v for k, v in GOOD.items() if k != "from"}).encode(), "id"),
    "from all": (body(**{"from": "*"}), "not an id"),
    "from a list": (body(**{"from": ["a"]}), "id must be a string"),
    "from nothing": (body(**{"from": ""}), "id has 1 to"),
    "from the broker": (body(**{"from": "amq.x"}), "amq."),
    "from too long": (body(**{"from": "x" * 256}), "id has 1 to"),
    "from no text": (body(**{"from": "\ud800"}), ""),
    "to another": (body(to="elsewhere"), "it is to 'elsewhere', but was in the queue of 'there'"),
    "to nobody": (body(to=None), "to"),
    "to no text": (body(to="\ud800"), ""),
    "to too long": (body(to="ü" * 200), "but was in the queue of 'there'"),
    "no action": (json.dumps({"from": "a", "to": "there"}).encode(), "action: is missing"),
    "an action that is a text": (body(action="echo"), "action: must be an object"),
    "an action without a name": (body(action={"args": {}}), "action.name"),
    "an action whose name is none": (body(action={"name": ["x"]}), "action.name"),
    "an action with more": (body(action={"name": "echo", "then": "x"}), "is unknown"),
    "arguments that are a list": (body(action={"name": "echo", "args": [1]}), "action.args"),
    "an id that is a number": (body(id=5), "id: must be a string"),
    "an id that is no text": (body(id="\ud800"), ""),
    "meta that is a text": (body(meta="x"), "meta"),
    "an unknown key": (body(priority=1), "is unknown"),
    "an unknown key that is no text": (body(**{"\ud800": 1}), ""),
    "an unknown key with lines": (body(**{"a\nb\x00\x1b[31m": 1}), "is unknown"),
    "too large": (b'"' + b"x" * MANY + b'"', f"it has {MANY + 2} bytes; 25165824 are the limit"),
}

GOOD_PROPERTIES: dict[str, Any] = {"message_id": "m", "type": "send"}
PROPERTIES: dict[str, tuple[dict[str, Any], str]] = {
    "no message_id": ({"message_id": None, "type": "request"}, "it has no message_id"),
    "an empty message_id": ({"message_id": "", "type": "answer"}, "it has no message_id"),
    "an unknown type": ({"type": "order"}, "its type is 'order'"),
    "an answer to a request": (
        {"type": "reply"},
        "an agent's queue takes no message of type 'reply'",
    ),
    "word of a lost queue": ({"type": "lost"}, "an agent's queue takes no message of type 'lost'"),
}

HEADERS: dict[str, Any] = {
    "hops": (0, -1, 2**40, "1", None, True, [1], {"a": 1}, Decimal("1.5"), b"\xff"),
    "timeout": ("soon", "nan", "", "1e", 5, None, [1], {"a": 1}, True, b"\xff", "9" * 5000),
    "trail": (5, None, ["a"], {"a": 1}, True, b"\xff"),
    "original": (5, None, ["a"], {"a": 1}, False, b"\xff"),
}
FINE = (("hops", 2**40), ("timeout", None))

RAW: dict[str, dict[str, Any]] = {
    "a message_id that is no text": {"message_id": b"\xff\xfe"},
    "a type that is no text": {"type": b"\xff"},
    "a reply_to that is no text": {"reply_to": b"\xff", "type": "request"},
    "hops as a float": {"headers": field(b"hops", b"d", struct.pack(">d", 1.5))},
    "a time beyond all": {"headers": field(b"x", b"T", struct.pack(">Q", 2**63))},
    "tables in tables": {"headers": nested(3000)},
}


@pytest.fixture
def space(make_space: MakeSpace) -> AMQPSpace:
    space = make_space()
    space.add(Worker("there", Notes("/dev/null")))
    space.add(Recorder("me"))
    return space


@pytest.fixture
def post(channel: BlockingChannel, exchange: str) -> Callable[..., None]:
    """Publishes to the agent `there`, as anybody may who knows the broker."""

    def publish(content: bytes, properties: pika.BasicProperties, key: str = "agent.there") -> None:
        channel.basic_publish(exchange, key, content, properties)

    return publish


def goes_on(space: AMQPSpace) -> bool:
    """Whether the agent handles the next message, over the same connection or another."""
    me = Agent("checks")
    space.add(me)
    try:
        return bool(me.ask("there", "echo", value=1).result(timeout=WAIT_S) == 1)
    finally:
        space.remove(me)


def buried(dead: Dead, reason: str) -> tuple[Any, bytes]:
    """The one dead letter, which says why it is one."""
    properties, content = dead.next()
    assert reason in properties.headers["reason"]
    assert properties.headers["agent"] == "there"
    datetime.strptime(properties.headers["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert dead.count() == 0
    return properties, content


def test_amqp_invalid_body_becomes_a_dead_letter(
    space: AMQPSpace, post: Callable[..., None], dead: Dead, log: Any
) -> None:
    for name, (content, reason) in BODIES.items():
        post(content, pika.BasicProperties(**GOOD_PROPERTIES))
        properties, kept = buried(dead, reason)
        assert kept == content, name
        assert properties.headers["message"] == "m"
        assert log.wait_for("goes to the dead letters")
        log.lines.clear()
    assert goes_on(space)


def test_amqp_invalid_properties_become_a_dead_letter(
    space: AMQPSpace, post: Callable[..., None], dead: Dead
) -> None:
    for changes, reason in PROPERTIES.values():
        post(body(), pika.BasicProperties(**GOOD_PROPERTIES | changes))
        assert buried(dead, reason)[1] == body()
    assert goes_on(space)


@pytest.mark.parametrize("name", HEADERS)
def test_amqp_invalid_headers_become_a_dead_letter(
    name: str, space: AMQPSpace, post: Callable[..., None], dead: Dead
) -> None:
    for value in HEADERS[name]:
        if (name, value) in FINE:
            continue
        headers = {name: value, "of another": "program"}
        post(body(), pika.BasicProperties(headers=headers, **GOOD_PROPERTIES))
        buried(dead, f"its header {name} is ")
    assert goes_on(space)


@pytest.mark.parametrize("name", RAW)
def test_amqp_undecodable_properties_become_a_dead_letter(
    name: str, space: AMQPSpace, post: Callable[..., None], dead: Dead, log: Any
) -> None:
    """One bad message must not end the connection, on which it would come again, for ever."""
    given = {"message_id": "m", "type": "send", "headers": None, "reply_to": None, **RAW[name]}
    raw = Raw(**given)
    post(body(), raw)
    assert buried(dead, "")[1] == body()
    assert goes_on(space)
    assert [line for line in log.lines if "is lost" in line] == []


@pytest.mark.parametrize("inbox", (False, True))
def test_amqp_unusual_header_values_are_handled_with_any_inbox(
    inbox: bool,
    make_space: MakeSpace,
    post: Callable[..., None],
    dead: Dead,
    tmp_path: Any,
) -> None:
    space = make_space(inbox=tmp_path / "inbox.db") if inbox else make_space()
    space.add(Worker("there", Notes("/dev/null")))
    post(body(), Raw(message_id="m", type="request", reply_to=b"\xff"))
    buried(dead, "reply_to")
    headers = {"x": [1, {"a": Decimal(1)}], "y": datetime.now(UTC), "z": b"\xff"}
    post(body(), pika.BasicProperties(headers=headers, **GOOD_PROPERTIES))
    assert goes_on(space)
    assert dead.count() == 0


def test_amqp_request_without_usable_reply_to_is_handled(
    space: AMQPSpace, post: Callable[..., None], dead: Dead
) -> None:
    """A reply that reaches another agent's queue becomes a dead letter there."""
    for reply_to in (None, "", "nowhere", "x" * 255):
        post(body(), pika.BasicProperties(message_id="a", type="request", reply_to=reply_to))
    assert goes_on(space)
    forged = pika.BasicProperties(message_id="b", type="request", reply_to="agent.there")
    post(body(), forged)
    buried(dead, "no message of type 'reply'")
    post(body(), pika.BasicProperties(message_id="c", type="request", reply_to="all"))
    until(lambda: dead.count() == 2)
    assert goes_on(space)


def test_amqp_message_of_another_program_is_handled_and_answered(
    space: AMQPSpace, post: Callable[..., None], dead: Dead, make_space: MakeSpace
) -> None:
    """Another program's message, which is a good one, is handled and answered."""
    forger = make_space().add(Recorder("forger"))
    for name, key in (("one", "other"), ("two", "x" * 255), ("one", "other"), ("3", "ü" * 127)):
        post(body(id=name), pika.BasicProperties(message_id=key, type="send"))
    assert [args["original_message_id"] for _, args in forger.told(3)] == ["one", "two", "3"]
    assert goes_on(space)
    assert dead.count() == 0


def test_amqp_deleted_dead_letter_queue_is_declared_again(
    make_space: MakeSpace,
    post: Callable[..., None],
    dead: Dead,
    channel: BlockingChannel,
    exchange: str,
    log: Any,
) -> None:
    """The same connection declares the queue again and loses no letter."""
    events: Kept[str] = Kept()
    space = make_space(on_connection=lambda what, _: events.add(what))
    space.add(Worker("there", Notes("/dev/null")))
    channel.queue_delete(f"{exchange}.dead-letters")
    post(b"hello", pika.BasicProperties(**GOOD_PROPERTIES))
    log.wait_for("the queue of the dead letters is gone")
    assert goes_on(space)
    properties, content = dead.next()
    assert "it is not JSON" in properties.headers["reason"]
    assert content == b"hello"
    assert list(events) == ["connected"]


def test_amqp_dead_letter_exchange_refusing_is_logged_and_retried(
    space: AMQPSpace,
    post: Callable[..., None],
    dead: Dead,
    channel: BlockingChannel,
    exchange: str,
    log: Any,
) -> None:
    """A user without write permission on the exchange gets the same refusal."""
    channel.exchange_delete(f"{exchange}.dead")
    channel.exchange_declare(f"{exchange}.dead", "fanout", durable=True, internal=True)
    post(b"hello", pika.BasicProperties(**GOOD_PROPERTIES))
    line = log.wait_for(
        "the broker closed a channel, and is sent again what it had not confirmed: "
    )
    assert f"{exchange}.dead" in line
    channel.exchange_delete(f"{exchange}.dead")
    channel.exchange_declare(f"{exchange}.dead", "fanout", durable=True)
    channel.queue_bind(f"{exchange}.dead-letters", f"{exchange}.dead")
    assert goes_on(space)
    assert dead.next()[1] == b"hello"
    assert sum("ACCESS_REFUSED" in each for each in log.lines) < 5


@pytest.mark.parametrize(
    "kind",
    ("send", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("answer", "request"))),
)
def test_amqp_dead_letter_queue_full_loses_no_letter(
    broker: Broker,
    make_space: MakeSpace,
    dead: Dead,
    channel: BlockingChannel,
    exchange: str,
    kind: str,
) -> None:
    limit = '[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]'
    policy = f'<<"full">>, <<"^{exchange}.dead">>, {limit}, 0, <<"queues">>, <<"tests">>'
    broker.eval(f'rabbit_policy:set(<<"/">>, {policy})')
    there = make_space().add(Worker("there", Notes("/dev/null")))
    bodies = [b"one", b"two"]
    for each in bodies:
        properties = pika.BasicProperties(message_id=each.decode(), type=kind)
        channel.basic_publish(exchange, "agent.there", each, properties)
    assert there.ask("there", "echo", value=1).result(timeout=WAIT_S) == 1
    assert sorted(dead.next()[1] for _ in bodies) == sorted(bodies)


@pytest.mark.parametrize(
    ("cut_at", "count"),
    # Of those under way, any but the first may have arrived.
    ((b"it is not JSON", 3), (b"\x00\x3c\x00\x50", 1)),
)
def test_amqp_dead_letter_is_kept_when_the_network_is_cut_meantime(
    cut_at: bytes,
    count: int,
    make_space: MakeSpace,
    post: Callable[..., None],
    dead: Dead,
    broker: Broker,
) -> None:
    """It is buried, perhaps twice, whether its letter or its acknowledgement did not arrive."""
    events: Kept[str] = Kept()
    with Proxy(broker.port) as proxy:
        space = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, _: events.add(what),
        )
        space.add(Worker("there", Notes("/dev/null")))
        proxy.cut_at(cut_at)
        for _ in range(count):
            post(b"hello", pika.BasicProperties(**GOOD_PROPERTIES))
        events.wait_for(lambda found: found.count("connected") == 2)
        assert goes_on(space)
        assert goes_on(space)
        assert count <= dead.count() <= 2 * count
        space.close()


def test_amqp_forged_notice_of_a_deleted_queue_runs_nothing_again(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, log: Any
) -> None:
    """What is open is asked again, and not run again."""
    space = make_space()
    holder, me = space.add(Holder("there")), space.add(Agent("me"))
    asked = me.ask("there", "hold", name="one")
    holder.begun.wait_for(1)
    lost = pika.BasicProperties(message_id="l", type="lost")
    for sender in ("there", "nobody", "*"):
        said = body(**{"from": sender, "to": "*", "action": {"name": "lost"}})
        channel.basic_publish(exchange, "processes", said, lost)
    for said in (b"hello", b"[]"):
        channel.basic_publish(exchange, "processes", said, lost)
    log.lines.wait_for(lambda lines: sum("notice of another process" in x for x in lines) == 3)
    holder.gate("one").open()
    assert asked.result(timeout=WAIT_S) == "one"
    assert me.ask("there", "note", name="two").result(timeout=WAIT_S) == "two"
    assert holder.begun == ["one", "two"]
    assert not any("defect" in line for line in log.lines)


REPLIES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "no JSON": (b"hello", {}),
    "a list": (b"[]", {}),
    "no action": (b"{}", {}),
    "an action that is a list": (b'{"action":[]}', {}),
    "arguments that are a text": (b'{"action":{"args":"x"}}', {}),
    "no arguments": (b'{"action":{}}', {}),
    "too large": (b'"' + b"x" * MANY + b'"', {}),
    "a huge int": (b'{"action":{"args":{"data":' + b"9" * 5000 + b"}}}", {}),
    "deep": (b"[" * 100_000, {}),
    "an outcome that is a table": (b'{"action":{"args":{}}}', {"outcome": {"a": 1}}),
    "an outcome that is a list": (b'{"action":{"args":{"error":[1]}}}', {"outcome": ["a"]}),
    "an outcome that is a class": (b'{"action":{"args":{"error":"x"}}}', {"outcome": "SystemExit"}),
    "a type that is none": (
        b'{"action":{"args":{"error":5}}}',
        {"outcome": "ActionError", "type": 5, "where": 5},
    ),
}


@pytest.mark.parametrize("name", REPLIES)
def test_amqp_forged_reply_fails_only_its_request(
    name: str, make_space: MakeSpace, channel: BlockingChannel, exchange: str
) -> None:
    """The request ends, as an ActionError, and the next has its own answer."""
    content, headers = REPLIES[name]
    holder = make_space().add(Holder("holder"))
    me = make_space().add(Agent("me"))
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, "agent.holder")
    request = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    found: list[Any] = []

    def overheard() -> Any:
        found[:] = channel.basic_get(queue, auto_ack=True)
        return found[0]

    until(overheard)
    asked = found[1]
    for correlation in ("nobody's", None, asked.message_id):
        channel.basic_publish(
            exchange,
            asked.reply_to,
            content,
            pika.BasicProperties(
                message_id="f", type="reply", correlation_id=correlation, headers=headers
            ),
        )
    with pytest.raises(ActionError):
        request.result(timeout=WAIT_S)
    holder.gate("one").open()
    assert me.ask("holder", "note", name="next").result(timeout=WAIT_S) == "next"


FIELDS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(("hops", "timeout", "trail", "original", "outcome", "x-death", "reason"))


@pytest.fixture(scope="module")
def quiet() -> Any:
    """What is buried is logged, and here that is much."""
    logging.getLogger("moothall.spaces.amqp").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("moothall.spaces.amqp").setLevel(logging.NOTSET)


def test_amqp_headers_of_any_kind_stop_no_agent(
    quiet: None, make_space: MakeSpace, channel: BlockingChannel, exchange: str, tmp_path: Any
) -> None:
    spaces = make_space(), make_space(inbox=tmp_path / "inbox.db")
    for number, space in enumerate(spaces):
        space.add(Worker(f"there {number}", Notes("/dev/null")))
    numbers = iter(range(10**9))

    @settings(max_examples=2 * settings().max_examples, suppress_health_check=list(HealthCheck))
    @given(
        st.dictionaries(NAMES | st.text(max_size=20), FIELDS, max_size=4),
        st.sampled_from(("send", "request", "answer", "cancel", "reply", "other")),
        st.text(max_size=60) | st.none(),
        st.text(max_size=60) | st.none(),
    )
    def post(
        headers: dict[str, Any], kind: str, correlation_id: str | None, reply_to: str | None
    ) -> None:
        for number in range(2):
            channel.basic_publish(
                exchange,
                f"agent.there {number}",
                body(to=f"there {number}"),
                pika.BasicProperties(
                    message_id=f"m{next(numbers)}",
                    type=kind,
                    headers=headers,
                    correlation_id=correlation_id,
                    reply_to=reply_to,
                ),
            )

    post()
    lost: list[str] = []
    me = make_space(on_connection=lambda what, text: lost.append(what)).add(Agent("me"))
    for number in range(2):
        asked = me.request(message(f"there {number}", "echo", value=number), wait=True)
        assert asked.result(timeout=WAIT_S) == number
    for number, space in enumerate(spaces):
        found = space.statistics()["agents"][f"there {number}"]
        assert found == {"waiting": 0, "handling": [], "asking": 0}
