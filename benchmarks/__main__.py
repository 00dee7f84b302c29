"""Every benchmark, one after the other, each in a process of its own; figures as JSON lines.

    python -m benchmarks [--quick] [NAME ...]

Peers are measured in the same run where they are installed: pip install 'moothall[bench]'.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

NAMES = (
    *("imports", "messages", "turn", "sub_agents", "conversation", "society", "population"),
    *("agreement", "notes"),
    *("local_model", "choices", "loop", "dualact", "memory", "folder", "journal", "http", "amqp"),
    *("citations", "research", "research_speed", "hostile", "studio", "doors", "door_requests"),
    *("origins", "agentdojo", "injections", "mesa_models", "killed"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = 0
    for name in options.names or NAMES:
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        if options.quick:
            command.append("--quick")
        if subprocess.run(command, check=False).returncode:
            print(f"benchmarks.{name} failed", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
