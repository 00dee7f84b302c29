"""What an agent is asked, checked."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from civitas.jsonvalue import NotJSON, copy_json
from civitas.reasoning.prompts import readable

if TYPE_CHECKING:
    from civitas.journal import Record
    from civitas.reasoning.events import Event

__all__ = ["Asked", "checked_content"]


class Asked:
    """What an agent is asked, and how the answer is wanted.

    Attributes:
        content: a text, or blocks of content
        schema: what the answer is to be: a JSON schema or a type; None for any text
        thread: the conversation that it belongs to; None for the agent's own
        run_id: the id of the run
        given: the same as it was given, before hooks
        emit: where events go; None if nobody looks
        record: where the run is recorded, if that is part of another's; else None
        resumed: whether a reply that was stopped goes on
    """

    __slots__ = (
        "content",
        "emit",
        "given",
        "record",
        "resumed",
        "run_id",
        "schema",
        "thread",
    )

    def __init__(
        self,
        content: Any,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        emit: Callable[[Event], Any] | None = None,
    ) -> None:
        self.content: str | list[dict[str, Any]] = checked_content(content, "reply")
        self.given = self.content
        self.schema = schema
        self.thread = None if thread is None else _text(str(thread), "thread")
        self.run_id = secrets.token_hex(8) if run_id is None else _text(run_id, "run_id")
        self.emit = emit
        self.record: Record | None = None
        self.resumed = False


def checked_content(content: Any, what: str) -> str | list[dict[str, Any]]:
    """A text or blocks, which may be sent and remembered as they are.

    Raises:
        TypeError: it is neither
        ValueError: there are no blocks, or what is in them is not JSON
    """
    if isinstance(content, str):
        return readable(content)
    if not isinstance(content, list):
        raise TypeError(f"{what} takes a text or a list of blocks, not {type(content).__name__}")
    if not content:
        raise ValueError(f"{what} was given an empty list of blocks")
    try:
        blocks: list[dict[str, Any]] = copy_json(content)
    except NotJSON as error:
        raise ValueError(f"{what} takes blocks that are JSON: {error}") from None
    for number, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise TypeError(
                f"{what} takes blocks such as {{'type': 'text', 'text': …}}; "
                f"block {number} is {block!r:.80}"
            )
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise TypeError(f"{what}: block {number} is of type 'text' and has no text")
    return blocks


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 255:
        raise ValueError(f"{what}= is a text of 1 to 255 characters, not {given!r:.80}")
    return given
