"""An answer on its way: its bytes go to a reader, and its parts come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from moothall.foundation.http import HTTPError, HTTPResponse, wants_retry
from moothall.foundation.http.event_stream import BYTE_ORDER_MARK
from moothall.models.answer_reader import AnswerReader
from moothall.models.chat_answer import TransientError, retold
from moothall.models.protocol import StreamPart

_TRAILER_S = 3.0
"""How long the server is waited for once the answer is complete."""
_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How server-sent events begin."""


async def parts_of(
    response: HTTPResponse, answer: AnswerReader, stream: bool
) -> AsyncGenerator[StreamPart, None]:
    """Yield the pieces of an answer, and finally the whole; close the response in any case."""
    try:
        beginning = response.content
        # What a server calls its answer, and what was asked for, say little: it may be a stream,
        # whole, or a web page.
        while stream and not beginning.strip() and (data := await _next_bytes(response, answer)):
            beginning += data
        head = beginning.removeprefix(BYTE_ORDER_MARK).lstrip()
        if head.startswith(_EVENT_STARTS) or (stream and not head.startswith((b"{", b"[", b"<"))):
            for part in answer.feed(beginning):
                yield part
            while stream and not answer.has_ended and (data := await _next_bytes(response, answer)):
                for part in answer.feed(data):
                    yield part
            if stream and answer.has_ended:
                await response.drain()
        else:
            body = bytearray(beginning)
            while stream and (data := await response.read()):
                body += data
            for part in answer.take_whole(bytes(body)):
                yield part
    except TransientError as error:
        if wants_retry(response.headers) is False:
            raise retold(error, str(error)) from None
        raise
    finally:
        response.close()
    for part in answer.end():
        yield part


async def _next_bytes(response: HTTPResponse, answer: AnswerReader) -> bytes:
    if not answer.is_complete:
        return await response.read()
    # What may follow is its usage; some servers keep the stream open.
    with suppress(HTTPError, TimeoutError):
        async with asyncio.timeout(_TRAILER_S):
            return await response.read()
    return b""


async def parts_of_body(body: bytes, answer: AnswerReader) -> AsyncGenerator[StreamPart, None]:
    """Yield the pieces of an answer whose body came apart from it, and finally the whole."""
    for part in (*answer.take_whole(body), *answer.end()):
        yield part
