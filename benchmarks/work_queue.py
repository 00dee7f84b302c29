"""A work queue over RabbitMQ: one to eight processes, beside Celery and Dramatiq.

    python -m benchmarks.work_queue [--quick] [--peers PYTHON]

A private broker on loopback shares the machine's cores with the workers. For each number of
processes, messages wait in the queue; the workers start, and begin together once all have imported
what they need. The time counts from the first message that is handled to the last. All keep the
same promises: durable queues, persistent and confirmed messages, acknowledged after the work, ten
messages ahead for each process, no results. The work is to append a byte to a file. The works take
turns; `ratio` is the rate over Dramatiq's, `CPU` the processor time of a message in the workers and
in the broker, which depends little on what else the machine does.

`--peers` names a Python that has celery and dramatiq; without it they are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker import Broker

AHEAD = 10
PROCESSES = (1, 2, 4, 8)
WAIT_S = 120

OURS = """
import os, sys
from moothall import Agent, AMQPOptions, AMQPSpace, action
port, name, done, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
file = os.open(done, os.O_APPEND | os.O_WRONLY)
class Worker(Agent):
    @action(idempotent=True)
    async def work(self, n: int) -> None:
        os.write(file, b".")
space = AMQPSpace(
    amqp_options=AMQPOptions("127.0.0.1", port), exchange=name, prefetch=10, mailbox=10**6, grace=0
)
if count:
    worker = space.add(Worker("worker"), shared=True)
    space.close()
    with AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", port), exchange=name) as sending:
        me = sending.add(Agent("me"))
        for n in range(count):
            me.send({"to": "worker", "action": {"name": "work", "args": {"n": n}}})
else:
    print("ready", flush=True)
    sys.stdin.readline()
    space.add(Worker("worker"), shared=True)
    sys.stdin.read()
"""

CELERY = """
import os, sys
from celery import Celery
port, name, done, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
file = os.open(done, os.O_APPEND | os.O_WRONLY)
app = Celery("bench", broker=f"amqp://guest:guest@127.0.0.1:{port}//")
app.conf.update(
    task_default_queue=name, task_acks_late=True, worker_prefetch_multiplier=10,
    task_ignore_result=True, broker_transport_options={"confirm_publish": True},
    worker_hijack_root_logger=False,
)
@app.task(name="work")
def work(n):
    os.write(file, b".")
if count:
    for n in range(count):
        work.delay(n)
else:
    import celery.apps.worker, celery.concurrency.solo, celery.worker.consumer
    import kombu.transport.pyamqp
    print("ready", flush=True)
    sys.stdin.readline()
    app.worker_main([
        "worker", "--pool=solo", "--loglevel=ERROR", "--without-gossip", "--without-mingle",
        "--without-heartbeat", f"--hostname={os.getpid()}@bench",
    ])
"""

DRAMATIQ = """
import os, sys, time
os.environ["dramatiq_queue_prefetch"] = "10"
import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
port, name, done, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
file = os.open(done, os.O_APPEND | os.O_WRONLY)
broker = RabbitmqBroker(url=f"amqp://guest:guest@127.0.0.1:{port}", confirm_delivery=True)
dramatiq.set_broker(broker)
@dramatiq.actor(queue_name=name)
def work(n):
    os.write(file, b".")
if count:
    for n in range(count):
        work.send(n)
else:
    print("ready", flush=True)
    sys.stdin.readline()
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    sys.stdin.read()
"""


class Counted(NamedTuple):
    """A rate a second, and the processor time of a message, in seconds."""

    rate: float
    workers_s: float
    broker_s: float


def processor_s(pids: Iterable[int | None]) -> float:
    """How much processor time processes have taken."""
    taken = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        taken += int(fields[11]) + int(fields[12])
    return taken / os.sysconf("SC_CLK_TCK")


def rate(python: str, program: str, broker: Broker, processes: int, count: int) -> Counted:
    """How many messages a second so many processes handle, and what that takes."""
    with tempfile.TemporaryDirectory() as folder:
        done = Path(folder) / "done"
        done.touch()
        name = f"bench-{time.monotonic_ns()}"
        args = [python, "-c", program, str(broker.port), name, str(done)]
        subprocess.run([*args, str(count)], check=True, timeout=WAIT_S)
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        workers = [subprocess.Popen([*args, "0"], **how) for _ in range(processes)]
        pids = [each.pid for each in workers]
        try:
            for each in workers:
                if each.stdout is None or each.stdout.readline() != b"ready\n":
                    raise RuntimeError("a worker ended before it began")
            for each in workers:
                if each.stdin is not None:
                    each.stdin.write(b"\n")
                    each.stdin.flush()
            begun, first, tick = 0.0, 0, threading.Event()
            until = time.monotonic() + WAIT_S
            used = [0.0, 0.0]
            while (now := os.path.getsize(done)) < count:
                if now and not begun:
                    begun, first = time.monotonic(), now
                    used = [processor_s(pids), processor_s([broker.pid])]
                if time.monotonic() > until:
                    raise TimeoutError(f"{now} of {count} were handled in {WAIT_S} s")
                tick.wait(0.002)
            handled = count - first
            return Counted(
                handled / (time.monotonic() - begun),
                (processor_s(pids) - used[0]) / handled,
                (processor_s([broker.pid]) - used[1]) / handled,
            )
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer messages, one turn")
    parser.add_argument("--peers", help="a Python that has celery and dramatiq")
    parser.add_argument("--processes", type=int, action="append", help="only so many; repeatable")
    given = parser.parse_args()
    count, turns = (2_000, 1) if given.quick else (10_000, 3)
    works = {"moothall": (sys.executable, OURS)}
    if given.peers:
        works |= {"Celery": (given.peers, CELERY), "Dramatiq": (given.peers, DRAMATIQ)}
    with Broker() as broker:
        for processes in given.processes or PROCESSES:
            rates: dict[str, list[Counted]] = {name: [] for name in works}
            for _ in range(turns):
                for name, (python, program) in works.items():
                    rates[name].append(rate(python, program, broker, processes, count))
            found = {
                name: Counted(*map(statistics.median, zip(*each, strict=True)))
                for name, each in rates.items()
            }
            base = found.get("Dramatiq", found["moothall"]).rate
            for name, each in found.items():
                print(
                    f"{processes} processes, {name}: {each.rate:,.0f} a second, ratio "
                    f"{each.rate / base:.2f}, CPU {each.workers_s * 1e6:,.0f} us and "
                    f"{each.broker_s * 1e6:,.0f} us"
                )


if __name__ == "__main__":
    main()
