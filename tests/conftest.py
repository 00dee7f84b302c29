"""What holds for every test: no remote model, reproducible properties; weights and a broker."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.broker import Broker
from hypothesis import settings

from faults.table import pytest_terminal_summary as pytest_terminal_summary

# Before anything of civitas is imported, so that no adapter can have looked already. Subprocesses
# inherit it.
os.environ["CIVITAS_OFFLINE"] = "1"
# A local model computes in one thread: beside another worker, two threads that wait for each other
# at every step take four times as long. Programs of a clean environment compute in several.
os.environ["OMP_THREAD_LIMIT"] = "1"
# Hundreds of programs are started: none is to compile again what another has.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in every run: a property that fails, fails for everyone. pytest's own timeout is
# the deadline.
settings.register_profile("civitas", derandomize=True, deadline=None)
settings.load_profile("civitas")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have those come first that may take long, so that no worker is left with one at the end."""
    items.sort(key=longest, reverse=True)


def longest(item: pytest.Item) -> float:
    """How many seconds a test may take."""
    timeout = item.get_closest_marker("timeout")
    return float(timeout.args[0]) if timeout is not None else 0.0


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the default model, fetched by the first worker that asks for it."""
    from civitas.models import fetching

    # The parent of a worker's folder is the whole run's.
    with (tmp_path_factory.getbasetemp().parent / "weights.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetching.fetch()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A RabbitMQ of this worker's own, on loopback; a test that breaks one starts another."""
    with Broker() as broker:
        yield broker
