"""Agents that wait for each other: none of their requests can ever start."""

from __future__ import annotations

from collections.abc import Iterable

from moothall.errors import Deadlock
from moothall.spaces.delivery import CALLBACK, QUEUED, REQUEST, Delivery
from moothall.spaces.mailbox import Mailbox

Waits = dict[Delivery, list[Delivery]]
"""By handler, the requests that it has made and that have not started."""


def deadlock(mailboxes: Iterable[Mailbox]) -> tuple[Delivery, Deadlock] | None:
    """Return a request of agents that wait for each other, and its error; None if there is none.

    An agent is blocked if all its places are taken by handlers that wait for requests alone, none
    of which has started. Blocked agents that wait for blocked agents alone stay so for ever.
    """
    waits: Waits = {}
    for mailbox in mailboxes:
        for delivery in mailbox.box:
            waiting = delivery.kind == REQUEST and delivery.state == QUEUED
            if waiting and delivery.parent is not None:
                waits.setdefault(delivery.parent, []).append(delivery)
    blocked = {mailbox: found for mailbox in mailboxes if (found := _blocking(mailbox, waits))}
    while free := [
        mailbox
        for mailbox, asked in blocked.items()
        if any(each.mailbox not in blocked for each in asked)
    ]:
        for mailbox in free:
            del blocked[mailbox]
    if not blocked:
        return None
    asked = [each for found in blocked.values() for each in found]
    ways = ", ".join(dict.fromkeys(f'"{each.parent}" waits for "{each}"' for each in asked[:5]))
    return asked[-1], Deadlock(
        f'"{asked[-1]}" cannot start, since agents wait for each other: {ways}; use send, or ask '
        "within one chain"
    )


def _blocking(mailbox: Mailbox, waits: Waits) -> list[Delivery]:
    """Return the requests that all places of an agent wait for; empty if one may become free."""
    handlers = [each for each in mailbox.active if each.kind != CALLBACK]
    if mailbox.paused or mailbox.running < mailbox.places:
        return []
    found = [waits.get(each, []) for each in handlers]
    # A handler that awaits more than these may go on.
    if any(not 0 < each.waiting <= len(asked) for each, asked in zip(handlers, found, strict=True)):
        return []
    return [each for asked in found for each in asked]
