"""The check of names, of `make check`."""

from __future__ import annotations

import runpy
from pathlib import Path

CHECK = runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "check_names.py"))


def test_check_names_finds_participles_relations_twins_and_tests_without_their_feature(
    tmp_path: Path,
) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "drawer.py").write_text(
        "class Asked:\n    told: int\n    calls_made: int\n\ndef is_taken(given, about): ...\n"
    )
    (tmp_path / "desk" / "lamp.py").write_text("class _Asked: ...\n")
    (tmp_path / "desk" / "test_lamp.py").write_text(
        "def test_a_lamp_is_lit(): ...\ndef test_lamp_is_lit(): ...\n"
    )
    names, relations, shared = CHECK["in_source"](tmp_path)
    assert names == [
        "desk/drawer.py:1 Asked",
        "desk/drawer.py:2 told",
        "desk/drawer.py:5 given",
        "desk/lamp.py:1 _Asked",
    ]
    assert relations == ["desk/drawer.py:5 about"]
    assert shared == ["desk/drawer.py:1 Asked", "desk/lamp.py:1 _Asked"]
    tests = CHECK["in_tests"](tmp_path)
    assert tests == ["desk/test_lamp.py:1 test_a_lamp_is_lit"]
    assert [*CHECK["faults"]("tests", tests, {})] == [
        "desk: 1 tests, and at most 0 may be: -v lists them"
    ]
    assert [*CHECK["faults"]("tests", tests, {"desk": 1})] == []
