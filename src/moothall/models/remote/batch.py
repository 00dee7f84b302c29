"""Batches: requests that a provider answers within a day, in any order, at half the price."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from moothall.budget.bill import CALL_CONTEXT
from moothall.foundation.errors import ModelError
from moothall.foundation.http import HTTPError, is_transient, tries_note
from moothall.models.remote.responses_format import is_response

logger: logging.Logger = logging.getLogger("moothall.models")

EXPIRED: Final = 0
CANCELLED: Final = -1
_COLLECT_S = 0.25  # a batch is sent when no request has come for so long
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0  # between two looks at a batch
_MAX_REQUESTS, _MAX_BYTES = 10_000, 50 * 2**20  # of requests in a batch


class KeptCall(Protocol):
    """A recorded call of a model, which the process that resumes its run makes again."""

    @property
    def goes_on(self) -> bool:
        """Whether the run is resumed if it is cancelled now."""
        ...

    def take_kept(self) -> dict[str, Any] | None:
        """Return what an earlier process kept for this call, once."""
        ...

    async def keep(self, data: dict[str, Any]) -> None:
        """Keep data; return when it is in the file."""
        ...


class Outcome(NamedTuple):
    """What a batch says of a request: a status of HTTP, EXPIRED or CANCELLED, and a body."""

    status: int
    body: bytes = b""


class BatchServer(Protocol):
    """The batches of a provider."""

    async def create(self, requests: dict[str, bytes]) -> str:
        """Send requests by their ids; return the id of the batch."""
        ...

    async def poll(self, batch: str) -> tuple[dict[str, Outcome], Outcome] | None:
        """Return the outcomes and that of requests without one; None while it is under way."""
        ...

    async def cancel(self, batch: str) -> None:
        """Cancel a batch."""
        ...


@dataclass(eq=False, slots=True)
class _BatchRequest:
    content: bytes
    answer: asyncio.Future[Outcome]
    call: KeptCall | None
    id: str = field(default_factory=lambda: f"r-{secrets.token_hex(8)}")
    tries: int = 1
    is_adopted: bool = False  # another process sent it
    batch_id: str = ""


@dataclass(eq=False, slots=True)
class _LoopQueue:
    """The requests of one event loop: those that come next, and those of each batch."""

    unsent: list[_BatchRequest] = field(default_factory=list)
    sent_by_batch: dict[str, list[_BatchRequest]] = field(default_factory=dict)
    waiting_counts: dict[str, int] = field(default_factory=dict)  # how many still want an answer
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        # Without the context of the request that happened to be the first.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Batches:
    """Sends a model's requests in batches: those that are made at about the same time together."""

    def __init__(self, name: str, server: BatchServer, max_retries: int) -> None:
        self._name, self._server, self._max_retries = name, server, max_retries
        self._queues: WeakKeyDictionary[Any, _LoopQueue] = WeakKeyDictionary()

    async def ask(self, content: bytes) -> Outcome:
        """Return what came of a request: an answer or a refusal.

        A batch whose requests are all cancelled is cancelled, unless their runs go on later.
        """
        loop, call = asyncio.get_running_loop(), CALL_CONTEXT.get().step
        queue = self._queues.setdefault(loop, _LoopQueue())
        request = _BatchRequest(content, loop.create_future(), call)
        resumed = None if call is None else call.take_kept()
        if resumed is not None and resumed.get("model") == self._name:
            request.id, request.is_adopted = str(resumed["item"]), True
            await self._follow(queue, str(resumed["batch"]), [request])
        else:
            self._add(queue, request)
        try:
            return await request.answer
        except asyncio.CancelledError:
            if request in queue.unsent:
                queue.unsent.remove(request)
            elif request.batch_id in queue.waiting_counts:
                queue.waiting_counts[request.batch_id] -= 1
                await self._cancel_unwanted(queue, request.batch_id)
            raise

    def _add(self, queue: _LoopQueue, request: _BatchRequest) -> None:
        queue.unsent.append(request)
        if len(queue.unsent) == 1:
            queue.start(self._send_soon(queue))

    async def _send_soon(self, queue: _LoopQueue) -> None:
        ready_count = 0
        while ready_count != len(queue.unsent):
            ready_count = len(queue.unsent)
            await asyncio.sleep(_COLLECT_S)
        new, queue.unsent = queue.unsent, []
        for group in _batch_groups(sorted(new, key=lambda each: is_response(each.content))):
            try:
                batch = await self._server.create({each.id: each.content for each in group})
            except Exception as error:
                _fail_all(group, error)
                continue
            logger.info("%s: batch %s has %d requests", self._name, batch, len(group))
            recorded_calls = [(each.call, each.id) for each in group if each.call is not None]
            attributes = {"model": self._name, "batch": batch}
            saves = [call.keep({**attributes, "item": id}) for call, id in recorded_calls]
            for result in await asyncio.gather(*saves, return_exceptions=True):
                if isinstance(result, Exception):  # a journal that cannot be written
                    _fail_all(group, result)
            await self._follow(queue, batch, group)

    async def _follow(self, queue: _LoopQueue, batch: str, requests: list[_BatchRequest]) -> None:
        for each in requests:
            each.batch_id = batch
        queue.waiting_counts.setdefault(batch, 0)
        queue.waiting_counts[batch] += sum(not each.answer.done() for each in requests)
        if batch not in queue.sent_by_batch:
            queue.sent_by_batch[batch] = []
            queue.start(self._watch(queue, batch))
        queue.sent_by_batch[batch] += requests
        await self._cancel_unwanted(queue, batch)

    async def _cancel_unwanted(self, queue: _LoopQueue, batch: str) -> None:
        requests = queue.sent_by_batch[batch]
        if queue.waiting_counts[batch] or any(each.call and each.call.goes_on for each in requests):
            return
        with suppress(HTTPError, ModelError):  # it ends by itself
            await self._server.cancel(batch)
            logger.info("%s: batch %s is cancelled", self._name, batch)

    async def _watch(self, queue: _LoopQueue, batch: str) -> None:
        """Look at a batch until it is over, and tell each of its requests what came of it."""
        pause = _FIRST_PAUSE_S
        try:
            while (outcomes_and_default := await self._poll(batch)) is None:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        except Exception as error:
            _fail_all(queue.sent_by_batch[batch], error)
            outcomes_and_default = {}, Outcome(CANCELLED)
        outcomes, default_outcome = outcomes_and_default
        queue.waiting_counts.pop(batch)
        for request in queue.sent_by_batch.pop(batch):
            self._settle(queue, request, outcomes.get(request.id, default_outcome), batch)

    async def _poll(self, batch: str) -> tuple[dict[str, Outcome], Outcome] | None:
        try:
            return await self._server.poll(batch)
        except (HTTPError, ModelError) as error:
            status = getattr(error, "status", None)
            if status == 404:  # the provider keeps no batch for ever
                return {}, Outcome(EXPIRED)
            if isinstance(error, ModelError) and not (status and is_transient(status)):
                raise
            logger.warning("%s: batch %s cannot be seen now: %s", self._name, batch, error)
            return None

    def _settle(
        self, queue: _LoopQueue, request: _BatchRequest, outcome: Outcome, batch: str
    ) -> None:
        if request.answer.done():
            return
        has_failed = outcome.status in (EXPIRED, CANCELLED) or is_transient(outcome.status)
        if not has_failed:
            request.answer.set_result(outcome)
        elif outcome.status == CANCELLED and not request.is_adopted:
            request.answer.set_exception(ModelError(f"{self._name}: batch {batch} was cancelled"))
        elif request.tries <= self._max_retries:
            request.tries, request.is_adopted = request.tries + 1, False
            self._add(queue, request)
        elif outcome.status == EXPIRED:
            reason = f"{self._name}: batch {batch} expired before this was answered"
            request.answer.set_exception(ModelError(f"{reason}{tries_note(request.tries)}"))
        else:
            request.answer.set_result(outcome)


def _batch_groups(requests: list[_BatchRequest]) -> Iterator[list[_BatchRequest]]:
    """Yield groups of requests that a batch can hold."""
    group, size = list[_BatchRequest](), 0
    for each in requests:
        size += len(each.content)
        is_full = len(group) == _MAX_REQUESTS or size > _MAX_BYTES
        # The Responses API is another address.
        if group and (is_full or is_response(each.content) != is_response(group[0].content)):
            yield group
            group, size = [], len(each.content)
        group.append(each)
    if group:
        yield group


def _fail_all(requests: list[_BatchRequest], error: Exception) -> None:
    if isinstance(error, ModelError):
        error.of_content = False  # it is of the batch
    for each in requests:
        if not each.answer.done():
            each.answer.set_exception(error)
