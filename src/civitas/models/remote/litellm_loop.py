"""The `litellm` library: how it is loaded, and an event loop in a thread of its own for it.

The library holds connections and tasks beyond the call that made them, and leaves them open in a
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

from civitas.http.network import check_allowed

_T = TypeVar("_T")
_AHEAD = 16
"""How many parts are held for a reader who is slower."""
_EXIT_S = 5.0
_IMPORTING = threading.Lock()


def imported() -> Any:
    """The library, which takes some seconds to load."""
    with _IMPORTING:
        # It would fetch these lists from the network; those that it brings do.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
        # Otherwise it reads the `.env` of whatever folder it runs in into the environment.
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        import litellm

        litellm.suppress_debug_info = True  # which it prints with every error
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            for handler in list(logger.handlers):
                logger.removeHandler(handler)  # to standard error, with all of the prompt
            logger.propagate = False
        return litellm


class BackgroundLoop:
    """Runs async generators for callers of any thread and event loop; it starts with the first.

    Under `CIVITAS_OFFLINE=1` nothing in this loop connects to another machine, wherever a redirect
    or a proxy may lead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()
        self._process = 0

    async def stream(self, make: Callable[[], AsyncIterator[_T]]) -> AsyncGenerator[_T, None]:
        """Iterate over what `make` gives, over there. Closed or cancelled, that is cancelled."""
        ahead: asyncio.Queue[tuple[_T] | BaseException] = asyncio.Queue(_AHEAD)

        async def pump() -> None:
            end: BaseException = StopAsyncIteration()
            try:
                async for part in make():
                    await ahead.put((part,))
            except Exception as error:
                end = error
            await ahead.put(end)

        loop = self._started()
        pumping = asyncio.run_coroutine_threadsafe(pump(), loop)
        try:
            while True:
                got = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ahead.get(), loop))
                if isinstance(got, StopAsyncIteration):
                    return
                if isinstance(got, BaseException):
                    raise got
                yield got[0]
        finally:
            pumping.cancel()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # In a process that was forked off, the thread has stayed with the parent.
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._stop = asyncio.Event()
                self._loop = _Loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="litellm", daemon=True
                )
                self._thread.start()
                # Last in, first out: before what the library itself does at the end.
                atexit.register(self._end)
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        await close_litellm_async_clients()

    def _end(self) -> None:
        if self._loop is not None and self._thread is not None and self._process == os.getpid():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_EXIT_S)


class _Loop(asyncio.SelectorEventLoop):
    """A loop that asks, before each connection, whether it is allowed."""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            check_allowed(f"tcp://{host}", "litellm")
        await super().sock_connect(sock, address)


LOOP = BackgroundLoop()
