"""Servers at an address that refuse, or that nobody serves: the error says what to look at."""

from __future__ import annotations

from typing import Any

import pytest

from doors.conftest import serving
from moothall import MCPServerError
from moothall.mcp import MCPAgent


@pytest.mark.parametrize(
    ("status", "kind", "body", "headers", "told"),
    (
        (401, "text/plain", b"", {}, r"HTTP 401 Unauthorized \(it may want a token: headers="),
        (
            403,
            "application/json",
            b'{"why": "a bad key"}',
            {"Authorization": "Bearer x"},
            "a bad key",
        ),
        (404, "text/html", b"<html>", {}, "HTTP 404 Not Found$"),
        (500, "text/plain", b"out of paper", {}, "HTTP 500 Internal Server Error: out of paper"),
    ),
)
def test_mcp_address_that_answers_with_a_status_says_which(
    status: int,
    kind: str,
    body: bytes,
    headers: dict[str, str],
    told: str,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        stated = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": status, "headers": stated})
        await send({"type": "http.response.body", "body": body})

    with serving(app) as at, pytest.raises(MCPServerError, match=told) as caught:
        _ = MCPAgent("far", f"{at}/mcp", headers=headers).offers
    assert f"connecting to {at}/mcp failed" in str(caught.value)


def test_mcp_address_that_nobody_serves_is_named_without_what_may_be_secret() -> None:
    with pytest.raises(
        MCPServerError, match=r"connecting to http://127\.0\.0\.1:1/mcp failed"
    ) as caught:
        _ = MCPAgent("far", "http://me:s3cret@127.0.0.1:1/mcp?key=s3cret").offers
    assert "s3cret" not in str(caught.value)
