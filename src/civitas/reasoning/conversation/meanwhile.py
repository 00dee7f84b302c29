"""What is said while the participants of a conversation speak, in any thread."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from civitas.errors import MailboxFull
from civitas.reasoning.conversation.transcript import Content, Utterance
from civitas.reasoning.group import in_thread
from civitas.reasoning.reply import log_failure

if TYPE_CHECKING:
    from civitas.reasoning.conversation.conversation import Conversation
    from civitas.reasoning.conversation.recording import ConversationRecording
    from civitas.reasoning.conversation.state import ConversationState

__all__ = ["Meanwhile"]

logger = logging.getLogger("civitas.reasoning")

_MAX_HEARD = 100
"""How many interruptions and observations may wait for the end of a turn."""


class Meanwhile:
    """Interruptions and observations that wait for the end of a turn.

    Attributes:
        speaking: who speaks now
    """

    def __init__(
        self,
        conversation: Conversation,
        state: ConversationState,
        recording: ConversationRecording | None,
        thread: str | None,
    ) -> None:
        self.speaking: tuple[str, ...] = ()
        self._conversation = conversation
        self._state = state
        self._recording = recording
        self._thread = thread
        self._open = True
        # Filled in any thread.
        self._heard: deque[tuple[Content, tuple[str, ...]]] = deque()
        self._guard = threading.RLock()

    def interrupt(self, content: Content) -> bool:
        """Tell those who speak, and after this turn everyone else. False if it has ended."""
        marked = Utterance(1, None, content).heard(self._state.agents)
        # Held while they are told, or the turn could end before it is known who has heard it.
        with self._guard:
            if not self._open or len(self._heard) >= _MAX_HEARD:
                return False
            told = []
            for id in self.speaking:
                interrupt = getattr(self._conversation.agents[id], "interrupt", None)
                if interrupt is not None:
                    try:
                        if interrupt(marked, **in_thread(interrupt, self._thread)) is not False:
                            told.append(id)
                    except Exception as error:
                        log_failure(logger, f"agent {id!r} could not be interrupted", error)
            self._heard.append((content, tuple(told)))
            return True

    def observe(self, content: Content) -> bool:
        """Tell everyone after this turn. False if the reply has ended.

        Raises:
            MailboxFull: too much waits for that already
        """
        with self._guard:
            if not self._open:
                return False
            if len(self._heard) >= _MAX_HEARD:
                raise MailboxFull(
                    f"conversation {self._conversation.id!r} has {_MAX_HEARD} observations to tell "
                    "when the present turn ends, and takes no more until then"
                )
            self._heard.append((content, ()))
            return True

    def hear(self, *, last: bool = False, speaking: tuple[str, ...] | None = None) -> None:
        """Take what came meanwhile into what is to be heard.

        Args:
            last: take in nothing more; what comes now is heard by the next reply
            speaking: who speaks from now on
        """
        with self._guard:
            if last:
                self._open = False
            if speaking is not None:
                self.speaking = speaking
            while self._heard:
                content, told = self._heard.popleft()
                self._state.add(None, content, known_to=told)
                if self._recording is not None:
                    self._recording.heard(content, told)
