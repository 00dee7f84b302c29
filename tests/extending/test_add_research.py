"""A search tool of a user's own, which reads a kind of file that `search_folder` does not."""

from __future__ import annotations

from email import message_from_bytes
from pathlib import Path

from moothall import Researcher, Resource

MAIL = b"""Subject: The bridge

The old bridge of Aarau was closed in 2019 because its piers had sunk by nine centimetres.
"""


def test_search_tool_of_a_users_own_is_cited(tmp_path: Path) -> None:
    (tmp_path / "bridge.eml").write_bytes(MAIL)

    def search_mail(query: str) -> list[Resource]:
        """Search the mails for the words of a query."""
        found = []
        for path in sorted(tmp_path.glob("*.eml")):
            mail = message_from_bytes(path.read_bytes())
            text = str(mail.get_payload())
            if any(word.strip("?") in text for word in query.split()):
                found.append(Resource(path.as_uri(), mail["Subject"], True, text))
        return found

    question = "Why was the old bridge of Aarau closed?"
    report = Researcher("Ann", objectives=[question], tools=[search_mail]).report_sync()
    assert "nine centimetres" in report.markdown
    assert [each.passage.url for each in report.citations] == [(tmp_path / "bridge.eml").as_uri()]
