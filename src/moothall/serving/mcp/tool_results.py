"""The result of a tool, a resource or a prompt as a JSON value."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from moothall import ActionError
from moothall.build import SchemaValidator, shorten
from moothall.serving.mcp.listing import checked_schema

logger: logging.Logger = logging.getLogger("moothall.serving.mcp")

WRAP_MARK: Final = "x-fastmcp-wrap-result"
"""FastMCP's mark of an output schema whose objects only hold the value, as their `result`."""


def value_of(result: Any, label: str, schema: Any = None) -> Any:
    """Return the value of a tool's result: its structured content, else its text or its blocks.

    Args:
        result: the result
        label: the tool's name, for an error
        schema: the tool's output schema, if it has one

    Raises:
        ActionError: the tool has failed, or its result does not follow its schema
    """
    if result.is_error:
        texts = [block.text for block in result.content if block.type == "text"]
        raise ActionError("ToolError", "\n".join(texts) or "it does not say why", label)
    structured = result.structured_content
    if structured is not None:
        if schema is not None:
            _check_schema(structured, schema, label)
        wraps = isinstance(schema, dict) and schema.get(WRAP_MARK) is True
        return structured["result"] if wraps and structured.keys() == {"result"} else structured
    return _text_or_blocks([_chat_block(each) for each in result.content])


def _check_schema(structured: Any, schema: Any, label: str) -> None:
    """Refuse structured content that its schema does not allow; what is too much is not checked."""
    validator = _validator_for(structured, checked_schema(schema), label)
    if validator is not None and (fault := validator.wrong(structured)) is not None:
        place = fault.place() and f" at {fault.place()}"
        text = f"it ended, with a result that its output schema does not allow{place}"
        raise ActionError("ToolError", shorten(f"{text}: {fault.reason}", 500), label)


def _validator_for(structured: Any, schema: Any, label: str) -> SchemaValidator | None:
    """Return the checks of a result by a schema; None, logged, if they are too much."""
    validator = SchemaValidator.of_json(json.dumps(schema))
    if validator.measures(structured):
        return validator
    logger.warning("%s: its result is too large to be checked by its output schema", label)
    return None


def contents_of(result: Any) -> Any:
    """Return the value of a resource that was read."""
    return _text_or_blocks([_resource_block(each) for each in result.contents])


def messages_of(result: Any) -> list[dict[str, Any]]:
    """Return the messages of a prompt, as chat messages."""
    return [
        {"role": each.role, "content": _text_or_blocks([_chat_block(each.content)])}
        for each in result.messages
    ]


def content_of(value: Any) -> list[Any] | None:
    """Return content blocks, as `value_of` gives them, as content of a result; None for no such."""
    if not isinstance(value, list) or not value:
        return None
    blocks = [_sdk_content(each) for each in value]
    return None if None in blocks else blocks


@dataclass(frozen=True)
class ResultSchema:
    """The schema of a tool's results, which are objects.

    Attributes:
        schema: the schema
        wraps: whether the tool's value is the `result` of such an object, and not the object itself
    """

    schema: dict[str, Any]
    wraps: bool

    @classmethod
    def of(cls, value_schema: dict[str, Any] | None) -> ResultSchema | None:
        """Return that of the schema of an action's values; None if that is None, or is wrong."""
        if value_schema is None:
            return None
        wraps = value_schema.get("type") != "object"
        if wraps:
            definitions = value_schema.pop("$defs", None)
            properties = {"type": "object", "properties": {"result": value_schema}}
            value_schema = {**properties, "required": ["result"], WRAP_MARK: True}
            if definitions is not None:
                value_schema["$defs"] = definitions
        try:
            SchemaValidator.of_json(json.dumps(value_schema))
        except ValueError:  # a type of the user's own says so
            return None
        return cls(value_schema, wraps)

    def checked_content(self, value: Any, label: str) -> dict[str, Any]:
        """Return a value as the structured content of a result; what is too much is not checked.

        Raises:
            ActionError: the schema does not allow it; `label` names the tool
        """
        structured: dict[str, Any] = {"result": value} if self.wraps else value
        validator = _validator_for(structured, self.schema, label)
        fault = None if validator is None else validator.wrong(structured)
        if fault is None:
            return structured
        path = ".".join(map(str, fault.path))
        place = f" at {path}" if path else ""
        text = f"it ended, with a value that its return annotation does not allow{place}"
        raise ActionError("TypeError", shorten(f"{text}: {fault.reason}", 500), label)


def _sdk_content(block: Any) -> Any:
    import mcp_types as types

    kind = block.get("type") if isinstance(block, dict) else None
    try:
        if kind == "text":
            return types.TextContent(text=block["text"])
        if kind == "image_url":
            mime, _, data = block["image_url"]["url"].removeprefix("data:").partition(";base64,")
            return types.ImageContent(data=data, mime_type=mime) if data else None
        if kind == "audio":
            return types.AudioContent(data=block["data"], mime_type=block["mime_type"])
        if kind == "resource_link":
            description = block.get("description")
            return types.ResourceLink(uri=block["uri"], name=block["name"], description=description)
        if kind in ("blob", "resource"):
            fields: Any = {"uri": block["uri"], "mime_type": block.get("mime_type")}
            resource = (
                types.TextResourceContents(text=block["text"], **fields)
                if "text" in block
                else types.BlobResourceContents(blob=block["data"], **fields)
            )
            return types.EmbeddedResource(resource=resource)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None  # it only looks like one
    return None


def _text_or_blocks(blocks: list[dict[str, Any]]) -> Any:
    """Return blocks as one text if all are texts, else as content blocks of a chat message."""
    if all(each["type"] == "text" for each in blocks):
        return "\n".join(each["text"] for each in blocks)
    return blocks


def _chat_block(block: Any) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return _image(block.mime_type, block.data)
    if block.type == "audio":
        return {"type": "audio", "mime_type": block.mime_type, "data": block.data}
    if block.type == "resource":
        return _resource_block(block.resource)
    link = {"type": "resource_link", "uri": str(block.uri), "name": block.name}
    return link if block.description is None else {**link, "description": block.description}


def _resource_block(contents: Any) -> dict[str, Any]:
    if hasattr(contents, "text"):
        return {"type": "text", "text": contents.text}
    kind = contents.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return _image(kind, contents.blob)
    return {"type": "blob", "uri": str(contents.uri), "mime_type": kind, "data": contents.blob}


def _image(kind: str, data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
