"""A plugin of pytest that tells `.ci/run` what failed: `-p failures --failures=FILE`.

The file has how many tests ran, then the id of each that failed, one a line. It is not written when
some tests were not run: then those that failed are not all that is wrong.
"""

from __future__ import annotations

import re
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


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--failures", type=Path)


def pytest_configure(config: Any) -> None:
    # pytest-xdist's workers report to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config.getoption("failures")))
