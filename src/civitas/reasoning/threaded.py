"""Agents that keep a thread for each who talks with them."""

from __future__ import annotations

import secrets
from typing import Any

from civitas.agent import CURRENT, Agent
from civitas.errors import DefinitionError, MailboxFull
from civitas.reasoning.reply_request import thread_id
from civitas.reasoning.replying import own_reply, thread_of_caller
from civitas.reasoning.thread import Thread, Threads, thread_of_sender

__all__ = ["Threaded"]

_MAX_UNHEARD = 100
"""How many interruptions wait for the next reply of a thread."""


class Threaded(Agent):
    """An agent's part that keeps its threads, and knows which one a message belongs to."""

    shared: bool = False
    _together = False
    """Whether replies of different threads wait for each other."""
    _threads: Threads | None = None

    def _one_thread_only(self) -> str | None:
        """Why it can keep no two conversations apart, in words; None if it can."""
        return None

    @property
    def _kept(self) -> Threads:
        """What is kept of its threads in this process."""
        threads = self._threads
        if threads is None:  # in one step: several threads of the process may come here at once
            threads = self.__dict__.setdefault("_threads", Threads(self._together))
        return threads

    def _thread_to_steer(self, thread: str | int | None) -> Thread:
        threads = self._kept
        if self.shared or thread == "":
            return threads.default
        if thread is not None:
            return threads.get(thread_id(thread))
        under_way = threads.under_way()
        if len(under_way) > 1:
            ids = ", ".join(repr(each.id or "") for each in under_way)
            raise ValueError(
                f"agent {self.id!r} has replies under way in the threads {ids}: say which one is "
                "meant, interrupt(text, thread=…)"
            )
        return under_way[0] if under_way else threads.default

    def _thread_of_message(self, thread: str | None, answers: str | None = None) -> str | None:
        """The thread that what is being handled belongs to."""
        handling = CURRENT.get()
        if handling is None or handling.agent is not self:
            return thread_of_caller(self, thread)
        message = handling.message()
        if message is None:
            return None
        sender: str = message["from"]
        if self.shared:
            return sender  # each line is marked with it
        if answers is None:
            answers = getattr(handling, "original_id", None)
        known = None
        if answers is not None and self._threads is not None:
            known = self._threads.that_sent(answers, sender)
        if known is not None:
            return known[0]
        return thread_of_sender(sender, None if thread is None else thread_id(thread))

    def _lane(self, message: dict[str, Any]) -> str | None:
        """In which order a message is handled: with those of its thread; None for all others."""
        if self.shared or self._together:
            return None
        sent = message["action"]
        args = sent.get("args") or {}
        if sent["name"] == "say":
            thread = args.get("thread")
            return thread_of_sender(message["from"], thread if isinstance(thread, str) else None)
        if sent["name"] in ("response", "error"):
            answers = args.get("original_message_id")
            known = None
            if isinstance(answers, str) and self._threads is not None:
                known = self._threads.that_sent(answers, message["from"])
            return thread_of_sender(message["from"]) if known is None else known[0]
        return None

    def send(self, message: dict[str, Any]) -> None:
        """As every agent's; what comes back belongs to the thread whose reply sends it."""
        if isinstance(message, dict) and not self.shared:
            asked = own_reply(self)
            thread = self._thread_of_message(None) if asked is None else asked.thread
            id = message.get("id")
            if id is None:
                id = f"t-{secrets.token_hex(8)}"
                message = {**message, "id": id}
            if isinstance(id, str):
                self._kept.sent(id, str(message.get("to")), thread)
        super().send(message)

    def _asked_by(self, message: dict[str, Any]) -> tuple[str | None, str | None]:
        asked = own_reply(self)
        return super()._asked_by(message) if asked is None else (asked.run_id, asked.thread)

    def _sender_left(self, sender: str) -> None:
        """Drop the threads of one that has left the space."""
        if self._threads is not None:
            self._threads.forget_sender(sender)

    def _before_add(self) -> None:
        why = None if self.shared else self._one_thread_only()
        if why is not None:
            raise DefinitionError(
                f"agent {self.id!r} cannot be added to a space, where each sender has a "
                f"conversation of its own: {why}. Pass shared=True for one conversation with all"
            )

    def _keep(self, text: Any, thread: Thread) -> None:
        if not thread.keep(text, _MAX_UNHEARD):
            raise MailboxFull(
                f"agent {self.id!r} has {_MAX_UNHEARD} interruptions that its next reply will "
                "hear, and takes no more until then"
            )
