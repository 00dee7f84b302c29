"""A space for agents in one process."""

from __future__ import annotations

from typing import Final

from moothall.agent import Agent
from moothall.approval import Approver
from moothall.arguments import names_checked
from moothall.errors import ConfigError
from moothall.spaces.delivery import Delivery
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router
from moothall.spaces.space import MAILBOX, MAILBOX_BYTES, Space

_LONGEST_S: Final = 2_000_000


@names_checked
class NativeSpace(Space):
    """A space for agents in one process; nothing else is needed to run it.

    Args:
        approver: answers for the actions of policy `ACCESS_REQUESTED` of agents without their own
        mailbox: how many messages may wait for one agent
        mailbox_bytes: how many bytes these may have together
        grace: seconds that `close` lets started actions continue; None cancels them at once

    Raises:
        DefinitionError: an argument is not valid

    Example:
        >>> from moothall import Agent, NativeSpace, action
        >>> class Calculator(Agent):
        ...     @action
        ...     async def add(self, a: int, b: int) -> int:
        ...         return a + b
        >>> with NativeSpace() as space:
        ...     _ = space.add(Calculator("Calculator"))
        ...     me = space.add(Agent("me"))
        ...     me.ask("Calculator", "add", a=1, b=2).result(timeout=5)
        3
    """

    def __init__(
        self,
        *,
        approver: Approver | None = None,
        mailbox: int = MAILBOX,
        mailbox_bytes: int = MAILBOX_BYTES,
        grace: float | None = None,
    ) -> None:
        super().__init__(approver=approver, mailbox=mailbox, mailbox_bytes=mailbox_bytes)
        if grace is not None and (type(grace) not in (int, float) or not 0 <= grace <= _LONGEST_S):
            raise ConfigError(
                f"NativeSpace: grace= must be 0 to {_LONGEST_S:,} seconds or None, got {grace!r}"
            )
        self._grace_s = grace

    # Agents that keep something for each sender, and drop it when the sender leaves.
    _keepers: dict[str, Agent] | None = None

    def _add(self, agent: Agent, router: Router) -> Mailbox:
        mailbox = super()._add(agent, router)
        if hasattr(agent, "_sender_left"):
            if self._keepers is None:
                self._keepers = {}
            self._keepers[mailbox.id] = agent
        return mailbox

    def _took(self, mailbox: Mailbox, old: Agent) -> None:
        keepers = self._keepers
        if keepers is not None and keepers.get(mailbox.id) is old:
            keepers[mailbox.id] = mailbox.agent

    def _detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        super()._detach(mailbox, *spared)
        keepers = self._keepers
        if keepers is None or mailbox.router.ending:
            return
        if keepers.get(mailbox.id) is mailbox.agent:
            del keepers[mailbox.id]
        # What an agent asked others in the name of who left, they keep in threads of their own.
        left: list[tuple[str, str | None]] = [(mailbox.id, None)]
        for sender, thread in left:
            for id, keeper in list(keepers.items()):
                dropped = keeper._sender_left(sender, thread)  # type: ignore[attr-defined]
                left += [(id, each) for each in dropped]
