"""The results of calls, as a model is shown them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moothall.jsonvalue import json_text, readable
from moothall.models.protocol import block_note, is_seen, without_seen
from moothall.text import cut

if TYPE_CHECKING:
    from moothall.reasoning.loop.answer import RequestedCall

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

NOT_RUN = "not executed, because another call of the same answer was wrong"


def error_of(result: dict[str, Any]) -> str | None:
    """Return the error in a result, as text; None without one."""
    error = result.get("error")
    return None if error is None else str(error)


def result_content(result: dict[str, Any], limit: int, call: RequestedCall | None = None) -> str:
    """Return a result as a model sees it: the value as JSON (a text unchanged), or the error.

    If a person changed the arguments of its call, the result says so.
    """
    if call is not None and call.was is not None:
        args = {name: each for name, each in call.args.items() if call.was.get(name) != each}
        said = f"[A person changed the arguments of this call: {json_text(args)}]"
        return f"{result_content(result, limit)}\n{cut(said, limit)}"
    error = error_of(result)
    if error is not None:
        return json.dumps({"error": cut(readable(error), limit)}, ensure_ascii=False)
    if "result" in result:
        return cut(json_text(_without_images(result["result"])), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)


def shown_content(model: Any, content: str, result: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Return a result as a message has it: with its images and files, for a model that sees."""
    value = result.get("result")
    if not isinstance(value, list | dict) or not getattr(model, "reads_images", False):
        return content
    blocks = [each for each in _listed(value) if is_seen(each)]
    return [{"type": "text", "text": content}, *blocks] if blocks else content


def as_seen(model: Any, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a prompt with notes for what its model does not see."""
    if getattr(model, "reads_images", False) or not any(map(has_blocks, prompt)):
        return prompt
    return without_seen(prompt)


def has_blocks(message: dict[str, Any]) -> bool:
    """Return whether a message is a result with images or files."""
    return message.get("role") == "tool" and type(message.get("content")) is list


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _without_images(value: Any) -> Any:
    """Return a value whose content blocks tell of images and files, which are no text."""
    if isinstance(value, dict):
        return _noted(value)
    return list(map(_noted, value)) if isinstance(value, list) else value


def _noted(each: Any) -> Any:
    return block_note(each) if is_seen(each) else each
