"""The batches of OpenAI's and Anthropic's servers: files of requests, states and results."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moothall.foundation.errors import ModelError
from moothall.foundation.http import HTTPResponse
from moothall.models.refusal import server_text
from moothall.models.remote.batch import CANCELLED, EXPIRED, Outcome
from moothall.models.remote.responses_format import is_response
from moothall.models.settings import joined_url

if TYPE_CHECKING:
    from moothall.models.remote.remote import RemoteModel

_FINAL_STATES = {"completed": EXPIRED, "expired": EXPIRED, "cancelled": CANCELLED}


class _BatchEndpoints:
    def __init__(self, model: RemoteModel, url: str) -> None:
        self._model, self._url = model, url

    async def json_at(self, path: str, body: bytes | None = None, kind: str = "") -> Any:
        return await self._model.json_at(joined_url(self._url, path), body, kind)


class OpenAIBatches(_BatchEndpoints):
    """Batches of a server with OpenAI's `/files` and `/batches`."""

    async def create(self, requests: dict[str, bytes]) -> str:
        """Send requests as a file, and begin a batch of it."""
        url = "/v1/chat/completions"
        if is_response(next(iter(requests.values()))):
            url = "/v1/responses"
        line = b'{"custom_id": "%b", "method": "POST", "url": "%b", "body": %b}\n'
        lines = [line % (id.encode(), url.encode(), body) for id, body in requests.items()]
        mark = secrets.token_hex(16)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="'
        purpose = f'{head}purpose"\r\n\r\nbatch\r\n'
        file = f'{head}file"; filename="batch.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
        body = b"".join([purpose.encode(), file.encode(), *lines, f"\r\n--{mark}--\r\n".encode()])
        uploaded = await self.json_at("/files", body, f"multipart/form-data; boundary={mark}")
        request = {"input_file_id": uploaded["id"], "endpoint": url, "completion_window": "24h"}
        return str((await self.json_at("/batches", json.dumps(request).encode()))["id"])

    async def poll(self, batch: str) -> tuple[dict[str, Outcome], Outcome] | None:
        """Return what the files of a batch say."""
        batch_state = await self.json_at(f"/batches/{batch}")
        status = batch_state.get("status")
        if status == "failed":
            errors = batch_state.get("errors")
            error_texts = [server_text(each) for each in (errors or {}).get("data") or ()][:3]
            raise ModelError(f"{self._model.name}: batch {batch} failed: {'; '.join(error_texts)}")
        if status not in _FINAL_STATES:
            return None
        outcomes: dict[str, Outcome] = {}
        for file in filter(
            None, (batch_state.get("output_file_id"), batch_state.get("error_file_id"))
        ):
            url = joined_url(self._url, f"/files/{file}/content")
            for line in _lines(await self._model.send_to(url, None)):
                outcomes[str(line.get("custom_id"))] = _outcome_of_line(line)
        return outcomes, Outcome(_FINAL_STATES[status])

    async def cancel(self, batch: str) -> None:
        """Cancel a batch; what was answered until then can be read."""
        await self.json_at(f"/batches/{batch}/cancel", b"{}")


def _lines(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the results in a file; a request without one is made again."""
    for line in response.content.splitlines():
        with suppress(ValueError, RecursionError):
            result = json.loads(line)
            if isinstance(result, dict):
                yield result


def _outcome_of_line(line: dict[str, Any]) -> Outcome:
    response, error = line.get("response"), line.get("error")
    if isinstance(response, dict):
        body = json.dumps(response.get("body")).encode()
        return Outcome(int(response.get("status_code") or 500), body)
    code = error.get("code") if isinstance(error, dict) else None
    if code in ("batch_expired", "batch_cancelled"):
        return Outcome(EXPIRED if code == "batch_expired" else CANCELLED)
    return Outcome(500, json.dumps({"error": error}).encode())


class AnthropicBatches(_BatchEndpoints):
    """Message batches of Anthropic's server."""

    async def create(self, requests: dict[str, bytes]) -> str:
        """Send requests."""
        items = [
            b'{"custom_id": "%b", "params": %b}' % (id.encode(), body)
            for id, body in requests.items()
        ]
        return str((await self.json_at("", b'{"requests": [%b]}' % b", ".join(items)))["id"])

    async def poll(self, batch: str) -> tuple[dict[str, Outcome], Outcome] | None:
        """Return the results of a batch, from the server that was asked, whatever it names."""
        if (await self.json_at(f"/{batch}")).get("processing_status") != "ended":
            return None
        response = await self._model.send_to(joined_url(self._url, f"/{batch}/results"), None)
        outcomes: dict[str, Outcome] = {}
        for line in _lines(response):
            result = line.get("result") or {}
            outcome = Outcome(CANCELLED if result.get("type") == "canceled" else EXPIRED)
            if result.get("type") == "succeeded":
                outcome = Outcome(200, json.dumps(result.get("message")).encode())
            elif result.get("type") == "errored":
                error = result.get("error") or {}
                kind = (error.get("error") or error).get("type")
                outcome = Outcome(_STATUS.get(str(kind), 400), json.dumps(error).encode())
            outcomes[str(line.get("custom_id"))] = outcome
        return outcomes, Outcome(EXPIRED)

    async def cancel(self, batch: str) -> None:
        """Cancel a batch; what was answered until then can be read."""
        await self.json_at(f"/{batch}/cancel", b"{}")


_STATUS = {"api_error": 500, "overloaded_error": 529, "rate_limit_error": 429, "timeout_error": 504}
_STATUS |= {"authentication_error": 401, "permission_error": 403, "not_found_error": 404}
