"""A task of A2A 1.0 as JSON: its status, its messages and its one artifact."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from moothall.build import as_json
from moothall.serving.a2a.wire import (
    as_part,
    data_part,
    message_of,
    text_in,
    text_part,
    timestamp_of,
)


def artifact_of(
    text: str, value: Any = None, blocks: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return a reply as an artifact: its value if that is not the text, its text, its files."""
    is_text = value is None or isinstance(value, str)
    parts = [] if is_text else [data_part(as_json(value, deep=True))]
    if text or not blocks:
        parts.append(text_part(text))
    parts += map(as_part, blocks)
    return {"artifactId": "reply", "name": "reply", "parts": parts}


def first_message(id: str, context: str, content: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that a task began with; its files are told of."""
    return message_of("USER", f"{id}-0", id, context, [text_part(text_in(content))])


def status_json(
    id: str, context: str, state: str, changed_at: float, parts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the status of a task in the protocol's form."""
    status: dict[str, Any] = {"state": state, "timestamp": timestamp_of(changed_at)}
    if parts:
        message_id = hashlib.sha256(f"{id}\n{state}\n{changed_at}".encode()).hexdigest()[:32]
        status["message"] = message_of("AGENT", message_id, id, context, parts)
    return status


def task_json(
    id: str,
    context: str,
    status: dict[str, Any],
    artifacts: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    limit: int | None,
) -> dict[str, Any]:
    """Return a task in the protocol's form."""
    data: dict[str, Any] = {"id": id, "contextId": context, "status": status}
    if artifacts:
        data["artifacts"] = artifacts
    if limit != 0:
        data["history"] = messages if limit is None else messages[-limit:]
    return data
