"""The memory of one reply whose conversation was given with its request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, json_text, to_json
from moothall.memory.memory import Memory

JOINED_KEY: Final = "messages"
"""The key of a block that stands for several messages of one request."""


class RequestMemory(Memory):
    """A conversation as it was given, and what the reply adds to it."""

    thread = None  # type: ignore[assignment]
    add_once = Memory.add_once

    def __init__(self, history: Iterable[dict[str, Any]]) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = list(history)

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a message, or those that it stands for."""
        self.items.extend(split_message(memory))


def join_messages(messages: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return chat messages as the content of one request; `split_message` gives them back."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        content: str | list[dict[str, Any]] = messages[0]["content"]
        return content
    text = "\n".join(json_text(each["content"]) for each in messages)
    return [{"type": "text", "text": text, JOINED_KEY: messages}]


def split_message(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chat messages that a message stands for: mostly itself."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and JOINED_KEY in content[0]:
        messages: list[dict[str, Any]] = content[0][JOINED_KEY]
        return messages
    return [message]


def attachments_in(content: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the images, files and sounds in what a user says, or links to such."""
    for block in content:
        if isinstance(block, dict):
            for message in block.get(JOINED_KEY, ()):  # what a client said in several messages
                if message["role"] == "user" and isinstance(message["content"], list):
                    yield from attachments_in(message["content"])
            if block.get("type") != "text":
                yield block


# -- messages that a caller keeps ------------------------------------------------------------------

_ROLES: Final = ("system", "user", "assistant", "tool")
_FORM: Final = '{"role": "user", "content": "…"}'
_ROLES_ELSEWHERE: Final = {
    "ai": "assistant",
    "bot": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "model": "assistant",
}
"""Roles of other libraries' messages, and what each is called here."""


def messages_of_caller(history: Any) -> list[dict[str, Any]]:
    """Return the messages of `history=`, checked and copied.

    They are in the form of `ChatMessage`, or in that of OpenAI's interface, whose calls have a
    `function` each. Keys that no chat message has, such as a row's number, are left out.

    Raises:
        ConfigError: one is no chat message
    """
    if isinstance(history, str | Mapping) or not isinstance(history, Iterable):
        raise ConfigError(
            f"reply: history= must be a list of messages such as {_FORM}, got {history!r:.80}"
        )
    return [_message(each, number) for number, each in enumerate(history)]


def _message(value: Any, number: int) -> dict[str, Any]:
    label = f"reply: history[{number}]"
    if not isinstance(value, Mapping) or "role" not in value:
        raise ConfigError(f"{label} must be a message such as {_FORM}, got {value!r:.80}")
    role, content = value["role"], value.get("content")
    if role not in _ROLES:
        here = _ROLES_ELSEWHERE.get(str(role).lower()) or str(role).lower()
        hint = f": {role} is {here} here" if here in _ROLES else ""
        role_names = f"{', '.join(_ROLES[:-1])} or {_ROLES[-1]}"
        raise ConfigError(f"{label}: role must be {role_names}, got {role!r:.80}{hint}")
    calls = [_call(each, label) for each in value.get("tool_calls") or ()]
    if content is None and role == "assistant" and calls:
        content = ""
    if not isinstance(content, str | list):
        raise ConfigError(
            f"{label}: content must be a text or a list of blocks, got {content!r:.80}"
        )
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        message |= {"tool_call_id": value.get("tool_call_id"), "name": value.get("name", "")}
        if not isinstance(message["tool_call_id"], str):
            raise ConfigError(f"{label}: tool_call_id must be the id of a call, got {value!r:.80}")
    if role == "assistant" and calls:
        message["tool_calls"] = calls
    try:
        plain: dict[str, Any] = to_json(message)
    except NotJSON as error:
        raise ConfigError(f"{label} must be JSON data: {error}") from None
    return plain


def _call(value: Any, label: str) -> dict[str, Any]:
    """Return a call in our form: `id`, `name` and `args`."""
    call = value if isinstance(value, Mapping) else {}
    function = call.get("function")
    if isinstance(function, Mapping):
        name, args = function.get("name"), function.get("arguments") or "{}"
    else:
        name, args = call.get("name"), call.get("args", {})
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            args = None
    if not (isinstance(call.get("id"), str) and isinstance(name, str) and isinstance(args, dict)):
        raise ConfigError(
            f"{label}: each of tool_calls must have id, name and args, got {value!r:.80}"
        )
    return {"id": call["id"], "name": name, "args": args}
