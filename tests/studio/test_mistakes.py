"""What a person mistypes, refuses or removes: it is told where it is, and the way on is near."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from playwright.sync_api import Error as PageError

from models.openai_server import OpenAIServer, call, calls, text
from moothall.studio import Studio
from moothall.studio.orders.research import ResearchOrder
from studio.conftest import TOKEN


def test_form_tells_a_comma_for_a_point_and_forgets_a_fault_that_is_mended(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """A browser would drop the comma of 1,5: a limit of ten times as much. Ctrl-Enter sends.

    A call that a person refused is not called failed, and no time is shown that stands still.
    """
    folder = tmp_path / "folder"
    folder.mkdir()
    write = call("write_file", json.dumps({"file_name": "b", "content": "c"}))
    with OpenAIServer(calls(write), text("It stays.")) as server:
        page = open_page("Act and review")
        form = page.locator("#act-new")
        form.get_by_label("Task", exact=True).fill("Write b")
        form.get_by_label("Folder that it works on").fill(str(folder))
        form.get_by_label("Model").fill(f"{server.url}#m")
        form.locator("summary").click()
        expect(form.get_by_label("Answers")).to_have_attribute("placeholder", "10; local: 1")
        seconds = form.get_by_label("Seconds")
        seconds.press_sequentially("61,5")
        form.get_by_role("button", name="Start", exact=True).click()
        fault = form.get_by_role("alert")
        expect(fault).to_have_text("“Seconds at most” must be a number, got '61,5'")
        expect(seconds).to_be_focused()
        seconds.fill("61.5")
        expect(fault).to_be_hidden()
        expect(seconds).not_to_have_attribute("aria-invalid", "true")
        form.get_by_label("Task", exact=True).press("Control+Enter")
        card = page.get_by_role("article", name="approval")
        about = page.locator(".s-act-head")
        expect(about).to_contain_text("waiting for you")
        expect(about).not_to_contain_text(" ms")
        page.wait_for_function("!document.activeElement.closest('form')")  # a letter is none there
        expect(card).to_be_visible()
        page.keyboard.press("j")
        expect(card).to_be_focused()
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        steps = page.get_by_role("log", name="Steps")
        expect(steps.get_by_text("refused", exact=True)).to_be_visible()
        expect(steps).to_contain_text("It stays.")
        expect(page.locator(".s-inbox")).to_be_focused()  # not at the top of the page again


def test_form_that_is_sent_twice_at_once_begins_once(page: Page) -> None:
    sent: list[Route] = []
    page.route("**/act/forms/new", lambda route: sent.append(route))
    page.get_by_role("tab", name="Act and review").click()
    task = page.locator("#act-new").get_by_label("Task", exact=True)
    task.fill("Look")
    for _ in range(2):
        task.press("Control+Enter")
    page.wait_for_function("new Promise(requestAnimationFrame)")
    assert len(sent) == 1
    sent[0].fulfill(json={"error": "it is late"}, headers={"X-Moothall-Refused": "400"})
    expect(page.locator("#act-new").get_by_role("alert")).to_have_text("it is late")


def test_line_that_nobody_got_is_not_called_so_once_somebody_answers(
    studio: Studio, browser: Browser, tmp_path: Path
) -> None:
    """It stands there to be sent; its fault was of before."""
    page = browser.new_page()  # its socket may be refused
    page.goto(f"{studio.url}?token={TOKEN}")
    line = page.get_by_role("textbox", name="Message or slash line")
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    expect(line).to_be_visible()
    port = int(str(studio.url).rsplit(":", 1)[1].strip("/"))
    studio.close()
    state = page.get_by_text("not connected")
    expect(state).to_be_visible()
    tab = page.get_by_role("tab", name="Space", exact=True)
    boxes = [each.bounding_box() or {"x": 0, "width": 0} for each in (state, tab)]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    line.fill("Hello")
    line.press("Enter")
    expect(page.get_by_text("is its program running?")).to_be_visible()
    studio.launch(
        port, journal=tmp_path / "runs.db", token=TOKEN, prevent_thread_lock=True, quiet=True
    )
    expect(page.get_by_text("is its program running?")).to_be_hidden()
    expect(line).to_have_value("Hello")
    page.close()


def test_plan_that_waits_is_not_running_and_is_cleared_by_the_keyboard(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Removing a task leads to the next one's button."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("The port of alpha is 4711.\n")
    page = open_page("Research")
    order = ResearchOrder(["Which port?", "Whose port is alpha?"], str(folder), review_plan=True)
    run = studio.jobs.start(order)
    expect(page.get_by_text("waiting for you", exact=True)).to_be_visible()
    removes = page.get_by_role("article", name="plan").get_by_role("button", name="Remove")
    many = removes.count()
    removes.first.focus()
    for left in range(many - 1, -1, -1):
        page.keyboard.press("Enter")
        expect(removes).to_have_count(left)
    expect(page.get_by_role("button", name="Add").first).to_be_focused()
    page.get_by_role("article", name="plan").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("waiting for you", exact=True)).to_have_count(0)
    assert studio.jobs.state(run) in ("stopping", None)


CHANGED = """async ([kind, given]) =>
  (await import("/studio/static/changes.js")).changeOf(kind, given)"""


def test_change_of_a_town_without_its_words_says_which(page: Page) -> None:
    """What is written is a number or a truth value where it reads as one."""
    for kind, given, told in (
        ("close", {}, "choose the place that is to close first"),
        ("open", {"name": " "}, "choose the place that is to open first"),
        ("fact", {"text": "rain"}, "write the fact and its value first"),
        ("fact", {"name": "weather"}, "write the fact and its value first"),
        ("news", {}, "write a text first"),
    ):
        with pytest.raises(PageError, match=told):
            page.evaluate(CHANGED, [kind, given])
    for said, value in (("rain", "rain"), ("-3.5", -3.5), ("true", True), ("[1]", "[1]")):
        made = page.evaluate(CHANGED, ["fact", {"name": " weather", "text": f" {said}"}])
        assert made == {"facts": {"weather": value}}
    made = page.evaluate(CHANGED, ["pay", {"amount": 1.1}])
    assert made == {"pay": [["government", "everyone", 110]]}
