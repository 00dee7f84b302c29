"""The calls of an A2A server: its card, and the methods over JSON-RPC."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

from moothall import ModelError
from moothall.build import (
    AllowedHosts,
    HTTPClient,
    HTTPError,
    HTTPResponse,
    ServerURL,
    Tracing,
    one_line,
)
from moothall.models import HeadersLike
from moothall.serving.a2a.wire import CARD_PATH, LIMIT_CODE, VERSION
from moothall.serving.a2a.wire_03 import VERSION_03, call_of_03, result_from_03

_MAX_BYTES: Final = 64 << 20


_MISSING_METHOD_CODES: Final = (-32004, -32601)
"""Codes of a method that the server does not offer, such as one that streams."""
_PASSING_CODES: Final = (-32603,)
"""Codes of what may pass: a failure inside the server."""
_LIMIT_CODES: Final = (LIMIT_CODE,)
_LONGEST_POLL_S: Final = 2.0
"""Seconds at most between two looks for a task whose server does not answer."""
_LIMIT_WAIT_S: Final = 5.0
"""How long a look for a task waits where a rate limit does not say how long."""


class ConnectionBroken(ModelError):
    """The answer has not come, or not all of it: what the server does is unknown."""

    wait_s: float | None = None
    """After how long the server is to be called again, if it says so."""


class LimitReached(ConnectionBroken):
    """The server refuses a call since a limit is reached, before it begins anything."""


class MissingMethod(ModelError):
    """The server does not offer a method, so it has done nothing."""


class _CardEndpoint(NamedTuple):
    """Where a server's methods are, as its card says."""

    url: str
    version: str
    streams: bool


class RemoteServer:
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
        hosts: AllowedHosts,
    ) -> None:
        self._name = name
        self._allowed_hosts = hosts
        self._url = ServerURL(url if url.endswith(".json") else f"{url}{CARD_PATH}")
        self._has_headers = bool(headers)
        # No call is sent again by itself: the server may have begun its task.
        self._client = HTTPClient(
            name,
            timeout_s=timeout_s,
            max_bytes=_MAX_BYTES,
            max_retries=0,
            keeps=False,
            headers=headers,
        )
        self._card_endpoint: _CardEndpoint | None = None
        self.fault = ""

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._client.aclose()

    async def can_stream(self) -> bool:
        """Return whether the server streams, which its card says."""
        return (await self._endpoint()).streams

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Call a method, and return its result.

        Raises:
            ConnectionBroken: the answer has not come
            ModelError: the server refuses the call, or answers with what is no answer
        """
        while True:
            endpoint = await self._endpoint()
            response = await self._send(endpoint, method, params, False)
            try:
                return self._result(endpoint, response.content, method)
            except LimitReached as error:
                await self._wait_for_limit(response, error)

    async def get_task(self, id: str) -> Any:
        """Return a task as it is now, once its server answers: looking changes nothing.

        The server may start anew meanwhile, for as long as the caller waits. `fault`
        says why the last look has failed.
        """
        pause_s = 0.25
        while True:
            self.fault = ""
            try:
                return await self.call("GetTask", {"id": id, "historyLength": 0})
            except ConnectionBroken as error:
                self.fault = f"; {error}"
                pause_s = min(2 * pause_s, _LONGEST_POLL_S)
                await asyncio.sleep(pause_s if error.wait_s is None else error.wait_s)

    async def stream(self, method: str, params: dict[str, Any]) -> AsyncIterator[Any]:
        """Call a method, and yield its results as they come."""
        while True:
            endpoint = await self._endpoint()
            response = await self._send(endpoint, method, params, True)
            try:
                if "event-stream" in response.headers.get("Content-Type", ""):
                    async with aclosing(response.events()) as events:
                        async for _, message in events:
                            yield self._result(endpoint, message, method)
                    return
                body = bytearray()
                while chunk := await response.read():
                    body += chunk
                    await asyncio.sleep(0)  # a server that never pauses holds up nobody
                yield self._result(endpoint, bytes(body), method)
                return
            except LimitReached as error:
                await self._wait_for_limit(response, error)
            except HTTPError as error:
                raise ConnectionBroken(f"{self._name}: {error}") from None
            finally:
                response.close()

    async def _wait_for_limit(self, response: HTTPResponse, error: ModelError) -> None:
        """Wait as long as a server says that refused a call; raise the error if it does not."""
        if response.wait_s is None or response.wait_s > self._client.timeout_s:
            raise error
        await asyncio.sleep(response.wait_s)  # it has begun nothing

    async def _send(
        self, endpoint: _CardEndpoint, method: str, params: dict[str, Any], stream: bool
    ) -> HTTPResponse:
        if endpoint.version == VERSION_03:
            method, params = call_of_03(method, params)
        call = {"jsonrpc": "2.0", "id": secrets.token_hex(8), "method": method, "params": params}
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json" if stream else "application/json",
            "A2A-Version": endpoint.version,
        }
        return await self._fetch("POST", endpoint.url, headers, json.dumps(call).encode(), stream)

    async def _fetch(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, stream: bool
    ) -> HTTPResponse:
        while True:
            all_headers = {**Tracing.trace_headers(), **headers}
            try:
                response = await self._client.request(
                    method, url, headers=all_headers, body=body, stream=stream
                )
            except HTTPError as error:
                self._card_endpoint = None  # the server may have another address by now
                raise ConnectionBroken(f"{self._name}: {error}") from None
            wait_s = response.wait_s
            if response.status != 429 or wait_s is None or wait_s > self._client.timeout_s:
                break
            await asyncio.sleep(wait_s)  # it has begun nothing
        if not 200 <= response.status < 300:
            self._card_endpoint = None
            body_text = one_line(response.content[:300].decode(errors="replace"), 200)
            text = f"{self._name}: {url} answered with status {response.status}"
            text += f": {body_text}" if body_text else ""
            if response.status in (401, 403):
                text += " (a token belongs in headers=, or the one there is wrong)"
            if not response.is_transient:
                raise ModelError(text)
            broken = ConnectionBroken(text)
            broken.wait_s = _LIMIT_WAIT_S if wait_s is None and response.status == 429 else wait_s
            raise broken
        return response

    def _result(self, endpoint: _CardEndpoint, body: bytes, method: str) -> Any:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ModelError(f"{self._name}: the server's answer to {method} is not JSON") from None
        if isinstance(answer, dict):
            if isinstance(error := answer.get("error"), dict):
                code = error.get("code")
                self._card_endpoint = None  # the card may say something else by now
                problem = f"{one_line(str(error.get('message')), 500)} ({code!r:.20})"
                codes_by_type = {
                    MissingMethod: _MISSING_METHOD_CODES,
                    LimitReached: _LIMIT_CODES,
                    ConnectionBroken: _PASSING_CODES,
                }
                error_type = next(
                    (each for each, codes in codes_by_type.items() if code in codes), ModelError
                )
                raise error_type(f"{self._name}: the server refuses {method}: {problem}")
            if "result" in answer:
                result = answer["result"]
                return result_from_03(result, method) if endpoint.version == VERSION_03 else result
        raise ModelError(f"{self._name}: the server's answer to {method} has no result")

    async def _endpoint(self) -> _CardEndpoint:
        """Return where the methods are, as the card says."""
        if self._card_endpoint is None:
            headers = {"Accept": "application/json"}
            response = await self._fetch("GET", self._url, headers, None, False)
            self._card_endpoint = self._endpoint_of(response.content)
        return self._card_endpoint

    def _absolute_url(self, address: str) -> str:
        """Return an address that a card names, absolute; ModelError if it may not be called."""
        try:
            url = ServerURL(urljoin(self._url, address))
            _ = url.origin  # refuses an invalid port
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

    def _check_server(self, url: ServerURL) -> None:
        """Raise unless a card's address is on the card's own server, or on an allowed host."""
        prefix = f"{self._name}: its card at {self._url} names the address {url!r:.200}"
        scheme, host, port = url.origin
        own_scheme, own_host, own_port = self._url.origin
        # "localhost" and "127.0.0.1" are one machine: servers on it write either.
        is_same_host = host == own_host or (url.is_loopback and self._url.is_loopback)
        if is_same_host and (scheme, port) == (own_scheme, own_port):
            return
        if self._has_headers:
            raise ModelError(f"{prefix} of another server, which is not given your headers=")
        if not self._allowed_hosts.includes(host, port):
            raise ModelError(
                f"{prefix} of another server, which is not called: if you trust that one, too, "
                f"pass allow_hosts=({f'{host}:{port}'!r},)"
            )

    def _endpoint_of(self, body: bytes) -> _CardEndpoint:
        try:
            card = json.loads(body)
        except (ValueError, RecursionError):
            card = None
        if not isinstance(card, dict):
            raise ModelError(f"{self._name}: {self._url} is no card of an A2A agent")
        interfaces = _interfaces_of(card)
        capabilities = card.get("capabilities")
        streams = isinstance(capabilities, dict) and capabilities.get("streaming") is True
        refusal: ModelError | None = None
        for version in (VERSION, VERSION_03):
            for binding, offered_version, address in interfaces:
                if binding != "JSONRPC" or not _is_of(version, offered_version):
                    continue
                try:
                    return _CardEndpoint(self._absolute_url(address), version, streams)
                except ModelError as error:  # another one may do
                    refusal = refusal or error
        if refusal is not None:
            raise refusal
        text = f"{self._name}: its card at {self._url} offers no A2A {VERSION} or {VERSION_03}"
        text += " over JSON-RPC"
        if interfaces:
            offers = ", ".join(f"{binding} {version}" for binding, version, _ in interfaces[:5])
            text += f", but {one_line(offers, 200)}"
        raise ModelError(text)


def _is_of(version: str, offered_version: str) -> bool:
    """Return whether an offered version is one that is spoken: all of 1, and all of 0.3."""
    spoken, offered = version.split("."), offered_version.split(".")
    return spoken[0] == offered[0] and (spoken[0] != "0" or spoken == offered[:2])


def _interfaces_of(card: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the bindings that a card offers, with versions and addresses: 1.0's, then 0.3's."""
    lists = [card.get("supportedInterfaces"), card.get("additionalInterfaces")]
    new, old = (each if isinstance(each, list) else [] for each in lists)
    version, binding = card.get("protocolVersion"), card.get("preferredTransport") or "JSONRPC"
    old = [{"transport": binding, "url": card.get("url")}, *old] if version else []
    rows = [(e, "protocolBinding", e.get("protocolVersion")) for e in new if isinstance(e, dict)]
    rows += [(e, "transport", version) for e in old if isinstance(e, dict)]
    return [(str(e.get(k)), str(v), e["url"]) for e, k, v in rows if isinstance(e.get("url"), str)]
