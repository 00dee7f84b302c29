"""The check of looks, of `make check`."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
PAGE = """
| a model may have | by default | |
| --- | --- | --- |
| `batch` | `False` | answers late |
| `skip(number)`, `find_context()` | `None` | methods |
| `forget(id)` | – | a program calls it |

| `other` | is |
| --- | --- |
| `closed` | `False` |
"""


@pytest.mark.parametrize(
    ("look", "fault"),
    (
        ("getattr(model, 'batch', False)", ""),
        ("hasattr(model, 'batch')", ""),
        ("getattr(model, 'find_context', None)", ""),
        ("getattr(error, 'strerror', '')", ""),
        ("getattr(model, '__name__', '')", ""),
        ("getattr(model, 'batch', None)", "'batch' must be False, got None"),
        ("getattr(model, 'forget', None)", "'forget' is on no page, got None"),
        ("getattr(model, 'closed', False)", "'closed' is on no page, got False"),
        ("hasattr(model, 'warm')", "'warm' is on no page, got None"),
    ),
)
def test_check_looks_finds_what_no_page_lists_and_another_default(
    look: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    check = runpy.run_path(str(SCRIPTS / "check_looks.py"))
    defaults: dict[str, Any] = {}
    for name, default in check["defaults_in"](PAGE):
        defaults.setdefault(name, set()).add(default)
    faults = check["faults_of"]([*check["looks_in"](ast.parse(look), "a.py")], defaults)
    assert faults == ([f"a.py:1: the default of {fault}"] if fault else [])
