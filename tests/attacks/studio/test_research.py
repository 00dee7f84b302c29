"""Research runs whose documents, ids and orders are hostile: what the tab gives of them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest

from attacks.studio.conftest import KNOWN, Answer, Port
from moothall import Block, ReActAgent, Researcher, ScriptedModel
from moothall.research import Narrative, Passage
from research.small_web import tools

RUN = 'x"; filename=a.exe; /../..\\ß%0d%0a'
SCRIPT = "<script>alert(1)</script><img src=http://evil.test/a onerror=alert(1)>"


@pytest.fixture(scope="module")
def run(port: Port) -> str:
    """The run of a researcher whose narrative and sources are hostile."""

    class Hostile(Block):
        async def forward(self, researcher: Any) -> Narrative:
            """Return a narrative that no model would dare, of a source with such names."""
            source = Passage.of("javascript:alert(1)", SCRIPT, "2026", f"{SCRIPT} There are 5.")
            number = researcher.number_of(source)
            return Narrative(
                f"{SCRIPT} There are 5.[^{number}^]\x1b[2J [a](javascript:alert(1)) [^{number}^]"
            )

    journal = port.studio.journal
    researcher = Researcher("r", None, [SCRIPT], tools(), 1, narrate=Hostile(), journal=journal)
    assert "There are 5." in researcher.report_sync(RUN).markdown
    return quote(RUN, safe="")


def got(port: Port, path: str) -> Answer:
    """What a page is given."""
    return port.send(f"/studio/research/{path}", KNOWN)


@pytest.mark.parametrize("path", ("page", "report.html"))
def test_research_report_page_runs_no_script(port: Port, run: str, path: str) -> None:
    """Its page is in a sandbox, by its own headers too."""
    told = got(port, f"{path}?run={run}")
    assert told.status == 200
    assert "There are 5." in told.text
    assert "&lt;script&gt;alert(1)" in told.text
    assert re.search(r"<(script|img)", told.text) is None
    assert 'href="javascript' not in told.text
    if path == "page":
        policy = told.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "sandbox allow-popups" in policy
        assert not re.search("allow-(scripts|same-origin|forms|top)", policy)


@pytest.mark.parametrize("ending", ("md", "html"))
def test_report_download_has_a_safe_file_name(port: Port, run: str, ending: str) -> None:
    """Whatever the run is called."""
    told = got(port, f"report.{ending}?run={run}")
    assert "\x1b" not in told.text
    disposition = told.headers["content-disposition"]
    assert re.fullmatch(rf'attachment; filename="research-[\w-]+\.{ending}"', disposition, re.ASCII)
    assert told.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ("entries", "page", "report.md"))
def test_research_run_that_is_missing_is_said(port: Port, run: str, path: str) -> None:
    """With what is there, and without a page."""
    told = got(port, f"{path}?run=%3Cb%3E")
    assert told.status == 404
    assert "json" in told.headers["content-type"]


@pytest.mark.parametrize("path", ("entries", "page", "report.md", "report.html"))
def test_research_tab_of_another_kind_of_run_has_no_report(port: Port, path: str) -> None:
    ReActAgent("a", model=ScriptedModel(["Yes."]), journal=port.studio.journal).reply_sync(
        "go", run_id="other"
    )
    told = got(port, f"{path}?run=other")
    assert (told.status, "'other' records no research" in told.text) == (400, True)


@pytest.mark.parametrize("more", ({"folder": 1}, {"iterations": -1}, {"iterations": 1e400}))
def test_research_resume_takes_limits_alone(port: Port, run: str, more: dict[str, float]) -> None:
    """Not with another folder, nor with what is no limit."""
    told = port.post("/studio/act/resume", {"run": RUN, "more": more})
    assert told.status in (400, 422)
    assert port.studio.jobs.running() == []
