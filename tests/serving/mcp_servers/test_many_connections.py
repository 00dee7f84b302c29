"""A thousand connections that are opened, closed and killed from elsewhere: nothing is left."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moothall import ACCESS_PERMITTED, MCPServerError
from moothall.serving import MCPAgent
from serving.mcp_servers.conftest import command


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> set[str]:
    found = set()
    for each in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ends just now
            found |= set((each / "children").read_text().split())
    return found


def one(number: int, log: Path) -> None:
    """Open a connection in one loop, use it in others, and end it in another way each time."""
    odd = MCPAgent("odd", command(), env={"LOG": str(log)}, access=ACCESS_PERMITTED, timeout_s=20)

    async def call(tool: str) -> Any:
        return await odd.server_actions()[f"odd_{tool}"].execute()

    async def abandoned() -> None:
        """Leave a call under way when the loop ends."""
        waiting = asyncio.ensure_future(call("wait"))
        await call("count")
        waiting.cancel()

    asyncio.run(odd.connect())
    asyncio.run(call("count"))
    way = number % 4
    if way == 0:
        asyncio.run(abandoned())
        thread = threading.Thread(target=odd.close)
        thread.start()
        thread.join()
    elif way == 1:
        os.kill(int(log.read_text().split()[1]), signal.SIGKILL)
        with suppress(MCPServerError):  # or the server was started again already
            asyncio.run(call("count"))
        odd.close()
    elif way == 2:

        async def foreign() -> None:
            task = asyncio.ensure_future(call("wait"))
            await asyncio.ensure_future(asyncio.to_thread(odd.close))
            with pytest.raises(MCPServerError):
                await task

        asyncio.run(foreign())
    else:
        closing = odd._connection
        assert closing is not None
        ended = closing._thread._thread
        assert ended is not None
        del odd, closing, call, abandoned
        while ended.is_alive():  # it may be about to let go of the last call
            gc.collect()
            ended.join(0.02)


def many(count: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one(0, tmp_path / "warm")
    gc.collect()
    before, others = descriptors(), children()
    for number in range(count):
        log = tmp_path / f"log{number}"
        one(number, log)
        log.unlink(missing_ok=True)
    gc.collect()
    for each in threading.enumerate():
        if each.name == "moothall-mcp":
            each.join(20)
    assert descriptors() <= before + 2
    assert children() <= others
    assert not [each for each in threading.enumerate() if each.name == "moothall-mcp"]
    assert not [each for each in caplog.messages if "cancel scope" in each or "Task" in each]
    used = time.process_time()
    threading.Event().wait(1)
    assert time.process_time() - used < 0.2  # nothing spins


def test_mcp_connections_that_end_in_any_way_leave_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many(4, tmp_path, caplog)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_mcp_thousand_connections_leave_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many(1000, tmp_path, caplog)
