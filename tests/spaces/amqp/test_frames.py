"""What moothall writes past pika is, byte for byte, what pika would write."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pika
from hypothesis import given
from hypothesis import strategies as st
from pika.connection import Connection as Pikas

from moothall.spaces.amqp import wire
from moothall.spaces.amqp.link.connection import Connection
from moothall.spaces.amqp.wire import Outbound

SHORT = st.text(max_size=60)
KINDS = st.sampled_from(
    (wire.SEND, wire.REQUEST, wire.ANSWER, wire.REPLY, wire.CANCEL, wire.QUEUE_LOST)
)


@given(
    key=SHORT,
    kind=KINDS | SHORT,
    routing_key=SHORT,
    body=st.binary(max_size=100),
    mandatory=st.booleans(),
    reply_to=SHORT | st.none(),
    correlation_id=SHORT | st.none(),
    headers=st.dictionaries(SHORT, st.text() | st.integers(-(2**31), 2**31 - 1)) | st.none(),
    channel=st.integers(1, 65535),
    largest=st.integers(1, 50),
)
def test_amqp_frames_equal_the_bytes_of_pika(
    key: str,
    kind: str,
    routing_key: str,
    body: bytes,
    mandatory: bool,
    reply_to: str | None,
    correlation_id: str | None,
    headers: dict[str, str | int] | None,
    channel: int,
    largest: int,
) -> None:
    message = Outbound(
        key,
        kind,
        routing_key,
        body,
        mandatory=mandatory,
        reply_to=reply_to,
        correlation_id=correlation_id,
        headers=headers,
    )
    ours: list[bytes] = []
    theirs: list[bytes] = []

    def writing_to(said: list[bytes]) -> SimpleNamespace:
        def write(frames: Sequence[bytes]) -> None:
            said.extend(frames)

        return SimpleNamespace(_body_max_length=largest, _output_marshaled_frames=write)

    Connection.publish(
        writing_to(ours),  # type: ignore[arg-type]
        channel,
        "an exchange",
        routing_key,
        mandatory,
        message.encoded_properties(),
        body,
    )
    properties = pika.BasicProperties(
        content_type="application/json",
        headers=headers,
        delivery_mode=2,
        correlation_id=correlation_id,
        reply_to=reply_to,
        message_id=key,
        type=kind,
    )
    assert message.properties() == properties
    method = pika.spec.Basic.Publish(
        exchange="an exchange", routing_key=routing_key, mandatory=mandatory
    )
    Pikas._send_message(writing_to(theirs), channel, method, (properties, body))
    assert b"".join(ours) == b"".join(theirs)
