"""A search tool of a user's own; a catalogue, an engine and a kind of files, by rows of tables."""

from __future__ import annotations

from email import message_from_bytes
from pathlib import Path

import pytest
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
    (
        "CATALOGUES: Final = {\n",
        '    "pubmed": _CatalogueOffer("PubMed", "Search PubMed for works", "Ask PubMed."),\n',
    ),
    ("    crossref: bool = False\n", "    pubmed: bool = False\n"),
)
ARXIV_ID = '_ARXIV_ID = re.compile(r"https?://arxiv\\.org/abs/([\\w./-]{4,40})")\n'
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
from moothall.studio.orders.research import check_research as check, make_researcher as researcher
from moothall.agents.replies.state import load_state
from moothall.studio.research_tab import ResearchTab

order = ResearchOrder(["Waves?"], pubmed=True, since="2024")
check(order)
assert order.place == "PubMed" and order.in_words.endswith("PubMed, since 2024")
assert load_state(ResearchOrder, {"objectives": ["Waves?"], "arxiv": True}, "it").place == "arXiv"
tools = [each.name for each in researcher(order).tools.values()]
assert "search_pubmed" in tools, tools
tab = ResearchTab(It(journal=It(runs=lambda **_: [])))
(form,) = tab.forms()
label = {each.name: each.label for each in form.fields}["pubmed"]
assert label == "Search PubMed for works"
"""


@pytest.mark.long
def test_search_tool_of_a_catalogue_is_known_to_orders_command_and_page(added: Added) -> None:
    run = added(
        {
            "research/web/catalogues.py": LISTED,
            "research/web/scholarly.py": ((ARXIV_ID, f"\n{TOOL}"),),
            "research/__init__.pyi": ((NAMED.format("crossref"), NAMED.format("pubmed")),),
        }
    )
    run("-c", ORDER)
    help = run("-m", "moothall", "research", "--help")
    assert "--pubmed Ask PubMed." in " ".join(help.split())


ENGINES = (
    (
        "SEARCH_ENGINES: Final = {\n",
        '    "yacy": _CatalogueOffer("YaCy", "Search engine: YaCy at", "Ask YaCy at URL.", "http://a"),\n'
        '    "brave": _CatalogueOffer("Brave", "Search engine: Brave", "Ask Brave."),\n',
    ),
    ("    searxng: str | None = None\n", "    yacy: str | None = None\n    brave: bool = False\n"),
)
ASKED = (
    (
        "    searxng: str | None = None,\n",
        "    yacy: str | None = None,\n    brave: bool = False,\n",
    ),
    (
        "        ask = _searxng(searxng, allow_hosts, region, timeout_s, scope.time_range)\n",
        "    elif yacy or brave:\n        ask = _asked(yacy or 'https://brave.example')\n",
    ),
    (
        "_LONGEST_QUERY, _LONGEST_TEXT = 1000, 500\n",
        """

def _asked(address: str) -> Any:
    async def ask(query: str) -> list[Any]:
        return [[f"{address}/{query}", "Found", ""]]

    return ask
""",
    ),
)
SEARCH = """
import asyncio
from types import SimpleNamespace as It
from moothall.foundation.errors import ConfigError
from moothall.studio.orders.order import ResearchOrder
from moothall.studio.orders.research import check_research as check, make_researcher as researcher
from moothall.studio.research_tab import ResearchTab

def found(**engine):
    order = ResearchOrder(["Waves?"], **engine)
    check(order)
    searched = asyncio.run(researcher(order).tools["search_web"].execute(query="waves"))
    return order.place, [each.url for each in searched]

at = "http://127.0.0.1:8090"
assert found(yacy=at) == (f"the web by {at}", [f"{at}/waves"])
assert found(brave=True) == ("the web by Brave", ["https://brave.example/waves"])
assert "yacy" in ResearchOrder.addresses
for wrong, words in (
    ({}, "--search-web, --yacy URL, --brave or --searxng URL"),
    ({"yacy": "here"}, "--yacy: only http and https are read"),
):
    try:
        check(ResearchOrder(["Waves?"], **wrong))
    except ConfigError as error:
        assert words in str(error), error
    else:
        raise AssertionError(wrong)
(form,) = ResearchTab(It(journal=It(runs=lambda **_: []))).forms()
fields = {each.name: (each.label, each.kind) for each in form.fields}
assert fields["yacy"] == ("Search engine: YaCy at", "line")
assert fields["brave"] == ("Search engine: Brave", "check")
"""


def test_search_engine_is_known_to_orders_command_and_page(added: Added) -> None:
    run = added({"research/web/catalogues.py": ENGINES, "research/web/search.py": ASKED})
    run("-c", SEARCH)
    help = " ".join(run("-m", "moothall", "research", "--help").split())
    assert "--yacy URL Ask YaCy at URL." in help
    assert "--brave Ask Brave." in help


KINDS = (
    (
        "KINDS: Final = {\n",
        '    "diary": DocumentKind(".diary", "text/x-diary", "striprtf", "rtf", "read_diary"),\n',
    ),
)
PARSER = (
    (
        '_RTF_START: Final = b"{\\\\rtf"\n',
        """

def read_diary(data: bytes) -> Document:
    return Document("Dates", data.decode().partition("TODAY:")[2].strip(), [])
""",
    ),
)
READ = """
import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from moothall.research import ResourcePool, search_folder, visit_page

DATA = b"BEGIN TODAY:The bridge opens in May."

class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/a" else 404)
        self.send_header("Content-Type", "text/x-diary")
        self.end_headers()
        self.wfile.write(DATA)

Path("dates").mkdir()
Path("dates/a.diary").write_bytes(DATA)
site = HTTPServer(("127.0.0.1", 0), Site)
threading.Thread(target=site.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{site.server_port}/a"
visit = visit_page(allow_hosts=["127.0.0.1"])
page = asyncio.run(visit.execute(url=url, pool=ResourcePool()))
(file,) = search_folder("dates").execute(query="When does the bridge open?")
for each in (page, file):
    assert each.content == "The bridge opens in May.", each
site.shutdown()
"""


def test_kind_of_files_is_read_from_folders_and_the_web(added: Added) -> None:
    run = added({"research/reading/document_kinds.py": KINDS, "research/reading/rtf.py": PARSER})
    run("-c", READ)
