from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy


@pytest.fixture(scope="session")
def fragile() -> Iterator[Broker]:
    """A broker that these tests break; each leaves it running."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def proxy(fragile: Broker) -> Iterator[Proxy]:
    """The network before it."""
    with Proxy(fragile.port) as proxy:
        yield proxy
