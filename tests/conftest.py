"""What holds for every test: no remote model, reproducible properties; weights and a broker."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import gc
import importlib
import inspect
import os
import signal
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from benchmarks.broker import Broker
from benchmarks.postgresql import Server
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling

from faults.table import pytest_terminal_summary as pytest_terminal_summary
from packages import trust_nobody

TESTS = Path(__file__).resolve().parent

# Before anything of moothall is imported, so that no adapter can have looked already. Subprocesses
# inherit it.
os.environ["MOOTHALL_OFFLINE"] = "1"
# A local model computes in one thread: beside another worker, two threads that wait for each other
# at every step take four times as long. Programs of a clean environment compute in several.
os.environ["OMP_THREAD_LIMIT"] = "1"
# No test trusts an authority of the world: to read the system's takes each HTTP client 30 ms.
trust_nobody()
# Hundreds of programs are started: none is to compile again what another has.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the tests in the background, and some runners, have these ignored, which every
# process inherits: the tests' own programs are to end by Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_ignored, signal.SIG_DFL)

# The same examples in every run: a property that fails, fails for everyone. pytest's own timeout is
# the deadline.
settings.register_profile("moothall", derandomize=True, deadline=None)
settings.register_profile("quick", settings.get_profile("moothall"), max_examples=20)


DEAR = {"fragile": "faults", "secure": "tls"}
"""Fixtures that take seconds to start, and the group whose tests one worker runs, to start one."""

TOGETHER = ("studio", "test_results", "test_simulate", "test_tree")
"""Folders and files whose tests share what takes seconds: a browser and Gradio, SciPy and
Matplotlib in this process or in one that forks, the source as a tree. One worker runs each."""


SERVICES = {"broker", "postgresql", "browser", "weights"}
"""Fixtures of what `make test-core` does without."""

LONG_S = 300
"""The timeout of a long test that states none: six of them may wait for one disk."""

SERVERS = 2
"""How many workers start a RabbitMQ and a PostgreSQL, of 6 s of the processor."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have those come first that may take long, so that no worker is left with one at the end."""
    together = cache(_together)
    for item in items:
        if item.path.name.startswith(("test_benchmark_", "test_ci.")):
            item.add_marker("long")  # of what measures and tests the package, not of the package
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_S))
        names = getattr(item, "fixturenames", ())
        over_amqp = "amqp" in item.name.rpartition("[")[2][:-1].split("-")
        if over_amqp or not SERVICES.isdisjoint(names):
            item.add_marker("services")
        of = together(item.path) + [DEAR[name] for name in names if name in DEAR]
        if over_amqp or not {"broker", "postgresql"}.isdisjoint(names):
            of.append(f"services{zlib.crc32(item.path.name.encode()) % SERVERS}")
        # The long ones are many enough to be worth one for each worker.
        if of and not any(map(item.get_closest_marker, ("xdist_group", "long"))):
            item.add_marker(pytest.mark.xdist_group(of[0]))
    # `reverse=True` keeps the order of those that are alike: tests of a file may share a page.
    items.sort(
        key=lambda item: (bool(item.get_closest_marker("xdist_group")), longest(item)), reverse=True
    )


def _together(path: Path) -> list[str]:
    """The groups of a file."""
    return [each for each in TOGETHER if each in (*path.relative_to(TESTS).parts, path.stem)]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Have no long text be the name of a test: each process keeps it, and sends it at each step."""
    return "long" if isinstance(val, str | bytes) and len(val) > 400 else None


BATCH = 16
"""How many tests of a file a worker gets at once, with which it starts once what they share."""


class Batches(LoadGroupScheduling):
    """Hands out groups, and what is in none in batches of a file; in the order of the tests.

    One test at a time costs the process that hands them out half a millisecond for each before it.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._batches: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        if group != nodeid:
            return group
        if nodeid not in self._batches:
            file = nodeid.partition("::")[0]
            self._batches[nodeid] = f"{file} {self._sizes[file] // BATCH}"
            self._sizes[file] += 1
        return self._batches[nodeid]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Batches | None:
    """Have `--dist loadgroup` hand out batches."""
    return Batches(config, log) if config.option.dist == "loadgroup" else None


# Ten thousand tests are half a gigabyte of objects, which Python's collector would walk again and
# again: it rests while they are collected, and then leaves alone what was there before a test.
@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without the garbage collector."""
    gc.disable()
    try:
        if hasattr(session.config, "workerinput"):
            import_share(session.config, **session.config.workerinput)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_share(config: pytest.Config, workerid: str, workercount: int, **_: object) -> None:
    """Import a worker's share of the files first: in a new checkout, each is rewritten by one."""
    folders = [Path(each) for each in config.args if Path(each).is_dir()]
    files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    for file in files[int(workerid.removeprefix("gw")) :: workercount]:
        # What cannot be imported is told where it is collected.
        with suppress(Exception):
            name = file.resolve().relative_to(TESTS).with_suffix("")
            importlib.import_module(".".join(name.parts))


@pytest.fixture(scope="module", autouse=True)
def garbage() -> Iterator[None]:
    """Leave no garbage of a file, and what it imported out of the collector's way."""
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test to its end, on a loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


def longest(item: pytest.Item) -> float:
    """How many seconds a test may take."""
    timeout = item.get_closest_marker("timeout")
    return float(timeout.args[0]) if timeout is not None else 0.0


ERRORS: pytest.StashKey[int] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Have properties try more where the long tests run too, and keep standard error uncaptured."""
    settings.load_profile("quick" if "not long" in config.option.markexpr else "moothall")
    config.stash[ERRORS] = os.dup(2)


# What pytest-timeout raises may be lost in a finalizer, a callback, or a loop that waits as it
# closes.
@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Raise a test's timeout again until the test ends."""
    result = yield
    signal.setitimer(signal.ITIMER_REAL, signal.getitimer(signal.ITIMER_REAL)[0], 20)
    return result


# A lock in C waits all the same, and pytest-timeout does not watch the teardown of a failed test.
# The process then prints the stacks of all threads and exits: pytest-xdist reports a failure.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a test that its timeout did not end."""
    watch(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watch again after a failure, at which pytest forgets who watches."""
    if isinstance(node, pytest.Item):
        watch(node)


def watch(item: pytest.Item) -> None:
    """Exit a minute and a half after the test's timeout, from now."""
    allowed = longest(item) or float(item.config.getini("timeout"))
    faulthandler.dump_traceback_later(allowed + 90, exit=True, file=item.config.stash[ERRORS])


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the default model, fetched by the first worker that asks for it."""
    from moothall.models.local import fetching

    # The parent of a worker's folder is the whole run's.
    with (tmp_path_factory.getbasetemp().parent / "weights.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetching.fetch()


@pytest.fixture(scope="session")
def shallow(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with two of its thirty layers, a tenth of the work, where no sense is needed."""
    from models.shallow_weights import write_shallow

    path = tmp_path_factory.mktemp("shallow") / "models" / weights.name
    path.parent.mkdir()
    write_shallow(weights, path, layers=2)
    return path


@pytest.fixture(scope="session")
def shallow_of_others(shallow: Path) -> Path:
    """The same under another name, by which their form of calls is that of larger weights."""
    path = shallow.with_name("others.gguf")
    data = shallow.read_bytes()
    path.write_bytes(data[:65536].replace(b"Smollm2 135M", b"Others' 1.5B") + data[65536:])
    return path


@pytest.fixture(scope="session")
def shallow_home(shallow: Path) -> dict[str, str]:
    """The environment of programs whose model in the box they are."""
    return {"MOOTHALL_HOME": str(shallow.parent.parent)}


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A RabbitMQ of this worker's own, on loopback; a test that breaks one starts another."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL of this worker's own, on loopback; a test that breaks one starts another.

    It does not wait for the disk: no test here cuts the power.
    """
    with Server({"fsync": "off"}) as server:
        yield server


@pytest.fixture
def exchange() -> str:
    """The name of an exchange of this test's own."""
    return f"test.{uuid4().hex}"


@pytest.fixture
def space() -> Iterator[Any]:
    """A space of this process."""
    from moothall import NativeSpace

    with NativeSpace() as made:
        yield made


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Any]:
    """A journal in a file."""
    from moothall import Journal

    with Journal(tmp_path / "runs.db") as made:
        yield made
