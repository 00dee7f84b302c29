"""Threads: workers, waiting across threads and loops, locks, and what a forked child renews."""

from moothall.threads.locks import guard, in_child, renewed
from moothall.threads.user_functions import (
    DATA,
    awaited,
    called,
    in_worker,
    is_async,
    plain_or_async,
)
from moothall.threads.waiting import Channel, WaitingLine, settle, side_by_side
from moothall.threads.workers import (
    WORKERS,
    WorkerThreads,
    is_cancelled,
    loop_is_running,
    refuse_on_loop,
)

__all__ = [
    "DATA",
    "WORKERS",
    "Channel",
    "WaitingLine",
    "WorkerThreads",
    "awaited",
    "called",
    "guard",
    "in_child",
    "in_worker",
    "is_async",
    "is_cancelled",
    "loop_is_running",
    "plain_or_async",
    "refuse_on_loop",
    "renewed",
    "settle",
    "side_by_side",
]
