"""A stream of one of the forms of OpenAI's interface, as its events are sent."""

from __future__ import annotations

import math
import time
from typing import TypeAlias

from moothall.serving.doors.checks import KEEPALIVE_S, SSE_COMMENT, Send
from moothall.serving.doors.openai.client_outcome import ClientOutcome
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.openai.output import (
    HEADERS,
    NO_RETRY,
    ChatCompletion,
    Kind,
    ResponseForm,
)

Form: TypeAlias = ChatCompletion | ResponseForm


class FormStream:
    """A stream; it begins after a moment, so that an early error has an HTTP status."""

    def __init__(self, form: Form, send: Send, text_at_end: bool) -> None:
        self._form, self._send, self._text_at_end = form, send, text_at_end
        self._turn_texts: dict[Kind, str] = {}  # of the turn
        self._ended_kinds: set[Kind] = set()  # what was said in the turn before
        self.is_started: bool = False
        self._last_write = math.inf

    async def send_piece(self, text: str, kind: Kind) -> None:
        """Send a piece of the answer's text, unless the answer must be whole, or of reasoning."""
        if not text or (self._text_at_end and kind == "output_text"):
            return
        await self._begin()
        is_new = kind in self._ended_kinds
        self._ended_kinds.discard(kind)
        self._turn_texts[kind] = text if is_new else self._turn_texts.get(kind, "") + text
        await self._write(self._form.piece_bytes(text, is_new, kind))

    async def keep_alive(self, *, begins: bool) -> None:
        """Send a comment if nothing was sent for a while: also events of others come."""
        if self.is_started and time.monotonic() - self._last_write >= KEEPALIVE_S - 0.1:
            await self._write(SSE_COMMENT)
        elif begins:
            await self._begin()

    async def end_turn(self) -> None:
        """Note that the text so far is complete."""
        self._ended_kinds = {*self._turn_texts}
        await self._begin()

    async def end(self, outcome: ClientOutcome) -> None:
        """Send the rest."""
        await self._begin()
        streamed_text = self._turn_texts.get("output_text", "")
        if outcome.text and outcome.text.strip() != streamed_text.strip():
            await self._write(self._form.piece_bytes(outcome.text, bool(streamed_text)))
        await self._write(self._form.end_bytes(outcome), has_more=False)

    async def send_error(self, error: BadRequest) -> None:
        """Send the error of a reply without an answer."""
        await self._write(self._form.error_bytes(error), has_more=False)

    async def _begin(self) -> None:
        if self.is_started:
            return
        self.is_started = True
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *HEADERS, NO_RETRY]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(self._form.first_bytes())

    async def _write(self, data: bytes, has_more: bool = True) -> None:
        self._last_write = time.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": has_more})
