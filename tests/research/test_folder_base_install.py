"""The base install reads text: what only an extra brings is asked for where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

READS = """
import sys
sys.modules["charset_normalizer"] = None
from moothall import Researcher
from moothall.research import search_folder
report = Researcher("r", None, ["How tall is the tower?"], [search_folder("notes")]).report_sync()
print(report.markdown)
"""


def test_text_in_utf_8_is_read_without_an_extra(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tower.md").write_text("Ада и Жюль – the tower is 77 metres tall. Größe!")
    done = subprocess.run(
        [sys.executable, "-c", READS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "77 metres tall" in done.stdout
    assert "not read" not in done.stderr
