"""How a server ends while it answers."""

from __future__ import annotations

import asyncio
import http.client
import logging
from typing import Any

import pytest

from moothall.serving.doors.server import HTTPServer


async def streams(scope: Any, receive: Any, send: Any) -> None:
    """An application that begins to answer, and does not end."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
        return
    if scope["path"] == "/fails":
        raise ValueError("a fault")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await asyncio.Event().wait()


def test_server_that_ends_while_an_answer_streams_logs_no_traceback_but_those_of_faults(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    logging.getLogger("uvicorn").propagate = True
    server = HTTPServer(streams, "127.0.0.1", 0, grace_s=1, log_config=None)
    server.start()
    server.listening.result(20)
    failing = http.client.HTTPConnection(*server.place, timeout=20)
    failing.request("GET", "/fails")
    assert failing.getresponse().status == 500
    failing.close()
    client = http.client.HTTPConnection(*server.place, timeout=20)
    client.request("GET", "/")
    assert client.getresponse().read(5) == b"begun"
    server.stop()
    assert server.join(20)
    client.close()
    # Once, also if another test has had uvicorn's loggers pass their records on.
    raised = {each.exc_info[1] for each in caplog.records if each.exc_info}
    assert [str(each) for each in raised] == ["a fault"]
