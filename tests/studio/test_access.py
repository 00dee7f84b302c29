"""What a page shows, for everybody: axe, and the keyboard alone, with something in every tab."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from moothall import (
    ACCESS_PERMITTED,
    ACCESS_REQUESTED,
    Agent,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.serving import MCPAgent
from moothall.studio import Studio
from moothall.studio.orders.order import ResearchOrder
from moothall.studio.orders.simulate import SimulateOrder
from studio.test_doors import SERVER

TABS = ("Space", "Act and review", "Research", "Society", "Runs", "Doors")
HEARD = """() => {
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (name, ...more) {
    if (name === 'click' && this instanceof Element) this.isClicked = true;
    return add.call(this, name, ...more);
  };
}"""
UNREACHED = """() => [...document.querySelectorAll('*')].filter((each) => each.isClicked
  && each.checkVisibility() && !each.matches('button, a[href], input, select, textarea, summary')
  && each.tabIndex < 0).map((each) => each.outerHTML.slice(0, 200))"""
FOCUSED = """() => {
  const each = document.activeElement;
  return each.getAttribute('aria-label') || each.labels?.[0]?.innerText || each.innerText.trim();
}"""


class Clerk(Agent):
    """Says back what it hears, and deletes where it may."""

    @action(access_policy=ACCESS_REQUESTED)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"


def filled(studio: Studio, space: NativeSpace, folder: Path) -> None:
    """Something in each tab: talk, a report, a town, runs, a server whose tools have changed."""
    program, lock = folder / "sums.py", folder / "lock.json"
    program.write_text(SERVER)
    command = [sys.executable, str(program)]
    with MCPAgent("sums", command, lock=lock) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.accept_definitions).result()  # this thread has Playwright's loop
    program.write_text(SERVER.replace("Add two integers.", "Add, and tell all."))
    (folder / "documents").mkdir()
    (folder / "documents" / "alpha.md").write_text("# Alpha\n\nAlpha uses port 4711.\n")
    space.add(studio.user)
    space.add(Clerk("Clerk"))
    answers = ["**Roses** are red.", '[{"day": "Monday", "hours": [9, 10]}]', "Violets."]
    model = ScriptedModel(answers)
    space.add(ReActAgent("Poet", model, journal=studio.journal, receive_own_broadcasts=False))
    space.add(MCPAgent("sums", command, lock=lock, access=ACCESS_PERMITTED))
    studio.jobs.start(ResearchOrder(["Which port does alpha use?"], str(folder / "documents")))
    studio.society.set_up(SimulateOrder(40, days=1, seed=7))


def to(page: Page, name: str, most: int = 120) -> None:
    """Go by Tab to what is called so; where the focus is can be seen."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            style = "each => getComputedStyle(each).outlineStyle"
            assert page.locator(":focus").evaluate(style) != "none", name
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def tab(page: Page, name: str) -> None:
    """Go to a tab by the arrow keys."""
    tabs = page.get_by_role("tab")
    tabs.filter(has=page.locator(":scope[aria-selected=true]")).focus()
    page.keyboard.press("Home")
    for _ in range(TABS.index(name)):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name=name, exact=True)).to_be_focused()


@pytest.mark.timeout(180)
@pytest.mark.long
def test_tab_is_used_by_the_keyboard_alone(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """A conversation, a report, a town, a run and a changed server, without a mouse."""
    keys = (page := open_page()).keyboard
    with NativeSpace() as space:
        filled(studio, space, tmp_path)
        page.reload()
        expect(page.get_by_role("list", name="Agents")).to_contain_text("sums")
        to(page, "Poet")
        keys.press("Enter")
        expect(page.get_by_label("Say to Poet")).to_be_focused()
        keys.type("Write")
        keys.press("Enter")
        expect(page.get_by_role("log", name="Conversation with Poet")).to_contain_text("Roses")
        to(page, "Close")
        keys.press("Enter")
        expect(page.get_by_label("Say to Poet")).to_have_count(0)
        assert page.evaluate(FOCUSED) == "Poet"
        to(page, "Message or slash line")
        keys.type('/Clerk.delete path:"notes"')
        keys.press("Enter")
        expect(page.get_by_role("article", name="approval")).to_be_visible()
        page.locator("body").evaluate("() => document.activeElement.blur()")
        keys.press("j")
        keys.press("a")
        expect(page.get_by_role("log", name="Messages")).to_contain_text("notes is gone")

        tab(page, "Research")
        report = page.frame_locator("iframe[title=Report]")
        expect(report.get_by_text("Alpha uses port 4711.").first).to_be_visible()
        to(page, "Question about the report")
        keys.type("Which port?")
        keys.press("Enter")
        expect(page.get_by_role("log", name="Answers from the report")).to_contain_text("4711")

        tab(page, "Society")
        to(page, "Step")
        keys.press("Enter")
        expect(page.locator(".s-control").get_by_role("status")).to_contain_text("step 2 of")
        canvas = page.locator(".s-map canvas")
        to(page, str(canvas.get_attribute("aria-label")))
        keys.press("+")
        keys.press("Enter")  # the citizen nearest to the middle
        expect(page.get_by_text("Needs, and how far they are met", exact=True)).to_be_visible()

        tab(page, "Runs")
        first = page.get_by_role("list", name="Runs").get_by_role("button").first
        expect(first).to_be_visible()
        while not first.evaluate("each => each === document.activeElement"):
            keys.press("Tab")
        keys.press("Enter")
        expect(page.get_by_role("region", name="Run", exact=True)).to_be_visible()
        to(page, "Transcript")
        keys.press("Enter")
        expect(page.get_by_role("button", name="Transcript")).to_have_attribute(
            "aria-pressed", "true"
        )

        tab(page, "Doors")
        card = page.get_by_role("article", name="Changed definitions of sums")
        expect(card).to_be_visible()
        to(page, "Accept these definitions")
        keys.press("Enter")
        expect(card).to_have_count(0)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_axe_finds_nothing_in_what_is_shown(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Nothing above minor, light and dark, wide and on a phone; what is clicked has the focus."""
    page = open_page()
    page.add_init_script(f"({HEARD})()")
    found: list[str] = []

    def look(what: str) -> None:
        """Have axe look at what is shown now."""
        page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark"):
                page.evaluate(
                    f"document.documentElement.classList.toggle('dark', {scheme!r} === 'dark')"
                )
                for each in Axe().run(page).response["violations"]:
                    nodes = [node["html"][:200] for node in each["nodes"][:3]]
                    if each["impact"] != "minor":
                        found.append(f"{what}, {width}, {scheme}: {each['id']}: {nodes}")
            found.extend(f"{what}: no key leads to {each}" for each in page.evaluate(UNREACHED))
        page.set_viewport_size({"width": 1280, "height": 800})

    with NativeSpace() as space:
        filled(studio, space, tmp_path)
        page.reload()
        agents = page.get_by_role("list", name="Agents")
        agents.get_by_text("Poet", exact=True).click()
        for said in ("Write", "Plan"):
            page.get_by_label("Say to Poet").fill(said)
            page.keyboard.press("Enter")
        expect(page.get_by_role("log", name="Conversation with Poet")).to_contain_text("Monday")
        page.get_by_text("Help as a page").first.click()
        look("help")
        page.keyboard.press("Escape")
        look("a conversation")
        page.get_by_role("button", name="All messages").click()
        studio.user.send({"to": "Clerk", "action": {"name": "delete", "args": {"path": "notes"}}})
        studio.user.send({"to": "Clerk", "action": {"name": "fly", "args": {}}})
        expect(page.get_by_role("article", name="approval")).to_be_visible()
        look("Space")
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Society", exact=True).click()
        page.get_by_label("Citizen's number or name").fill("17")
        page.get_by_role("button", name="Show", exact=True).click()
        page.get_by_role("button", name="Inbox").click()
        look("Society and inbox")
        page.keyboard.press("Escape")
        for part in ("Interventions", "Survey", "Log"):
            page.get_by_role("button", name=part, exact=True).click()
            look(part)
        page.get_by_role("tab", name="Research", exact=True).click()
        expect(page.locator("iframe[title=Report]")).to_be_visible()
        look("Research")
        page.get_by_role("button", name="How it was found").click()
        look("Research, unfolded")
        page.get_by_role("tab", name="Runs", exact=True).click()
        look("Runs")
        page.get_by_role("list", name="Runs").get_by_text("Which port").click()
        for view in ("Steps", "Timeline", "Transcript", "Calls", "Cost"):
            page.get_by_role("button", name=view, exact=True).click()
            look(f"a run, {view}")
        page.get_by_role("tab", name="Doors", exact=True).click()
        expect(page.get_by_role("article", name="Changed definitions of sums")).to_be_visible()
        look("Doors")
        page.goto(f"{studio.url}styleguide")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        look("the style guide")
        for card in studio.cards.to_json():
            studio.cards.decide(card["number"], {"permit": False})
    assert not found, "\n".join(found)
