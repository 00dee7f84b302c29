"""What a space remembers of the messages it received, in memory and in a file."""

from __future__ import annotations

import gc
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import commands
from commands import Command, run
from moothall.foundation.errors import InboxError
from moothall.spaces.amqp.inbox import (
    ACCEPTED,
    FINISHED,
    STARTED,
    Inbox,
    InboxEntry,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.db"


@pytest.fixture
def inbox(path: Path) -> Iterator[Inbox]:
    found = Inbox(path)
    yield found
    found.close()


# -- what it knows of a message --------------------------------------------------------------------


def test_inbox_look_up_unknown_message_returns_none(inbox: Inbox) -> None:
    assert inbox.look_up("k", "a") is None
    assert inbox.unfinished("a") == []
    assert inbox.forget(0) == 0
    inbox.flush()
    inbox.start([])


def test_started_then_ended_with_an_answer(inbox: Inbox) -> None:
    inbox.start([("k", "a")])
    assert inbox.look_up("k", "a") == InboxEntry("k", STARTED, None, None)
    assert inbox.unfinished("a") == []  # the broker has it still
    inbox.end("k", "a", b"answer")
    ended = InboxEntry("k", FINISHED, None, b"answer")
    assert inbox.look_up("k", "a") == ended
    inbox.flush()
    assert inbox.look_up("k", "a") == ended


@pytest.mark.parametrize("answer", (None, b"", b"\0\xff", b"x" * 100_000))
def test_inbox_end_keeps_answer_unchanged(inbox: Inbox, answer: bytes | None) -> None:
    inbox.start([("k", "a")])
    inbox.end("k", "a", answer)
    inbox.start([("next", "a")])
    assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, answer)


def test_accepted_then_started_then_ended(inbox: Inbox) -> None:
    inbox.accept("k", "a", b"message")
    assert inbox.look_up("k", "a") == InboxEntry("k", ACCEPTED, b"message", None)
    inbox.start([("k", "a")])
    started = InboxEntry("k", STARTED, b"message", None)
    assert inbox.look_up("k", "a") == started
    assert inbox.unfinished("a") == [started]
    inbox.end("k", "a", b"answer")
    assert inbox.unfinished("a") == []
    assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, b"answer")
    inbox.note_answered("k", "a")
    inbox.flush()
    assert inbox.unfinished("a") == []


def test_inbox_unsent_answer_is_unfinished_until_message_is_redelivered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "inbox.db"
    first = Inbox(path)
    for key, answer in (("accepted", b"1"), ("silent", None), ("sent", b"3")):
        first.accept(key, "a", b"message")
        first.end(key, "a", answer)
    first.start([("comes again", "a")])
    first.end("comes again", "a", b"4")
    first.flush()
    first.note_answered("sent", "a")
    first.close()
    second = Inbox(path)
    assert second.unfinished("a") == [InboxEntry("accepted", FINISHED, None, b"1")]
    second.note_answered("accepted", "a")
    assert second.unfinished("a") == []
    assert second.look_up("accepted", "a") == InboxEntry("accepted", FINISHED, None, b"1")
    second.close()


def test_inbox_permit_keeps_the_permitted_message(inbox: Inbox) -> None:
    inbox.accept("k", "a", b"message")
    for key in ("k", "never accepted"):
        inbox.permit(key, "a", b"permitted")
        assert inbox.look_up(key, "a") == InboxEntry(key, ACCEPTED, b"permitted", None)
    inbox.start([("k", "a")])
    inbox.permit("k", "a", b"again")
    assert inbox.look_up("k", "a") == InboxEntry("k", STARTED, b"permitted", None)
    inbox.end("k", "a", None)
    inbox.permit("k", "a", b"again")
    assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, None)


def test_inbox_redelivery_never_moves_an_entry_back(inbox: Inbox) -> None:
    inbox.accept("k", "a", b"message")
    inbox.accept("k", "a", b"another")
    assert inbox.look_up("k", "a") == InboxEntry("k", ACCEPTED, b"message", None)
    inbox.start([("k", "a")])
    inbox.start([("k", "a")])
    inbox.accept("k", "a", b"another")
    assert inbox.look_up("k", "a") == InboxEntry("k", STARTED, b"message", None)
    inbox.end("k", "a", b"answer")
    for written in (False, True):
        if written:
            inbox.flush()
        inbox.start([("k", "a")])
        inbox.accept("k", "a", b"message")
        assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, b"answer")
        inbox.note_answered("k", "a")
        assert inbox.unfinished("a") == []


def test_inbox_accept_after_start_adds_the_message(inbox: Inbox) -> None:
    inbox.start([("k", "a")])
    inbox.accept("k", "a", b"message")
    assert inbox.unfinished("a") == [InboxEntry("k", STARTED, b"message", None)]


def test_inbox_end_without_a_start_is_kept(inbox: Inbox) -> None:
    inbox.end("k", "a", b"answer")
    inbox.flush()
    assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, b"answer")


def test_inbox_holds_many_at_once(inbox: Inbox) -> None:
    pairs = [(f"k{n}", f"a{n % 3}") for n in range(1000)]
    inbox.start(pair for pair in pairs)
    for key, agent in pairs[::2]:
        inbox.end(key, agent, key.encode())
    inbox.start([("last", "a")])
    for n, (key, agent) in enumerate(pairs):
        entry = inbox.look_up(key, agent)
        assert entry is not None
        assert entry.state == (STARTED if n % 2 else FINISHED)
        assert entry.answer == (None if n % 2 else key.encode())


def test_inbox_keeps_a_message_to_two_agents_as_two(inbox: Inbox) -> None:
    inbox.accept("k", "a", b"message")
    inbox.start([("k", "b")])
    assert inbox.look_up("k", "c") is None
    inbox.end("k", "b", b"b's")
    assert inbox.look_up("k", "a") == InboxEntry("k", ACCEPTED, b"message", None)
    assert inbox.look_up("k", "b") == InboxEntry("k", FINISHED, None, b"b's")
    assert [entry.key for entry in inbox.unfinished("a")] == ["k"]
    assert inbox.unfinished("b") == []
    inbox.end("k", "a", None)
    inbox.flush()
    assert inbox.look_up("k", "a") == InboxEntry("k", FINISHED, None, None)


def test_inbox_unfinished_are_in_the_order_accepted(inbox: Inbox) -> None:
    keys = [f"{n * 7919 % 100:02}" for n in range(100)]
    for key in keys:
        inbox.accept(key, "a", key.encode())
        inbox.accept(key, "other", b"")
    inbox.start((key, "a") for key in reversed(keys[:50]))
    for key in keys[::3]:
        inbox.end(key, "a", None)
    left = [key for n, key in enumerate(keys) if n % 3]
    for _ in range(2):
        found = inbox.unfinished("a")
        assert [entry.key for entry in found] == left
        assert all(entry.message == entry.key.encode() for entry in found)
        assert {entry.state for entry in found if entry.key in keys[50:]} == {ACCEPTED}
        assert {entry.state for entry in found if entry.key in keys[:50]} == {STARTED}
        inbox.flush()


def test_inbox_forget_removes_old_ended_entries_up_to_at_most(inbox: Inbox) -> None:
    for n in range(100):
        inbox.start([(f"k{n}", "a")])
        if n % 10:
            inbox.end(f"k{n}", "a", b"answer")
    inbox.accept("accepted", "a", b"message")
    assert inbox.forget(3600) == 0
    assert inbox.forget(0, at_most=0) == 0
    assert inbox.forget(0, at_most=40) == 40
    gone = [n for n in range(100) if inbox.look_up(f"k{n}", "a") is None]
    assert gone == [n for n in range(100) if n % 10][:40]  # the oldest
    assert inbox.forget(0) == 50
    assert inbox.forget(0) == 0
    for n in range(0, 100, 10):
        assert inbox.look_up(f"k{n}", "a") == InboxEntry(f"k{n}", STARTED, None, None)
    assert [entry.key for entry in inbox.unfinished("a")] == ["accepted"]
    inbox.start([("k1", "a")])  # as if it had never come
    assert inbox.look_up("k1", "a") == InboxEntry("k1", STARTED, None, None)


def test_inbox_forget_passes_entries_still_running(inbox: Inbox) -> None:
    inbox.start((f"long {n}", "a") for n in range(50))
    for n in range(50):
        inbox.start([(f"short {n}", "a")])
        inbox.end(f"short {n}", "a", None)
    assert inbox.forget(0, at_most=10) == 10
    assert inbox.forget(0, at_most=1000) == 40


def test_inbox_forget_removes_entries_ended_under_a_clock_set_ahead(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as ahead:
        wrong = time.time() + 1e9
        ahead.setattr(time, "time", lambda: wrong)
        for n in range(50):
            inbox.end(f"ahead {n}", "a", None)
        inbox.flush()
    inbox.end("now", "a", None)
    assert [inbox.forget(3600, at_most=30) for _ in range(3)] == [30, 20, 0]
    assert inbox.look_up("now", "a") == InboxEntry("now", FINISHED, None, None)


@pytest.mark.parametrize("name", ("", "é\0'; --", "x" * 255, "日本語"))
def test_inbox_name_of_any_text_is_only_a_name(inbox: Inbox, name: str) -> None:
    inbox.accept(name, name, b"message")
    inbox.end("k", name, b"answer")
    inbox.flush()
    assert inbox.look_up(name, name) == InboxEntry(name, ACCEPTED, b"message", None)
    assert inbox.unfinished(name) == [InboxEntry(name, ACCEPTED, b"message", None)]


def test_inbox_durable_is_true_only_with_a_file(path: Path) -> None:
    assert Inbox().durable is False
    with_file = Inbox(path)
    assert with_file.durable is True
    with_file.close()


# -- without a file --------------------------------------------------------------------------------


def test_inbox_in_memory_bounds_bytes_of_answers() -> None:
    inbox = Inbox()
    for number in range(100):
        inbox.end(str(number), "a", b"x" * 2**20)
    known = [number for number in range(100) if inbox.look_up(str(number), "a")]
    assert known == [*range(36, 100)]
    inbox.end("last", "a", b"x" * 2**27)
    assert inbox.look_up("last", "a") is not None
    assert inbox.look_up("99", "a") is None


def test_inbox_in_memory_keeps_the_last_hundred_thousand_ended_entries() -> None:
    inbox = Inbox()
    for n in range(230_000):
        inbox.start([(str(n), "a")])
        inbox.end(str(n), "a", b"answer")
        inbox.flush()
    known = [n for n in range(230_000) if inbox.look_up(str(n), "a") is not None]
    assert known == list(range(130_000, 230_000))
    assert inbox.look_up("229999", "a") == InboxEntry("229999", FINISHED, None, b"answer")
    assert inbox.look_up("229999", "b") is None
    inbox.close()


# -- in a file -------------------------------------------------------------------------------------

LIVE = """
import os, signal, sys
from moothall.spaces.amqp.inbox import Inbox
inbox = Inbox(sys.argv[1])
def die(): os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, program: str) -> None:
    """Run a program on the inbox, which kills itself."""
    done = run(path, code=LIVE + program)
    assert done.stderr == ""
    assert done.returncode == -signal.SIGKILL


def test_inbox_file_keeps_entries_after_close(path: Path) -> None:
    first = Inbox(path)
    first.accept("accepted", "a", b"message")
    first.start([("started", "a"), ("ended", "a")])
    first.end("ended", "a", b"answer")
    first.close()
    first.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    second = Inbox(path)
    assert second.look_up("accepted", "a") == InboxEntry("accepted", ACCEPTED, b"message", None)
    assert second.look_up("started", "a") == InboxEntry("started", STARTED, None, None)
    assert second.look_up("ended", "a") == InboxEntry("ended", FINISHED, None, b"answer")
    assert second.forget(3600) == 0
    assert second.forget(0) == 1
    second.close()


@pytest.mark.parametrize(
    ("program", "states"),
    (
        ("inbox.start([('k', 'a')]); die()", [STARTED, None]),
        ("inbox.start([('k', 'a')]); inbox.end('k', 'a', b'x'); die()", [STARTED, None]),
        (
            "inbox.start([('k', 'a')]); inbox.end('k', 'a', b'x'); inbox.flush(); die()",
            [FINISHED, None],
        ),
        (
            "inbox.start([('k', 'a')]); inbox.end('k', 'a', b'x')\n"
            "inbox.start([('l', 'a')]); die()",
            [FINISHED, STARTED],
        ),
        ("inbox.accept('k', 'a', b'message'); die()", [ACCEPTED, None]),
        (
            "inbox.accept('k', 'a', b'm'); inbox.start([('k', 'a'), ('l', 'a')]); die()",
            [STARTED] * 2,
        ),
    ),
)
def test_inbox_file_keeps_written_entries_when_process_is_killed(
    path: Path, program: str, states: list[int | None]
) -> None:
    killed(path, program)
    inbox = Inbox(path)
    found = [inbox.look_up(key, "a") for key in "kl"]
    assert [None if entry is None else entry.state for entry in found] == states
    assert [entry.key for entry in inbox.unfinished("a")] == ["k"] * ("accept" in program)
    inbox.close()


def test_inbox_file_killed_at_any_moment_keeps_every_reported_start(path: Path) -> None:
    program = (
        LIVE + "n = 0\n"
        "while True:\n"
        "    key = f'{sys.argv[2]} {n}'\n"
        "    inbox.start([(key, 'a')])\n"
        "    print(n, flush=True)\n"
        "    inbox.end(key, 'a', key.encode())\n"
        "    n += 1\n"
    )
    for round in range(3):
        process = Command(path, round, code=program, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = -1
        for line in process.stdout:
            told = int(line)
            if told >= 3000 + 997 * round:
                process.send_signal(signal.SIGKILL)
                break
        told = max([told, *(int(line) for line in process.stdout.read().split("\n") if line)])
        process.stdout.close()
        assert process.wait(50) == -signal.SIGKILL
        inbox = Inbox(path)
        for n in range(told):
            key = f"{round} {n}"
            assert inbox.look_up(key, "a") == InboxEntry(key, FINISHED, None, key.encode())
        last = inbox.look_up(f"{round} {told}", "a")
        assert last is not None
        # It may have been killed between the next start and telling of it.
        after = inbox.look_up(f"{round} {told + 1}", "a")
        assert last.state == (STARTED if after is None else FINISHED)
        assert after is None or after.state == STARTED
        assert inbox.look_up(f"{round} {told + 2}", "a") is None
        inbox.close()


def test_inbox_file_in_use_refuses_a_second_process(path: Path) -> None:
    program = LIVE + "inbox.start([('k', 'a')])\nprint('ready', flush=True)\nsys.stdin.read()\n"
    pipe = subprocess.PIPE
    process = Command(path, code=program, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        with pytest.raises(
            InboxError,
            match=r"inbox\.db': it is used by another process; give each process an inbox of its",
        ):
            Inbox(path)
    process.kill()
    assert process.wait(50) == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()
    inbox = Inbox(path)
    assert inbox.look_up("k", "a") == InboxEntry("k", STARTED, None, None)
    inbox.close()


def test_inbox_file_in_use_refuses_a_second_inbox_and_keeps_the_lock(path: Path) -> None:
    inbox = Inbox(path)
    (path.parent / "link.db").symlink_to(path)
    for name in (path, path.parent / "link.db"):
        with pytest.raises(InboxError, match="it is used already in this process; give each"):
            Inbox(name)
    done = commands.run(path, code=LIVE)
    assert "it is used by another process" in done.stderr
    inbox.close()
    Inbox(path).close()


def test_inbox_garbage_collected_releases_file(path: Path) -> None:
    inbox = Inbox(path)
    inbox.start([("k", "a")])
    del inbox
    gc.collect()
    again = Inbox(path)
    assert again.look_up("k", "a") is not None
    again.close()


def test_inbox_in_forked_child_refuses_and_parent_keeps_the_lock(path: Path) -> None:
    program = LIVE + (
        "inbox.start([('before', 'a')])\n"
        "inbox.end('before', 'a', b'x')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        Inbox(sys.argv[1])\n"
        "    except Exception as error:\n"
        "        print(error, flush=True)\n"
        "    sys.exit(7)\n"
        "assert os.waitpid(pid, 0)[1] == 7 << 8\n"
        "inbox.start([('after', 'a')])\n"
        "die()\n"
    )
    done = commands.run(path, code=program)
    assert done.stderr == ""
    assert done.stdout.count("it is used by another process") == 1
    inbox = Inbox(path)
    assert inbox.look_up("before", "a") == InboxEntry("before", FINISHED, None, b"x")
    assert inbox.look_up("after", "a") == InboxEntry("after", STARTED, None, None)
    inbox.close()


def test_inbox_closed_refuses_every_call(path: Path) -> None:
    inbox = Inbox(path)
    inbox.close()
    for use in (
        lambda: inbox.look_up("k", "a"),
        lambda: inbox.accept("k", "a", b""),
        lambda: inbox.start([("k", "a")]),
        lambda: inbox.end("k", "a", None),
        lambda: inbox.unfinished("a"),
        lambda: inbox.forget(0),
    ):
        with pytest.raises(InboxError, match=r"inbox\.db': it was closed: make a new Inbox"):
            use()


def test_inbox_start_that_fails_half_way_starts_nothing(path: Path) -> None:
    inbox = Inbox(path)
    inbox.start([("ended", "a")])
    inbox.end("ended", "a", b"answer")

    def pairs() -> Iterator[tuple[str, str]]:
        yield "first", "a"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        inbox.start(pairs())
    assert inbox.look_up("first", "a") is None
    inbox.start([("second", "a")])
    inbox.close()
    inbox = Inbox(path)
    assert inbox.look_up("first", "a") is None
    assert inbox.look_up("second", "a") == InboxEntry("second", STARTED, None, None)
    assert inbox.look_up("ended", "a") == InboxEntry("ended", FINISHED, None, b"answer")
    inbox.close()


FULL = (
    LIVE
    + """
import resource
from moothall.foundation.errors import InboxError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
room(200_000)  # for the file and for its log: what is past it is not written
started, ended, n = [], [], 0
while True:
    key = f'k{n}'
    try:
        inbox.start([(key, 'a'), (key, 'b')])
    except InboxError as error:
        told = str(error)
        break
    started.append(key)
    inbox.end(key, 'a', key.encode() * 100)
    n += 1
assert 'inbox.db' in told and ' and try again' in told, told
assert n > 10
def check():
    for key in started:
        assert inbox.look_up(key, 'a').answer == key.encode() * 100
        assert inbox.look_up(key, 'b').state == 1
    assert inbox.look_up(f'k{n}', 'a') is inbox.look_up(f'k{n}', 'b') is None
check()
for fail in (inbox.flush, lambda: inbox.accept('accepted', 'a', b'x' * 10_000),
             lambda: inbox.start([(f'k{n}', 'a')])):
    try:
        fail()
    except InboxError:
        continue
    raise AssertionError('there was room')
check()
assert inbox.unfinished('a') == []
"""
)


@pytest.mark.parametrize(
    "program",
    (
        # There is room again, and it goes on.
        "room(resource.RLIM_INFINITY)\n"
        "inbox.start([('last', 'a')])\n"
        "check()\n"
        "inbox.accept('accepted', 'a', b'x' * 10_000)\n"
        "print(n)\nsys.stdout.flush()\ndie()\n",
        # It is killed before there is.
        "print(n)\nsys.stdout.flush()\ndie()\n",
        # It is closed before there is: that says so, and lets go of the file.
        "try:\n    inbox.close()\nexcept InboxError:\n"
        "    Inbox(sys.argv[1])\n    print(n)\n    sys.stdout.flush()\n    die()\n",
    ),
)
def test_inbox_on_a_full_disk_keeps_what_it_reported(path: Path, program: str) -> None:
    done = commands.run(path, code=FULL + program)
    assert done.stderr == ""
    assert done.returncode == -signal.SIGKILL
    count = int(done.stdout)
    inbox = Inbox(path)
    for n in range(count):
        key = f"k{n}"
        entry = inbox.look_up(key, "a")
        # The last end was never written where no room came.
        ended = n < count - 1 or "last" in program
        assert entry == InboxEntry(
            key, *((FINISHED, None, key.encode() * 100) if ended else (1, None, None))
        )
        assert inbox.look_up(key, "b") == InboxEntry(key, STARTED, None, None)
    assert inbox.look_up(f"k{count}", "a") is inbox.look_up(f"k{count}", "b") is None
    assert len(inbox.unfinished("a")) == ("last" in program)
    inbox.start([("on", "a")])
    inbox.close()


@pytest.mark.long
def test_inbox_forget_keeps_file_and_memory_bounded(path: Path) -> None:
    inbox = Inbox(path)
    sizes, grown = [], []
    for round in range(30):
        for n in range(10_000):
            key = f"sender {n % 4} {round:04} {n:06}"
            inbox.start([(key, "a")])
            inbox.end(key, "a", b"x" * 100)
            if n % 1000 == 0:
                inbox.forget(0, 1000)
        sizes.append(path.stat().st_size)
        grown.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert max(sizes) < 10_000_000
    assert grown[-1] < grown[2] + 20_000
    inbox.close()
