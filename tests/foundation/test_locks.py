"""A collection, a signal and a fork at any moment lock nothing up."""

from __future__ import annotations

from pathlib import Path

import pytest

import commands

LITTER = """
import asyncio, faulthandler, gc, os, signal, sys, threading, time, warnings
from moothall import *

warnings.simplefilter("ignore")

async def never(messages, actions):
    await asyncio.Event().wait()

def litter(**options):
    "Replies that are under way, or wait for their turn, in a loop that is closed."
    loop = asyncio.new_event_loop()
    agent = ReActAgent("dropped", ScriptedModel([never] * 3), **options)
    tasks = [loop.create_task(agent.reply("hello", thread=each)) for each in ("t", "t", "u")]
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0.001 if options else 0))
    loop.close()

def made(kind, path):
    "What an agent of this kind has."
    if kind == "journal":
        return {"journal": Journal(path)}
    if kind == "memory":
        return {"memory": SQLiteMemory(path)}
    return {"budget": Budget(model_calls=10**9)} if kind == "budget" else {}

def agent(id="lives", **options):
    return ReActAgent(id, ScriptedModel(lambda messages, actions: "yes"), **options)
"""


def run(program: str, *args: object, timeout: float = 50) -> str:
    """What a program prints; one that hangs is killed, and fails the test."""
    done = commands.run(*args, code=LITTER + program, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


AT_ONCE = """
class Id(str):
    "Has the garbage collected at the moment in which its thread is looked up."
    def __hash__(self):
        gc.collect()
        return str.__hash__(self)

gc.disable()
litter()
print(agent().reply_sync("hello", thread=Id("t")).text)
"""


def test_collection_while_a_thread_is_looked_up_ends_dropped_replies() -> None:
    assert run(AT_ONCE) == "yes\n"


REOPENED = """
for threshold in range(1, 400):
    gc.disable()
    gc.collect()
    dropped = Journal(sys.argv[1])
    dropped.itself = dropped
    del dropped
    gc.set_threshold(threshold)
    gc.enable()
    again = Journal(sys.argv[1])
    again.runs()
    again.close()
print("alive")
"""


def test_journal_opens_while_a_dropped_one_of_the_same_file_is_collected(tmp_path: Path) -> None:
    assert run(REOPENED, tmp_path / "runs.db") == "alive\n"


OFTEN = """
kind, threshold, seconds, path = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
options = made(kind, path)
mine = agent(**options)
gc.set_threshold(threshold)
until, rounds = time.monotonic() + seconds, 0
while rounds < 10 or time.monotonic() < until:
    litter(**options)
    for each in ("t", "u"):
        assert mine.reply_sync("hello", thread=each).text == "yes"
    rounds += 1
print("alive")
"""

KINDS = [
    "plain",
    "journal",
    *(pytest.param(k, marks=pytest.mark.long) for k in ("memory", "budget")),
]
THRESHOLDS = [7, *(pytest.param(each, marks=pytest.mark.long) for each in (3, 31, 101, 300, 701))]


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_collections_at_any_moment_let_others_go_on(
    tmp_path: Path, kind: str, threshold: int
) -> None:
    seconds = 0.4 if threshold == 7 else 20
    assert run(OFTEN, kind, threshold, seconds, tmp_path / "file.db") == "alive\n"


ENDS_OF_RUNS = """
path, kind = sys.argv[1:]
journal = Journal(path)
gc.disable()

async def pay() -> str:
    "Pay."
    await asyncio.Event().wait()

def closed(run_id, close):
    "What is kept of a reply that is closed while the journal is written."
    loop = asyncio.new_event_loop()
    answer = {"name": "pay"} if kind == "action" else never
    budget = Budget(actions=9)
    dropped = ReActAgent("dropped", ScriptedModel([answer]), actions=[pay], journal=journal)
    task = loop.create_task(dropped.reply("hello", run_id=run_id, budget=budget))
    entries = 5 if kind == "action" else 3
    while run_id not in [each.id for each in journal.runs() if each.entries >= entries]:
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    left = [task]
    del task, loop, dropped

    def change(accounts):
        close(left.pop())
        gc.collect()
        return [{}]

    journal.budgets.change_accounts(["any"], change)

    async def followed():
        return [each.kind async for each in journal.follow(run_id)]

    last = asyncio.run(asyncio.wait_for(followed(), 20))[-1]
    print(last, journal.run(run_id).state, budget.reserved.actions)

closed("collected", lambda task: None)
closed("from outside in", lambda task: task.get_coro().close())  # as the collector may do it
"""


@pytest.mark.parametrize(("kind", "state"), (("model", "cancelled"), ("action", "in_doubt")))
def test_end_of_a_reply_that_is_collected_while_the_journal_is_written_is_kept(
    tmp_path: Path, kind: str, state: str
) -> None:
    assert run(ENDS_OF_RUNS, tmp_path / "runs.db", kind) == f"over {state} 0\n" * 2


FORKS = """
count, own = int(sys.argv[1]), agent("own")

def reply_for_ever(number):
    async def main():
        while True:
            await own.reply("hello", thread=f"{number}")
            await own.reply("hello", thread="all")
            await own.reply("hello")
    asyncio.run(main())

space = NativeSpace()
space.add(agent("here"))
me = space.add(Agent("me"))

def ask_for_ever():
    while True:
        me.ask("here", "say", content="hello").result()

for number in range(4):
    threading.Thread(target=reply_for_ever, args=(number,), daemon=True).start()
threading.Thread(target=ask_for_ever, daemon=True).start()
failed = []
for number in range(count):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            faulthandler.dump_traceback_later(15)  # where it hangs
            assert agent("new").reply_sync("hello", thread="t").text == "yes"
            for thread in ("1", "all", None):
                assert own.reply_sync("hello", thread=thread).text == "yes"
            with NativeSpace() as its:
                its.add(agent("here"))
                asking = its.add(Agent("me")).ask("here", "say", content="hello")
                assert asking.result(timeout=15) == "yes"
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if status:
        failed.append(status)
print(failed, flush=True)
os._exit(bool(failed))  # so that the test shows where they hang
"""


@pytest.mark.parametrize("count", (12, pytest.param(92, marks=pytest.mark.long)))
def test_child_that_is_forked_while_others_reply_replies(count: int) -> None:
    assert run(FORKS, count) == "[]\n"


SIGNALS = """
kind, seconds, path = sys.argv[1], float(sys.argv[2]), sys.argv[3]

mine = agent("mine", max_iterations=10**6, **made(kind, path))
handled = refused = 0

def interrupt(number, frame):
    global handled, refused
    handled += 1
    try:
        mine.interrupt("and now", thread=f"{handled % 3}")
    except MailboxFull:
        refused += 1
    finally:  # not by an interval: a handler that takes longer would never end
        signal.setitimer(signal.ITIMER_REAL, 0.001)

async def alone():
    rounds = 0
    while time.monotonic() < until or rounds < 20 or handled < 100:
        replies = [mine.reply("hello", thread=f"{number}") for number in range(3)]
        assert {each.text for each in await asyncio.gather(*replies)} == {"yes"}
        rounds += 1

def in_a_space():
    rounds = 0
    with NativeSpace() as space:
        space.add(mine)
        me = space.add(Agent("me"))
        while time.monotonic() < until or rounds < 20 or handled < 100:
            asked = [me.ask("mine", "say", content="hello", thread=f"{n}") for n in range(3)]
            assert [each.result(timeout=30) for each in asked] == ["yes"] * 3
            rounds += 1

signal.signal(signal.SIGALRM, interrupt)
until = time.monotonic() + seconds
signal.setitimer(signal.ITIMER_REAL, 0.001)
in_a_space() if kind == "space" else asyncio.run(alone())
signal.signal(signal.SIGALRM, signal.SIG_IGN)
assert handled >= 100, handled
print("alive")
"""


@pytest.mark.parametrize("seconds", (1, pytest.param(20, marks=pytest.mark.long)))
@pytest.mark.parametrize("kind", (*KINDS, "space"))
def test_signal_handler_may_interrupt_an_agent_at_any_moment(
    tmp_path: Path, kind: str, seconds: float
) -> None:
    assert run(SIGNALS, kind, seconds, tmp_path / "file.db") == "alive\n"


WAKES = """
async def first(messages, actions):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    await asyncio.Event().wait()

mine = ReActAgent("mine", ScriptedModel([first, "I stop."]))
signal.signal(signal.SIGALRM, lambda *_: mine.interrupt("Stop."))
print(mine.reply_sync("hello").text)
"""


def test_interruption_by_a_signal_handler_is_heard_by_a_loop_that_sleeps() -> None:
    assert run(WAKES) == "I stop.\n"
