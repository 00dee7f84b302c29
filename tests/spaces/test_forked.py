"""A space in a process that was forked: it is not there, and says so at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading
from moothall import Agent, NativeSpace, ReActAgent, ScriptedModel, action
from moothall.foundation.errors import SpaceClosed

left = []

class Echo(Agent):
    def before_remove(self) -> None:
        left.append(self.id)

    @action
    async def echo(self, x: int) -> int:
        "Give it back."
        return x

    @action
    def echo_plainly(self, x: int) -> int:
        "Give it back, from a thread."
        return x

    @action
    async def fork(self) -> str:
        "Fork on the loop's own thread."
        child = os.fork()
        if child == 0:
            in_child()
        return f"{{os.waitpid(child, 0)[1]}}"

def refused(call):
    try:
        call()
    except SpaceClosed as error:
        assert f"belongs to process {{parent}}" in str(error), error
        assert "make another in this process" in str(error), error
    else:
        raise AssertionError(f"{{call}} was not refused")

def in_child():
    try:
        ask = lambda: me.ask("echo", "echo", x=1)
        refused(ask)
        refused(lambda: me.send({{"to": "echo", "action": {{"name": "echo", "args": {{"x": 1}}}}}}))
        refused(lambda: space.add(Agent("new")))
        refused(lambda: under_way.result(timeout=20))
        refused(lambda: talker.reply_sync("hello"))
        under_way.cancel()
        assert space.ids() == [] and space.statistics()["agents"] == {{}}
        with NativeSpace() as another:
            another.add(echo)
            mine = another.add(me)
            for name in ("echo", "echo_plainly"):
                assert mine.ask("echo", name, x=2).result(timeout=20) == 2
        assert left == ["echo"]
        space.close()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

parent = os.getpid()
space = NativeSpace()
echo = space.add(Echo("echo"))
me = space.add(Agent("me"))
talker = space.add(ReActAgent("talker", ScriptedModel(["hello"])))
assert me.ask("echo", "echo_plainly", x=1).result(timeout=20) == 1

class Holder(Agent):
    @action
    def hold(self) -> str:
        "Hold a thread."
        assert go_on.wait(20)
        return "held"

go_on = threading.Event()
space.add(Holder("holder"))
under_way = me.ask("holder", "hold")
{fork}
go_on.set()
assert under_way.result(timeout=20) == "held"
assert me.ask("echo", "echo", x=3).result(timeout=20) == 3
print("the end", status)
"""

FORKS = {
    "by a thread": (
        "child = os.fork()\nif child == 0:\n    in_child()\nstatus = os.waitpid(child, 0)[1]"
    ),
    "by an action": "status = int(me.ask('echo', 'fork').result(timeout=50))",
}


@pytest.mark.parametrize("how", FORKS)
def test_native_space_in_forked_child_refuses_and_child_makes_a_new_space(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(fork=FORKS[how])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("the end 0\n", 0), done.stderr


IN_THE_LOCK = """
import os, signal
from moothall import Agent, NativeSpace
from moothall.spaces.watchdog import WATCHDOG

class Forks:
    "Forks while the watchdog holds its lock, as another thread may at any time."
    thread_id = child = 0

    def __hash__(self):
        if not self.child:
            Forks.child = os.fork() or os.getpid()
            if self.child == os.getpid():
                signal.alarm(10)
                with NativeSpace() as space:
                    space.add(Agent("a"))
                os._exit(0)
        return 1

forks = Forks()
WATCHDOG.watch(forks)
print("the end", os.waitpid(Forks.child, 0)[1])
"""


def test_forked_child_can_make_a_space_whenever_it_was_forked() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_THE_LOCK],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("the end 0\n", 0), done.stderr
