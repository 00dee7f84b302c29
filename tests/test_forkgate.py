"""A process may be forked while its threads use SQLite files, and its child use them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own: what hangs in a child is ended with it.
FORKS = """
import os, signal, sys, threading
from pathlib import Path
from civitas.memory import SQLiteMemory
from civitas.spaces.amqp.sqlite_inbox import SQLiteInbox

folder = Path(sys.argv[1])
over = threading.Event()

def remember(name):
    memory = SQLiteMemory(folder / "memory.db", name)
    while not over.is_set():
        memory.add_memory({"role": "user", "content": "x"})
        memory.get_memories()

def handle():
    inbox = SQLiteInbox(folder / "inbox.db")
    number = 0
    while not over.is_set():
        number += 1
        inbox.start([(str(number), "a")])
        inbox.look_up(str(number), "a")
    inbox.close()

threads = [threading.Thread(target=remember, args=(str(n),), daemon=True) for n in range(2)]
threads.append(threading.Thread(target=handle, daemon=True))
for thread in threads:
    thread.start()
for number in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        mine = SQLiteMemory(folder / f"{number}.db", "child")
        mine.add_memory({"role": "user", "content": "y"})
        mine = SQLiteMemory(folder / "memory.db", f"child {number}")
        mine.add_memory({"role": "user", "content": "y"})
        os._exit(0 if len(mine.get_memories()) == 1 else 2)
    _, status = os.waitpid(child, 0)
    assert status == 0, (number, status)
over.set()
for thread in threads:
    thread.join()
print("done")
"""


def test_children_use_what_their_parents_threads_are_using(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", FORKS, str(tmp_path), "40"),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_child_forked_in_the_midst_of_a_call_is_not_waited_for_in_vain(tmp_path: Path) -> None:
    """The thread that forks would wait for itself."""
    program = """
import os, sys, time
from civitas.forkgate import FORKS
with FORKS:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        with FORKS:
            os._exit(0)
    took = time.monotonic() - began
assert os.waitpid(child, 0)[1] == 0
assert took < 10
with FORKS:
    print("done")
"""
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_what_a_thread_does_as_it_forks_may_use_a_file(tmp_path: Path) -> None:
    """Hooks of other libraries come between; so may the collector, which closes files."""
    program = """
import os, sys
used = []
os.register_at_fork(before=lambda: used.append(len(memory.get_memories())))
from civitas.memory import SQLiteMemory
memory = SQLiteMemory(sys.argv[1], "mine")
child = os.fork()
if child == 0:
    os._exit(len(memory.get_memories()))
assert os.waitpid(child, 0)[1] == 0
print(used)
"""
    done = subprocess.run(
        (sys.executable, "-c", program, str(tmp_path / "memory.db")),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[0]\n"), done.stderr
