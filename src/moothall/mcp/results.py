"""The result of a tool, a resource or a prompt as a JSON value."""

from __future__ import annotations

from typing import Any

from moothall.errors import ActionError


def value_of(result: Any, where: str) -> Any:
    """Return the value of a tool's result: its structured content, else its text or its blocks.

    Raises:
        ActionError: the tool has failed; `where` names it
    """
    if result.is_error:
        texts = [block.text for block in result.content if block.type == "text"]
        raise ActionError("ToolError", "\n".join(texts) or "it does not say why", where)
    if result.structured_content is not None:
        return result.structured_content
    return _joined([_block(each) for each in result.content])


def contents_of(result: Any) -> Any:
    """Return the value of a resource that was read."""
    return _joined([_contents(each) for each in result.contents])


def messages_of(result: Any) -> list[dict[str, Any]]:
    """Return the messages of a prompt, as chat messages."""
    return [
        {"role": each.role, "content": _joined([_block(each.content)])} for each in result.messages
    ]


def _joined(blocks: list[dict[str, Any]]) -> Any:
    """Return blocks as one text if all are texts, else as content blocks of a chat message."""
    if all(each["type"] == "text" for each in blocks):
        return "\n".join(each["text"] for each in blocks)
    return blocks


def _block(block: Any) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return _image(block.mime_type, block.data)
    if block.type == "audio":
        return {"type": "audio", "mime_type": block.mime_type, "data": block.data}
    if block.type == "resource":
        return _contents(block.resource)
    link = {"type": "resource_link", "uri": str(block.uri), "name": block.name}
    return link if block.description is None else {**link, "description": block.description}


def _contents(contents: Any) -> dict[str, Any]:
    if hasattr(contents, "text"):
        return {"type": "text", "text": contents.text}
    kind = contents.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return _image(kind, contents.blob)
    return {"type": "blob", "uri": str(contents.uri), "mime_type": kind, "data": contents.blob}


def _image(kind: str, data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
