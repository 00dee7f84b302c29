"""What a server sends, on its way to the SDK's session: bounded, and without what would break it.

The session refuses a whole list for one wrong definition in it, checks results by expressions of
the server's that may never end, and starts a task for each notification, heard or not.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from moothall.build import counted, json_line, one_line, shorten
from moothall.serving.mcp.listing import MAX_TOOLS, OUTPUT_SCHEMA

if TYPE_CHECKING:
    import asyncio

logger: logging.Logger = logging.getLogger("moothall.serving.mcp")

MAX_UNREQUESTED: Final = 100_000
"""So many messages may a server send between two answers."""
MAX_RESULT_PARTS: Final = 10_000
"""So many parts may a result have."""
_EXCERPT_CHARS: Final = 10_000
"""How many characters of a part that is not known are shown."""
_LOG_METHOD: Final = "notifications/message"
"""What nobody here hears."""
_LIST_CHANGES: Final = {
    f"notifications/{each}/list_changed": each == "tools"
    for each in ("tools", "resources", "prompts")
}
"""How a server says that a list has changed, and whether that is the list of its tools."""
_PROGRESS_METHOD: Final = "notifications/progress"
_MANY_UNREQUESTED: Final = 1000
"""From so many messages without an answer on, each hundredth of progress is told."""
_MAX_LOGGED: Final = 5
"""How many of the definitions that are left out the log names."""


class OpenSession(Protocol):
    """What is known of an open connection."""

    client: Any
    end_event: asyncio.Event  # nothing comes any more
    is_closed: bool  # nothing is read any more
    fault: str  # why nothing more is read


@asynccontextmanager
async def filtered_streams(
    transport: Any, session: OpenSession, name: str, on_list_change: Callable[[bool], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a transport of the SDK, where what is received is sifted.

    `on_list_change` is called when the server says that a list has changed, with whether it is the
    tools'.
    """
    async with transport as (incoming, outgoing):
        yield FilteredStream(incoming, session, name, on_list_change), outgoing


class FilteredStream:
    """The stream of a server's messages, as the session reads it."""

    def __init__(
        self, stream: Any, session: OpenSession, name: str, on_list_change: Callable[[bool], None]
    ) -> None:
        self._stream = stream
        self._session = session
        self._name = name
        self._on_list_change = on_list_change
        self._unrequested_count = 0

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, where a transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message that the session needs."""
        while True:
            message = self._filter_item(await self._stream.receive())
            if message is not None:
                return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while True:
            try:
                message = self._filter_item(await self._stream.__anext__())
            except BaseException:  # it ends, breaks or is closed
                self._session.is_closed = True
                raise
            if message is not None:
                return message
            if self._session.fault:
                raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _filter_item(self, item: Any) -> Any:
        """Return a message as the session gets it; None for one that it does not get."""
        message = getattr(item, "message", None)
        method = getattr(message, "method", None)
        if method is not None:
            self._unrequested_count += 1
            if self._unrequested_count >= MAX_UNREQUESTED:
                problem = f"it sent {MAX_UNREQUESTED:,} messages, and answered nothing meanwhile"
                self._session.fault = problem
                self._session.end_event.set()
            if method in _LIST_CHANGES:
                self._on_list_change(_LIST_CHANGES[method])
            is_ignored = method in (_LOG_METHOD, *_LIST_CHANGES) or (
                method == _PROGRESS_METHOD
                and self._unrequested_count > _MANY_UNREQUESTED
                and self._unrequested_count % 100
            )
            return None if self._session.fault or is_ignored else item
        self._unrequested_count = 0
        result = getattr(message, "result", None)
        if not isinstance(result, dict):
            return item
        if not isinstance(result.get("tools"), list):
            lists = [each for each in result.values() if isinstance(each, list)]
            if any(len(each) > MAX_RESULT_PARTS for each in lists):
                return _size_error(item)
            for name, convert in _PART_CONVERTERS.items():
                if isinstance(result.get(name), list):
                    result[name] = [convert(each) for each in result[name]]
            return item
        if len(result["tools"]) > MAX_TOOLS:  # which is refused, and would take long to be read
            result["tools"] = result["tools"][: MAX_TOOLS + 1]
        else:
            self._drop_invalid_tools(result)
        return item

    def _drop_invalid_tools(self, result: dict[str, Any]) -> None:
        """Leave out the tools of a list that the protocol does not allow, unless none is left."""
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        def fault_of(tools: list[Any]) -> str:
            try:
                validate_server_result("tools/list", revision, {**result, "tools": tools})
            except ValidationError as error:
                first_error = error.errors(include_url=False, include_input=False)[0]
                return f"{'.'.join(map(str, first_error['loc'][2:]))}: {first_error['msg']}"
            return ""

        for tool in result["tools"]:
            if not isinstance(tool, dict):
                continue
            schema, output_schema = tool.get("inputSchema"), tool.pop("outputSchema", None)
            if isinstance(schema, dict):  # some servers leave out what is the only one allowed
                schema.setdefault("type", "object")
            meta = tool.get("_meta")
            if output_schema is not None and isinstance(meta, dict | None):
                tool["_meta"] = {**(meta or {}), OUTPUT_SCHEMA: output_schema}
        try:
            revision = self._session.client.protocol_version
            if fault_of([]) or not fault_of(result["tools"]):
                return
        except (RuntimeError, KeyError, ValueError):  # it is no answer to the question for a list
            return
        faults = [(tool, fault_of([tool])) for tool in result["tools"]]
        allowed_tools = [tool for tool, reason in faults if not reason]
        if not allowed_tools:
            return
        result["tools"] = allowed_tools
        left_out_texts = [
            f"{str(tool.get('name') if isinstance(tool, dict) else tool)[:80]!r} ({reason})"
            for tool, reason in faults
            if reason
        ]
        names = ", ".join(
            [
                *left_out_texts[:_MAX_LOGGED],
                *(["others"] if len(left_out_texts) > _MAX_LOGGED else []),
            ]
        )
        logger.warning(
            "%s: %s left out, since the protocol does not allow the definition: %s",
            self._name,
            f"{counted(len(left_out_texts), 'tool')} {'is' if len(left_out_texts) == 1 else 'are'}",
            one_line(names, 1000),
        )


def _known_contents(contents: Any) -> Any:
    """Return contents of a resource, or a text that shows what the protocol does not know."""
    block = isinstance(contents, dict) and _known_block({"type": "resource", "resource": contents})
    if not block or block["type"] == "resource":
        return contents
    return {"uri": str(contents.get("uri", "")), "text": block["text"]}


def _known_block(block: Any) -> Any:
    """Return a block of content, or one that shows as text what the protocol does not know."""
    if not isinstance(block, dict):
        return block
    try:
        _block_adapter().validate_python(block)
        return block
    except ValueError:
        excerpt = shorten(json_line(block), _EXCERPT_CHARS)
        return {"type": "text", "text": f"(a part of a kind that is not known here: {excerpt})"}


def _known_message(message: Any) -> Any:
    """Return a message of a prompt, of which the content may be shown as text."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), dict):
        return message
    return {**message, "content": _known_block(message["content"])}


_PART_CONVERTERS: Final = {
    "content": _known_block,
    "contents": _known_contents,
    "messages": _known_message,
}
"""What the lists of results may have that the protocol does not know."""


@cache
def _block_adapter() -> Any:
    """Return what checks a block of content."""
    from mcp_types import ContentBlock
    from pydantic import TypeAdapter

    return TypeAdapter(ContentBlock)


def _size_error(item: Any) -> Any:
    """Return an error in place of an answer, whose parts would take long to be read."""
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

    error = ErrorData(
        code=INTERNAL_ERROR, message=f"its answer has more than {MAX_RESULT_PARTS:,} parts"
    )
    return replace(item, message=JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error))
