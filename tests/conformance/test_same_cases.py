"""Every space is held to the same cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.conftest import COLLECTED, SPACES

HERE = Path(__file__).parent


def test_suite_collects_the_same_cases_for_each_space(request: pytest.FixtureRequest) -> None:
    cases: dict[str, list[str]] = {name: [] for name in SPACES}
    without = []
    for item in request.config.stash[COLLECTED]:
        if item.path.parent != HERE or item.path == Path(__file__):
            continue
        callspec = getattr(item, "callspec", None)
        if callspec is None or "make_space" not in callspec.params:
            without.append(item.nodeid)
            continue
        name = callspec.params["make_space"]
        # What stands behind an @ is the group of tests that one worker runs.
        test, _, ids = item.nodeid.partition("@")[0].rstrip("]").partition("[")
        others = ids.split("-")
        others.remove(name)
        cases[name].append(f"{test}[{'-'.join(others)}]")
    assert without == [], "tests of the suite that run over no space"
    first, *rest = cases.values()
    assert len(set(first)) == len(first)
    for other in rest:
        assert sorted(other) == sorted(first)
