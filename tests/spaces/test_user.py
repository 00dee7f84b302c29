"""A person at a terminal in a space: what is shown, and what is sent."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from benchmarks.broker import Broker

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    AMQPOptions,
    AMQPSpace,
    ChattyAI,
    InvalidId,
    NativeSpace,
    NotInSpace,
    ScriptedModel,
    User,
    action,
)
from pseudo_terminal import CONTROL_D, Terminal

WAIT = 20


def user(*lines: str, id: str = "User") -> tuple[User, io.StringIO]:
    shown = io.StringIO()
    return User(id, io.StringIO("".join(f"{line}\n" for line in lines)), shown), shown


class Listener(Agent):
    """Keeps what is said to it."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.heard: list[tuple[str, str]] = []

    @action
    async def say(self, content: str) -> None:
        """Keep something."""
        message = self.current_message
        assert message is not None
        self.heard.append((message["to"], content))


def test_user_line_is_said_to_everyone_and_the_answers_are_shown(space: NativeSpace) -> None:
    ann, shown = user("Good morning, all!", "", "   ", "Bye")
    listener = space.add(Listener("Bob"))
    space.add(ChattyAI("Chatty", ScriptedModel(["Good morning!", "Bye!"])))
    space.add(ann)
    ann.run_sync()
    assert listener.heard == [("*", "Good morning, all!"), ("*", "Bye")]
    assert shown.getvalue() == "Chatty: Good morning!\nChatty: Bye!\n"


def test_user_line_to_a_group_reaches_its_members_and_an_empty_group_is_named(
    space: NativeSpace,
) -> None:
    ann, shown = user('/#orders.say content:"Hi"', '/#returns.say content:"Hi"')
    listener = Listener("Bob")
    space.add(listener, groups=["orders"])
    space.add(ann)
    ann.run_sync()
    assert listener.heard == [("#orders", "Hi")]
    assert shown.getvalue() == 'Nobody is in the group "#returns".\n'


def test_user_run_sync_refuses_where_a_loop_runs_as_in_a_notebook(space: NativeSpace) -> None:
    ann, _ = user("Hello")
    space.add(ann)

    async def cell() -> None:
        with pytest.raises(RuntimeError, match=r"run_sync of agent 'User' was .* await run\(\)"):
            ann.run_sync()

    asyncio.run(cell())


def test_user_shows_each_message_with_its_sender(space: NativeSpace) -> None:
    class Offering(User):
        @action
        async def ring(self, times: int) -> None:
            """Ring."""

    shown = io.StringIO()
    ann = space.add(Offering(stdin=io.StringIO(), stdout=shown))
    bob, odd = space.add(Agent("Bob")), space.add(Agent("Bob: hi\n\x1b[2J"))
    for sender, name, args in (
        (bob, "say", {"content": "one\ntwo\r\nBob: three\x1b]0;x\x07\n"}),
        (bob, "response", {"data": {"a": ["\n\x1b", "ü"]}}),
        (bob, "error", {"error": "ValueError: no\nway", "original_message_id": "1"}),
        (bob, "ring", {"times": 3}),
        (bob, "help", {}),
        (odd, "say", {"content": ""}),
    ):
        sender.send({"to": "User", "action": {"name": name, "args": args}})
    bob.ask("User", "help").result(WAIT)
    assert ann.ask("User", "help").result(WAIT).keys() == {"ring", "say"}
    assert shown.getvalue().splitlines() == [
        "Bob: one",
        "    two",
        "    Bob: three\\x1b]0;x\\x07",
        'Bob returned {"a": ["\\n\\u001b", "ü"]}',
        "Bob error ValueError: no\\nway",
        'Bob calls ring {"times": 3}',
        '"Bob: hi\\n\\u001b[2J": ',
    ]


def test_user_own_broadcasts_are_shown_only_if_received(space: NativeSpace) -> None:
    ann, shown = user("Hello?")
    echo = io.StringIO()
    bob = User("Bob", io.StringIO("Echo!\n"), echo, receive_own_broadcasts=True)
    space.add(ann)
    ann.run_sync()
    assert shown.getvalue() == ""
    space.add(bob)
    bob.run_sync()
    assert echo.getvalue() == "Bob: Echo!\n"
    assert shown.getvalue() == "Bob: Echo!\n"


def test_user_line_that_cannot_be_sent_shows_the_error_and_the_next_is_read(
    space: NativeSpace,
) -> None:
    ann, shown = user("lone \ud800", "Hello!")
    listener = space.add(Listener("Bob"))
    space.add(ann)
    ann.run_sync()
    assert listener.heard == [("*", "Hello!")]
    assert shown.getvalue().startswith("not sent: ")
    assert shown.getvalue().count("\n") == 1


def test_user_line_to_an_agent_that_is_not_there_shows_the_error(space: NativeSpace) -> None:
    ann, shown = user("/Bob.help", "/*.help", "/User.help", '/"Bo\\u001b".help', "Hello!")
    space.add(ann)
    ann.run_sync()
    assert [line for line in shown.getvalue().splitlines() if "returned" not in line] == [
        'There is no agent "Bob" here, so nobody gets this.',
        'There is no agent "Bo\\u001b" here, so nobody gets this.',
    ]


def test_user_end_of_the_input_waits_until_a_slow_terminal_has_shown_the_answers(
    space: NativeSpace,
) -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            threading.Event().wait(0.005)
            return super().write(text)

    class Counter(Agent):
        @action
        async def count(self, to: int) -> None:
            """Say each number."""
            for number in range(to):
                self.send(
                    {"to": "User", "action": {"name": "say", "args": {"content": str(number)}}}
                )

    shown = Slow()
    space.add(Counter("Counter"))
    space.add(ann := User("User", io.StringIO("/Counter.count to:20\n"), shown))
    ann.run_sync()
    assert shown.getvalue() == "".join(f"Counter: {number}\n" for number in range(20))


def test_user_end_of_the_input_waits_no_longer_than_its_limit(space: NativeSpace) -> None:
    release = threading.Event()

    class Slow(Agent):
        @action
        def say(self, content: str) -> str:
            """Wait."""
            assert release.wait(WAIT)
            return "done"

    space.add(Slow("Slow"))
    for patience, told in ((0, ""), (0.05, "Slow is still busy after 0.05 s\n")):
        ann, shown = user("Hello!", id=f"User{patience}")
        space.add(ann)
        ann.run_sync(patience)
        assert shown.getvalue() == told
        space.remove(ann.id)  # the next one waits for Slow alone
    release.set()
    ann, shown = user("Hello!")
    space.add(ann)
    ann.run_sync()
    assert shown.getvalue() == "Slow: done\n"


def test_user_end_of_the_input_waits_for_what_is_approved(space: NativeSpace) -> None:
    class Careful(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def work(self, long: bool) -> str:
            await asyncio.sleep(0.1)  # beyond the look that finds it approved
            return "worked"

        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            long = proposed_message["action"]["args"]["long"]
            await asyncio.sleep(WAIT if long else 0.02)
            return True

    space.add(Careful("Careful"))
    for long, patience, told in (
        ("false", WAIT, 'Careful returned "worked"\n'),
        ("true", 0.05, "Careful is still busy after 0.05 s\n"),
    ):
        ann, shown = user(f"/Careful.work long:{long}", id=f"User{long}")
        space.add(ann)
        ann.run_sync(patience)
        assert shown.getvalue() == told
        space.remove(ann.id)  # the next one waits for Careful alone


def test_user_end_of_the_input_waits_for_an_agent_of_another_process(broker: Broker) -> None:
    class Busy(Agent):
        @action
        async def work(self) -> str:
            for _ in range(10):
                await self.ask("Busy", "help")
            return "worked"

    given: Any = {"amqp_options": AMQPOptions(port=broker.port), "exchange": f"test.{uuid4().hex}"}
    with AMQPSpace(**given) as here, AMQPSpace(**given) as there:
        there.add(Busy("Busy"))
        ann, shown = user("/Busy.work", "/Nobody.work")
        here.add(ann).run_sync(WAIT)
        assert shown.getvalue() == 'Busy returned "worked"\n'
        bea, shown = user("/*.work", id="Bea")  # who is there is not known here
        here.add(bea).run_sync(WAIT)
        assert shown.getvalue() == 'Busy returned "worked"\n'


def test_user_waiting_for_a_line_shows_messages_and_can_be_cancelled(space: NativeSpace) -> None:
    async def main() -> str:
        read, write = os.pipe()
        with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as keyboard:
            shown = io.StringIO()
            ann = space.add(User("Ann", stdin, shown))
            bob = space.add(Agent("Bob"))
            running = asyncio.create_task(ann.run())
            # It waits for a line, and what comes is shown all the same.
            await bob.ask("Ann", "say", content="Are you there?")
            assert shown.getvalue() == "Bob: Are you there?\n"
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            keyboard.write(b"Yes\n")
            listener = space.add(Listener("Listener"))
            again = asyncio.create_task(ann.run())
            keyboard.close()
            await again
            return listener.heard[0][1]

    # The line that was asked for first is not lost.
    assert asyncio.run(main()) == "Yes"


def test_user_outside_of_a_space_is_refused() -> None:
    ann, _ = user("Hello!")
    with pytest.raises(NotInSpace, match="'User' cannot run"):
        ann.run_sync()
    with NativeSpace() as space:
        space.add(ann)
    with pytest.raises(NotInSpace):
        ann.run_sync()


def test_user_ends_when_the_space_is_closed_while_a_line_is_written() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as keyboard:

        async def main() -> None:
            with NativeSpace() as space:
                ann = space.add(User("Ann", stdin, io.StringIO()))
                running = asyncio.create_task(ann.run())
                await asyncio.sleep(0)
            keyboard.write(b"Too late\n")
            with pytest.raises(NotInSpace):
                await running

        asyncio.run(main())


@pytest.mark.parametrize("id", ("*", "", "amq.x"))
def test_user_id_that_is_not_allowed_is_refused(id: str) -> None:
    with pytest.raises(InvalidId):
        User(id)


PROGRAM = """
from moothall import ChattyAI, NativeSpace, ScriptedModel, User
with NativeSpace() as space:
    space.add(ChattyAI("Chatty", ScriptedModel(["Grüße!", "Bye!"])))
    user = space.add(User())
    print("READY", flush=True)
    user.run_sync()
print("END")
"""


@pytest.mark.parametrize(
    ("encoding", "greeting"), (("utf-8", b"Gr\xc3\xbc\xc3\x9fe!"), ("ascii", b"Gr\\xfc\\xdfe!"))
)
def test_user_through_pipes_reads_and_shows_each_encoding(
    tmp_path: Path, encoding: str, greeting: bytes
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        input=b"Hello\nwithout a line break at the end",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"READY\nChatty: " + greeting + b"\nChatty: Bye!\nEND\n"


def test_user_at_a_pseudo_terminal_reads_and_shows() -> None:
    with Terminal("-c", PROGRAM) as terminal:
        terminal.until("READY")
        terminal.type("Hello\n")
        terminal.until("Chatty: Grüße!")
        terminal.type("Bye\n")
        terminal.until("Chatty: Bye!")
        terminal.type(CONTROL_D)
        terminal.until("END")
        assert terminal.end() == 0


def test_user_interrupted_at_a_pseudo_terminal_ends_in_order() -> None:
    with Terminal("-c", PROGRAM) as terminal:
        terminal.until("READY")
        terminal.type("Hello\n")
        terminal.until("Chatty: Grüße!")
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.until("KeyboardInterrupt")
        assert terminal.end() == -signal.SIGINT
        assert "Fatal" not in terminal.seen


def test_user_terminal_that_is_held_up_does_not_hold_up_the_space(space: NativeSpace) -> None:
    held, go_on = threading.Event(), threading.Event()

    class Held(io.StringIO):
        def write(self, text: str) -> int:
            held.set()
            assert go_on.wait(WAIT)
            return super().write(text)

    shown: Any = Held()
    space.add(User(stdin=io.StringIO(), stdout=shown))
    space.add(Listener("Other"))
    bob = space.add(Agent("Bob"))
    bob.send({"to": "User", "action": {"name": "say", "args": {"content": "Hi"}}})
    assert held.wait(WAIT)
    assert bob.ask("Other", "help").result(WAIT)
    go_on.set()
    bob.ask("User", "help").result(WAIT)
    assert shown.getvalue() == "Bob: Hi\n"


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b


def test_user_slash_line_is_a_message_and_a_wrong_one_shows_the_error(space: NativeSpace) -> None:
    ann, shown = user(
        "/Calculator.add a:1 b:2", "/Calculator.add a", '/Calculator.add a:1 b:"x"', "/Nobody.x"
    )
    space.add(Calculator("Calculator"))
    space.add(ann)
    ann.run_sync()
    told = shown.getvalue().splitlines()
    assert [line for line in told if line.startswith("Calculator returned ")] == [
        "Calculator returned 3"
    ]
    assert [line for line in told if line.startswith("not sent: column 18: expected")]
    assert any('argument "b" must be integer, not string' in line for line in told)
