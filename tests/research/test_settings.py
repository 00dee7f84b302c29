"""Questions about the settings of files that have a line for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.research.quotes import shows

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
    "owl.conf": (
        "# The owl's file.\n\n#HuntAtNight yes\n# Specifies whether mice are eaten whole.\n"
        "#EatWhole no\n# Time in seconds after which a hunt is given up.\nHuntTimeout 90\n"
    ),
    "crow.ini": (
        "[nest]\n; Size of the nest in centimetres\nsize=40\n"
        "; Whether eggs are guarded by both birds\nguard-eggs=true\n"
    ),
    "heron.yaml": "pond:\n  # refuse fish that are too small\n  refuse-small: yes\n",
    "swift.toml": "[sleep]\n# Sleep while flying\nasleep-on-wing = true\n",
}


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("Which seals does tern use?", "`Seals red,blue`"),
        ("What is the default of StrictNests?", "`StrictNests ask`"),
        ("What is the default of max_letters?", "`#max_letters = 100 # (change requires restart)`"),
        ("What is the default of RateBurst?", "`#RateBurst=10000`"),
        ("Which setting enables IPv6?", "Enable IPv6 for all that is asked. … do-ip6: yes"),
        ("Which option gives up a hunt after some time?", "given up. … HuntTimeout 90"),
        ("Which option guards the eggs by both birds?", "both birds … guard-eggs=true"),
        ("Which option refuses small fish?", "too small … refuse-small: yes"),
        ("Which option makes swifts sleep while flying?", "flying … asleep-on-wing = true"),
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
    assert any(shows(each.sentence, first) for each in report.citations[:3])


def test_settings_question_that_no_setting_is_about_is_not_answered(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for name, text in FILES.items():
        (tmp_path / "etc" / name).write_text(text)
    search = search_folder(tmp_path / "etc", index=tmp_path / "index.db")
    assert (
        not Researcher("r", None, ["Which option paints the nest?"], [search])
        .report_sync()
        .citations
    )
