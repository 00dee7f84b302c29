"""A person in a space, to whom a chat or a page shows what happens there."""

from __future__ import annotations

from typing import Any, Final

from moothall.actions import action
from moothall.actions.message import BROADCAST
from moothall.agents.agent import Agent
from moothall.foundation.errors import AgentNotFound, RequestCancelled, RequestError
from moothall.foundation.text import escaped_json
from moothall.spaces.complete import Help
from moothall.spaces.delivery import Delivery
from moothall.spaces.native import NativeSpace

_HELP_S: Final = 2.0


def why_undelivered(agent: Agent, to: str) -> str | None:
    """Return why nobody gets a message, if its receiver is surely not there; else None."""
    space = agent.space  # of a space of several processes, none knows who is there
    if not isinstance(space, NativeSpace) or to == BROADCAST or to in space.ids():
        return None
    if to.startswith("#"):
        return None if space.ids(group=to[1:]) else f"Nobody is in the group {escaped_json(to)}."
    return f"There is no agent {escaped_json(to)} here, so nobody gets this."


class You(Agent):
    """A person in a space. An observer of the space shows what is sent to them."""

    asking: Final = "what-is-offered"
    """The id of the messages that a chat or a page itself sends as questions."""

    def __init__(self, id: str = "You") -> None:
        super().__init__(id, receive_own_broadcasts=False)
        self.ids_elsewhere: dict[str, None] = {}  # ids of other processes
        self._offers: dict[str, Help] = {}

    @action(guard=())
    async def say(self, content: str) -> None:
        """Say something to the person.

        Args:
            content: what to say
        """

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Receive what went wrong with a message."""

    # -- who else is there -------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Whether several processes share the space."""
        return not isinstance(self.space, NativeSpace | None)

    def why_undelivered(self, to: str) -> str | None:
        """Return why nobody gets a message, if its receiver is surely not there; else None."""
        return why_undelivered(self, to)

    def other_ids(self) -> list[str]:
        """Return the ids of the known agents, in the order in which they became known."""
        local_ids = [] if self.space is None else self.space.ids()
        return [id for id in dict.fromkeys((*local_ids, *self.ids_elsewhere)) if id != str(self.id)]

    def note_sender(self, message: dict[str, Any]) -> None:
        """Record a message's sender as present."""
        if self.is_shared and message["to"] in (str(self.id), BROADCAST):
            self.ids_elsewhere[message["from"]] = None

    async def discover(self) -> None:
        """Ask the other processes for their agents."""
        if self.is_shared:
            space: Any = self.space
            self.ids_elsewhere = dict.fromkeys(await space.all_ids())

    async def offers_of(self, id: str) -> Help:
        """Return what an agent offers; empty if it does not answer in time."""
        if id not in self._offers:
            help = {"id": self.asking, "to": id, "action": {"name": "help"}}
            try:
                answer = await self.request(help, timeout=_HELP_S)
            except AgentNotFound:
                self.ids_elsewhere.pop(id, None)
                return {}
            except RequestError:  # it is busy
                return {}
            self._offers[id] = answer if isinstance(answer, dict) else {}
        return self._offers[id]

    def forget_offers(self) -> None:
        """Forget what agents offer, so that they are asked again."""
        self._offers.clear()

    # -- what waits for them -----------------------------------------------------------------------

    def messages_to(self, id: str) -> list[dict[str, Any]]:
        """Return the messages that wait for an agent of this process, the next one first."""
        space: Any = self.space
        waiting = space.loop_thread.call(self._waiting_for, id)
        return [each.envelope.to_dict() for each in waiting]

    def take_back(self, to: str, message_id: str) -> bool:
        """End one's message to an agent of this process before it begins; False if it has begun.

        The agent never sees it, and this person gets `RequestCancelled` as its `error`.
        """
        space: Any = self.space

        def end() -> bool:
            for each in self._waiting_for(to):
                if (each.envelope.sender, each.envelope.id) == (str(self.id), message_id):
                    text = f'the message to "{each}" was taken back before it began'
                    space.router.abort(each, RequestCancelled(text))
                    return True
            return False

        return bool(space.loop_thread.call(end))

    def _waiting_for(self, id: str) -> list[Delivery]:
        """Return what waits in an agent's mailbox; on the loop alone."""
        space: Any = self.space
        mailbox = space.router.mailboxes.get(id)
        queued = () if mailbox is None else mailbox.queued()
        return [each for each in queued if each.state == Delivery.QUEUED]
