"""The suites of moothall, over what this package has: `pytest --pyargs courier.conformance`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from courier.fake_streams import FakeStreams
from courier.memory import Shelf
from courier.model import Oracle
from courier.space import StreamSpace
from moothall.testing import ModelConformance, SpaceConformance, ThreadMemoryConformance


class TestShelf(ThreadMemoryConformance):
    def make(self, tokens: int) -> Shelf:
        return Shelf()


class TestOracle(ModelConformance):
    def make(self, *answers: Any) -> Oracle:
        return Oracle(*answers)


class TestStreamSpace(SpaceConformance):
    @pytest.fixture(autouse=True)
    def _streams(self) -> Iterator[None]:
        with FakeStreams() as self.streams:
            yield

    def make(self, **options: Any) -> StreamSpace:
        return StreamSpace(self.streams.address, **options)
