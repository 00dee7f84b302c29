"""Blocks of content that are no text: what all rooms know of each kind is a row of one table.

By it models get them, notes stand for them where only text is read, and doors take and give them.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

BLOCK_TOKENS: Final = 1500
"""The tokens of a block that is not text: about what providers count for a large image."""


TEXT_MEDIA: Final = ("text/", "application/json")
"""The media types of files that are text, or how they begin."""


class BlockKind(NamedTuple):
    """A kind of block, which has its content under the name of its type.

    Attributes:
        label: what stands in a text for a block
        plural: what agents say that they take
        media: its media type, or the beginning of those that it may have
        data: the field of its content with its address or data, as a model sees it; empty for what
            models only hear
    """

    label: str
    plural: str
    media: str
    data: str = ""


BLOCKS: Final = {
    "image_url": BlockKind("an image", "images", "image/", "url"),
    "input_audio": BlockKind("audio", "sound", "audio/"),
    "file": BlockKind("a file", "PDF files", "application/pdf", "file_data"),
}
"""The kinds of blocks, by their types in messages."""

IMAGE_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"))
"""The media types of images that every model takes which takes images."""


def unknown_media(messages: Iterable[Any], known_types: Container[str]) -> tuple[int, str] | None:
    """Return the message with the first image that is none of the known types, and its type.

    The type is the one that the image states; an image that is named by its address states none.
    """
    for n, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, Mapping) or block.get("type") != "image_url":
                continue
            image = block.get("image_url")
            url = image.get("url") if isinstance(image, Mapping) else image
            if isinstance(url, str) and url.startswith("data:"):
                kind = url[5:].partition(",")[0].partition(";")[0].strip().lower()
                if kind not in known_types:
                    return n, kind
    return None


def data_of(block: Any) -> str:
    """Return the data URL of a block of content that a model sees; empty for other blocks."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind not in BLOCKS:
        return ""
    block_fields = block.get(kind)
    data = block_fields.get(BLOCKS[kind].data) if isinstance(block_fields, dict) else None
    return data if isinstance(data, str) and data.startswith("data:") else ""


def is_seen(block: Any) -> bool:
    """Return whether a block of content is an image, or a file, whose data it has."""
    return bool(data_of(block))


def block_note(block: dict[str, Any]) -> dict[str, Any]:
    """Return the text that stands for an image or a file where none can be seen."""
    kind, _, data = data_of(block)[5:].partition(";base64,")
    size = f"{len(data) * 3 // 4:,} bytes"
    return {"type": "text", "text": f"[{BLOCKS[block['type']].label}, {kind[:80]}, {size}]"}


def file_text(block: Any) -> str | None:
    """Return the text of a file that is text or JSON; None for any other block."""
    data = data_of(block) if isinstance(block, dict) and block.get("type") == "file" else ""
    media, _, encoded = data[5:].partition(";base64,")
    if not media.lower().startswith(TEXT_MEDIA):
        return None
    try:
        return b64decode(encoded, validate=True).decode()
    except ValueError:  # no base64, or no UTF-8
        return None


def name_of(block: dict[str, Any]) -> str:
    """Return what a block that is not text is called: its file's name, its address, or its kind."""
    kind = str(block.get("type"))
    parts = block.get(kind)
    fields = parts if isinstance(parts, dict) else {"url": parts}
    for each in (fields.get(key) for key in ("filename", "file_url", "url")):
        if isinstance(each, str) and each and not each.startswith("data:"):
            return each[:200]
    return BLOCKS[kind].label if kind in BLOCKS else "an attachment"


def has_texts(messages: Iterable[Any]) -> bool:
    """Return whether messages have files that are text."""
    contents = (each.get("content") for each in messages if isinstance(each, Mapping))
    blocks = (block for each in contents if type(each) is list for block in each)
    return any(file_text(block) is not None for block in blocks)


def with_texts(messages: Iterable[Any]) -> list[Any]:
    """Return messages with the texts of files that are text, for a model that takes no such file.

    A message without such files is the same one.
    """
    return [
        {**each, "content": [*map(_text_of_file, each["content"])]} if has_texts([each]) else each
        for each in messages
    ]


def _text_of_file(block: Any) -> Any:
    text = file_text(block)
    return block if text is None else {"type": "text", "text": f"{name_of(block)}:\n{text}"}


def left_out_note(block: dict[str, Any]) -> dict[str, Any]:
    """Return the text that stands for a block that a model is no longer shown."""
    kind = BLOCKS.get(str(block.get("type")))
    label = "a part" if kind is None else kind.label
    return {"type": "text", "text": f"[{label}, left out here: do not guess what is in it]"}


def without_seen(messages: list[Any]) -> list[Any]:
    """Return messages whose results have notes where they had images and files."""
    return [
        {**each, "content": [block_note(b) if is_seen(b) else b for b in each["content"]]}
        if isinstance(each, Mapping)
        and each.get("role") == "tool"
        and type(each.get("content")) is list
        else each
        for each in messages
    ]
