"""The `litellm` library: its import, and an event loop in its own thread.

The library keeps connections and tasks after the call that made them, and leaves them open in a
loop that ends. Here they have a loop that lasts as long as the process.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

from moothall.http.network import check_allowed
from moothall.threads import Channel, guard, in_child, renewed

_T = TypeVar("_T")
_EXIT_S = 5.0
_IMPORTING = renewed(threading.Lock())


def imported() -> Any:
    """Return the library, which takes some seconds to import."""
    with _IMPORTING:
        # By default it fetches these lists from the network; those that it includes suffice.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
        # Otherwise it reads the `.env` of the current folder into the environment.
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        import litellm

        litellm.suppress_debug_info = True  # else printed with every error
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            # Its own handler writes whole prompts to standard error; with none, Python's writes.
            logger.handlers[:] = [logging.NullHandler()]
            logger.propagate = False
        return litellm


class BackgroundLoop:
    """Runs async generators for callers of any thread and event loop; it starts on first use."""

    def __init__(self) -> None:
        self._lock = guard()
        self._reset()
        in_child(self._reset)

    def _reset(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def stream(self, make: Callable[[], AsyncIterator[_T]]) -> AsyncGenerator[_T, None]:
        """Run `make`'s generator on this loop and yield its parts; closing this cancels it."""
        # Without a bound: waiting for the reader would count against the server's time.
        came: Channel[_T] = Channel()

        async def pump() -> None:
            try:
                async for part in make():
                    came.put(part)
            except Exception as error:
                came.put(error)
            else:
                came.put(StopAsyncIteration())

        pumping = asyncio.run_coroutine_threadsafe(pump(), self._started())
        try:
            while True:
                yield await came.get()
        except StopAsyncIteration:
            return
        finally:
            pumping.cancel()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="litellm", daemon=True
                )
                self._thread.start()
                # atexit runs last in, first out: this runs before the library's own handlers.
                atexit.register(self._end)
            return self._loop

    def _end(self) -> None:
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_shut_down(self._loop), self._loop)
            self._thread.join(_EXIT_S)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    # No asyncio.Runner: its end starts a thread, which Python 3.12 refuses at interpreter exit.
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    try:
        await asyncio.gather(*others, return_exceptions=True)
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        await close_litellm_async_clients()
        await loop.shutdown_asyncgens()
    finally:
        loop.stop()


class _Loop(asyncio.SelectorEventLoop):
    """A loop that checks each connection, also of a redirect or a proxy: is it allowed?"""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            check_allowed(f"tcp://{host}", "litellm")
        await super().sock_connect(sock, address)


LOOP = BackgroundLoop()
