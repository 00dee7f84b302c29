"""Every benchmark, one after the other, each in a process of its own; figures as JSON lines.

    python -m benchmarks [--quick] [--minutes N] [NAME ...]

A benchmark that uses more than its minutes of the processor, or none for so long, is ended: its
stacks say where it stood, and the next one begins. However busy the machine is, others get to
their end. The rows that miss their own target are printed last, on standard error, and end it with
1, as a benchmark that fails does.
Peers are measured in the same run where they are installed: pip install 'moothall[bench]'.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Thread
from typing import Any

import psutil

from benchmarks.measure import misses

NAMES = (
    *("imports", "messages", "turn", "sub_agents", "conversation", "society", "population"),
    *("agreement", "notes"),
    *("local_model", "choices", "loop", "dualact", "memory", "folder", "journal", "http", "amqp"),
    *("citations", "research", "research_speed", "hostile", "studio", "doors", "door_requests"),
    *("origins", "agentdojo", "attached", "injections", "mesa_models", "mesa_speed", "killed"),
    *("many", "evals", "durable", "theirs", "sugarscape"),
)


STANDS_STILL = 0.01
"""Which share of a processor a benchmark uses at least, unless it waits for what never comes."""
STACKS_S = 10
"""Seconds for a benchmark that is ended to print where it stood, or for its last rows."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--minutes",
        type=float,
        help="of the processor, the most that each may use; 40 by default, 20 if quick",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    minutes = options.minutes or (20 if options.quick else 40)
    failed, rows = [], list[dict[str, Any]]()
    for name in options.names or NAMES:
        print(f"benchmarks.{name} ...", file=sys.stderr)
        if fault := run(name, ["--quick"] * options.quick, minutes, rows):
            failed.append(f"benchmarks.{name} {fault}")
            print(failed[-1], file=sys.stderr)
    if failed:
        print("failed:", *failed, sep="\n  ", file=sys.stderr)
    missed = [miss(row) for row in rows if misses(row)]
    if missed:
        print("missed their target:", *missed, sep="\n  ", file=sys.stderr)
    return bool(failed or missed)


def miss(row: dict[str, Any]) -> str:
    """A row that misses its target, as a line to read."""
    figure = f"{row['value']:g} {row['unit']}".strip()
    if "ratio" in row:
        figure += f", ratio {row['ratio']:g}"
    return f"{row['metric']}: {row['variant']}: {figure}; target {row['target']}"


def run(name: str, args: list[str], minutes: float, rows: list[dict[str, Any]]) -> str:
    """Run a benchmark to its end and keep its rows; return what is wrong, or nothing."""
    command = [sys.executable, "-X", "faulthandler", "-m", f"benchmarks.{name}", *args]
    # A pipe of our own: what a benchmark left running may hold it open, and nothing waits for that.
    read_end, write_end = os.pipe()
    reader = Thread(target=pass_on, args=(read_end, rows), daemon=True)
    reader.start()
    # The process group has all that it starts.
    with subprocess.Popen(command, process_group=0, stdout=write_end) as process:
        os.close(write_end)
        try:
            if fault := ended(process, 60 * minutes):
                process.send_signal(signal.SIGABRT)  # prints the stacks of its threads
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STACKS_S)
                return f"{fault} {minutes:g} minutes; more: --minutes {4 * minutes:g} {name}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reader.join(STACKS_S)
    return f"failed (exit code {process.returncode})" if process.returncode else ""


def pass_on(pipe: int, rows: list[dict[str, Any]]) -> None:
    """Print what comes from a pipe as it is, and keep the rows among it."""
    with open(pipe, "rb") as lines:
        for line in lines:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            with suppress(ValueError):  # a library printed something of its own
                if isinstance(row := json.loads(line), dict):
                    rows.append(row)


def ended(process: subprocess.Popen[bytes], most_s: float) -> str:
    """Wait for its end; return what it did for so many seconds if it does not come to it."""
    before = 0.0
    while True:
        try:
            process.wait(most_s)
        except subprocess.TimeoutExpired:
            used = used_s(process.pid)
            if used > most_s:
                return "used the processor for over"
            if used - before < STANDS_STILL * most_s:
                return "stood still for"
            before = used
        else:
            return ""


def used_s(pid: int) -> float:
    """Seconds of the processor of a process and of all that it has started."""
    used = 0.0
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += sum(each.cpu_times()[:4])  # its own, and those of its children that ended
    return used


if __name__ == "__main__":
    sys.exit(main())
