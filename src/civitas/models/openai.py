"""Models behind OpenAI's chat interface: OpenAI's own, and every server compatible with it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from civitas.errors import ContextOverflow, DefinitionError, MissingExtra, ModelError
from civitas.models.chat_format import (
    chat_messages,
    overflows,
    read_answer,
    response_format,
    said,
    tools,
)
from civitas.models.chat_stream import AnswerStream
from civitas.models.protocol import ModelReply, StreamPart
from civitas.models.remote import check_allowed, check_url

if TYPE_CHECKING:
    import openai

    from civitas.action import Action
    from civitas.models.connections import Body
    from civitas.models.limits import RateLimit, Reservation

__all__ = ["OpenAIModel"]

_OPENAI = "https://api.openai.com/v1"
# What complete() and stream() themselves say in a request.
_OWN_FIELDS = frozenset(
    ("messages", "model", "n", "response_format", "stream", "stream_options", "tools")
)
_LENGTHS = ("max_completion_tokens", "max_tokens")
_STREAM_USAGE = re.compile("stream_options|include_usage")
_MAX_BYTES = 64 * 2**20


class OpenAIModel:
    """A model behind OpenAI's chat interface, by the `openai` SDK.

    Without `base_url` it is OpenAI's (or the server that `OPENAI_BASE_URL` names), and the key is
    that of `OPENAI_API_KEY` if none is given. Any other server gets only the key that is given for
    it, since a key is not for strangers.

    An attempt that fails in a way that may pass (no connection, no answer in time, 408, 409, 429,
    5xx) is made again, `max_retries` times, after the time that the server asks for in
    `Retry-After`, or half a second and then twice as long each time. A server that asks for more
    than two minutes is not waited for. Redirects are not followed.

    It may be used from several event loops; each has its own connections, closed when the loop
    ends, or by `aclose()`, or by leaving `async with`.

    Args:
        name: what the provider calls the model
        base_url: the server, such as `http://127.0.0.1:8080/v1`
        api_key: the key
        context_tokens: how much a prompt and its answer may take together, where you know it; an
            agent's memory keeps to it
        max_tokens: how long an answer may be, in the field that the server knows (one that
            `options` names); None leaves it to the server, and then no budget can reckon with it
        temperature: 0 takes the likeliest token each time; the server decides if left out
        seed: of the draws, for servers that keep to it
        timeout: seconds that one attempt may take, to the end of its answer; of a streamed one,
            the seconds that the server is waited for
        max_retries: how many more attempts are made
        rate_limit: the limits of the provider, shared with others by sharing the object; a call
            counts once, however many attempts it takes
        connections: how many calls are on their way at once, in each event loop; others wait
        options: more fields of the request, such as `{"reasoning_effort": "low"}`

    Attributes:
        name: what `model()` takes for it: `openai:NAME`, or `http://host/v1#NAME`
        max_tokens: the longest answer that is asked for

    Raises:
        MissingExtra: the extra `openai` is not installed
        ModelError: OpenAI's own server needs a key, and there is none
        DefinitionError: an argument is not what it should be
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        context_tokens: int | None = None,
        max_tokens: int | None = 4096,
        temperature: float | None = None,
        seed: int | None = None,
        timeout: float = 600.0,
        max_retries: int = 2,
        rate_limit: RateLimit | None = None,
        connections: int = 100,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise DefinitionError(f"OpenAIModel: the name of a model is a text, not {name!r:.80}")
        limit = next((field for field in _LENGTHS if field in (options or {})), None)
        if limit is not None and options is not None:
            max_tokens = options[limit]
        for what, value, least in (
            ("context_tokens", context_tokens, 1),
            ("max_tokens", max_tokens, 1),
            ("max_retries", max_retries, 0),
            ("connections", connections, 1),
        ):
            if value is not None and (type(value) is not int or value < least):
                raise DefinitionError(
                    f"OpenAIModel: {what}= is an integer from {least} on, not {value!r}"
                )
        if not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
            raise DefinitionError(f"OpenAIModel: timeout= is a number of seconds, not {timeout!r}")
        wrong = sorted(_OWN_FIELDS & (options or {}).keys())
        if wrong:
            raise DefinitionError(f"OpenAIModel: options= cannot set {', '.join(wrong)}")
        self.model = name
        given = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        self.base_url = check_url(given, "OpenAIModel")
        self.name = f"{self.base_url}#{name}" if base_url else f"openai:{name}"
        self.context_tokens: int | None = context_tokens
        self.max_tokens = max_tokens
        self.rate_limit = rate_limit
        self.timeout = timeout
        self._max_retries = max_retries
        found = api_key or (None if base_url else os.environ.get("OPENAI_API_KEY"))
        if found is None and self.base_url == _OPENAI:
            raise ModelError(f"{self.name}: there is no key: set OPENAI_API_KEY, or pass api_key=")
        if found is not None and (not found.isascii() or not found.isprintable() or " " in found):
            raise ModelError(
                f"{self.name}: the key holds a character that no key has, such as a line break"
            )
        self._key = found or "none"
        # Until a server says that it does not know how.
        self._streams_usage = True
        self._fields: dict[str, Any] = {"model": name, **(options or {})}
        # OpenAI's newer models refuse the old name, and other servers do not know the new one.
        limit = limit or _LENGTHS[self.base_url != _OPENAI]
        for field, about in ((limit, max_tokens), ("temperature", temperature), ("seed", seed)):
            if about is not None:
                self._fields[field] = about
        self._sdk, self._http = _library()
        # Whole, because the SDK takes long to put it together.
        self._endpoint = f"{self.base_url}/chat/completions"
        sdk, http, called, url, key = self._sdk, self._http, self.name, self.base_url, self._key

        def open() -> openai.AsyncOpenAI:
            client = http.HttpClient(url, called, timeout, connections, _MAX_BYTES)
            made: openai.AsyncOpenAI = sdk.AsyncOpenAI(
                base_url=url, api_key=key, max_retries=max_retries, http_client=client
            )
            if base_url:
                made.organization = made.project = None  # like the key, they are for OpenAI's
            return made

        self._connections = http.Connections(open)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r}, {self.base_url!r})"

    async def __aenter__(self) -> OpenAIModel:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await self._connections.aclose()

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation.

        The arguments of calls are the provider's text, unparsed. Cancelled, the connection is
        closed.

        Raises:
            RemoteForbidden: `CIVITAS_OFFLINE=1`, and the server is not on this machine
            ContextOverflow: the server says that the prompt does not fit
            ModelError: there is no answer, or what came is none
        """
        content = self._begin(messages, actions, schema)
        reserved = await self._reserve(content)
        response = await self._post(content)
        reply = self._read(response.content, messages)
        self._settle(reserved, reply)
        return reply

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """Answer a conversation piece by piece, and then whole.

        Attempts are made again until the first byte of an answer is there, and no longer. Closed or
        cancelled, it closes the connection. A server that does not stream gives its answer in one
        piece. Calls come with the whole answer only.

        Raises:
            RemoteForbidden: `CIVITAS_OFFLINE=1`, and the server is not on this machine
            ContextOverflow: the server says that the prompt does not fit
            ModelError: there is no answer, it broke off, or what came is none
        """
        content = self._begin(messages, actions, schema)
        reserved = await self._reserve(content)
        body = await self._open(content)
        answer = AnswerStream(self.name, _calls(messages))
        try:
            while not answer.over and (data := await _more(body, answer)):
                for part in answer.feed(data):
                    yield part
            if answer.over:
                await body.finish()
            left, reply = answer.end()
        except ModelError as error:
            raise self._without_key(error) from error.__cause__
        finally:
            body.close()
        self._settle(reserved, reply)
        for part in left:
            yield part
        yield reply

    def _begin(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None,
        schema: dict[str, Any] | None,
    ) -> bytes:
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer")
        check_allowed(self.base_url, self.name)
        try:
            body = {**self._fields, "messages": chat_messages(messages, self.name)}
            if actions:
                body["tools"] = tools(actions)
            if schema is not None:
                body["response_format"] = response_format(schema)
            return json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.name}: what it was given is not JSON: {error}") from error

    async def _reserve(self, content: bytes) -> Reservation | None:
        if self.rate_limit is None:
            return None
        # One token for each three bytes, and the longest answer: rather too many than too few.
        return await self.rate_limit.acquire(len(content) // 3 + (self.max_tokens or 0))

    def _settle(self, reserved: Reservation | None, reply: ModelReply) -> None:
        spent = reply.usage.input_tokens + reply.usage.output_tokens
        if reserved is not None and spent:
            reserved.settle(spent)

    async def _open(self, content: bytes) -> Body:
        usage = self._streams_usage
        try:
            response = await self._post(_to_stream(content, usage), stream=True)
        except _NoUsage:
            if not usage:
                raise
            self._streams_usage = False
            response = await self._post(_to_stream(content, False), stream=True)
        body: Body = response.extensions["body"]
        return body

    async def _post(self, content: bytes, stream: bool = False) -> Any:
        client = await self._connections.client()
        try:
            # The SDK's own way to an endpoint without its models of requests and answers: these
            # take longer than the call, and let any answer pass for one.
            return await client.post(
                self._endpoint,
                content=content,
                cast_to=self._http.Response,
                stream=stream,
                stream_cls=self._sdk.AsyncStream if stream else None,
            )
        except self._sdk.APIError as error:
            raise self._failed(error) from error

    def _read(self, content: bytes, messages: list[dict[str, Any]]) -> ModelReply:
        try:
            return read_answer(content, self.name, _calls(messages))
        except ModelError as error:
            raise self._without_key(error) from None

    def _without_key(self, error: ModelError) -> ModelError:
        """The error, if what it says of the server's answer does not hold the key."""
        text = str(error)
        return type(error)(self._hidden(text)) if self._hidden(text) != text else error

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "…") if len(self._key) > 4 else text

    def _failed(self, error: openai.APIError) -> ModelError:
        """What the SDK says, in one line that names the model, and without the key."""
        tried = f"; tried {self._max_retries + 1} times" if self._max_retries else ""
        if isinstance(error, self._sdk.APITimeoutError):
            reason = f"{self.base_url} gave no answer within {self.timeout:g} s{tried}"
        elif isinstance(error, self._sdk.APIConnectionError):
            reason = f"no answer from {self.base_url}: {said(str(error.__cause__))}{tried}"
        elif isinstance(error, self._sdk.APIStatusError):
            reason = self._refused(error)
            if overflows(error.body):
                return ContextOverflow(f"{self.name}: {reason}; nothing was cut")
            if error.status_code in (400, 422) and _STREAM_USAGE.search(str(error.body)):
                return _NoUsage(f"{self.name}: {reason}")
        else:
            reason = said(str(error))
        return ModelError(f"{self.name}: {reason}")

    def _refused(self, error: openai.APIStatusError) -> str:
        status = error.status_code
        text = f"the server answered {status}: {said(error.body)}"
        text = self._hidden(text)
        if status in (401, 403):
            text += "; check api_key=, or OPENAI_API_KEY"
        elif status == 404:
            text += "; check the name of the model and base_url="
        elif status == 429 and (wait := error.response.headers.get("retry-after")):
            text += f"; it asks to wait {said(wait)} s"
        return text


class _NoUsage(ModelError):
    """A server does not know how to count the tokens of a stream, and refuses to try."""


def _to_stream(content: bytes, usage: bool) -> bytes:
    """A request for the same answer in pieces."""
    counted = b', "stream_options": {"include_usage": true}' if usage else b""
    return content[:-1] + b', "stream": true' + counted + b"}"


async def _more(body: Body, answer: AnswerStream) -> bytes:
    try:
        return await body.read()
    except ModelError:
        if answer.whole:
            return b""  # what is missing is nothing of the answer
        raise


def _calls(messages: list[dict[str, Any]]) -> int:
    return sum(len(message.get("tool_calls") or ()) for message in messages)


def _library() -> tuple[Any, Any]:
    try:
        import openai

        from civitas.models import connections
    except ImportError as error:
        raise MissingExtra("OpenAIModel", "openai") from error
    return openai, connections
