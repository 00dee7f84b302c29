"""Every benchmark, one after the other, each in a process of its own; figures as JSON lines.

    python -m benchmarks [--quick] [--minutes N] [NAME ...]

A benchmark that takes longer than its minutes is ended: its stacks say where it stood, and the
next one begins.
Peers are measured in the same run where they are installed: pip install 'moothall[bench]'.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress

NAMES = (
    *("imports", "messages", "turn", "sub_agents", "conversation", "society", "population"),
    *("agreement", "notes"),
    *("local_model", "choices", "loop", "dualact", "memory", "folder", "journal", "http", "amqp"),
    *("citations", "research", "research_speed", "hostile", "studio", "doors", "door_requests"),
    *("origins", "agentdojo", "injections", "mesa_models", "killed", "many"),
)


STACKS_S = 10
"""Seconds for a benchmark that is ended to print where it stood."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--minutes", type=float, help="the most that each may take; 20 by default, 10 if quick"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    minutes = options.minutes or (10 if options.quick else 20)
    failed = []
    for name in options.names or NAMES:
        print(f"benchmarks.{name} ...", file=sys.stderr)
        if fault := run(name, ["--quick"] * options.quick, minutes):
            failed.append(f"benchmarks.{name} {fault}")
            print(failed[-1], file=sys.stderr)
    if failed:
        print("failed:", *failed, sep="\n  ", file=sys.stderr)
    return bool(failed)


def run(name: str, args: list[str], minutes: float) -> str:
    """Run a benchmark to its end; return what is wrong, or nothing."""
    command = [sys.executable, "-X", "faulthandler", "-m", f"benchmarks.{name}", *args]
    with subprocess.Popen(command, process_group=0) as process:  # which has all that it starts
        try:
            code = process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # prints the stacks of its threads
            with suppress(subprocess.TimeoutExpired):
                process.wait(STACKS_S)
            return f"took over {minutes:g} minutes; more: --minutes {4 * minutes:g} {name}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return f"failed (exit code {code})" if code else ""


if __name__ == "__main__":
    sys.exit(main())
