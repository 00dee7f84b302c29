"""Agents that wait for each other: none of their requests can ever start."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

from moothall.foundation.errors import Deadlock
from moothall.spaces.delivery import CALLBACK, QUEUED, REQUEST, Delivery
from moothall.spaces.mailbox import Mailbox

K = TypeVar("K", bound=Hashable)

RequestsByHandler = dict[Delivery, list[Delivery]]
"""By handler, the requests that it has made and that have not ended."""

HandlersByRequest = dict[Delivery, list[Delivery]]
"""By request that has not started, the handlers of which one must end first."""


class WaitGraph(NamedTuple):
    """Who waits for whom in a process."""

    requests: RequestsByHandler  # those that a handler awaits
    blockers: HandlersByRequest


def requests_here(mailboxes: Iterable[Mailbox]) -> RequestsByHandler:
    """Return what handlers of a space in one process have requested."""
    requests: RequestsByHandler = {}
    for mailbox in mailboxes:
        for each in (*mailbox.queued(), *mailbox.active):
            if each.kind == REQUEST:
                note_request(requests, each.parent, each)
    return requests


def note_request(
    requests_by_handler: RequestsByHandler, handler: Delivery | None, request: Delivery
) -> None:
    """Add a request to those of the handler that has made it."""
    if handler is None or request.answered:
        return
    requests_by_handler.setdefault(handler, []).append(request)
    # A handler waits for what an agent does in its name elsewhere as it does for a request.
    if handler.kind == CALLBACK and handler not in requests_by_handler.get(
        handler.parent or handler, ()
    ):
        note_request(requests_by_handler, handler.parent, handler)


def wait_graph(mailboxes: Iterable[Mailbox], requests_by_handler: RequestsByHandler) -> WaitGraph:
    """Return who waits for whom."""
    blockers = {
        each: mailbox.blockers_of(each)
        for mailbox in mailboxes
        for each in mailbox.queued()
        if each.kind == REQUEST and each.state == QUEUED
    }
    # A handler that awaits more than its requests may go on.
    blocked = {
        each: requests
        for each, requests in requests_by_handler.items()
        if 0 < each.wait_count <= len(requests)
    }
    return WaitGraph(blocked, blockers)


def find_stuck(
    requests: dict[K, list[K]], blockers_of: Callable[[K], Iterable[K] | None]
) -> dict[K, list[K]]:
    """Return the handlers that can never go on, with their requests.

    `blockers_of` tells the handlers of which one must end before a request starts: none if it goes
    on by itself, and None if it does not as far as is known.
    """
    remaining = dict(requests)

    def goes_on(request: K) -> bool:
        if request in remaining:
            return False
        handlers = blockers_of(request)
        return handlers is not None and not (
            handlers and all(each in remaining for each in handlers)
        )

    while free_handlers := [
        each for each, blocking in remaining.items() if any(map(goes_on, blocking))
    ]:
        for each in free_handlers:
            del remaining[each]
    return remaining


def find_cycle(
    requests: dict[K, list[K]], blockers_of: Callable[[K], Iterable[K] | None], first: K
) -> list[tuple[K, K]]:
    """Return the handlers that wait for each other before a stuck one can go on.

    Each is with its request; those that only wait behind them are left out.
    """
    path: dict[K, K] = {}
    node = first
    while node not in path:
        request = path[node] = requests[node][0]
        node = request if request in requests else next(iter(blockers_of(request) or ()))
    pairs = [*path.items()]
    return pairs[[*path].index(node) :]


def find_deadlocks(graph: WaitGraph) -> Iterable[tuple[Delivery, Deadlock]]:
    """Yield requests without which all others go on, each with its error."""

    def blockers_of(request: Delivery) -> list[Delivery]:
        return graph.blockers.get(request, [])

    remaining = graph.requests
    while remaining := find_stuck(remaining, blockers_of):
        pairs = find_cycle(remaining, blockers_of, next(iter(remaining)))
        handler, request = next(pair for pair in pairs if pair[1] in graph.blockers)
        pairs_text = waits_in_words((str(each), str(request)) for each, request in pairs)
        yield (
            request,
            Deadlock(
                f'"{request}" cannot start, since agents wait for each other: {pairs_text}; use '
                "send, or ask within one chain"
            ),
        )
        remaining = {each: requests for each, requests in remaining.items() if each is not handler}


def waits_in_words(pairs: Iterable[tuple[str, str]]) -> str:
    """Return who waits for whom, in words: the first five."""
    waits = dict.fromkeys(f'"{handler}" waits for "{request}"' for handler, request in pairs)
    return ", ".join([*waits][:5])
