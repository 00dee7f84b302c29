"""The page of the suites says what each promises: the names of its tests, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall import testing

PAGE = Path(__file__).parent.parent / "docs" / "suites.md"
SUITES = sorted(name for name in dir(testing) if name.endswith("Conformance"))


def table_of(suite: type) -> str:
    """The tests that a suite adds to its base, as a table."""
    kind = suite.__mro__[-2].__name__.removesuffix("Conformance").lower()
    names = [each.removeprefix("test_") for each in vars(suite) if each.startswith("test_")]
    promises = [each.removeprefix(f"{kind}_").replace("_", " ") for each in names]
    head = f"| what a {kind} of `{suite.__name__}` does |\n| --- |\n"
    return head + "".join(f"| {each} |\n" for each in promises)


@pytest.mark.parametrize("name", SUITES)
def test_suites_page_has_the_promises_of_each(name: str) -> None:
    assert table_of(getattr(testing, name)) in PAGE.read_text()
