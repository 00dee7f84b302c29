"""What somebody tells a run from another process: its agent hears it as the user's words."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from moothall.actions.provenance.origin import SourcedText
from moothall.agents.replies.reply_context import note_on_thread
from moothall.agents.replies.reply_request import with_speaker

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.thread import Thread
    from moothall.journal.commits import OpenRun
    from moothall.journal.store.run_requests import ToldText


def attend(agent: Any, record: Record[Any], thread: Thread) -> None:
    """Have the run of an agent's reply hear what it is told: now what came before it was opened."""
    work, start = record.run.work, record.start or {}
    work.asked_for = start.get("asked_for", "")
    # Weak: a reply that somebody has dropped is to be collected, and its run to end.
    work.hear = partial(_hear, ref(agent), ref(thread))
    for each in work.told_texts:
        work.hear(each)


def forget_told(run: OpenRun, thread: Thread) -> None:
    """Forget what a run has not heard: its journal keeps it, and the next reply is another run."""
    keys, texts = run.work.heard_keys, thread.pending_texts
    texts[:] = [each for each in texts if _key_of(each) not in keys]


def _key_of(text: Any) -> str:
    content = text[0] if isinstance(text, tuple) else text  # a conversation's has its sources
    return content.told_key if isinstance(content, SourcedText) else ""


def _hear(agent_ref: ref[Any], thread_ref: ref[Thread], message: ToldText) -> None:
    agent, thread = agent_ref(), thread_ref()
    if agent is not None and thread is not None:
        hear(agent, thread, message)


def hear(agent: Any, thread: Thread, message: ToldText) -> None:
    """Have an agent hear a text in a thread, as the words of who says it."""
    content = with_speaker(message.by or "operator", message.text)
    if message.sources:
        note_on_thread(thread, message.sources)
    agent.steer_thread(thread, SourcedText(content, message.sources, message.key))
