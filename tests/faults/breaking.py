"""The faults: each breaks a trial under way, and returns when it is mended."""

from __future__ import annotations

import threading

import pika

from faults.process import Rivals
from faults.trial import HEARTBEAT_S, Trial
from faults.worker import ID


def kill_worker(trial: Trial) -> None:
    """The worker is killed, and started again."""
    trial.worker.kill()
    trial.look_into_inbox()
    trial.worker.start()


def kill_workers(trial: Trial, times: int) -> None:
    """Of the processes behind one id, one is killed each second, and started again."""
    clock = threading.Event()
    for _ in range(times):
        one = trial.random.randrange(len(trial.workers))
        trial.workers[one].kill()
        trial.look_into_inbox(one)
        trial.workers[one].start()
        clock.wait(1.0)


def kill_broker(trial: Trial) -> None:
    """The broker is killed, and started again."""
    trial.broker.kill()
    trial.lost()
    trial.broker.start()


def stop_broker(trial: Trial, seconds: float) -> None:
    """The broker is stopped for a while."""
    trial.broker.stop()
    trial.lost()
    threading.Event().wait(seconds)
    trial.broker.start()


def close_connections(trial: Trial) -> None:
    """The broker closes every connection."""
    trial.broker.close_connections()
    trial.lost()
    trial.worker.wait_to_say("is lost")


def cut(trial: Trial) -> None:
    """The network resets every connection."""
    trial.proxy.cut()
    trial.lost()


def stall(trial: Trial) -> None:
    """The network passes nothing on until both sides have given up."""
    trial.proxy.stall()
    trial.lost()
    trial.worker.wait_to_say("is lost")
    trial.proxy.resume()


def delete_queue(trial: Trial) -> None:
    """Somebody deletes the queue that the worker consumes."""
    parameters = pika.ConnectionParameters("127.0.0.1", trial.broker.port)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_delete(trial.names.queue("agent", ID))
    trial.worker.wait_to_say("is gone from the broker")


def delete_answers(trial: Trial) -> None:
    """Somebody deletes the queue that the answers to requests come by."""
    names = trial.names
    parameters = pika.ConnectionParameters("127.0.0.1", trial.broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        copies = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(copies, names.exchange, names.key("agent", ID))
        for _, properties, _ in channel.consume(copies, auto_ack=True):
            if properties is not None and properties.reply_to is not None:  # it is a request
                process = properties.reply_to.removeprefix(names.key("reply", ""))
                channel.queue_delete(names.queue("reply", process))
                break
    trial.lost()


def claim_id(trial: Trial) -> None:
    """Two other processes want the worker's id at once."""
    with Rivals(trial.broker.port, trial.names.exchange, ID) as rivals:
        rivals.wait()
        trial.hits()
        assert rivals.claim() == ["taken", "taken"]


def block(trial: Trial) -> None:
    """An action of the worker blocks for three heartbeats."""
    trial.load.block(3 * HEARTBEAT_S)
    assert trial.events == ["connected"]
    assert not trial.worker.said("is lost")


def fill_disk(trial: Trial) -> None:
    """The disk that the worker's inbox is on is full for a while."""
    trial.worker.tell("fill")
    trial.worker.wait_to_say("until its inbox can be written")
    trial.worker.tell("free")
