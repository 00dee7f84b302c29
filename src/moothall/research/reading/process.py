"""Read documents in a process of its own, with limits of memory, processor time and time.

Parsers of PDF, DOCX and EPUB can be made to take gigabytes and minutes. The process is kept for the
next document; it is killed if it takes too much, or if the call is stopped. Only JSON and the bytes
of documents pass between the two.
"""

from __future__ import annotations

import atexit
import base64
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from moothall import MissingExtra, UnreadableDocument
from moothall.build import guard, in_child
from moothall.research.findings import Section
from moothall.research.reading.document_kinds import document_kinds, kind_label
from moothall.research.reading.html import Document

MAX_MEMORY: Final = 768 * 2**20
"""Bytes of address space that reading a document may take, the interpreter included."""
WALL_S: Final = 140.0
_LEAST_CPU_S, _CPU_S_PER_MIB, _MAX_CPU_S = 4, 30, 120
_LARGEST_ANSWER: Final = 256 * 2**20
_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class ReadingCutOff(UnreadableDocument):
    """The reading of a document was cut off: at another time it may succeed."""


def cpu_seconds(size: int) -> int:
    """Return the seconds of the processor that reading a document of so many bytes may take."""
    return min(_MAX_CPU_S, _LEAST_CPU_S + math.ceil(_CPU_S_PER_MIB * size / 2**20))


class _ParserProcess:
    """A process that reads documents, one after the other."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["MALLOC_ARENA_MAX"] = "1"  # else each thread reserves memory
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "moothall.research.reading.worker", str(MAX_MEMORY)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it at once."""
        self._process.kill()

    def close(self) -> int:
        """End it, and return its exit code."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return code

    def forget(self) -> None:
        """Leave it to the process that started it, of which this one is a fork."""
        self._process.returncode = 0
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def read(self, kind: str, data: bytes, cpu_s: int) -> dict[str, Any] | None:
        """Return its answer about a document; None if it ended before that was there."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        header = json.dumps({"kind": kind, "size": len(data), "cpu": cpu_s}).encode()
        try:
            for piece in (header + b"\n", data):
                view = memoryview(piece)
                while view:
                    view = view[requests.write(view) or 0 :]
            size = _read_exactly(answers, 8)
            length = -1 if size is None else struct.unpack("<Q", size)[0]
            content = _read_exactly(answers, length) if 0 <= length <= _LARGEST_ANSWER else None
            answer = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None


def _read_exactly(pipe: Any, size: int) -> bytes | None:
    pieces, remaining = [], size
    while remaining:
        piece = pipe.read(min(remaining, 2**20))
        if not piece:
            return None
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


IDLE_S: Final = 10.0
"""Seconds that a process is kept without a document."""
_lock = guard()
# Each with what ends it, once it was idle for long.
_idle_timers: dict[_ParserProcess, threading.Timer] = {}


@atexit.register
def _close_idle() -> None:
    while _idle_timers:
        process, timer = _idle_timers.popitem()
        timer.cancel()
        process.close()


def _forget_idle() -> None:
    for each in _idle_timers:
        each.forget()
    _idle_timers.clear()


in_child(_forget_idle)  # they are the parent's


def _on_expiry(process: _ParserProcess) -> None:
    with _lock:
        if _idle_timers.pop(process, None) is None:
            return
    process.close()


class ProcessReading:
    """The reading of one document, for `cpu_s` seconds, which another thread may stop."""

    def __init__(self, kind: str, data: bytes, cpu_s: int | None = None) -> None:
        self._kind, self._data = kind, data
        self._cpu_s = cpu_seconds(len(data)) if cpu_s is None else cpu_s
        self._process: _ParserProcess | None = None
        self._stop_reason = ""  # it was killed

    def stop(self, reason: str = "it was stopped") -> None:
        """Kill the process, or prevent its start; nothing if the document was read."""
        with _lock:
            self._stop_reason = self._stop_reason or reason
            if self._process is not None:
                self._process.kill()

    def read(self) -> Document:
        """Read the document; UnreadableDocument says which limit it exceeds. It blocks."""
        kind = kind_label(self._kind)
        if package := document_kinds()[self._kind].package:
            MissingExtra.unless(f"reading {kind}", "research", package)
        answer, code = self._ask_process()
        if answer is None:
            if code == -signal.SIGXCPU:
                self._stop_reason = f"it took longer than {self._cpu_s} s of the processor"
            reason = self._stop_reason or f"its parser crashed ({_exit_reason(code)})"
            raise ReadingCutOff(f"the {kind} is not read: {reason}")
        if "error" in answer:
            raise UnreadableDocument(str(answer["error"])[:1000])
        sections = [
            Section(int(start), anchor, title) for start, anchor, title in answer["sections"]
        ]
        attached = [(name, base64.b64decode(content)) for name, content in answer["attached"]]
        return Document(
            answer["title"], answer["text"], sections, missing=answer["missing"], attached=attached
        )

    def _ask_process(self) -> tuple[dict[str, Any] | None, int]:
        """Return a process's answer, and the exit code of one that did not answer."""
        for may_retry in (True, False):
            process, was_idle = _ready_process()
            with _lock:
                self._process = process
                if self._stop_reason:
                    process.kill()
            timer = threading.Timer(WALL_S, self.stop, (f"it took longer than {WALL_S:g} s",))
            timer.daemon = True
            timer.start()
            try:
                answer = process.read(self._kind, self._data, self._cpu_s)
            finally:
                timer.cancel()
                with _lock:
                    self._process = None
            if answer is not None and not answer.get("last"):
                _give_back(process)
                return answer, 0
            code = process.close()
            # One that was kept may have been ended by something else.
            is_out_of_time = code == -signal.SIGXCPU
            if (
                answer is not None
                or self._stop_reason
                or is_out_of_time
                or not (was_idle and may_retry)
            ):
                return answer, code
        raise AssertionError


def _ready_process() -> tuple[_ParserProcess, bool]:
    """Return a process for a document, and whether it was kept since another one."""
    while True:
        with _lock:
            process, timer = _idle_timers.popitem() if _idle_timers else (None, None)
        if process is None or timer is None:
            return _ParserProcess(), False
        timer.cancel()
        if process.is_alive:
            return process, True
        process.close()


def _give_back(process: _ParserProcess) -> None:
    timer = threading.Timer(IDLE_S, _on_expiry, (process,))
    timer.daemon = True
    with _lock:
        if is_kept := not _idle_timers:
            _idle_timers[process] = timer
    if is_kept:
        timer.start()
    else:
        process.close()


def _exit_reason(code: int) -> str:
    if code == -signal.SIGABRT:  # PDFium's answer to memory that it does not get
        return f"SIGABRT, as beyond {MAX_MEMORY // 2**20} MiB of memory"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"
