"""Reads the content of a message as a text or as blocks; clients write each in several forms."""

from __future__ import annotations

from typing import Any, Final

from moothall.build import as_json, json_text
from moothall.models import BLOCKS
from moothall.serving.doors.protocols import openai_error

_TEXT_NAMES: Final = ("text", "refusal")
_TYPE_ALIASES: Final = {
    "input_image": "image_url",
    "computer_screenshot": "image_url",
    "input_file": "file",
}
"""The types of parts by other names than the blocks have."""
_FILE_FIELDS: Final = ("file_data", "file_url", "filename")


class BadRequest(Exception):
    """A request cannot be done; the answer is an error in the protocol's form."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        type: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error: dict[str, Any] = openai_error(message, type, param, code)


def content_of(content: Any, label: str) -> str | list[dict[str, Any]]:
    """Return what a user says: a text, or blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequest(f"{label} must have content: a text, or a list of parts", label)
    parts = [_block_of_part(each, label) for each in content]
    if not all(parts):
        raise BadRequest(f"{label} has a part that is no text, image, file or sound", label)
    blocks = [each for each in parts if each is not None]
    if len(blocks) < 2 and all(each["type"] == "text" for each in blocks):
        return "".join(each["text"] for each in blocks)
    return blocks


def text_in(content: Any, label: str) -> str:
    """Return the text of what nobody but a user says; images and files have no place there."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return json_text(as_json(content))
    lines: list[str] = []
    for each in content:
        part = _block_of_part(each, label)
        if part is None:  # such as the thoughts of a model; or a result in a form of its own
            lines += [] if isinstance(each, dict) and "type" in each else [json_text(as_json(each))]
        elif part["type"] == "text":
            lines.append(part["text"])
        else:
            lines.append(f"({BLOCKS[part['type']].label}, which cannot be shown here)")
    return "\n".join(lines)


def _block_of_part(part: Any, label: str) -> dict[str, Any] | None:
    """Return a part of a message as a block; None for parts of another shape."""
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and (kind in _TEXT_NAMES or kind.endswith("_text")):
        text = next((part[each] for each in _TEXT_NAMES if isinstance(part.get(each), str)), "")
        return {"type": "text", "text": text}
    kind = _TYPE_ALIASES.get(kind, kind) if isinstance(kind, str) else None
    if kind in BLOCKS and BLOCKS[kind].data == "url":
        source = part.get(kind)
        link = source if isinstance(source, dict) else {**part, "url": source}
        return _linked_block(kind, link, label)
    if kind == "file":
        source = part if part["type"] == "input_file" else part.get("file")
        file = {
            key: source[key] for key in _FILE_FIELDS if isinstance(source, dict) and source.get(key)
        }
        if not {"file_data", "file_url"} & file.keys():
            raise BadRequest(f"{label} has a file without its data or address", label)
        return {"type": "file", "file": file}
    if kind == "input_audio" and isinstance(part.get("input_audio"), dict):
        return {"type": kind, kind: part[kind]}
    return None


def _linked_block(kind: str, link: dict[str, Any], label: str) -> dict[str, Any]:
    url, detail = link.get("url"), link.get("detail")
    prefixes = ("https://", "http://", f"data:{BLOCKS[kind].media}")
    if not isinstance(url, str) or not url.startswith(prefixes):
        raise BadRequest(f"{label} has {BLOCKS[kind].label} without an http(s) or data URL", label)
    detail_field = {"detail": detail} if isinstance(detail, str) else {}
    return {"type": kind, kind: {"url": url, **detail_field}}
