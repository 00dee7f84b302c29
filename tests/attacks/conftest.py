"""What attacks are made on: spaces that must go on working, and ears for what they log."""

from collections.abc import Iterator

import pytest

from conformance.conftest import log
from moothall import NativeSpace

__all__ = ["log", "space"]


@pytest.fixture
def space() -> Iterator[NativeSpace]:
    """A space without agents."""
    with NativeSpace() as space:
        yield space
