"""The mailbox of a space in one process is limited in bytes, too."""

from __future__ import annotations

from conformance.conftest import WAIT_S, Recorder, message
from conformance.gate import Holder
from moothall import NativeSpace


def test_native_mailbox_of_few_bytes_is_full_of_large_messages_and_takes_small_ones() -> None:
    with NativeSpace(mailbox_bytes=10_000_000) as space:
        holder = space.add(Holder("holder"))
        me = space.add(Recorder("me"))
        first = me.ask("holder", "hold")
        holder.begun.wait_for(1)
        for n in range(100):
            me.send({"id": str(n), **message("holder", "note", name="x" * 1_000_000)})
        full = me.wait_for(1)[0]["action"]
        assert full["name"] == "error"
        assert '"holder" is full' in full["args"]["error"]
        holder.gate("one").open()
        assert first.result(timeout=WAIT_S) == "one"
        told = me.wait_for(100)
        assert 9 <= sum(each["action"]["name"] == "response" for each in told) < 100
        alone = "x" * 11_000_000  # more than all that may wait: nothing else does
        assert me.ask("holder", "note", name=alone).result(timeout=WAIT_S) == alone
