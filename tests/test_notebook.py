"""A notebook: the page's cells run in a real kernel, and what is shown is safe."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright
from tests.test_docs import NOTEBOOK, PAGES, blocks

from chromium import ARGUMENTS, CHROMIUM
from moothall import Journal, ReActAgent, Reply, ScriptedModel
from moothall.research import Report, Researcher, search_folder

BAD = '<script>alert(1)</script><img src="http://x.example/?q=1"> [a](javascript:alert(1)) \u202e'
OURS = [page for page in PAGES if NOTEBOOK in page.read_text()]


def executed(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Run cells in a kernel of this interpreter; return the outputs of each."""
    kernels = folder / "jupyter" / "kernels" / "ours"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        json.dumps(
            {
                "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "ours",
                "language": "python",
            }
        )
    )
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(book, timeout=50, kernel_name="ours", resources=where)
    client.execute()
    return [cell.outputs for cell in book.cells]


def shown(outputs: list[Any]) -> str:
    """What a cell shows as a person sees it: HTML, else text; and what it printed."""
    parts = []
    for each in outputs:
        data = each.get("data", {})
        parts.append(each.get("text") or data.get("text/html") or data.get("text/plain", ""))
        parts.append("[picture]" if "image/png" in data else "")
    return "".join(parts)


def test_notebook_page_runs_cell_by_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (page,) = OURS
    cells = [each.text for each in blocks(page.read_text()) if each.language == "python"]
    outputs = executed(cells, tmp_path, monkeypatch)
    seen = [shown(each) for each in outputs]
    assert not [each for each in outputs for one in each if one.output_type == "error"]
    reply, printed, tags, runs, run, space, report, day, results, curve, frame = seen
    assert "There are <strong>3</strong> pears." in reply
    assert "in_stock" in reply
    assert "pears-1" in reply
    assert printed.count("3** pears") == 1
    assert "Reply(" not in printed
    assert "2 of 2" in tags
    assert "[&#x27;fruit&#x27;, &#x27;tool&#x27;]" in tags or "['fruit', 'tool']" in tags
    assert "<table>" in runs
    assert "pears-1" in runs
    assert "How many pears are there?" in run
    assert space.strip() == "3"
    assert "<iframe sandbox" in report
    assert "77 metres" in report
    assert day.endswith("[picture]")
    assert "mean [95 %]" in results
    assert "&quot;citizens&quot;: 40" in results
    assert curve.endswith("[picture]")
    assert "Name: value" in frame


def test_notebook_shows_a_reply_that_show_printed_in_the_next_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (
        "from moothall import ReActAgent, ScriptedModel, show\n"
        "shop = ReActAgent('shop', ScriptedModel(['Three.']))\n"
        "reply = await show(shop.stream('How many?'))\n"
        "reply"
    )
    one, two = executed([first, "reply"], tmp_path, monkeypatch)
    assert shown(one).count("Three.") == 1
    assert "Three." in shown(two)


def tags(html: str) -> set[str]:
    return set(re.findall(r"<(\w+)", html))


def test_notebook_shows_a_models_text_as_text(tmp_path: Path) -> None:
    def look(item: str) -> str:
        """Look."""
        return BAD

    script = [{"name": "look", "args": {"item": BAD}}, BAD]
    agent = ReActAgent("a", ScriptedModel(script), actions=[look], journal=tmp_path / "j.db")
    reply = agent.reply_sync(BAD, run_id="r")
    with Journal(tmp_path / "j.db") as journal:
        parts = [journal.runs()._repr_html_(), journal.run("r")._repr_html_()]
    parts.append(reply._repr_html_())
    for html in parts:
        assert "alert" in html
        assert not tags(html) & {"script", "img", "a", "iframe", "svg", "style"}
        assert "\u202e" not in html


def test_notebook_shows_a_report_in_a_frame_without_scripts() -> None:
    html = Report(f"# {BAD}\n\n{BAD}", [], "done")._repr_html_()
    assert tags(html) == {"iframe"}
    assert 'sandbox="allow-popups"' in html


def test_notebook_shows_a_hundred_runs_and_how_many_are_left_out(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        agent = ReActAgent("a", ScriptedModel(["Yes."] * 103), journal=journal)
        for _ in range(103):
            agent.reply_sync("Hi")
        html = journal.runs()._repr_html_()
    assert html.count("<tr>") == 1 + 100
    assert "3 more" in html


def test_notebook_cuts_a_long_reply() -> None:
    html = Reply("x" * 1_000_000)._repr_html_()
    assert len(html) < 60_000
    assert "of 1000000 characters" in html


def test_notebook_report_footnote_opens_its_passage_within_the_frame(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("The lighthouse of Genoa is 77 metres tall.")
    asked = ["How tall is the lighthouse of Genoa?"]
    report = Researcher("r", None, asked, [search_folder(tmp_path / "notes")]).report_sync()
    (tmp_path / "book.html").write_text(f"<p>a notebook</p>{report._repr_html_()}")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto((tmp_path / "book.html").as_uri())
        frame = page.frame_locator("iframe")
        frame.locator("a.note").click()
        assert "77 metres" in frame.locator("li:target").inner_text()
        browser.close()


def test_interrupt_of_a_cell_that_only_waits_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = """
        import asyncio, os, signal, threading, time
        import moothall
        began = time.monotonic()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            print(time.monotonic() - began < 15)
    """
    (outputs,) = executed([dedent(cell)], tmp_path, monkeypatch)
    assert shown(outputs) == "True\n"
