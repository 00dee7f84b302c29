"""One run: a worker, a load, a fault in the middle, and what came of every message."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from faults.load import Load
from faults.process import Process, wait_for
from faults.record import read
from faults.worker import ID
from moothall import AMQPOptions, AMQPSpace
from moothall.spaces.amqp.amqp_options import Names

TOTAL = 1_000
WINDOW = 400
HEARTBEAT_S = 2

STARTED = 1


@dataclass(frozen=True)
class Counts:
    """What came of the messages of one run.

    Attributes:
        messages: how many were sent
        in_flight: how many of them had no outcome when the fault hit
        handled: how many have begun and ended, by the worker's record
        lost: how many neither began nor were reported as in doubt
        again: how many began more than once
        again_ended: how many of those had their outcome before the fault
        unrecorded: how many the inbox says had begun and not ended when the worker was killed
        in_doubt: how many the sender was told are in doubt
        dead: how many of those are in the dead letters
        unanswered: how many have no outcome
        answered_again: how many have more than one
        wrong: how many have another outcome than their value or that they are in doubt
        left: how many wait in the worker's queue when all is over
    """

    messages: int
    in_flight: int
    handled: int
    lost: int
    again: int
    again_ended: int
    unrecorded: int
    in_doubt: int
    dead: int
    unanswered: int
    answered_again: int
    wrong: int
    left: int


class Trial:
    """A worker and a load over one broker, or a cluster, for a fault to break.

    Attributes:
        broker: the broker, or a node of the cluster
        worker: the process of the worker
        workers: all of them, where several processes share its id
        proxy: the network before the broker, if there is one
        events: what happened to the sender's connection: `connected`, `lost`, …
    """

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        seed: int,
        *,
        proxy: Proxy | None = None,
        hostname: str,
        quorum: bool = False,
        kind: str = "plain",
        workers: int = 1,
        inbox: bool = True,
        sends: bool = True,
    ) -> None:
        self.broker = broker
        self._proxy = proxy
        self.random = random.Random(seed)
        self.names = Names(f"faults.{uuid4().hex}")
        self.events: list[str] = []
        self._kind = kind
        self._inboxes = [folder / f"inbox{n}.db" for n in range(workers)] if inbox else []
        self._record = folder / "record"
        self._unrecorded = 0
        self._before: set[int] = set()
        self._in_flight = 0
        settings = {
            "hostname": hostname,
            "heartbeat": HEARTBEAT_S,
            "quorum": quorum,
            "exchange": self.names.exchange,
            "inbox": None,
            "record": str(self._record),
            "shared": workers > 1,
        }
        self.workers: list[Process] = []
        try:
            for n in range(workers):
                inboxes = {"inbox": str(self._inboxes[n])} if inbox else {}
                self.workers.append(Process(settings | inboxes, folder / f"log{n}"))
            self.worker = self.workers[0]
            self.options = AMQPOptions(hostname, heartbeat=HEARTBEAT_S)
            self.space = AMQPSpace(
                amqp_options=self.options,
                quorum=quorum,
                exchange=self.names.exchange,
                grace=0,
                on_connection=lambda what, _: self.events.append(what),
            )
            self.load = Load(self.space, kind, sends, TOTAL, WINDOW, seed)
        except BaseException:
            for each in self.workers:
                each.kill()
            raise

    @property
    def proxy(self) -> Proxy:
        assert self._proxy is not None
        return self._proxy

    def lost(self) -> None:
        """Wait until the sender has seen that its connection is lost."""
        wait_for(lambda: "lost" in self.events, "the sender loses its connection")
        self.hits()

    def hits(self) -> None:
        """This is the moment of the fault: what is in flight now counts."""
        self._before = set(self.load.outcomes)
        self._in_flight = self.load.in_flight

    def look_into_inbox(self, worker: int = 0) -> None:
        """The worker is dead: see what it had begun and not ended."""
        if self._inboxes:
            inbox = self._inboxes[worker]
            copy = inbox.with_name("copy.db")
            for end in ("", "-wal"):
                shutil.copyfile(f"{inbox}{end}", f"{copy}{end}")
            with closing(sqlite3.connect(copy)) as file:
                query = "SELECT count(*) FROM inbox WHERE state = ?"
                self._unrecorded += file.execute(query, (STARTED,)).fetchone()[0]

    def run(self, fault: Callable[[Trial], None]) -> Counts:
        """Break it at a random moment, let it go on to its end, and count.

        Args:
            fault: breaks and mends it
        """
        self.load.reach(self.random.randrange(50, TOTAL - WINDOW), WINDOW // 2)
        self.hits()
        fault(self)
        self.load.finish()
        self.space.close()
        self.load.join()
        for each in self.workers:
            each.close()
        return self._count()

    def close(self) -> None:
        self.load.enough()
        self.space.close()
        for each in self.workers:
            each.kill()
        self.load.join()

    def _count(self) -> Counts:
        load, done = self.load, read(self._record)
        doubted = {
            key
            for key, outcomes in load.outcomes.items()
            if any("in doubt" in str(outcome) for outcome in outcomes)
        }
        again = {key for key in done.began if done.began[key] > 1}
        keys = range(load.sent)
        left, dead = self._at_the_broker()
        return Counts(
            messages=load.sent,
            in_flight=self._in_flight,
            handled=sum(bool(done.ended[key]) for key in keys),
            lost=sum(not done.began[key] and key not in doubted for key in keys),
            again=len(again),
            again_ended=len(again & self._before),
            unrecorded=self._unrecorded,
            in_doubt=len(doubted),
            dead=len(doubted & dead),
            unanswered=sum(not load.outcomes.get(key) for key in keys),
            answered_again=sum(len(load.outcomes[key]) > 1 for key in keys),
            wrong=sum(
                outcome != -key
                for key in keys
                if key not in doubted
                for outcome in load.outcomes[key]
            ),
            left=left,
        )

    def _at_the_broker(self) -> tuple[int, set[int]]:
        """How many messages wait for the worker, and which are in the dead letters."""
        dead: set[int] = set()
        parameters = pika.ConnectionParameters("127.0.0.1", self.broker.port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            queue = channel.queue_declare(self.names.queue("agent", ID), passive=True)
            left: int = queue.method.message_count
            while (got := channel.basic_get(self.names.dead_queue))[0] is not None:
                dead.add(json.loads(got[2])["action"]["args"]["key"])
        return left, dead


@contextmanager
def trial(broker: Broker, folder: Path, seed: int, **options: Any) -> Iterator[Trial]:
    with Proxy(broker.port) as proxy:
        hostname = f"127.0.0.1:{proxy.port}"
        with closing(Trial(broker, folder, seed, proxy=proxy, hostname=hostname, **options)) as it:
            yield it
