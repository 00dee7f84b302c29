"""The stories of each tab by the keyboard alone: Tab, arrows, Enter, Space and what is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from models.openai_server import HANG, OpenAIServer, call
from moothall import ReActAgent, ScriptedModel
from moothall.studio import Studio
from studio.test_act import scripted

WRITE = [call("write_file", json.dumps({"file_name": "b.txt", "content": "two"}))]


class Keys:
    """A person who has no mouse."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def to(self, what: Locator) -> None:
        """Go there by Tab; to one of the tabs, by arrow keys from the one that is shown."""
        what.wait_for()
        is_there = "each => each === document.activeElement"
        if what.get_attribute("role") == "tab":
            self._tab_to(self._page.get_by_role("tab", selected=True))
            while not what.evaluate(is_there):
                self._page.keyboard.press("ArrowRight")
            return
        self._tab_to(what)

    def _tab_to(self, what: Locator) -> None:
        for _ in range(300):
            if what.evaluate("each => each === document.activeElement"):
                return
            self._page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {what}")

    def press(self, name: str, key: str = "Enter", role: str = "button") -> None:
        """Press what is called so."""
        found = self._page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
        self.to(found.filter(visible=True).first)
        self._page.keyboard.press(key)

    def write(self, label: str, text: str, end: str = "Tab") -> None:
        """Write in a field."""
        self.to(self._page.get_by_label(label, exact=True).filter(visible=True).first)
        self._page.keyboard.press("Control+A")
        self._page.keyboard.type(text)
        self._page.keyboard.press(end)

    def choose(self, label: str, option: str) -> None:
        """Choose from a list by arrow keys."""
        box = self._page.get_by_label(label, exact=True).filter(visible=True).first
        self.to(box)
        self._page.keyboard.press("Home")
        text = "each => each.selectedOptions[0].text"
        while not box.evaluate(text).startswith(option):
            before = box.evaluate(text)
            self._page.keyboard.press("ArrowDown")
            assert box.evaluate(text) != before, f"{label} has no {option}"


@pytest.fixture
def keys(page: Page) -> Keys:
    """The keyboard of a page."""
    return Keys(page)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A model that writes a file, and then thinks for ever."""
    with OpenAIServer(scripted(WRITE, HANG)) as server:
        yield server


def test_work_is_begun_permitted_steered_and_stopped_by_keyboard(
    page: Page, keys: Keys, server: OpenAIServer, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    keys.press("Act and review", role="tab")
    keys.write("Task", "Write b.txt")
    keys.write("Folder that it works on", str(folder))
    keys.write("Model", f"{server.url}#m")
    keys.press("Start")
    card = page.get_by_role("article", name="approval")
    expect(card).to_be_visible()
    keys.press("Permit")
    expect(card).to_have_count(0)
    expect(page.locator("#tab-act")).to_contain_text("wrote 3 bytes")
    keys.press("Pause")
    keys.press("Continue")
    keys.write("Tell the agent", "Be brief", "Enter")
    expect(page.locator("#tab-act")).to_contain_text("Be brief")
    keys.press("Stop")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert (folder / "b.txt").read_text() == "two"


@pytest.mark.long
def test_runs_are_found_opened_and_compared_by_keyboard(
    page: Page, keys: Keys, studio: Studio
) -> None:
    """A list is gone through by arrow keys, and leads nowhere until a button is pressed.

    From a run that was opened, Tab leads on to what is shown of it, past the others.
    """
    for run in ("one", "two", "three"):
        agent = ReActAgent("files", ScriptedModel([f"It is {run}."]), journal=studio.journal)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(agent.reply_sync, f"Read {run}", run_id=run).result()
    keys.press("Runs", role="tab")
    keys.write("Filter runs", "one")
    rows = page.get_by_role("list", name="Runs").locator("[data-run]")
    expect(rows).to_have_count(1)
    keys.write("Filter runs", "read")
    expect(rows).to_have_count(3)
    keys.to(rows.first)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/one")
    replay = page.get_by_role("button", name="Replay")
    replay.wait_for()
    page.keyboard.press("Tab")
    expect(replay).to_be_focused()
    for view in ("Timeline", "Transcript", "Cost", "Steps"):
        keys.press(view)
    keys.write("Search the steps of this run", "it is", "Enter")
    expect(page.get_by_role("region", name="Found")).to_be_visible()
    keys.write("Compare with", "read two")
    keys.press("Compare")
    page.wait_for_url("**/runs/one/compare/two")
    expect(page.get_by_role("region", name="Comparison")).to_contain_text("It is two.")
    page.set_viewport_size({"width": 390, "height": 260})
    first = page.get_by_role("row").filter(has_text="first difference")
    expect(first).not_to_be_in_viewport()
    keys.press("Go to the first difference")
    expect(first).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 800})
    keys.press("Close")
    keys.press("Replay")
    expect(page.get_by_role("region", name="Replay").first).to_contain_text("It is one.")


@pytest.mark.long
def test_town_is_set_up_asked_changed_and_branched_by_keyboard(page: Page, keys: Keys) -> None:
    """A button that was pressed keeps the focus, and can be pressed again at once."""
    keys.press("Society", role="tab")
    keys.write("Citizens", "20")
    keys.write("Days", "30")
    keys.press("Play it at once", "Space", "checkbox")
    keys.press("Set up")
    state = page.locator(".s-control").get_by_role("status")
    expect(state).to_contain_text("step 1 of")
    keys.press("Step")
    expect(state).to_contain_text("step 2 of")
    expect(page.get_by_role("button", name="Step", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(state).to_contain_text("step 3 of")
    keys.choose("Speed", "as fast")
    keys.choose("Colour of the citizens", "opinion of art")
    expect(page.locator(".s-map")).to_have_attribute("data-layer", "opinions.art")
    keys.press("Citizen")
    keys.write("Citizen's number or name, or a place", "3", "Enter")
    expect(page.get_by_text("Needs, and how far they are met", exact=True)).to_be_visible()
    keys.write("Question to the citizen", "How are you?", "Enter")
    expect(page.get_by_text("by rule, before step")).to_be_visible()
    keys.press("Survey")
    keys.write("Question", "Do you like art?")
    keys.choose("Type of answer", "yes or no")
    keys.choose("Answered from", "opinion of art")
    keys.press("Ask")
    expect(page.get_by_role("region", name="Survey")).to_contain_text("by rule")
    keys.press("Interventions")
    keys.write("Announcement", "The bridge is closed")
    keys.press("Apply at the next step")
    expect(page.get_by_text("news: The bridge is closed")).to_be_visible()
    keys.press("Log")
    keys.write("Search the log", "bridge")
    expect(page.get_by_role("list", name="Log of events").get_by_role("listitem")).to_have_count(1)
    keys.press("Branch")
    keys.press("Branch beside")
    beside = page.get_by_role("group", name="The town beside it")
    expect(beside).to_contain_text("step")
    keys.press("Swap")
    keys.press("Close")
    expect(beside).to_be_hidden()
