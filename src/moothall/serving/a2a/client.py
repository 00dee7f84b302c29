"""The calls of an A2A server: its card, the methods over JSON-RPC, and what they tell of a task."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from moothall import ModelError
from moothall.build import HTTPClient, HTTPError, HTTPResponse, json_text, one_line, tracing
from moothall.foundation.http.addresses import is_of
from moothall.foundation.http.network import is_loopback
from moothall.foundation.threads import awaited
from moothall.models import HeadersLike
from moothall.models.server_events import ServerEvents
from moothall.models.settings import check_headers
from moothall.serving.a2a.wire import (
    CARD_PATH,
    COMPLETED,
    PAUSED,
    STATES,
    SUBMITTED,
    TERMINAL,
    VERSION,
    part_block,
)

_MOST_BYTES: Final = 64 << 20
_MOST_PARTS: Final = 10_000
_TEXTS: Final = ("text", "raw", "url", "mediaType", "filename")


class Broken(ModelError):
    """The answer has not come, or not all of it: what the server does is unknown."""


class RemoteTask:
    """What a server has told of a task, or the message that it answered with instead."""

    def __init__(self) -> None:
        self.id: str = ""
        self.has_id: asyncio.Event = asyncio.Event()  # set once there is an id
        self.context: str = ""
        self.state: str = SUBMITTED
        self.status_parts: list[dict[str, Any]] = []
        self.artifacts: dict[str, list[dict[str, Any]]] = {}
        self.message: list[dict[str, Any]] | None = None
        self._shown_artifacts: set[str] = set()  # the artifacts whose text was shown as it came
        self._is_disjoint = False  # whether what was shown is not how the text begins
        self._count = 0  # of the parts of all artifacts

    @property
    def rests(self) -> bool:
        """Whether the server does nothing more by itself."""
        return self.message is not None or self.state in TERMINAL | PAUSED

    @property
    def is_empty(self) -> bool:
        """Whether the task has completed, and nothing was told of what came of it."""
        return self.state == COMPLETED and bool(self.id) and not any(self._answers())

    @property
    def text(self) -> str:
        """The answer as a text: that of the artifacts, or else of the message."""
        between = "" if self.artifacts else "\n\n"  # those of an artifact may be its chunks
        return "\n\n".join(filter(None, (_text_of(each, between) for each in self._answers())))

    @property
    def reason(self) -> str:
        """What its status says: why the task stands, or what it asks; else the answer's text."""
        details = (p.get("text") or p.get("url") or p.get("data") for p in self.status_parts)
        return "\n\n".join(json_text(each) for each in details if each) or self.text

    @property
    def data(self) -> list[Any]:
        """The values among the parts of the answer."""
        return [part["data"] for parts in self._answers() for part in parts if "data" in part]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The files among the parts of the answer, as blocks of content."""
        blocks = (part_block(part) for parts in self._answers() for part in parts)
        return list(filter(None, blocks))

    def _answers(self) -> list[list[dict[str, Any]]]:
        if self.message is not None:
            return [self.message]
        paused = not self.artifacts or self.state in PAUSED  # it asks beside what there is so far
        return [*self.artifacts.values(), *([self.status_parts] if paused else [])]

    def take(self, update: Any) -> str:
        """Take an update; return the text that it adds, if the text before it stays as it was.

        Raises:
            ModelError: it is no update of the protocol
        """
        if not isinstance(update, dict):
            raise _nonsense(update)
        if (task := update.get("task")) is not None:
            self._identify(task, "id")
            self._set_status(task.get("status"))
            artifacts = _list(task.get("artifacts", []))
            return "".join([self._take_artifact(each, False) for each in artifacts])
        if (message := update.get("message")) is not None:
            self._identify(message, "taskId")
            self._is_disjoint = self._is_disjoint or self.message is not None
            self.message = _parts(message)
            return self._added_text("", _text_of(self.message, "\n\n"))
        if (status := update.get("statusUpdate")) is not None:
            self._identify(status, "taskId")
            self._set_status(status.get("status"))
        elif (artifact := update.get("artifactUpdate")) is not None:
            self._identify(artifact, "taskId")
            return self._take_artifact(artifact.get("artifact"), artifact.get("append") is True)
        return ""  # a status, or of a later revision

    def _added_text(self, id: str, text: str) -> str:
        """Return what the text of an artifact, or the message, adds at the end of all."""
        self._is_disjoint |= bool(text) and id != next(reversed(self.artifacts), id)
        if self._is_disjoint or not text:
            return ""
        between = "\n\n" if self._shown_artifacts and id not in self._shown_artifacts else ""
        self._shown_artifacts.add(id)
        return between + text

    def _identify(self, update: Any, key: str) -> None:
        if not isinstance(update, dict):
            raise _nonsense(update)
        id, context = update.get(key, ""), update.get("contextId", "")
        if not isinstance(id, str) or not isinstance(context, str):
            raise _nonsense(update)
        if self.id and id and id != self.id:
            raise ModelError("the server told of another task than the one that was asked for")
        self.id, self.context = id or self.id, context or self.context
        if self.id:
            self.has_id.set()

    def _set_status(self, status: Any) -> None:
        if not isinstance(status, dict) or status.get("state") not in STATES:
            raise _nonsense(status)
        self.state = status["state"]
        self.status_parts = [] if status.get("message") is None else _parts(status["message"])

    def _take_artifact(self, artifact: Any, append: bool) -> str:
        """Take an artifact, or a piece of one; the work is that of its own parts, not of all."""
        parts = _parts(artifact)
        id = artifact.get("artifactId", "")
        if not isinstance(id, str):
            raise _nonsense(artifact)
        parts_before, old, new = self.artifacts.setdefault(id, []), "", _text_of(parts, "")
        if append and parts_before:
            new = "".join([part["text"] for part in parts if "text" in part])
        elif parts_before:
            old = _text_of(parts_before, "")
            self._is_disjoint = self._is_disjoint or not new.startswith(old)
            self._count -= len(parts_before)
            parts_before.clear()
        parts_before += parts
        self._count += len(parts)
        if self._count > _MOST_PARTS:
            raise ModelError(f"the server sent more than {_MOST_PARTS} parts")
        return self._added_text(id, new[len(old) :])


def _text_of(parts: list[dict[str, Any]], separator: str) -> str:
    texts = [part["text"] for part in parts if "text" in part]
    if not texts:
        texts = [json_text(part["data"]) for part in parts if "data" in part]
    return separator.join(texts)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _nonsense(value)
    return value


def _parts(value: Any) -> list[dict[str, Any]]:
    """Return the parts of a message or artifact, checked."""
    if not isinstance(value, dict):
        raise _nonsense(value)
    parts = _list(value.get("parts", []))
    for part in parts:
        texts = [part.get(name, "") for name in _TEXTS] if isinstance(part, dict) else [None]
        if not all(isinstance(each, str) for each in texts):
            raise _nonsense(part)
    return list(parts)


def _nonsense(value: Any) -> ModelError:
    return ModelError(f"the server's answer does not follow A2A: {one_line(repr(value), 100)}")


class Server:
    """An A2A server, found by its card.

    Args:
        name: who calls it, for errors
        url: its address, at which its card is, or the card's own, which ends in `.json`
        headers: what each request states besides, or a function that returns it
        timeout_s: seconds until an answer has ended
        hosts: other hosts that its card may name
    """

    def __init__(
        self,
        name: str,
        url: str,
        headers: HeadersLike,
        timeout_s: float,
        hosts: frozenset[tuple[str, int | None]] = frozenset(),
    ) -> None:
        self._name = name
        self._hosts = hosts
        self._url = url if url.endswith(".json") else f"{url}{CARD_PATH}"
        self._headers = headers
        # No call is sent again by itself: the server may have begun its task.
        self._client = HTTPClient(
            name, timeout_s=timeout_s, max_bytes=_MOST_BYTES, max_retries=0, keeps=False
        )
        self._card_endpoint: tuple[str, bool] | None = None

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._client.aclose()

    async def streams(self) -> bool:
        """Return whether the server streams, which its card says."""
        return (await self._endpoint())[1]

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Call a method, and return its result.

        Raises:
            Broken: the answer has not come
            ModelError: the server refuses the call, or answers with what is no answer
        """
        response = await self._send(method, params, False)
        return self._result(response.content, method)

    async def stream(self, method: str, params: dict[str, Any]) -> AsyncIterator[Any]:
        """Call a method, and yield its results as they come."""
        response = await self._send(method, params, True)
        try:
            if "event-stream" not in response.headers.get("Content-Type", ""):
                body = bytearray()
                while data := await self._read(response):
                    body += data
                yield self._result(bytes(body), method)
                return
            events = ServerEvents(self._name)
            while data := await self._read(response):
                for _, message in events.feed(data):
                    yield self._result(message, method)
        finally:
            response.close()

    async def _read(self, response: HTTPResponse) -> bytes:
        await asyncio.sleep(0)  # a server that never pauses holds up nobody
        try:
            return await response.read()
        except HTTPError as error:
            raise Broken(f"{self._name}: {error}") from None

    async def _send(self, method: str, params: dict[str, Any], stream: bool) -> HTTPResponse:
        url, _ = await self._endpoint()
        call = {"jsonrpc": "2.0", "id": secrets.token_hex(8), "method": method, "params": params}
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json" if stream else "application/json",
            "A2A-Version": VERSION,
        }
        return await self._fetch("POST", url, headers, json.dumps(call).encode(), stream)

    async def _fetch(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, stream: bool
    ) -> HTTPResponse:
        own_headers = self._headers() if callable(self._headers) else self._headers
        extra = await awaited(own_headers) or {}
        check_headers(extra, self._name)
        headers = {**tracing.trace_headers(), **headers, **extra}
        try:
            response = await self._client.request(
                method, url, headers=headers, body=body, stream=stream
            )
        except HTTPError as error:
            self._card_endpoint = None  # the server may have another address by now
            raise Broken(f"{self._name}: {error}") from None
        if not 200 <= response.status < 300:
            self._card_endpoint = None
            body_text = one_line(response.content[:300].decode(errors="replace"), 200)
            text = f"{self._name}: {url} answered with status {response.status}"
            text += f": {body_text}" if body_text else ""
            if response.status in (401, 403):
                text += " (a token belongs in headers=, or the one there is wrong)"
            raise (Broken if response.status in (502, 503, 504) else ModelError)(text)
        return response

    def _result(self, body: bytes, method: str) -> Any:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ModelError(f"{self._name}: the server's answer to {method} is not JSON") from None
        if isinstance(answer, dict):
            if isinstance(error := answer.get("error"), dict):
                problem = f"{one_line(str(error.get('message')), 500)} ({error.get('code')!r:.20})"
                raise ModelError(f"{self._name}: the server refuses {method}: {problem}")
            if "result" in answer:
                return answer["result"]
        raise ModelError(f"{self._name}: the server's answer to {method} has no result")

    async def _endpoint(self) -> tuple[str, bool]:
        """Return the address of the methods and whether they stream, as the card says."""
        if self._card_endpoint is None:
            headers = {"Accept": "application/json"}
            response = await self._fetch("GET", self._url, headers, None, False)
            self._card_endpoint = self._endpoint_of(response.content)
        return self._card_endpoint

    def _absolute(self, address: str) -> str:
        """Return an address that a card names, absolute; ModelError if it may not be called."""
        try:
            url = urljoin(self._url, address)
            _origin(url)  # refuses an invalid port
        except ValueError as error:
            raise ModelError(
                f"{self._name}: its card at {self._url} names the address {address!r:.200}, "
                f"which is none: {error}"
            ) from None
        if not url.lower().startswith(("http://", "https://")):
            raise ModelError(
                f"{self._name}: its card at {self._url} names the address {url!r:.200}, which is "
                "not of http or https"
            )
        self._check_server(url)
        return url

    def _check_server(self, url: str) -> None:
        """Raise unless a card's address is on the card's own server, or on an allowed host."""
        names = f"{self._name}: its card at {self._url} names the address {url!r:.200}"
        scheme, host, port = _origin(url)
        own_scheme, own_host, own_port = _origin(self._url)
        # "localhost" and "127.0.0.1" are one machine: servers on it write either.
        is_same = host == own_host or (is_loopback(url) and is_loopback(self._url))
        if is_same and (scheme, port) == (own_scheme, own_port):
            return
        if self._headers:
            raise ModelError(f"{names} of another server, which is not given your headers=")
        if not is_of(self._hosts, host, port):
            raise ModelError(
                f"{names} of another server, which is not called: if you trust that one, too, pass "
                f"allow_hosts=({f'{host}:{port}'!r},)"
            )

    def _endpoint_of(self, body: bytes) -> tuple[str, bool]:
        try:
            card = json.loads(body)
        except (ValueError, RecursionError):
            card = None
        if not isinstance(card, dict):
            raise ModelError(f"{self._name}: {self._url} is no card of an A2A agent")
        interfaces = card.get("supportedInterfaces")
        offered: list[str] = []
        refused: ModelError | None = None
        for each in interfaces if isinstance(interfaces, list) else ():
            if not isinstance(each, dict):
                continue
            offered.append(f"{each.get('protocolBinding')} {each.get('protocolVersion')}")
            if (
                each.get("protocolBinding") == "JSONRPC"
                and str(each.get("protocolVersion")).partition(".")[0] == "1"
                and isinstance(each.get("url"), str)
            ):
                try:
                    url = self._absolute(each["url"])
                except ModelError as error:  # another one may do
                    refused = refused or error
                    continue
                capabilities = card.get("capabilities")
                streams = isinstance(capabilities, dict) and capabilities.get("streaming") is True
                return url, streams
        if refused is not None:
            raise refused
        text = f"{self._name}: its card at {self._url} offers no A2A {VERSION} over JSON-RPC"
        if offered:
            text += f", but {one_line(', '.join(offered[:5]), 200)}"
        raise ModelError(text)


_PORTS: Final = {"http": 80, "https": 443}


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, the host and the port of an address; ValueError if it has none."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(scheme)
