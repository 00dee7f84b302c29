"""The published suite of spaces, over ours and over one of a user's own."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from benchmarks.broker import Broker

from moothall import AMQPSpace, NativeSpace
from moothall.build import Delivery, Mailbox
from moothall.testing import SpaceConformance


class TestNativeSpace(SpaceConformance):
    def make(self, **options: Any) -> NativeSpace:
        return NativeSpace(**options)


class TestAMQPSpace(SpaceConformance):
    @pytest.fixture(autouse=True)
    def _port(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AMQP_PORT", str(broker.port))

    def make(self, **options: Any) -> AMQPSpace:
        return AMQPSpace(exchange=f"test.{uuid4().hex}", grace=0, **options)


class NewestFirst(Mailbox):
    def accept(self, delivery: Delivery) -> None:
        super().accept(delivery)
        if self.box:
            self.box.rotate()


class TestSpaceOfAnotherOrder(SpaceConformance):
    keeps_order = False

    def make(self, **options: Any) -> NativeSpace:
        class Stack(NativeSpace):
            mailbox_type = NewestFirst

        return Stack(**options)
