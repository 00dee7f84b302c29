"""The errors of a model behind a server: each says in one line what happened and what to do."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from moothall.foundation.errors import ContextOverflow, ModelError
from moothall.foundation.http import HTTPResponse, retry_after_s, tries_note
from moothall.models.blocks import BLOCK_TOKENS
from moothall.models.chat_answer import UnreadableCall, has_no_credit, request_error_of
from moothall.models.refusal import Refusal, is_page, refuses_content, server_text

_MAX_SECRETS: Final = 200
"""So many keys and headers of the last requests stand in no error."""

# What a refusal is of, whatever its status, and what to do about it.
_ACTIONS_FAULT = re.compile(
    r"\b(?:tools?|functions?)\b[^.\[]{0,40}(?:not (?:support|available)|unsupported|requires?\b)"
    r"|(?:not support|support no|requires?|no endpoints found that support)[^.]{0,30}"
    r"(?:\b(?:tool|function)s?\b|tool-call)",
    re.I,
)
_MODEL_FAULT = re.compile(
    r"model\b.{0,80}(?:not (?:exist|found|a valid)|unknown|no such)|(?:invalid|unknown|no such)"
    r" model|not a valid model|model.?not.?(?:exist|found)",
    re.I,
)
_KEY_FAULT = re.compile(r"api.?key|credentials|unauthori[sz]ed|authentication", re.I)
# What was lost with a request, and what to do about it.
_CONNECTION_HINTS = {
    "Connection refused": "is the server running there?",
    "gave no answer within": "timeout= gives it longer",
    "Name or service not known": "check the address",
    "WRONG_VERSION_NUMBER": "does the server speak http rather than https?",
}


_ENCODED = re.compile(rb"[A-Za-z0-9+/=]{2000,}")
"""An image or a file, in base64."""


class ErrorMaker:
    """Turns what went wrong with a model's requests into errors.

    Attributes:
        key: the key, if it is always the same
    """

    def __init__(self, name: str, base_url: str | None, key_source: str) -> None:
        self._name, self._base_url, self._key_source = name, base_url, key_source
        self.key: str | None = None
        self._secrets: deque[str] = deque(maxlen=_MAX_SECRETS)

    def hide(self, *secrets: str) -> None:
        """Show these texts of a request in no error; other requests may be under way."""
        self._secrets.extend(each for each in secrets if each not in self._secrets)

    def refusal_error(
        self, status: int, text: str, headers: Mapping[str, str], tries: int, may_call: bool
    ) -> ModelError:
        """Return the error for a server's refusal of a request whose answer `may_call` actions."""
        body = _body(text)
        error = self._error(body, status, headers, tries, may_call)
        error.refusal = Refusal.read(body, status)
        return error

    def _error(
        self, body: Any, status: int, headers: Mapping[str, str], tries: int, may_call: bool
    ) -> ModelError:
        reason = f"{self._name}: the server answered {status}: {server_text(body)}"
        if status == 413:
            return ContextOverflow(self.redact(f"{reason}; nothing was cut"), of_content=True)
        if (
            request_error := _error_unless_may_call(body, self.redact(reason), may_call)
        ) is not None:
            return request_error
        if advice := self._advice(status, server_text(body), headers):
            reason = f"{reason.removesuffix('.')}; {advice}"
        of_content = refuses_content(body, status)
        error = ModelError(self.redact(f"{reason}{tries_note(tries)}"), of_content=of_content)
        error.status = status
        return error

    @staticmethod
    def is_lasting(response: HTTPResponse, may_call: bool) -> bool:
        """Return whether a refusal would be the same again, whatever its status."""
        body = _body(response.content.decode("utf-8", "replace"))
        return _error_unless_may_call(body, "", may_call) is not None or has_no_credit(body)

    def _advice(self, status: int, message: str, headers: Mapping[str, str]) -> str:
        """Return what to do about a refusal."""
        address = f"the address {self._base_url}" if self._base_url else "the address"
        if is_page(message) and status < 500:
            return f"check {address}, and any proxy before it"
        if status in (400, 404, 422, 500, 501) and _ACTIONS_FAULT.search(message):
            return "choose a model and a server that take actions, or give the agent none"
        if status in (401, 403) or (status == 400 and _KEY_FAULT.search(message)):
            return f"check {self._key_source}"
        if status == 400 and _MODEL_FAULT.search(message):
            return "check the name of the model"
        if status in (404, 405) or 300 <= status < 400:
            location = headers.get("location") if status < 400 else None
            target = f" (it names {location:.200})" if location else ""
            return f"check the name of the model and {address}{target}"
        if status == 429 and (wait_s := retry_after_s(headers)):
            return f"it asks to wait {wait_s:.0f} s"
        return ""

    def connection_error(self, reason: str) -> ModelError:
        """Return the error for a request without an answer."""
        hints = (hint for words, hint in _CONNECTION_HINTS.items() if words in reason)
        hint = next(hints, "") if "the proxy of" not in reason else ""
        return ModelError(self.redact(f"{self._name}: {reason}{hint and f'; {hint}'}"))

    def redact(self, text: str) -> str:
        """Return a text without the key and the keys of the environment."""
        keys = [value for name, value in os.environ.items() if name.endswith("_API_KEY")]
        for key in (self.key, *keys, *self._secrets):
            if key and len(key) > 4:
                text = text.replace(key, "…")
        return text


def _error_unless_may_call(body: Any, reason: str, may_call: bool) -> ModelError | None:
    """Return the error of a refusal that is of the request alone."""
    error = request_error_of(body, reason)
    return None if isinstance(error, UnreadableCall) and not may_call else error


def _body(text: str) -> Any:
    """Return the JSON data of a refusal, or its text."""
    body: Any = text
    with suppress(ValueError, RecursionError):
        body = json.loads(text)
    return body[0] if isinstance(body, list) and len(body) == 1 else body  # Gemini's


def estimated_tokens(content: bytes) -> int:
    """Return how many tokens a request has, on the high side: one per three bytes of text."""
    text, block_count = _ENCODED.subn(b"", content)
    return len(text) // 3 + block_count * BLOCK_TOKENS


def has_actions(content: bytes) -> bool:
    """Return whether a request has actions."""
    return b'"tools": ' in content
