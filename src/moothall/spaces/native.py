"""A space for agents in one process."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

from moothall.actions.approval import Approver
from moothall.agents.agent import Agent
from moothall.foundation.arguments import check_seconds, names_checked
from moothall.spaces.delivery import Delivery
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.space import MAILBOX, MAILBOX_BYTES, Space

_MAX_ABSENT: Final = 1_000
"""How many senders that are no agents here are noted before they are forgotten."""


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

    is_one_process: bool = True
    """Whether all its messages end with the process: none is delivered again by a later one."""

    def __init__(
        self,
        *,
        approver: Approver | None = None,
        mailbox: int = MAILBOX,
        mailbox_bytes: int = MAILBOX_BYTES,
        grace: float | None = None,
    ) -> None:
        super().__init__(approver=approver, mailbox=mailbox, mailbox_bytes=mailbox_bytes)
        check_seconds("NativeSpace: grace=", grace, zero=True, optional=True)
        self.grace_s = grace

    # By sender, the agents that keep threads of it, which they drop when it leaves.
    _keepers: dict[str, WeakValueDictionary[str, Agent]] | None = None

    def note_agent(self, agent: Any) -> None:
        """Have an agent that has come note the senders of its threads here."""
        agent.note_senders()

    def note_keeper(self, agent: Agent, sender: str) -> None:
        """Note that an agent keeps a thread of a sender; empty for an unknown one."""
        keepers = self._keepers
        if keepers is None:
            keepers = self._keepers = {}
        if sender not in keepers:
            mailboxes = {} if self._router is None else self._router.mailboxes
            senders = () if self._router is None else self._router.senders
            # Threads of a program, not of agents.
            if len(keepers) > 2 * len(mailboxes) + _MAX_ABSENT:
                retained = (
                    (id, each)
                    for id, each in list(keepers.items())
                    if id in mailboxes or id in senders or not id
                )
                keepers = self._keepers = dict(retained)
            keepers[sender] = WeakValueDictionary()
        keepers[sender][str(agent.id)] = agent

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Take an agent out of the space; others drop their threads of it."""
        super().detach(mailbox, *spared)
        if not mailbox.router.ending:
            self._sender_left(mailbox.id)

    def forget_sender(self, id: str) -> None:
        """Drop what agents keep of a sender that is not in the space."""
        super().forget_sender(id)
        if self._router is not None:
            self._router.call_soon(self._sender_left, id)

    def _sender_left(self, sender_id: str) -> None:
        """Have those that keep threads of a sender drop them; on the loop."""
        if (keepers := self._keepers) is None:
            return
        # What an agent asked others in the name of who left, they keep in threads of their own.
        departures: list[tuple[str, str | None]] = [(sender_id, None)]
        for sender, thread in departures:
            thread_keepers = {**keepers.get(sender, {}), **keepers.get("", {})}
            for id, keeper in thread_keepers.items():
                dropped = keeper.sender_left(sender, thread)
                departures += [(id, each) for each in dropped]
        keepers.pop(sender_id, None)
