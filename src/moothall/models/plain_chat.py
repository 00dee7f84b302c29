"""A conversation in the three roles that every chat template has, with calls written as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moothall.errors import ModelError
from moothall.models.answer_parts import as_said

if TYPE_CHECKING:
    from moothall.action import Action
    from moothall.models.calling.choice import OneCall

# The marks of turns in chat formats. Inside a message they are only text: a file or a web page must
# not be able to end its own turn and speak as the system.
TURN_MARK = re.compile(r"<(?:\|[^<>|\s]{1,64}\|>|(?:start|end)_of_turn>)")


def plain_chat(
    messages: list[Any],
    name: str,
    marks: re.Pattern[str],
    form: OneCall,
    actions: list[Action] | None = None,
    may_answer: bool = True,
) -> list[dict[str, str]]:
    """Return the messages in three roles, none twice in a row; actions and calls in a form."""
    chat: list[dict[str, str]] = []
    called: dict[str, str] = {}
    for place, message in enumerate(messages):
        where = f"{name}: messages[{place}]"
        if not isinstance(message, Mapping):
            raise ModelError(f"{where} is a {type(message).__name__}, not a chat message")
        role = message.get("role")
        given = message.get("content")
        if role == "assistant" and isinstance(given, list):  # another model's, with an image
            given = as_said(given)
        content = marks.sub(_broken_up, _text(given, where))
        if role == "tool":
            action = message.get("name") or called.get(message.get("tool_call_id", "")) or "action"
            role, content = "user", f"Result of {action}: {content}"
        elif role == "assistant":
            for call in message.get("tool_calls") or ():
                called[call["id"]] = call["name"]
            content = "\n".join(
                filter(None, (content, marks.sub(_broken_up, form.written(message))))
            )
            if not content and message.get("tool_calls"):
                continue  # a program that went on
        elif role == "user":
            content = form.before_user + content if actions else content
        elif role != "system":
            raise ModelError(
                f"{where}: role must be system, user, assistant or tool, got {role!r:.80}"
            )
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] += f"\n\n{content}"
        else:
            chat.append({"role": role, "content": content})
    if actions:
        add_system(chat, form.head(actions, may_answer=may_answer))
    return chat


def _broken_up(mark: re.Match[str]) -> str:
    return f"{mark[0][0]} {mark[0][1:]}"


def has_result(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether an action has ended since the user's last message."""
    result = False
    for message in messages:
        if message["role"] == "user":
            result = False
        elif message["role"] == "tool":
            result = True
    return result


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        parts = []
        for block in content:
            if not (isinstance(block, Mapping) and isinstance(block.get("text"), str)):
                raise ModelError(f"{where}: this model reads text only, not {block!r:.80}")
            parts.append(block["text"])
        content = "\n".join(parts)
    if not isinstance(content, str):
        raise ModelError(f"{where}: content must be text, got {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise ModelError(f"{where}: content holds half a character, which is not text") from None
    return content


def add_schema(chat: list[dict[str, Any]], schema: Mapping[str, Any]) -> None:
    """Ask for an answer that follows a schema, in words."""
    add_system(chat, schema_in_words(schema))


def schema_in_words(schema: Mapping[str, Any]) -> str:
    """Return the request for an answer that follows a schema."""
    form = json.dumps(schema, ensure_ascii=False)
    return f"Answer with JSON of this schema and nothing else: {form}"


def add_system(chat: list[dict[str, Any]], text: str) -> None:
    """Add a text to the system part of a chat."""
    if chat[0]["role"] == "system" and isinstance(chat[0]["content"], str):
        chat[0]["content"] = f"{chat[0]['content']}\n\n{text}"
    else:
        chat.insert(0, {"role": "system", "content": text})
