"""The check of boundaries, of `make check`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
FILES = {
    "__init__.py": "",
    "__init__.pyi": (
        "from house.desk import Chair as Chair\nfrom house.desk import Drawer as Drawer\n"
    ),
    "desk.py": (
        "from house.wood import sawn\n"
        "class Drawer:\n"
        "    def __init__(self): self._key = 1\n"
        "    def same(self, other): return other._key == self._key\n"
        "class Desk: ...\n"
        "class Chair: ...\n"
        "def is_open(drawer): return drawer._key\n"
    ),
    "wood.py": "def sawn(): ...\ndef planed(): ...\n",
    "studio/__init__.py": "",
    "studio/page.py": (
        "from house import Drawer, wood\n"
        "from house.desk import Chair, Desk, sawn\n"
        "from house.studio.form import Form\n"
        "class Page:\n"
        "    def show(self, drawer): return drawer._key, getattr(drawer, '_key')\n"
        "    def cut(self): return wood.planed(), self._row._asdict(), self._row._of_library\n"
    ),
    "studio/form.py": "class Form: ...\n",
}


def test_check_boundaries_finds_undeclared_names_detours_and_reads_of_private_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        (tmp_path / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "house" / name).write_text(text)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    check = runpy.run_path(str(SCRIPTS / "check_boundaries.py"))
    source = check["Source"](tmp_path / "house", {"house"})
    assert source.names_taken() == [
        "studio/page.py:1 house.wood.planed",
        "studio/page.py:2 house.desk.Desk",
        "studio/page.py:2 house.wood.sawn",
    ]
    assert source.detours() == ["studio/page.py:2 house.desk.Chair"]
    assert source.private_reads() == [
        "studio/page.py:5 drawer._key",
        "studio/page.py:5 drawer._key",
    ]
