"""Questions about the settings of files that have a line for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall.research import Researcher, search_folder

FILES = {
    "tern_config": (
        "# This is the client configuration file of tern.  See the manual for more.\n\n"
        "Nest *\n#   ForwardLetters no\n#   Port 4711\n#   Seals red,blue\n#   StrictNests ask\n"
        "    HashNests yes\n"
    ),
    "flight.conf.sample": (
        "# CONNECTIONS\n\n#port = 5432\t\t\t\t# (change requires restart)\n"
        "#max_letters = 100\t\t\t# (change requires restart)\n"
        "#reserved_letters = 3\t\t\t# (change requires restart)\n#nests = '/tmp'\t\t# comma list\n"
        "\t\t\t\t\t# (change requires restart)\n"
    ),
    "journal.conf": "# Entries show the defaults.\n\n[Journal]\n#Burst=\n#RateBurst=10000\n",
    "unbound.conf": (
        "server:\n    # Enable IPv6 for all that is asked.\n    # do-ip6: yes\n\n    # No more.\n"
    ),
}


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("Which port does tern use by default?", "`Port 4711`"),
        ("What is the default value of ForwardLetters?", "`ForwardLetters no`"),
        ("Which seals does tern use?", "`Seals red,blue`"),
        ("What is the default of StrictNests?", "`StrictNests ask`"),
        ("What is the default of max_letters?", "`#max_letters = 100 # (change requires restart)`"),
        ("What is the default of RateBurst?", "`#RateBurst=10000`"),
        ("Which setting enables IPv6?", "`# do-ip6: yes`"),
    ),
)
def test_question_about_a_setting_is_answered_by_its_line(
    question: str, first: str, tmp_path: Path
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    search = search_folder(folder, index=tmp_path / "index.db", results=24)
    report = Researcher("r", None, [question], [search], 1).report_sync()
    assert first in report.citations[0].sentence
