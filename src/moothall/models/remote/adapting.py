"""What a server wants of a conversation that another provider began, as its refusals say it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from moothall.models.protocol import without_seen

# Mistral's; OpenAI's and others', which state a bound.
_EXACT = re.compile(r"tool call id.{0,80}length of (\d+)", re.I | re.S)
_MOST = re.compile(r"(?:tool_calls?\S*id|call_id).{0,200}?length (\d+)", re.I | re.S)
_ORDER = re.compile("role .?user.? after role .?tool", re.I)
_SIGNATURE = re.compile("missing.{0,40}thought_?signature", re.I)
_REASONING = re.compile(
    "reasoning_content.{0,80}(?:must be|missing|required)|missing.{0,40}reasoning_content", re.I
)
_BLIND = re.compile(
    r"(?:image|vision|multimodal|file)\S*.{0,60}(?:not (?:supported|allowed|accept)|unsupported)"
    r"|(?:not|n't) (?:support|accept|have|take).{0,40}(?:image|vision|multimodal|file)"
    r"|no endpoints.{0,40}image",
    re.I,
)
# Google's word for a call that another model made.
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_ANSWER: dict[str, Any] = {"role": "assistant", "content": "(no answer)"}


class Adapting:
    """Changes conversations into what one server takes.

    Args:
        id_length: how long the id of a call must be, in letters and digits; 0 if any will do
        answer_before_user: whether an answer must come between a result and a message of the user
    """

    def __init__(self, id_length: int = 0, answer_before_user: bool = False) -> None:
        self._exact, self._most = id_length, 0
        self._answers = answer_before_user
        self._signs = self._reasons = False
        self.blind: bool = False
        self.version: int = 0

    def refused(self, said: str) -> bool:
        """Note what a refusal asks for; return whether it asks for something new."""
        before = {**vars(self)}
        if found := _EXACT.search(said):
            self._exact = min(int(found[1]), 64)
        elif found := _MOST.search(said):
            self._most = min(int(found[1]), 64)
        self._answers |= bool(_ORDER.search(said))
        self._signs |= bool(_SIGNATURE.search(said))
        self.blind |= bool(_BLIND.search(said))
        self._reasons |= bool(_REASONING.search(said))
        if vars(self) == before:
            return False
        self.version += 1
        return True

    def messages(self, messages: list[Any]) -> list[Any]:
        """Return our messages with the ids and the order that the server takes."""
        if self.blind:
            messages = without_seen(messages)
        if not (self._exact or self._most or self._answers):
            return messages
        made: list[Any] = []
        for each in messages:
            if not isinstance(each, Mapping):
                return messages  # whoever reads them says so
            if self._answers and made and each.get("role") == "user":
                made += [_ANSWER] if made[-1].get("role") == "tool" else []
            message = dict(each)
            if calls := message.get("tool_calls"):
                message["tool_calls"] = [{**call, "id": self._id(call.get("id"))} for call in calls]
            if "tool_call_id" in message:
                message["tool_call_id"] = self._id(message["tool_call_id"])
            made.append(message)
        return made

    def _id(self, given: Any) -> str:
        id = str(given or "")
        if self._exact and not (len(id) == self._exact and id.isascii() and id.isalnum()):
            return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[: self._exact]
        if self._most and len(id) > self._most:
            return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[: self._most]
        return id

    def complete(self, made: list[dict[str, Any]]) -> None:
        """Add what the server wants with each call to messages in the chat interface's form."""
        for each in made:
            calls = each.get("tool_calls") or ()
            if self._signs and calls and not any("extra_content" in call for call in calls):
                calls[0]["extra_content"] = _UNSIGNED
            if self._reasons and calls and not each.get("reasoning_content"):
                each["reasoning_content"] = _ANSWER["content"]
