"""Replies that come late: the journal keeps that one is to be sent, until its receiver has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moothall.actions.message import Envelope
from moothall.foundation.errors import NoSuchRun, TooManyThreads
from moothall.foundation.text import log_failure
from moothall.foundation.threads import WORKERS
from moothall.journal.run_view import RunView

logger: logging.Logger = logging.getLogger("moothall.agents")
ASKED_BY: Final = "asked_by"


def sender_of_run(sender_fields: Mapping[str, str], background: Any) -> dict[str, str]:
    """Return whose message a run answers that is over, if its sender still hears of it.

    A caller whose call is `held` has heard all.
    """
    return {} if background == "held" or ASKED_BY not in sender_fields else {**sender_fields}


class LateReplies:
    """The late replies of an agent: each goes to its sender, once more after a restart.

    The receiver tells a repeat by the id of the message, which is that of the run.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._sent_here = set[str]()  # the runs whose replies this process sends now

    def send(
        self,
        run_id: str,
        text: str,
        sender_fields: Mapping[str, str] | None = None,
        thread: str | None = None,
    ) -> None:
        """Send the reply of a run to the sender of its message, if it was a message.

        The run says to whom, or `sender_fields` does, with the `thread` of the reply.
        """
        try:
            if sender_fields is None:
                view = RunView(self._agent.journal, run_id)
                sender_fields, thread = view.sender_fields, view.begun_with("thread")
            self._send(run_id, text, sender_fields, thread)
        except Exception as error:  # it is recorded
            log_failure(logger, f"the late reply of run {run_id!r} was not sent", error)

    async def send_all(self, but: Container[str]) -> None:
        """Send the replies that no process has sent to its end, but for those of some runs."""
        if self._agent.space_mailbox is not None:
            for run_id, text in await asyncio.to_thread(self._find):
                if run_id not in but and run_id not in self._sent_here:
                    self.send(run_id, text)

    def _find(self) -> list[tuple[str, str]]:
        """Return the runs whose replies are to be sent, with these; none that is under way."""
        journal, replies = self._agent.journal, list[tuple[str, str]]()
        for run_id in journal.waits.late_replies(str(self._agent.id)):
            with suppress(NoSuchRun):  # it was deleted meanwhile
                view = RunView(journal, run_id)
                if view.end is not None and not view.outline.held:
                    replies.append((run_id, view.end_text))
        return replies

    def _send(
        self, run_id: str, text: str, sender_fields: Mapping[str, str], thread: str | None
    ) -> None:
        mailbox = self._agent.space_mailbox
        if not (sender := sender_fields.get(ASKED_BY, "")) or mailbox is None:
            return
        if not text:  # such as of one that was woken when another one had heard it
            self._on_sent(run_id)
            return
        action = {"name": "say", "args": {"content": text}}
        message = {"id": run_id, "to": sender, "action": action}
        envelope = Envelope.from_message(message, mailbox.id)._replace(
            thread=sender_fields.get("asked_within", ""),
            within=thread,  # whose sources are those of the text
        )
        self._sent_here.add(run_id)
        mailbox.send(envelope, answers=True, on_end=partial(self._on_sent, run_id))

    def _on_sent(self, run_id: str) -> None:
        with suppress(TooManyThreads):  # it is sent again after a restart
            WORKERS.submit(self._note_sent, run_id)

    def _note_sent(self, run_id: str) -> None:
        try:
            if self._agent.journal is not None:
                self._agent.journal.waits.drop_late_reply(run_id)
        except Exception as error:  # it is sent again after a restart
            log_failure(logger, f"it is not kept that run {run_id!r} has its reply sent", error)
        else:
            self._sent_here.discard(run_id)
