"""Agents of several processes that wait for each other: a warning names them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moothall.spaces.amqp.recorder import Ident, InFlight
from moothall.spaces.amqp.requests import OpenRequests
from moothall.spaces.deadlock import (
    RequestsByHandler,
    WaitGraph,
    find_cycle,
    find_stuck,
    note_request,
    wait_graph,
    waits_in_words,
)
from moothall.spaces.delivery import Delivery
from moothall.spaces.mailbox import Mailbox

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")


@dataclass(slots=True, eq=False, repr=False)
class DeadlockWatch:
    """Looks for agents that wait for each other, here and elsewhere. It runs on the loop."""

    requests: OpenRequests
    mailboxes: Mapping[str, Mailbox]
    in_flight: Mapping[Ident, InFlight]
    _suspects: frozenset[str] = frozenset()  # handlers that were found at the last look
    _warned_handlers: frozenset[str] = frozenset()
    _is_looking: bool = False

    def graph_here(self) -> WaitGraph:
        """Return who waits for whom in this process."""
        requests_by_handler: RequestsByHandler = {}
        for request in self.requests.deliveries():
            received = self.in_flight.get((request.key, request.envelope.to))
            note_request(requests_by_handler, request.parent, received or request)
        return wait_graph(list(self.mailboxes.values()), requests_by_handler)

    def report(self) -> dict[str, Any]:
        """Return what other processes are told of it: messages by key and agent."""
        waits_here = self.graph_here()
        blockers_behind = {each: way for each, way in waits_here.blockers.items() if each.hops > 1}
        return {
            "requests": _names_by_handler(waits_here.requests),
            "behind": _names_by_handler(blockers_behind),
            "agents": {
                id: [_message_name(each) for each in mailbox.blockers_of(None)]
                for id, mailbox in self.mailboxes.items()
            },
        }

    async def look(self) -> None:
        """Ask the other processes, if handlers here may wait for ever; warn the second time."""
        waits_here = self.graph_here()
        maybe_stuck = find_stuck(
            waits_here.requests,
            lambda each: waits_here.blockers.get(each, _blockers_elsewhere(each)),
        )
        may_block = any(
            each.hops > 1 and way and all(handler in maybe_stuck for handler in way)
            for each, way in waits_here.blockers.items()
        ) or any(each.mailbox is not None and each.mailbox.shared for each in maybe_stuck)
        if not may_block or self._is_looking:
            return
        self._is_looking = True
        try:
            answers = await self.requests.ask_processes(waits=True)
        finally:
            self._is_looking = False
        waits_everywhere = _WaitsEverywhere()
        for answer in answers:
            waits_everywhere.add(answer)
        stuck_names = find_stuck(waits_everywhere.requests, waits_everywhere.blockers_of)
        own_name = next(
            (name for each in maybe_stuck if (name := _message_name(each)) in stuck_names), None
        )
        pairs = (
            []
            if own_name is None
            else find_cycle(stuck_names, waits_everywhere.blockers_of, own_name)
        )
        suspects = frozenset(handler for handler, _ in pairs)
        # What was on its way at the first look has arrived before the second.
        if suspects and suspects == self._suspects and suspects != self._warned_handlers:
            self._warned_handlers = suspects
            ways = waits_in_words((_label(handler), _label(request)) for handler, request in pairs)
            logger.warning(
                "agents of several processes wait for each other until a deadline passes: %s; use "
                "send, or ask within one chain",
                ways,
            )
        self._suspects = suspects


@dataclass(slots=True, eq=False, repr=False)
class _WaitsEverywhere:
    """Who waits for whom in all processes."""

    requests: dict[str, list[str]] = field(default_factory=dict)
    blockers: dict[str, list[str]] = field(default_factory=dict)
    agents: dict[str, list[str]] = field(default_factory=dict)  # their handlers; none if free

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add what a process has told; nothing if it cannot be read."""
        try:
            waits = answer["waits"]
            requests, blockers, agents = (
                {str(key): [str(each) for each in values] for key, values in waits[part].items()}
                for part in ("requests", "behind", "agents")
            )
        except (LookupError, TypeError, AttributeError):
            return
        self.requests |= requests
        self.blockers |= blockers
        for id, handlers in agents.items():
            known_handlers = self.agents.get(id)  # a shared agent is in several
            self.agents[id] = (
                handlers
                if known_handlers is None
                else [*known_handlers, *handlers]
                if known_handlers and handlers
                else []
            )

    def blockers_of(self, request: str) -> Iterable[str]:
        """Return the handlers in the way of a request."""
        if request in self.blockers:
            return self.blockers[request]
        return self.agents.get("".join(request.split("\n")[1:2]), ())


def _blockers_elsewhere(request: Delivery) -> Iterable[Delivery] | None:
    """Return no handlers for a request that runs here; None for one of another process."""
    return () if isinstance(request, InFlight) else None


def _names_by_handler(requests: RequestsByHandler) -> dict[str, list[str]]:
    return {
        _message_name(each): [_message_name(other) for other in requested]
        for each, requested in requests.items()
    }


def _message_name(delivery: Delivery) -> str:
    """Return by what a message is known in all processes: its key, agent and action."""
    receiver = delivery.envelope.to if delivery.mailbox is None else delivery.mailbox.id
    parts = (delivery.key, receiver, delivery.envelope.name)
    return "\n".join(each.replace("\n", " ") for each in parts)


def _label(name: str) -> str:
    return ".".join(name.split("\n")[1:])
