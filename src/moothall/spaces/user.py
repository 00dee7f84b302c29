"""A person at a terminal who talks with the agents of a space."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from moothall.actions import action
from moothall.actions.message import is_group, is_one_agent
from moothall.actions.slash import parse_slash
from moothall.agents.agent import STANDARD_ACTIONS, Agent
from moothall.agents.ready.terminal import Terminal
from moothall.foundation.errors import MoothallError, RequestTimeout
from moothall.foundation.text import escaped, escaped_json
from moothall.foundation.threads import WORKERS, refuse_on_loop
from moothall.spaces.you import why_undelivered

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents.workflow import AgentOptions

PATIENCE_S: Final = 60.0
"""How many seconds to wait, at the end of the input, for open answers."""

_POLL_INTERVAL_S: Final = 0.01

_PLAIN_ID = re.compile(r"[\w-]+(\.[\w-]+)*")


class User(Agent):
    """A person at a terminal, who sees incoming messages and whose lines are sent.

    A line is said to everyone; one such as `/Calculator.add a:1 b:2` is a message to one agent, as
    `parse_slash` reads it, and `/*.help` asks everyone what they offer. An incoming message is
    shown with its sender, and with terminal control characters escaped; after its first line, the
    lines of what is said are indented.

    Args:
        id: its id
        stdin: the input for lines; default: the process's
        stdout: the output for messages; default: the process's
        **options: what every `Agent` takes; `receive_own_broadcasts=` is False by default
    """

    def __init__(
        self,
        id: str | int = "User",
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        options.setdefault("receive_own_broadcasts", False)
        super().__init__(id, **options)
        self._terminal = Terminal(stdin, stdout)

    # -- output ------------------------------------------------------------------------------------

    @action(guard=())
    async def say(self, content: str) -> None:
        """Show something to the person at the terminal.

        Args:
            content: what to say
        """
        await self._show("\n    ".join(content.splitlines()))

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Show the person the value that an action returned.

        Args:
            data: the value
            original_message_id: the id of the message that asked for it
        """
        await self._show(escaped_json(data), "returned ")

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Show the person what went wrong with a message that they sent.

        Args:
            error: what went wrong
            original_message_id: the id of the message
        """
        await self._show(escaped(error), "error ")

    async def before_action(self, message: dict[str, Any]) -> None:
        """Show a call of an action that a subclass adds; `help` is not shown."""
        name = message["action"]["name"]
        if name != "say" and name not in STANDARD_ACTIONS:
            await self._show(f"{escaped(name)} {escaped_json(message['action']['args'])}", "calls ")

    async def _show(self, text: str, remark: str = "") -> None:
        message = self.current_message
        sender = "?" if message is None else message["from"]
        label = sender if _PLAIN_ID.fullmatch(sender) else escaped_json(sender)
        prefix = f"{label}: " if not remark else f"{label} {remark}"
        # In a thread: a blocked terminal must not block the space.
        await WORKERS.run(asyncio.get_running_loop(), self._terminal.show, prefix + text)

    # -- input -------------------------------------------------------------------------------------

    async def run(self, patience_s: float = PATIENCE_S) -> None:
        """Read lines and send them, until the input ends.

        If a line is not a message, an error is shown, and the next line is read. A line to an agent
        that is not in a `NativeSpace` is told to have been heard by nobody. When the input
        ends, the agents of the space have time to answer earlier messages.

        Args:
            patience_s: how many seconds they have; 0 to return at once

        Raises:
            NotInSpace: the person is in no space, or no longer in one
        """
        if self.space_mailbox is None:
            raise self._not_in_space("run")
        addressed_ids: dict[str, None] = {}  # agents of other processes among them
        while (line := await self._terminal.ask("")) is not None:
            try:
                message = parse_slash(line)
                if message is not None:
                    self.send(message)
                    addressed_ids[message["to"]] = None
                    if notice := why_undelivered(self, message["to"]):
                        self._terminal.show(notice)
            except MoothallError as error:
                if self.space_mailbox is None:
                    raise
                self._terminal.show(f"not sent: {escaped(str(error))}")
        if patience_s > 0 and self.space_mailbox is not None:
            await self._wait_for_answers(patience_s, addressed_ids)

    def run_sync(self, patience_s: float = PATIENCE_S) -> None:
        """Call `run` in a script; return when the input has ended.

        Raises:
            NotInSpace: the person is in no space, or no longer in one
            RuntimeError: called where an event loop is running, which it would block
        """
        refuse_on_loop(f"run_sync of agent {self.id!r}", "run()")
        asyncio.run(self.run(patience_s))

    async def _wait_for_answers(self, patience_s: float, addressed_ids: dict[str, None]) -> None:
        """Wait until every other agent, and then this one, has handled its messages so far."""
        own_id = str(self.id)
        space: Any = self.space
        receivers = dict.fromkeys(space.ids())
        for to in addressed_ids:
            group = to[1:] if is_group(to) else None
            ids = [to] if is_one_agent(to) else await space.all_ids(group)
            receivers |= dict.fromkeys(ids)
        waiting_for = [id for id in receivers if id != own_id]
        end = time.monotonic() + patience_s
        waiting_for = await self._wait_until_handled(waiting_for, patience_s)
        awaiting_approval = self._awaiting_approval(waiting_for)
        while awaiting_approval and time.monotonic() < end:
            await asyncio.sleep(_POLL_INTERVAL_S)
            awaiting_approval = self._awaiting_approval(waiting_for)
        for id in awaiting_approval:
            self._show_busy(id, patience_s)
        if not awaiting_approval:  # what was approved is behind what was handled
            await self._wait_until_handled(
                waiting_for, max(end - time.monotonic(), _POLL_INTERVAL_S)
            )
        with suppress(MoothallError):  # this agent has left the space meanwhile
            await self.request({"to": own_id, "action": {"name": "help"}}, patience_s)

    async def _wait_until_handled(self, ids: list[str], patience_s: float) -> list[str]:
        """Wait until agents have handled their messages so far; return those that have."""
        # This request is handled in order, after the messages before it.
        help = {"action": {"name": "help"}, "meta": {"in_order": True}}
        requests = [(id, self.request({"to": id, **help}, patience_s)) for id in ids]
        handled_ids = []
        for id, pending in requests:
            try:
                await pending
                handled_ids.append(id)
            except RequestTimeout:
                self._show_busy(id, patience_s)
            except MoothallError:
                pass  # an agent that does not answer this cannot answer anything before it
        return handled_ids

    def _awaiting_approval(self, ids: list[str]) -> list[str]:
        """Return which agents of this process have a message that awaits approval."""
        space: Any = self.space
        agents = space.statistics()["agents"]
        return [id for id in ids if id in agents and agents[id]["asking"]]

    def _show_busy(self, id: str, patience_s: float) -> None:
        self._terminal.show(f"{escaped(id)} is still busy after {patience_s:g} s")
