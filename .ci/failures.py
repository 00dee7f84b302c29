"""A plugin of pytest that tells `.ci/run` what failed: `-p failures --failures=FILE`.

The file has how many tests ran, then the id of each that failed, one a line. It is not written when
some tests were not run: then those that failed are not all that is wrong.

When no test has begun or ended for `--silence` seconds, pytest is ended: the stacks are printed,
and FILE.still has the tests that were under way, one a line.
"""

from __future__ import annotations

import faulthandler
import os
import re
import threading
import time
from pathlib import Path
from typing import Any


class Failures:
    """Notes which tests failed, and writes the file at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, bool] = {}
        self._collected = True

    def pytest_collectreport(self, report: Any) -> None:
        self._collected = self._collected and not report.failed

    def pytest_runtest_logreport(self, report: Any) -> None:
        # pytest-xdist adds a test's group to its id, and reports a crash as a failure of the test.
        test = re.sub(r"@\w+$", "", report.nodeid)
        self._failed[test] = self._failed.get(test, False) or report.failed

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        if exitstatus == 1 and self._collected and not session.shouldfail:
            failed = [test for test, failed in self._failed.items() if failed]
            self._path.write_text("\n".join([str(len(self._failed)), *failed]) + "\n")


class Silence:
    """Ends pytest when no test has begun or ended for a long time."""

    def __init__(self, path: Path, longest_s: float, errors: int) -> None:
        self._path = path
        self._longest_s = longest_s
        self._errors = errors
        self._under_way: set[str] = set()
        self._heard = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._heard = time.monotonic()
        self._under_way.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._heard = time.monotonic()
        self._under_way.discard(nodeid)

    def pytest_unconfigure(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(min(5, self._longest_s / 4)):
            if time.monotonic() - self._heard > self._longest_s:
                under_way = sorted(self._under_way) or ["none"]
                self._path.write_text("\n".join(under_way) + "\n")
                said = f"no test began or ended for {self._longest_s:g} s; under way: "
                said += ", ".join(under_way)
                os.write(self._errors, f"\n{said}\n".encode())
                faulthandler.dump_traceback(self._errors)
                os._exit(3)


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--failures", type=Path)
    # More than any test of `make test` may take, and its worker to end.
    parser.addoption("--silence", type=float, default=600)


def pytest_configure(config: Any) -> None:
    # pytest-xdist's workers report to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config.getoption("failures")))
        still = config.getoption("failures").with_suffix(".still")
        longest_s = config.getoption("silence")
        config.pluginmanager.register(Silence(still, longest_s, os.dup(2)))
