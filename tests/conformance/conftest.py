"""The spaces that the suite runs over, and the agents and logs that its tests listen with.

Every test takes `make_space` or `space`, and so runs once for each space in `SPACES`; none asks
which one it has. Tests wait on conditions, never on time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from moothall import Agent, AMQPSpace, NativeSpace, action

SPACES = ("native", "amqp")
"""The kinds of space that there are."""

WAIT_S = 10
"""Seconds after which what a test waits for is taken to be lost."""

ABOUT_DEFINITIONS = ("test_actions", "test_help", "test_messages")
"""Cases in which the way of a message matters little; over a broker, `make test-all` has them."""

MANY_MESSAGES = "test_mailbox_holds_ten_thousand_messages_by_default"
"""Takes seconds over a broker, where `make test` has the same with a smaller mailbox."""

LIKE_THE_SPACES_OWN = (
    *("StopIteration", "SystemExit", "CancelledError"),
    *("RequestTimeout", "RequestCancelled", "SpaceClosed"),
)
"""What an action raises that a space over a broker could take for its own: the other kinds are
handled before the way of a message matters, and over a broker `make test-all` has them."""

DECIDED_AT_HOME = (
    "test_after_action_exception_of_any_kind_leaves_one_outcome",
    "test_mailbox_without_room_is_refused",
    "test_space_with_a_wrong_approver_is_refused_at_once",
    "test_action_result_that_is_not_json_is_an_error_or_converted",
    "test_request_permission_refuses_by_anything_but_true",
    "test_before_action_exception_of_any_kind_is_the_outcome",
    "test_callbacks_are_called_for_the_special_actions_too",
    "test_callbacks_are_not_called_for_a_call_that_is_refused_before",
    "test_group_names_are_checked",
    "test_approver_permits_only_by_true",
    "test_request_permission_exception_of_any_kind_refuses",
    "test_request_timeout_refuses_anything_but_a_number",
    "test_send_refuses_a_wrong_delay",
)
DECIDED_AT_HOME_IN = ("test_access", "test_callbacks", "test_current_message", "test_typed_answers")
"""Matrices of what one process decides by itself, and the files of such: over a broker, `make test`
has the first row of each, and `make test-all` all of them."""

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""The tests that were collected, before any were deselected."""

T = TypeVar("T")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = list(items)
    begun: set[tuple[Path, str]] = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("make_space") != "amqp":
            continue
        raised = callspec.params.get("kind") if item.path.stem == "test_requests" else None
        may_wait = isinstance(raised, str) and raised not in LIKE_THE_SPACES_OWN
        name = item.originalname
        may_wait |= (
            name == MANY_MESSAGES
            or item.path.stem in ABOUT_DEFINITIONS
            or (item.path, name) in begun
        )
        if may_wait:
            item.add_marker(pytest.mark.long)
        elif name in DECIDED_AT_HOME or item.path.stem in DECIDED_AT_HOME_IN:
            begun.add((item.path, name))


@pytest.fixture(params=SPACES)
def make_space(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Makes spaces, which are closed when the test is over: `make_space(approver=…)`.

    Each is apart from the others: what is sent in one does not reach the next.
    """
    made: list[Any] = []
    kind: Callable[..., Any] = NativeSpace
    if request.param == "amqp":
        broker = request.getfixturevalue("broker")
        monkeypatch.setenv("AMQP_PORT", str(broker.port))  # for programs of their own, too

        def over_amqp(**kwargs: Any) -> AMQPSpace:
            # Actions of these tests never end by themselves: to wait for them is of no use.
            return AMQPSpace(exchange=f"test.{uuid4().hex}", grace=0, **kwargs)

        kind = over_amqp

    def make(**kwargs: Any) -> Any:
        made.append(kind(**kwargs))
        return made[-1]

    yield make
    for space in made:
        space.close()


UNHURRIED = """
import logging
# What asyncio says of a callback that took 0.1 s is said of a slow machine too.
logging.getLogger("asyncio").addFilter(lambda each: not each.msg.startswith("Executing "))
"""
"""The lines of a program in development mode whose errors are read."""


def source_of(space: Any) -> str:
    """The lines of a program that has such spaces, as `Space`, each apart from the others."""
    if isinstance(space, AMQPSpace):
        return (
            "from uuid import uuid4\n"
            "from moothall import AMQPSpace\n"
            "def Space(): return AMQPSpace(exchange=uuid4().hex)"
        )
    return "from moothall import NativeSpace as Space"


@pytest.fixture
def load(make_space: Callable[..., Any], request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How much of something makes a load that takes as long in each kind of space."""
    share = {"native": 1, "amqp": 6}[request.node.callspec.params["make_space"]]
    return lambda much: max(1, much // share)


@pytest.fixture
def space(make_space: Callable[..., Any]) -> Any:
    """A space without agents."""
    return make_space()


@pytest.fixture
def log() -> Iterator[Log]:
    """What moothall logs, from any thread."""
    handler = Log()
    logger = logging.getLogger("moothall")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class Kept(list[T]):
    """A list that other threads add to, and that a test waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def add(self, item: T) -> None:
        """Add an item and wake who waits."""
        with self._changed:
            self.append(item)
            self._changed.notify_all()

    def wait_for(self, what: int | Callable[[list[T]], Any], timeout: float = WAIT_S) -> list[T]:
        """Wait until there are `what` items, or until `what(items)` is true; gives the items.

        Raises:
            AssertionError: it has not come to that in `timeout` seconds
        """
        enough: Callable[[], Any] = (
            (lambda: len(self) >= what) if isinstance(what, int) else (lambda: what(self))
        )
        with self._changed:
            if not self._changed.wait_for(enough, timeout):
                raise AssertionError(f"{what} did not come in {timeout} s; there is {list(self)}")
            return list(self)


class Log(logging.Handler):
    """Keeps what is logged, as `WARNING the text` with the exception's type and text behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Kept[str] = Kept()

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname} {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" | {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self.lines.add(line)

    def wait_for(self, text: str) -> str:
        """Wait for a line with this text in it, and give it."""
        lines = self.lines.wait_for(lambda lines: any(text in line for line in lines))
        return next(line for line in lines if text in line)


class Listener(Agent):
    """Keeps the messages that tell it how its own ended; it has no `say`."""

    def __init__(self, id: str | int, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.messages: Kept[dict[str, Any]] = Kept()

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Keep an answer."""
        self.keep()

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Keep an error."""
        self.keep()

    def keep(self) -> None:
        """Keep the message being handled."""
        message = self.current_message
        assert message is not None
        self.messages.add(message)

    def wait_for(
        self,
        what: int | Callable[[list[dict[str, Any]]], Any],
        timeout: float = WAIT_S,
    ) -> list[dict[str, Any]]:
        """Wait until there are `what` messages, or until `what(messages)` is true; gives them."""
        return self.messages.wait_for(what, timeout)

    def told(self, what: int = 1) -> list[tuple[str, dict[str, Any]]]:
        """Wait until there are `what` messages; gives the name and args of each."""
        return [(m["action"]["name"], m["action"]["args"]) for m in self.wait_for(what)]


class Recorder(Listener):
    """Keeps what is said to it too; to a `say` it says nothing back."""

    @action
    async def say(self, content: str) -> None:
        """Keep what is said."""
        self.keep()


def message(to: str | int, name: str, /, **args: Any) -> dict[str, Any]:
    """A message to send, without `id` and `meta`."""
    return {"to": to, "action": {"name": name, "args": args}}


def waits(space: Any, agent: str, count: int, timeout: float = WAIT_S) -> bool:
    """Whether so many messages come to wait for an agent: over a broker that takes a moment."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if space.statistics()["agents"][agent]["waiting"] == count:
            return True
        threading.Event().wait(0.001)
    return False


def settle(*agents: Agent) -> None:
    """Wait until what these agents sent each other is handled, and what was answered too.

    Messages are handled in the order in which each sender sent them, so a request that has its
    answer shows that all before it are done. What never came before it, never comes. A plain
    `help` would be answered beside the work.
    """
    for one in agents:
        for other in agents:
            asked = {"to": other.id, "action": {"name": "help"}, "meta": {"in_order": True}}
            one.request(asked).result(timeout=WAIT_S)
