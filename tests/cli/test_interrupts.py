"""A signal at any moment of a command ends it: none is lost, and none is needed twice."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.openai_server import HANG, OpenAIServer

WITHIN_S = 40  # on a machine with far more to do than it has processors
EXPERIMENT = """\
name: e
society: {citizens: 30, step: 1h}
metrics: [home]
workflow: [{run: 20d}]
seeds: 4
"""
COMPANY = """\
agents:
  Clerk: {ref: "served.py:Clerk"}
"""
SERVED = """\
from moothall import Agent


class Clerk(Agent): ...


clerk = Clerk("Clerk")
"""
SIMULATE = ("simulate", "--citizens", "300", "--days", "30")


def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Signalled:
    """Commands that do not end by themselves, each sent a signal some time after its start."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        (folder / "e.yaml").write_text(EXPERIMENT)
        (folder / "company.yaml").write_text(COMPANY)
        (folder / "served.py").write_text(SERVED)
        self.commands: dict[str, Callable[[], tuple[str, ...]]] = {
            "experiment": lambda: (
                "simulate",
                "e.yaml",
                "--jobs",
                "2",
                "--out",
                self.new(),
                "--yes",
            ),
            "town": lambda: SIMULATE,
            "act": lambda: ("act", "x", "--model", model),
            "research": lambda: ("research", "x", "--model", model, "--folder", "."),
            "serve": lambda: ("serve", "served:clerk", "--http", f"127.0.0.1:{port()}"),
            "company": lambda: ("serve", "company.yaml"),
        }
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return f"out{self.made}"

    def ends(self, name: str, number: int, after: float) -> str:
        """Send a signal after so many seconds; return what is wrong with how it ended."""
        process = subprocess.Popen(
            [sys.executable, "-m", "moothall", *self.commands[name]()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
        )
        timer = threading.Timer(after, process.send_signal, (number,))
        timer.start()
        try:
            said, _ = process.communicate(timeout=after + WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            if dropped_by_python(said):
                return ""
            return (
                f"{name}, {signal.strsignal(number)} after {after:.3f} s: lives on: {said[-300:]}"
            )
        finally:
            timer.cancel()
        right = process.returncode in (130, 0, -number)
        # Python itself handles what comes before its first line of ours.
        early = number == signal.SIGINT and "KeyboardInterrupt" in said and "in start" not in said
        if (right and "Traceback" not in said) or early:
            return ""
        return f"{name}, {number} after {after:.3f} s: {process.returncode}: {said[-2000:]}"


def dropped_by_python(said: str) -> bool:
    """Whether the interpreter dropped a Ctrl-C while it imported its own modules, and says so."""
    before, came, _ = said.partition("KeyboardInterrupt")
    return bool(came) and before.startswith("Exception ignored in") and "moothall" not in before


@pytest.fixture
def signalled(tmp_path: Path) -> Iterator[Signalled]:
    with OpenAIServer(HANG) as server:
        yield Signalled(tmp_path, f"{server.url}#m")


def wrong_ones(signalled: Signalled, count: int, at_once: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    names = [*signalled.commands]
    drawn = []
    for each in range(count):
        name = names[each % len(names)]
        number = draw.choice((signal.SIGINT, signal.SIGTERM))
        drawn.append((name, number, draw.uniform(0.05, 0.5 * at_once)))
    with ThreadPoolExecutor(at_once) as threads:
        return [each for each in threads.map(lambda one: signalled.ends(*one), drawn) if each]


def test_signal_at_a_random_moment_ends_each_command(signalled: Signalled) -> None:
    assert wrong_ones(signalled, 12, 4, seed=os.getpid()) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_commands_are_each_ended_by_two_thousand_signals_at_random_moments(
    signalled: Signalled,
) -> None:
    assert wrong_ones(signalled, 2000, 8, seed=7) == []
