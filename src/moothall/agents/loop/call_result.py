"""The result of a call, and its images and files as a model is shown them."""

from __future__ import annotations

from typing import Any, Final

from moothall.foundation.jsonvalue import as_json, json_and_text, json_line, json_text
from moothall.models.blocks import block_note, is_seen, without_seen

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

_CONTAINERS: Final = frozenset((dict, list))  # of JSON data

NOT_RUN = "not executed, because another call of the same answer was wrong"


def error_of(result: dict[str, Any]) -> str | None:
    """Return the error in a result, as text; None without one."""
    error = result.get("error")
    return None if error is None else str(error)


class CallResult:
    """What came of a call, made once when it has ended: all that show, mark or keep it read this.

    Attributes:
        data: the environment's dict, as hooks, events and steps have it
        error: what went wrong, as text; None if nothing
        value: the result as JSON data; None if the dict has none
        text: as a model reads it: the value as JSON (a text unchanged), or the error
        sources: where it comes from, if from outside
        has_blocks: whether it has images or files, for which notes stand in the text
    """

    __slots__ = ("data", "error", "has_blocks", "sources", "text", "value")

    def __init__(self, data: dict[str, Any], sources: list[str] | tuple[str, ...] = ()) -> None:
        self.data: dict[str, Any] = data
        self.sources: list[str] | tuple[str, ...] = sources
        self.text: str
        self.value: Any = None
        self.has_blocks: bool = False
        error = data.get("error")
        self.error: str | None = None if error is None else str(error)
        if "result" in data:
            self.value, self.text = json_and_text(data["result"])
            if self.value.__class__ in _CONTAINERS and (with_notes := _with_notes(self.value)):
                self.text, self.has_blocks = json_text(with_notes), True
        if error is not None:
            self.text = json_line({"error": self.error})
        elif "result" not in data:
            self.text = json_and_text({key: data[key] for key in data if key != "traceback"})[1]

    def to_json(self) -> dict[str, Any]:
        """Return its dict as JSON data."""
        if "result" not in self.data:
            return {**as_json(self.data)}
        rest = self.data.copy()
        del rest["result"]
        return {**as_json(rest), "result": self.value}

    def content(self, model: Any, text: str) -> str | list[dict[str, Any]]:
        """Return it as a message has it: the text, with images and files for a model that sees."""
        if not getattr(model, "reads_images", False):
            return text
        items = self.value if type(self.value) is list else [self.value]
        blocks = [each for each in items if is_seen(each)]
        return [{"type": "text", "text": text}, *blocks] if blocks else text


def as_seen(model: Any, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a prompt with notes for what its model does not see."""
    if getattr(model, "reads_images", False) or not any(map(has_blocks, prompt)):
        return prompt
    return without_seen(prompt)


def has_blocks(message: dict[str, Any]) -> bool:
    """Return whether a message is a result with images or files."""
    return type(message.get("content")) is list and message.get("role") == "tool"


def _with_notes(value: Any) -> Any:
    """Return JSON data with notes for its images and files; None if it has none."""
    if type(value) is dict:
        return block_note(value) if is_seen(value) else None
    notes = {
        place: note
        for place, each in enumerate(value)
        if each.__class__ in _CONTAINERS and (note := _with_notes(each)) is not None
    }
    return [notes.get(place, each) for place, each in enumerate(value)] if notes else None
