"""The memory of a run, which gets each message once it is in the journal."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.provenance.marks import Marks, with_marks
from moothall.agents.loop.parts import messages_of
from moothall.agents.loop.recording import LoopState, LoopTurn, remember
from moothall.agents.replies.events import MessageAdded
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Stop
from moothall.foundation.errors import ModelError
from moothall.foundation.postgres import is_url
from moothall.foundation.text import error_message
from moothall.journal.store.backup import is_lost
from moothall.memory.refused import LEFT_OUT, next_cut, refusal_message

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.memory.memory import Memory

logger: logging.Logger = logging.getLogger("moothall.agents")

_LEFT_OUT: Final = "what the user said or attached is left out of later prompts"


def refused_question(error: Exception | None = None) -> Stop:
    """Return the Stop of a run whose question the server of its model refused."""
    reason = "the server of the model refused it" if error is None else error_message(error)
    refusal = ModelError(f"{reason}; {_LEFT_OUT}", of_content=True)
    refusal.status = getattr(error, "status", None)
    return Stop("error", f"ModelError: {refusal}", refusal)


class LoopMemory:
    """What a run adds to its state, its journal and its memory."""

    def __init__(
        self, id: str, memory: Memory, request: ReplyRequest, record: Record[Any] | None
    ) -> None:
        self._id = id
        self._request = request
        self._record = record
        self.memory = memory
        self.emit: Callable[[Any], Any] | None = request.emit
        self.forgets: bool = hasattr(memory, "forgettings")
        self.count: int = 0  # of a run with a record: how many messages are in the memory
        # How often the server of its model refused what it was sent.
        self.refusal_count: int = 0
        # How often its thread had been forgotten, when it was told.
        self._forget_count: int | None = None

    def save(self, state: LoopState, turn: LoopTurn, ends: bool = True) -> None:
        """Append a turn, or with `ends=False` an open one or the user's words, and record it."""
        # Memory never has a message that the journal lacks: a resumed run might produce another.
        record = self._record
        first = len(state.messages)
        turn.add_to(state, ends)
        if record is None:
            self._remember(state, turn, first)
            return
        record.save(state)
        if turn.messages:
            record.after_commit(partial(self._remember, state, turn, first))

    def _remember(self, state: LoopState, turn: LoopTurn, first: int) -> None:
        """Add a turn's messages to memory, `first` being the number of the first; emit them."""
        new = with_marks(turn.messages, turn.marks) if turn.marks else turn.messages
        try:
            # Else the thread would have a reply's end without its question.
            if self.forgets and self.note_forgetting():
                saved = with_marks(state.messages, state.marks)
                new, first = saved[: first + len(new)], 0
            if self._record is not None:
                remember(self.memory, self._record, new, first)
                self.count = first + len(new)
            elif new[1:] and (add_turn := getattr(self.memory, "add_turn", None)) is not None:
                add_turn(new, repeat(None))
            else:
                for message in new:
                    self.memory.add_memory(message)
        except Exception as error:
            raise Stop.on_memory(self._id, error) from error
        if self.emit is not None:
            for message in turn.messages:
                self._request.tell(MessageAdded, self._id, message)

    def warn_if_ahead(self) -> None:
        """Say so if the last run of its thread is lost: its journal is an older copy."""
        newest_run: Any = getattr(self.memory, "newest_run", None)
        try:
            key = None if self._record is None or newest_run is None else newest_run()
        except Exception as error:
            raise Stop.on_memory(self._id, error) from error
        if self._record is None or key is None:
            return
        store = self._record.run.file
        if is_lost(store, key.partition("/")[0]):
            path, journal = getattr(self.memory, "path", None), shlex.quote(store.path)
            remedy = "put the memory's copy of that time in its place, or have it forget the thread"
            if path is not None and not is_url(store.path):
                command = f"moothall runs restore {journal} --journal {journal} --memory"
                remedy = f"`{command} {shlex.quote(path)}` sets that aside"
            logger.warning(
                "journal %r is an older copy: %r has what later runs said, which models read: %s",
                *(store.path, self.memory, remedy),
            )

    def note_forgetting(self) -> bool:
        """Return whether its thread was forgotten since this was called last."""
        memory: Any = self.memory
        count_before, self._forget_count = self._forget_count, memory.forgettings
        return count_before not in (None, self._forget_count)

    def leave_out(self, state: LoopState, turn: LoopTurn, detail: str) -> bool:
        """Leave out of later prompts what was refused; return whether the model is asked again.

        It is, step by step without what an action brought. What the user said or attached ends the
        run: it is not answered by a guess.
        """
        is_fork = bool(self._request.first_messages)
        cut = next_cut(messages_of(self.memory, self._id, None)[0], is_fork=is_fork)
        refusal = LoopTurn(turn.iteration)
        refusal.add(refusal_message(), Marks(refused=[cut]))
        thread = self._request.state
        self.refusal_count += 1
        thread.has_refusals = thread.is_marked = True
        self.save(state, refusal)  # before it is asked again: who resumes the run has it
        if cut != "question":
            form = "agent %r: a prompt was refused (%s); its model is asked again without %s"
            logger.warning(form, self._id, detail, LEFT_OUT[cut])
        return cut != "question"
