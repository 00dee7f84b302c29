"""A conversation as a chat template takes it: in three roles with calls as text, or with calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from moothall.foundation.errors import ModelError
from moothall.models.answer_parts import content_text, name_of_call
from moothall.models.blocks import block_note, is_seen

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.models.calling.choice import OneCall

Content: TypeAlias = str | list[dict[str, Any]]
"""A text; or blocks of text and images, for weights that see."""

# The marks of turns in chat formats. Inside a message they are only text: a file or a web page must
# not be able to end its own turn and speak as the system.
_BAR = r"[|\uff5c]"
_TURN_MARK = re.compile(
    rf"<(?:{_BAR}[^<>|\s]{{1,64}}{_BAR}?|[^<>|\s]{{1,64}}{_BAR}|(?:start|end)_of_turn|/?s|bos|eos)>"
    r"|</?tool_(?:call|response)s?>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
)


def plain_chat(
    messages: list[Any],
    name: str,
    call_form: OneCall,
    actions: list[Action] | None = None,
    may_answer: bool = True,
    sees: bool = False,
) -> list[dict[str, Any]]:
    """Return the messages in three roles, none twice in a row; actions and calls in a form."""
    chat: list[dict[str, Any]] = []
    call_names: dict[str, str] = {}
    for index, message in enumerate(messages):
        label = f"{name}: messages[{index}]"
        if not isinstance(message, Mapping):
            raise ModelError(f"{label} is a {type(message).__name__}, not a chat message")
        role = message.get("role")
        raw_content = message.get("content")
        if role == "assistant" and isinstance(raw_content, list):  # another model's, with an image
            raw_content = content_text(raw_content)
        content = _content(raw_content, label, sees)
        if role == "tool":
            action = (
                message.get("name") or call_names.get(message.get("tool_call_id", "")) or "action"
            )
            role, content = "user", joined_contents(f"Result of {action}: ", content, "")
        elif role == "assistant":
            for number, call in enumerate(message.get("tool_calls") or ()):
                call_name = name_of_call(call, f"{label}: tool_calls[{number}]")
                call_names[call.get("id") or ""] = call_name
            content = joined_contents(content, unmarked(call_form.calls_as_text(message)), "\n")
            if not content and message.get("tool_calls"):
                continue  # a program that went on
        elif role == "user":
            content = joined_contents(call_form.before_user, content, "") if actions else content
        elif role != "system":
            raise ModelError(
                f"{label}: role must be system, user, assistant or tool, got {role!r:.80}"
            )
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] = joined_contents(chat[-1]["content"], content)
        else:
            chat.append({"role": role, "content": content})
    if actions:
        add_system(chat, call_form.prompt_part(actions, may_answer=may_answer))
    return chat


def native_chat(chat: list[dict[str, Any]], name: str, sees: bool) -> list[dict[str, Any]]:
    """Return messages of OpenAI's form for a template that has calls and results of its own."""
    messages = []
    for index, message in enumerate(chat):
        content = _content(message["content"], f"{name}: messages[{index}]", sees)
        messages.append({**message, "content": content})
        if calls := message.get("tool_calls"):
            functions = (
                {key: unmarked(each) for key, each in c["function"].items()} for c in calls
            )
            messages[-1]["tool_calls"] = [
                {**call, "function": function}
                for call, function in zip(calls, functions, strict=True)
            ]
    return messages


def joined_contents(first: Content, second: Content, separator: str = "\n\n") -> Content:
    """Return two contents as one."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{separator}{second}"
    block_lists = (
        [{"type": "text", "text": each}] if isinstance(each, str) else each
        for each in (first, second)
    )
    return [block for blocks in block_lists for block in blocks]


def unmarked(text: str) -> str:
    """Return a text in which no mark of a chat format is one."""
    return _TURN_MARK.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)


def has_result(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether an action has ended since the user's last message."""
    has_ended = False
    for message in messages:
        if message["role"] == "user":
            has_ended = False
        elif message["role"] == "tool":
            has_ended = True
    return has_ended


def _content(value: Any, label: str, sees: bool) -> Content:
    """Return the content of a message, with its images if the weights see."""
    if not isinstance(value, list):
        return _text(value, label)
    content: Content = ""
    for block in value:
        if sees and is_seen(block):
            shown_block = block if block["type"] == "image_url" else block_note(block)
            content = joined_contents(content, [shown_block])
        elif isinstance(block, Mapping) and isinstance(block.get("text"), str):
            content = joined_contents(content, _text(block["text"], label), "\n")
        else:
            readable_kinds = "text, and images that are given whole," if sees else "text only,"
            reason = f"this model reads {readable_kinds} not {block!r:.80}"
            raise ModelError(f"{label}: {reason}", of_content=True)
    return content


def _text(content: Any, label: str) -> str:
    if content is None:
        return ""
    if not isinstance(content, str):
        raise ModelError(f"{label}: content must be text, got {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise ModelError(f"{label}: content holds half a character, which is not text") from None
    return unmarked(content)


def add_schema(chat: list[dict[str, Any]], schema: Mapping[str, Any]) -> None:
    """Ask for an answer that follows a schema, in words."""
    schema_text = json.dumps(schema, ensure_ascii=False)
    add_system(chat, f"Answer with JSON of this schema and nothing else: {schema_text}")


def add_system(chat: list[dict[str, Any]], text: str) -> None:
    """Add a text to the system part of a chat."""
    if chat[0]["role"] == "system" and isinstance(chat[0]["content"], str):
        chat[0]["content"] = f"{chat[0]['content']}\n\n{text}"
    else:
        chat.insert(0, {"role": "system", "content": text})
