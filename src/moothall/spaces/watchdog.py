"""Detects an agent that blocks its space's loop, and logs its name."""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from moothall.agents.agent import Agent
from moothall.foundation.threads import guard, in_child
from moothall.spaces.delivery import Delivery
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.watchdog")

_OWN_PATHS = (str(Path(__file__).parent.parent), sysconfig.get_path("stdlib"), "<frozen")
_CHECK_INTERVAL_S = 0.25
MAX_BLOCK_S = 1.0
"""How long an agent may block the loop before its name is logged."""


@dataclass(slots=True, eq=False)
class _Pulse:
    """When a loop was asked for a beat, and whether the beat is still to come."""

    asked_at: float = 0.0
    is_pending: bool = False
    task_id: int = 0  # which task ran at the last look
    holder: str | None = None

    def beat(self) -> None:
        self.is_pending = False


class Watchdog:
    """A daemon thread that asks each watched loop for a beat, four times a second."""

    def __init__(self) -> None:
        self._lock = guard()
        self._reset()
        in_child(self._reset)

    def _reset(self) -> None:
        self._pulses: weakref.WeakKeyDictionary[Any, _Pulse] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None

    def watch(self, router: Router) -> None:
        """Watch a space's loop until `forget`."""
        with self._lock:
            self._pulses[router] = _Pulse()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._main, name="moothall-watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, router: Router) -> None:
        """Stop watching a space's loop."""
        with self._lock:
            self._pulses.pop(router, None)

    def _main(self) -> None:
        while True:
            with self._lock:
                pulses = list(self._pulses.items())
                if not pulses:
                    self._thread = None  # `watch` starts another
                    return
            while pulses:  # no reference to them is held while this waits
                self._check(*pulses.pop())
            threading.Event().wait(_CHECK_INTERVAL_S)

    def _check(self, router: Router, pulse: _Pulse) -> None:
        if not router.thread_id:  # its loop has ended, or belongs to the parent process
            self.forget(router)
            return
        now = time.monotonic()
        if not pulse.is_pending:
            if pulse.holder is not None:
                logger.warning(
                    "%s released the loop after about %.1f s", pulse.holder, now - pulse.asked_at
                )
                pulse.holder = None
            pulse.is_pending = True
            pulse.asked_at = now
            try:
                router.loop.call_soon_threadsafe(pulse.beat)
            except RuntimeError:  # the loop ended a moment ago
                self.forget(router)
            pulse.task_id = _running_task(router)
        elif router.is_at_own_work:
            pulse.asked_at = now
        elif pulse.holder is None and pulse.task_id != (task_id := _running_task(router)):
            # Many take their turns: none of them is too long.
            pulse.task_id, pulse.asked_at = (task_id, now)
        elif now - pulse.asked_at >= MAX_BLOCK_S and pulse.holder is None:
            holder, place = _find_holder(router)
            pulse.holder = holder
            logger.warning(
                "%s has held the loop of its space for over %.1f s, at %s: nothing else runs there "
                "meanwhile. Await what takes long, or make the action a plain def, which runs in a "
                "thread",
                holder,
                MAX_BLOCK_S,
                place,
            )


def _running_task(router: Router) -> int:
    """Return which task the loop runs now; 0 for none."""
    task = asyncio.current_task(router.loop)
    return 0 if task is None else id(task)


def _find_holder(router: Router) -> tuple[str, str]:
    """Describe what blocks the loop, and where in the code."""
    frame = sys._current_frames().get(router.thread_id)
    place = _place_in_code(frame)
    task = asyncio.current_task(router.loop)
    delivery: Delivery | None = router.tasks.delivery_of(task)
    if delivery is not None:
        return f'agent {delivery.mailbox.id!r} in "{delivery}"', place
    agent = _agent_in(frame)
    if agent is not None:
        return f"agent {agent.id!r}", place
    return "something that belongs to no agent", place


def _place_in_code(frame: FrameType | None) -> str:
    """Describe the innermost line of code outside of Python and moothall."""
    innermost = frame
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_PATHS):
        frame = frame.f_back
    frame = frame or innermost
    if frame is None:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _agent_in(frame: FrameType | None) -> Agent | None:
    """Return the agent whose method is running, for tasks that an agent started itself."""
    while frame is not None:
        agent = frame.f_locals.get("self")
        if isinstance(agent, Agent) and hasattr(agent, "id"):  # else it is being made
            return agent
        frame = frame.f_back
    return None


WATCHDOG = Watchdog()
"""The watchdog of this process."""
