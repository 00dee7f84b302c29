"""A model in this process: the threads that compute its answers, and the queue of requests.

A library's computation blocks, and can be stopped only between two pieces of an answer.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.foundation.errors import ModelError
from moothall.foundation.threads import Channel, ProcessBound, guard, in_child
from moothall.models.base import Closing
from moothall.models.protocol import ModelReply, StreamPart

EXIT_TIMEOUT_S: Final = 20.0
"""Seconds that the process's exit may wait for the piece that is being computed."""


@dataclass(eq=False, slots=True)
class Job:
    """A queued request; `deliver` takes parts of its answer, or an error, in any thread."""

    request: Any
    deliver: Callable[[Any], None]
    is_cancelled: bool = False  # its thread looks between two pieces


@dataclass(eq=False)
class InferenceEngine:
    """Computes answers in its own threads, up to `slots` at once."""

    name: str
    slots: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        self._lock = guard()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._active: set[Job] = set()
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._is_inherited = False  # from the process that this one was forked from
        in_child(self._inherit)

    def _inherit(self) -> None:
        self._is_inherited = True

    def run(self, job: Job) -> Any:
        """Compute an answer and deliver its pieces; return the whole, or None if cancelled."""
        raise NotImplementedError

    def unload(self, is_safe: bool) -> None:
        """Free the memory; `safe` means that no thread is inside the library any more."""
        raise NotImplementedError

    async def generate(self, request: Any) -> AsyncGenerator[StreamPart, None]:
        """Yield the pieces of an answer, and finally the whole; closed, it does not wait."""
        channel: Channel[StreamPart] = Channel()
        job = Job(request, channel.put)
        self._submit(job)
        try:
            while True:
                part = await channel.get()
                yield part
                if isinstance(part, ModelReply):
                    return
        finally:
            job.is_cancelled = True  # it ends with its next piece

    def compute_in_thread(self, request: Any) -> Any:
        """Wait in this thread for an answer without pieces."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._submit(Job(request, answers.put))
        answer = answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self, notifies: bool = True) -> None:
        """End running generations and free the memory; called once."""
        if self._is_inherited:
            self.unload(is_safe=False)  # the threads have stayed with the parent
            return
        with self._lock:
            self._is_closed = True
            for job in self._active:
                job.is_cancelled = True
                if notifies:
                    job.deliver(ModelError(f"{self.name} was closed while it was answering"))
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(EXIT_TIMEOUT_S)
        self.unload(is_safe=not any(thread.is_alive() for thread in self._threads))

    def _submit(self, job: Job) -> None:
        if self._is_inherited:
            raise ModelError(
                f"{self.name} was made in another process; create it again in this one"
            )
        with self._lock:
            if self._is_closed:
                raise ModelError(f"{self.name} is closed")
            self._active.add(job)
            if len(self._threads) < min(self.slots, len(self._active)):
                thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            end: Any = None
            try:
                if not job.is_cancelled:
                    end = self.run(job)
            except BaseException as error:
                end = error
            with self._lock:
                self._active.discard(job)
            if end is not None:
                job.deliver(end)
            # Keep no reference to the last job while waiting for the next.
            del job, end


class InProcess(ProcessBound, Closing, remedy="make it there: weights are mapped, not read twice"):
    """What asks an engine, and owns it."""

    in_process: Final = True

    def _own_engine(self, engine: InferenceEngine) -> None:
        self._engine = engine
        # Runs at the latest at the interpreter's exit, while its threads can still be joined.
        self._finalizer = weakref.finalize(self, engine.close, notifies=False)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """End what it computes and free the memory; once closed, it answers no more."""
        if self._finalizer.detach():
            self._engine.close()


@contextmanager
def patient_threads(spin_count: int) -> Iterator[None]:
    """Set the spin count of an OpenMP library, which reads it once, while its import runs."""
    # By default, its threads spin for milliseconds at every step. On a busy machine they keep the
    # thread that they wait for off its core. Threads that sleep at once must be woken, which on a
    # virtual machine may take as long as the step.
    is_set = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if not is_set:
        os.environ["GOMP_SPINCOUNT"] = str(spin_count)
    try:
        yield
    finally:
        if not is_set:
            os.environ.pop("GOMP_SPINCOUNT", None)
