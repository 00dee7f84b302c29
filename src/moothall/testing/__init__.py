"""Conformance suites for what others write: memories, models and spaces, by pytest.

A suite is a class of tests. Derive a class whose name begins with `Test`, and say how yours is
made: `make(…)`. It needs the extra `testing`.

Raises:
    MissingExtra: pytest or hypothesis is not installed
"""

from moothall import MissingExtra
from moothall.build import lazily

MissingExtra.unless("moothall.testing", "testing", "pytest", "hypothesis")

import pytest  # noqa: E402 - after the check that says how to install it

# A failed assertion shows its values only in modules that pytest rewrites before their import.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{each}"
        for each in ("memory_suite", "model_suite", "space_suite", "space_agents")
    )
)

__getattr__, __dir__ = lazily(__name__)
