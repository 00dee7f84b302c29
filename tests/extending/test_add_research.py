"""A search tool of a user's own; and one of a catalogue, which command and page have in a list."""

from __future__ import annotations

from email import message_from_bytes
from pathlib import Path

from tests.extending.conftest import Added

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


LISTED = (
    ("CATALOGUES: Final = {\n", '    "pubmed": _Catalogue("PubMed", "works of medicine"),\n'),
    ("    crossref: bool = False\n", "    pubmed: bool = False\n"),
)
DAY = '_DAY = re.compile(r"[12][0-9]{3}(?:-[01][0-9](?:-[0-3][0-9])?)?")\n'
NAMED = "from moothall.research.web.scholarly import search_{0} as search_{0}\n"
TOOL = """
def search_pubmed(*, since: date | str | None = None) -> Action:
    def search(query: str) -> list[Resource]:
        return [Resource("https://pubmed.example/1", "Waves", True, f"Waves of {since}.")]

    return Action("search_pubmed", search, "Search PubMed.")
"""
ORDER = """
from types import SimpleNamespace as It
from moothall.studio.orders.order import ResearchOrder
from moothall.studio.orders.research import check, researcher
from moothall.agents.replies.state import loaded
from moothall.studio.research import ResearchTab

order = ResearchOrder(["Waves?"], pubmed=True, since="2024")
check(order)
assert order.where == "PubMed" and order.in_words.endswith("PubMed, since 2024")
assert loaded(ResearchOrder, {"objectives": ["Waves?"], "arxiv": True}, "it").where == "arXiv"
tools = [each.name for each in researcher(order).tools.values()]
assert "search_pubmed" in tools, tools
tab = ResearchTab(It(journal=It(runs=lambda **_: [])), None)
(form,) = tab.forms()
label = {each.name: each.label for each in form.fields}["pubmed"]
assert label == "Search PubMed for works of medicine"
"""


def test_search_tool_of_a_catalogue_is_known_to_orders_command_and_page(added: Added) -> None:
    run = added(
        {
            "research/web/catalogues.py": LISTED,
            "research/web/scholarly.py": ((DAY, f"\n{TOOL}"),),
            "research/__init__.pyi": ((NAMED.format("crossref"), NAMED.format("pubmed")),),
        }
    )
    run("-c", ORDER)
    help = run("-m", "moothall", "research", "--help")
    assert "Search PubMed for works of medicine, too." in " ".join(help.split())
