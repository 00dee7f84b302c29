"""What an A2A server has told of a task."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from moothall import ModelError
from moothall.build import as_json, json_text, one_line
from moothall.serving.a2a.wire import (
    COMPLETED,
    ENDED_STATES,
    PAUSED_STATES,
    STATES,
    SUBMITTED,
    as_block,
    is_for_others,
)

_MAX_PARTS: Final = 10_000
_TEXT_FIELDS: Final = ("text", "raw", "url", "mediaType", "filename")


class RemoteTask:
    """What a server has told of a task, or the message that it answered with instead."""

    def __init__(self) -> None:
        self.id: str = ""
        self.id_event: asyncio.Event = asyncio.Event()  # set once there is an id
        self.context_id: str = ""
        self.state: str = SUBMITTED
        self.status_parts: list[dict[str, Any]] = []
        self.artifacts: dict[str, list[dict[str, Any]]] = {}
        self.message_parts: list[dict[str, Any]] | None = None
        self._shown_artifacts: set[str] = set()  # the artifacts whose text was shown as it came
        self._has_diverged = False  # whether what was shown is not how the text begins
        self._part_count = 0  # of the parts of all artifacts

    @property
    def is_at_rest(self) -> bool:
        """Whether the server does nothing more by itself."""
        return self.message_parts is not None or self.state in ENDED_STATES | PAUSED_STATES

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits for nothing that its caller can answer."""
        return bool(self.status_parts) and all(map(is_for_others, self.status_parts))

    @property
    def is_empty(self) -> bool:
        """Whether the task has completed, and nothing was told of what came of it."""
        return self.state == COMPLETED and bool(self.id) and not any(self._answer_parts())

    @property
    def text(self) -> str:
        """The answer as a text: that of the artifacts, or else of the message."""
        separator = "" if self.artifacts else "\n\n"  # those of an artifact may be its chunks
        return "\n\n".join(
            filter(None, (_text_of(each, separator) for each in self._answer_parts()))
        )

    @property
    def reason(self) -> str:
        """What its status says: why the task stands, or what it asks; else the answer's text."""
        details = (p.get("text") or p.get("url") or p.get("data") for p in self.status_parts)
        return "\n\n".join(json_text(as_json(each)) for each in details if each) or self.text

    @property
    def data(self) -> list[Any]:
        """The values among the parts of the answer."""
        return [part["data"] for parts in self._answer_parts() for part in parts if "data" in part]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The files among the parts of the answer, as blocks of content."""
        blocks = (as_block(part) for parts in self._answer_parts() for part in parts)
        return list(filter(None, blocks))

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """The answer as the content of a chat message: blocks, if there are files in it."""
        blocks = [{"type": "text", "text": self.text}] if self.text else []
        return [*blocks, *self.blocks] if self.blocks else self.text

    def _answer_parts(self) -> list[list[dict[str, Any]]]:
        if self.message_parts is not None:
            return [self.message_parts]
        # One that is paused asks beside what there is so far.
        has_status = not self.artifacts or self.state in PAUSED_STATES
        return [*self.artifacts.values(), *([self.status_parts] if has_status else [])]

    def apply_update(self, update: Any) -> str:
        """Take an update; return the text that it adds, if the text before it stays as it was.

        Raises:
            ModelError: it is no update of the protocol
        """
        if not isinstance(update, dict):
            raise _protocol_error(update)
        if (task := update.get("task")) is not None:
            self._identify(task, "id")
            self._set_status(task.get("status"))
            artifacts = _checked_list(task.get("artifacts", []))
            return "".join([self._take_artifact(each, False) for each in artifacts])
        if (message := update.get("message")) is not None:
            self._identify(message, "taskId")
            self._has_diverged = self._has_diverged or self.message_parts is not None
            self.message_parts = _checked_parts(message)
            return self._added_text("", _text_of(self.message_parts, "\n\n"))
        if (status := update.get("statusUpdate")) is not None:
            self._identify(status, "taskId")
            self._set_status(status.get("status"))
        elif (artifact := update.get("artifactUpdate")) is not None:
            self._identify(artifact, "taskId")
            return self._take_artifact(artifact.get("artifact"), artifact.get("append") is True)
        return ""  # a status, or of a later revision

    def _added_text(self, id: str, text: str) -> str:
        """Return what the text of an artifact, or the message, adds at the end of all."""
        self._has_diverged |= bool(text) and id != next(reversed(self.artifacts), id)
        if self._has_diverged or not text:
            return ""
        separator = "\n\n" if self._shown_artifacts and id not in self._shown_artifacts else ""
        self._shown_artifacts.add(id)
        return separator + text

    def _identify(self, update: Any, key: str) -> None:
        if not isinstance(update, dict):
            raise _protocol_error(update)
        id, context = update.get(key, ""), update.get("contextId", "")
        if not isinstance(id, str) or not isinstance(context, str):
            raise _protocol_error(update)
        if self.id and id and id != self.id:
            raise ModelError("the server told of another task than the one that was asked for")
        self.id, self.context_id = id or self.id, context or self.context_id
        if self.id:
            self.id_event.set()

    def _set_status(self, status: Any) -> None:
        if not isinstance(status, dict) or status.get("state") not in STATES:
            raise _protocol_error(status)
        self.state = status["state"]
        self.status_parts = (
            [] if status.get("message") is None else _checked_parts(status["message"])
        )

    def _take_artifact(self, artifact: Any, append: bool) -> str:
        """Take an artifact, or a piece of one; the work is that of its own parts, not of all."""
        parts = _checked_parts(artifact)
        id = artifact.get("artifactId", "")
        if not isinstance(id, str):
            raise _protocol_error(artifact)
        parts_before = self.artifacts.setdefault(id, [])
        old_text, new_text = "", _text_of(parts, "")
        if append and parts_before:
            new_text = "".join([part["text"] for part in parts if "text" in part])
        elif parts_before:
            old_text = _text_of(parts_before, "")
            self._has_diverged = self._has_diverged or not new_text.startswith(old_text)
            self._part_count -= len(parts_before)
            parts_before.clear()
        parts_before += parts
        self._part_count += len(parts)
        if self._part_count > _MAX_PARTS:
            raise ModelError(f"the server sent more than {_MAX_PARTS} parts")
        return self._added_text(id, new_text[len(old_text) :])


def _text_of(parts: list[dict[str, Any]], separator: str) -> str:
    texts = [part["text"] for part in parts if "text" in part]
    if not texts:
        texts = [json_text(as_json(part["data"])) for part in parts if "data" in part]
    return separator.join(texts)


def _checked_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _protocol_error(value)
    return value


def _checked_parts(value: Any) -> list[dict[str, Any]]:
    """Return the parts of a message or artifact, checked."""
    if not isinstance(value, dict):
        raise _protocol_error(value)
    parts = _checked_list(value.get("parts", []))
    for part in parts:
        texts = [part.get(name, "") for name in _TEXT_FIELDS] if isinstance(part, dict) else [None]
        if not all(isinstance(each, str) for each in texts):
            raise _protocol_error(part)
    return list(parts)


def _protocol_error(value: Any) -> ModelError:
    return ModelError(f"the server's answer does not follow A2A: {one_line(repr(value), 100)}")
