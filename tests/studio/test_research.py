"""The tab Research: objectives in, what happens is seen as it is recorded, the report is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from models.openai_server import Answer, OpenAIServer, text
from moothall.studio import Studio
from moothall.studio.orders.order import ResearchOrder
from research.small_web import evaluation, plan, verdicts
from studio.conftest import TOKEN

PAGES = {
    "alpha.md": "# Alpha\n\nThe alpha protocol was written in 1998. It uses port 4711.\n",
    "beta.md": "# Beta\n\nThe beta protocol replaced alpha in 2004.\n",
    "<img src=x onerror=alert(1)>.md": "# <script>alert(1)</script>\n\nThe gamma protocol "
    "replaced the beta protocol.\n\nIt is <b>said</b> here.\n",
}
WAIT_S = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder of documents, one of them hostile."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, content in PAGES.items():
        (folder / name).write_text(content)
    return folder


def start(page: Page, folder: Path | str, *objectives: str) -> None:
    """Fill in the form as a person does."""
    page.get_by_label("Objectives, one a line").fill("\n".join(objectives))
    page.get_by_label("Folder to search").fill(str(folder))
    page.get_by_role("button", name="Start", exact=True).click()


def state(page: Page) -> Any:
    """How the run stands that is shown."""
    return page.locator(".s-choose .s-badge")


def report(page: Page) -> FrameLocator:
    """The report that is shown."""
    return page.frame_locator("iframe[title=Report]")


def test_research_from_objectives_to_the_report(
    folder: Path, open_page: Callable[..., Page]
) -> None:
    """Two pages see it to its end; a citation opens its passage; the report is downloaded.

    What does not go together is said in words, escaped, and nothing begins.
    """
    page, other = open_page("Research"), open_page("Research")
    start(page, folder)
    expect(page.get_by_text("there is nothing to find out")).to_be_visible()
    expect(page.get_by_label("Objectives, one a line")).to_be_focused()
    start(page, "", "alpha")
    expect(page.get_by_text("fill in “Folder to search”, “Search the web”")).to_be_visible()
    expect(page.get_by_text("there is nothing to find out")).to_have_count(0)
    start(page, folder / "<b>none</b>", "alpha")
    expect(page.get_by_text("<b>none</b>").last).to_be_visible()
    expect(other.get_by_text("No research yet.")).to_be_visible()
    twice = "Which port does alpha use?"
    start(page, folder, twice, "Which protocol replaced beta?", twice)
    for each in (page, other):
        expect(state(each)).to_contain_text("finished")
        expect(each.locator(".s-how")).to_be_hidden()  # the report is the page
        each.get_by_role("button", name="How it was found").click()
        expect(each.get_by_role("list", name="Resources")).to_contain_text("alert(1)>.md")
        expect(each.get_by_role("list", name="Resources")).to_contain_text("Alpha")
        expect(report(each).get_by_text("It ended after")).to_be_visible()
        expect(each.get_by_text("<b>none</b>")).to_have_count(0)
    expect(other.get_by_role("meter")).to_have_count(0)
    page.reload()
    page.get_by_role("tab", name="Research", exact=True).click()
    tasks = page.get_by_role("list", name="Tasks of iteration 1")
    expect(tasks).to_contain_text("search folder: “Which port does alpha use?”")
    # None of it is HTML of the page; the stored passage is there word for word.
    shown = report(page)
    expect(shown.get_by_text("uses port 4711").first).to_be_visible()
    note = shown.get_by_role("listitem").filter(has_text="“The gamma").locator("a.note").last
    passage = shown.locator((note.get_attribute("href") or "") + " blockquote")
    expect(passage).not_to_be_in_viewport()
    note.click()
    expect(passage).to_be_in_viewport()
    expect(passage).to_contain_text("# <script>alert(1)</script>")
    expect(passage).to_contain_text("It is said here.")  # as Markdown is seen
    expect(shown.locator("a[href^='file:']")).to_have_count(0)  # a served page cannot open files
    for name, ending in (("Markdown", "md"), ("HTML", "html")):
        with page.expect_download() as started:
            page.get_by_role("link", name=f"Download {name}").click()
        named = f"research-which-port-does-alpha-use-which-protocol-replaced-beta.{ending}"
        assert started.value.suggested_filename == named
        assert "uses port 4711" in started.value.path().read_text()
    which = page.get_by_label("Research run")
    which.select_option(index=0)  # chosen by a person: a newer one does not take its place
    other.get_by_role("button", name="New research").click()
    start(other, folder, "What is gamma?")
    expect(state(other)).to_contain_text("finished")
    expect(other.get_by_label("Research run").locator("option:checked")).to_contain_text("gamma")
    expect(which.locator("option")).to_have_count(2)
    expect(which.locator("option:checked")).to_contain_text("Which port does alpha use?")
    other.set_viewport_size({"width": 390, "height": 800})  # on a phone the report comes first
    heading = other.get_by_role("heading", name="Objectives", exact=True)
    top = "each => each.getBoundingClientRect().top"
    assert other.locator("iframe[title=Report]").evaluate(top) < heading.evaluate(top)
    # Its transcript is in words: no model was asked, and what was found is fields, not JSON.
    page.get_by_role("button", name="Steps and cost").click()
    page.get_by_role("button", name="Transcript", exact=True).click()
    run = page.get_by_role("region", name="Run", exact=True)
    expect(run.get_by_text("Step 1", exact=True)).to_be_visible()
    expect(run).not_to_contain_text("the model is asked")
    expect(run).to_contain_text("fetched at")
    expect(run).not_to_contain_text('": ')


@pytest.mark.long
def test_plan_is_changed_before_research_begins_and_the_report_is_asked(
    folder: Path, open_page: Callable[..., Page], studio: Studio
) -> None:
    """What a person leaves in the plan is done, and no more; a task that cannot be done is told.

    Each sentence opens its passage, with what it rests on marked. A question is answered from the
    passages; research on it begins where this one searched.
    """
    page = open_page("Space")  # a plan may come before its tab was opened
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    order = ResearchOrder(["Which port does alpha use?"], str(folder), review_plan=True)
    first = studio.jobs.start(order)
    card = page.get_by_role("article", name="plan")
    expect(card).to_contain_text("Which port does alpha use?")
    page.get_by_role("tab", name="Research", exact=True).click()
    expect(card).to_be_in_viewport()
    expect(page.get_by_role("status").filter(has_text="Iteration 1")).to_contain_text(
        "waits for you"
    )
    expect(card.get_by_role("button", name="Plan anew")).to_have_count(0)  # no model would do it
    card.get_by_role("button", name="Add").first.click()
    query = card.get_by_role("textbox", name="query of the task")
    while query.count() > 1:
        card.get_by_role("button", name="Remove").last.click()
    query.fill("")
    card.get_by_role("button", name="Begin research").click()
    expect(page.get_by_text("a task cannot be done")).to_be_visible()
    query.fill("alpha port 4711")
    card.get_by_role("button", name="Begin research").click()
    expect(state(page)).to_contain_text("finished")
    page.get_by_role("button", name="How it was found").click()
    tasks = page.get_by_role("list", name="Tasks of iteration 1")
    expect(tasks).to_contain_text("search folder: “alpha port 4711”")
    expect(tasks.get_by_role("listitem")).to_have_count(1)
    source = page.locator(".s-sources details").filter(has_text="uses port 4711").first
    source.locator("summary").click()
    expect(source.locator("mark")).to_contain_text("It uses port 4711.")
    for name, ending in (("Word", "docx"), ("BibTeX", "bib")):
        with page.expect_download() as started:
            page.get_by_role("link", name=f"Download {name}").click()
        assert started.value.suggested_filename == f"research-which-port-does-alpha-use.{ending}"
        assert started.value.path().stat().st_size > 100
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("copied as Markdown")).to_be_visible()
    assert "uses port 4711" in page.evaluate("navigator.clipboard.readText()")
    question = page.get_by_label("Question about the report")
    question.fill("When was alpha written?")
    page.get_by_role("button", name="Ask", exact=True).click()
    answers = page.get_by_role("log", name="Answers from the report")
    expect(answers).to_contain_text("written in 1998")
    question.fill("What replaced alpha?")
    question.press("Enter")
    expect(answers.get_by_role("article")).to_have_count(2)
    report(page).locator("a.note").first.click()
    of_note = report(page).locator("li:target")
    shade = "each => getComputedStyle(each).backgroundColor"
    rests_on = of_note.locator("mark").first.evaluate(shade)
    assert of_note.evaluate(shade) != rests_on  # it is seen in its passage
    page.get_by_role("button", name="Research it").click()  # the question that was asked last
    card.get_by_role("button", name="Begin research").click()  # it is asked for, too
    expect(report(page).get_by_text("replaced alpha").first).to_be_visible()
    assert studio.jobs.state(first) is None
    runs = studio.journal.runs(kind="Researcher")
    assert [each.task for each in runs][1:] == ["What replaced alpha?"]


@pytest.mark.long
def test_run_by_a_model_is_watched_stopped_and_resumed(
    folder: Path, open_page: Callable[..., Page]
) -> None:
    """Reloading in the middle loses nothing; what its sources do not support is marked."""
    judged = threading.Event()
    answers = (
        text(plan(("search_folder", {"query": "4711"}))),
        Answer(hang=True),
        text("Alpha uses port 4711.[^1^] It was written in 1999.[^1^] So it is."),
        text(verdicts("supported", "unsupported", why="another year")),
        Answer((judged, *text(evaluation({"alpha": 0.95}, remark="Fine.")).pieces)),
    )
    with OpenAIServer(*answers) as server:
        page = open_page("Research")
        name = f"{server.url}#m"
        page.get_by_label("Model: listed").fill(name)
        start(page, folder, "alpha")
        status = page.get_by_text("Iteration 1 of 3").locator("..")
        expect(status).to_have_text(f"Iteration 1 of 3: writing what is known, by {name}.")
        page.reload()
        page.get_by_role("tab", name="Research", exact=True).click()
        expect(page.get_by_role("listitem").filter(has_text="Narrate")).to_have_attribute(
            "aria-current", "step"
        )
        expect(page.get_by_role("list", name="Tasks of iteration 1")).to_contain_text("1 read")
        page.get_by_role("button", name="Stop").click()
        expect(state(page)).to_have_text("stopped: it was interrupted")
        expect(page.get_by_text("0 iterations.")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(
            page.get_by_text("1 citation checked, 1 sentence marked [unsupported]")
        ).to_be_visible()
        expect(page.get_by_text("another year").first).to_be_visible()
        expect(report(page).get_by_text("It is under way: 0 iterations done.")).to_be_visible()
        judged.set()
        expect(state(page)).to_have_text("finished: the targets were reached")
        page.get_by_role("button", name="How it was found").click()
        expect(page.get_by_text("understood 95 %", exact=True)).to_be_visible()
        expect(page.get_by_text("Fine.")).to_be_visible()
        expect(report(page).get_by_text("It ended after 1 iteration")).to_be_visible()


def test_run_of_another_process_is_shown(
    folder: Path, open_page: Callable[..., Page], studio: Studio
) -> None:
    """It comes by itself; with its iterations used up it goes on with more, here.

    Its report is written anew where the command was told to write it.
    """
    page = open_page("Research")
    expect(page.get_by_text("No research yet.")).to_be_visible()
    out, html = folder.parent / "report.md", folder.parent / "report.html"
    order = ("Which port and key does alpha need?", "--folder", folder, "--iterations", "1")
    files = ("--out", out, "--html", html)
    journal = ("--journal", studio.journal.path)
    program = [sys.executable, "-m", "moothall", "research", *order, *files, *journal]
    subprocess.run([*map(str, program)], check=True, capture_output=True, timeout=WAIT_S)
    expect(state(page)).to_have_text("finished: the iterations were used up")
    first = out.read_text()
    expect(page.get_by_label("Folder to search")).to_be_hidden()
    page.get_by_label("Iterations in all").fill("3")
    page.get_by_role("button", name="Continue").click()
    expect(state(page)).to_have_text("finished: nothing new was left to find")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download Markdown").click()
    assert first != out.read_text() == started.value.path().read_text()
    assert "nothing new was left" in html.read_text()


def test_research_by_a_model_asks_for_its_settings_and_can_be_stopped(
    folder: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Its smaller objectives are listed; stopped anywhere, it says so here."""
    page = open_page("Research")
    wants = evaluation({"alpha": 0.1}, ("encryption of alpha",), "Read more.")
    found = plan(("search_folder", {"query": "4711"}))
    answers = (text(found), text("Alpha uses port 4711.[^1^]"), text(wants), Answer(hang=True))
    with OpenAIServer(*answers) as server:
        run = studio.jobs.start(
            ResearchOrder(["alpha"], str(folder), model=f"{server.url}#m", no_judge=True)
        )
        expect(page.get_by_text("Iteration 2 of 3: making tasks")).to_be_visible()
        expect(page.get_by_text("Smaller objectives: encryption of alpha")).to_be_visible()
        studio.jobs.stop(run)
        expect(state(page)).to_have_text("stopped: it was interrupted")


@pytest.mark.timeout(120)  # on a loaded machine the program takes long to start
def test_ctrl_c_ends_the_command_and_its_page(folder: Path) -> None:
    """Amid its run the report is written as far as it is, and how to go on is said."""
    with OpenAIServer(Answer(hang=True)) as server:
        program = [sys.executable, "-m", "moothall", "research", "alpha", "--studio"]
        program += ["--folder", str(folder), "--out", str(folder.parent / "report.md")]
        program += ["--model", f"{server.url}#m"]
        env = {**os.environ, "XDG_STATE_HOME": str(folder.parent), "MOOTHALL_JOURNAL": ""}
        with subprocess.Popen(program, env=env, stderr=subprocess.PIPE, text=True) as command:
            try:
                assert command.stderr is not None
                assert "moothall studio: http" in command.stderr.readline()
                server.wait_for_request()
                command.send_signal(signal.SIGINT)
                _, told = command.communicate(timeout=WAIT_S)
            finally:
                command.kill()  # what failed is told, and does not wait for it
        server.wait_for_close()
    assert command.returncode == 130
    assert "to resume it: moothall resume " in told
    assert f"--journal {folder.parent / 'moothall' / 'studio.db'}" in told
    assert "Traceback" not in told
    assert "alpha" in (folder.parent / "report.md").read_text()


@pytest.mark.long
def test_command_shows_its_run_until_ctrl_c(folder: Path, browser: Browser) -> None:
    """`moothall research --studio` prints the address; the page opens with the run on its tab."""
    program = [sys.executable, "-m", "moothall", "research", "Which port does alpha use?"]
    program += ["--studio", "--folder", str(folder), "--journal", str(folder.parent / "runs.db")]
    environment = {**os.environ, "MOOTHALL_STUDIO_TOKEN": TOKEN}
    with subprocess.Popen(
        program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stderr is not None
        lines = iter(command.stderr)
        address = next(lines).split()[-1]
        page = browser.new_page()
        page.goto(address)
        expect(state(page)).to_contain_text("finished")
        expect(report(page).get_by_text("uses port 4711").first).to_be_visible()
        page.close()
        assert any("until Ctrl-C" in line for line in lines)
        command.send_signal(signal.SIGINT)
        stdout, _ = command.communicate(timeout=WAIT_S)
    assert command.returncode == 0
    assert "uses port 4711" in stdout
    assert "moothall studio" not in stdout
