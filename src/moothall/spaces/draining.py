"""When nothing is under way any more: what `idle`, `drain` and the end of a space wait for."""

from __future__ import annotations

import asyncio

from moothall.foundation.text import counted
from moothall.spaces.delivery import CALLBACK
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router

POLL_INTERVAL_S = 0.01
"""How often it is looked at: handlers end without an event."""


def is_busy(mailbox: Mailbox) -> bool:
    """Return whether an agent handles a message."""
    return any(each.kind != CALLBACK for each in mailbox.active)


def count_under_way(mailbox: Mailbox) -> int:
    """Return how many messages an agent handles, or has waiting, those for approval included."""
    return mailbox.waiting() + len(mailbox.active) + len(mailbox.carried_tasks)


async def wait_until_drained(router: Router, grace_s: float) -> None:
    """Begin nothing new, and let what has begun end, within the grace time."""
    mailboxes = router.mailboxes
    for mailbox in list(mailboxes.values()):
        mailbox.closing = True
    until = router.loop.time() + grace_s
    while any(map(is_busy, list(mailboxes.values()))) and router.loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL_S)


async def wait_until_idle(
    router: Router, timeout: float | None = None, only: Mailbox | None = None
) -> dict[str, int]:
    """Wait until two looks at all mailboxes, or at `only` this one, find nothing under way.

    After `timeout` seconds, return how many messages still are, by agent.
    """
    clock = router.loop.time
    until = None if timeout is None else clock() + timeout
    quiet_looks = 0
    while True:
        mailboxes = list(router.mailboxes.values()) if only is None else [only]
        remaining = {
            mailbox.id: count for mailbox in mailboxes if (count := count_under_way(mailbox))
        }
        # Two looks, since one is not at one moment: what waited at the broker as the mailboxes were
        # looked at may be in one of them as the broker is asked.
        quiet_looks = 0 if remaining or not await router.arrived(mailboxes) else quiet_looks + 1
        if quiet_looks == 2 or (until is not None and clock() >= until):
            return remaining
        await asyncio.sleep(POLL_INTERVAL_S)


def summary(messages: dict[str, int]) -> str:
    """Return how many messages there are, and for which agents: `3 messages: 'a' 2, 'b' 1`."""
    if not messages:
        return "messages on their way"
    by_agent = sorted(messages.items(), key=lambda each: -each[1])
    listed = ", ".join(f"{id!r} {count}" for id, count in by_agent[:10])
    more = f", {len(by_agent) - 10} more agents" if len(by_agent) > 10 else ""
    return f"{counted(sum(messages.values()), 'message')}: {listed}{more}"
