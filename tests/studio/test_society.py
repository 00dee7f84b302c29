"""The tab Society: a town is set up, plays, is asked and changed, and goes on from the journal."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from models.openai_server import OpenAIServer, text
from moothall import ReActAgent, ScriptedModel
from moothall.foundation.errors import ConfigError
from moothall.studio import Studio
from moothall.studio.orders.simulate import SimulateOrder
from studio.conftest import SIZE, TOKEN, a_studio, pages
from studio.told import Told

# One studio and one page serve all of them.

FORM = "Set up a town"


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all towns of this file."""
    with a_studio(tmp_path_factory.mktemp("towns")) as studio:
        yield studio


@pytest.fixture(scope="module")
def open_page(browser: Browser, studio: Studio) -> Iterator[Callable[..., Page]]:
    """Opens its pages."""
    with pages(browser, studio) as opened:
        yield opened


@pytest.fixture(scope="module")
def tab(open_page: Callable[..., Page]) -> Page:
    """A page on the tab, before there is a town."""
    page = open_page("Society")
    expect(page.get_by_text("No town is set up.")).to_be_visible()
    set_up(page, 60, days=0)
    expect(page.get_by_text("“Days” must be above 0")).to_be_visible()
    return page


@pytest.fixture
def page(tab: Page, studio: Studio) -> Page:
    """It, with a small town that was just set up."""
    before = studio.society.town
    if before is None:
        set_up(tab, 60)
    else:
        another(tab, 60)
        # The one before may stand at its first step, too.
        while (now := studio.society.town) is before or now is None or now.step < 1:
            tab.wait_for_timeout(10)
    expect(state(tab)).to_contain_text("step 1 of 2,880 · paused")
    expect(tab.get_by_label("Citizens", exact=True)).to_be_hidden()  # the form is answered
    return tab


def set_up(page: Page, citizens: int, days: int = 30) -> None:
    """Fill in the form as a person does."""
    page.get_by_label("Days", exact=True).fill(str(days))
    page.get_by_label("Citizens", exact=True).fill(str(citizens))
    page.get_by_label("Play it at once").uncheck()
    page.get_by_role("button", name="Set up", exact=True).click()


def another(page: Page, citizens: int, days: int = 30) -> None:
    """Open the form again, and set up another town; the one before may end for it."""
    press(page, FORM)
    set_up(page, citizens, days)
    ends = page.get_by_role("button", name="End it and go on", exact=True)
    begun = page.get_by_role("button", name=FORM, exact=True, expanded=False)
    wrong = page.locator("#society-new").get_by_role("alert")
    expect(ends.or_(begun).or_(wrong)).to_be_visible()
    if ends.is_visible():
        ends.click()


def state(page: Page) -> Locator:
    """Where the run is."""
    return page.locator(".s-control").get_by_role("status")


def press(page: Page, name: str) -> None:
    """Press a button."""
    page.get_by_role("button", name=name, exact=True).click()


def show(page: Page, citizen: str) -> None:
    """Have a citizen's card shown by its number or name."""
    page.get_by_label("Citizen's number or name").fill(citizen)
    press(page, "Show")


def test_town_steps_plays_and_is_held(
    page: Page, open_page: Callable[..., Page], studio: Studio
) -> None:
    """Each page sees the same town, and closing or reloading one stops nothing."""
    other = open_page("Society")
    press(page, "Step")
    expect(state(page)).to_contain_text("step 2 of 2,880 · paused")
    expect(page.get_by_text("Monday, January 5 at 00:30")).to_be_visible()
    expect(state(other)).to_contain_text("step 2 of 2,880 · paused")
    expect(page.get_by_role("figure", name="Where citizens are")).to_contain_text("Mon 00:15")
    other.get_by_label("Speed").select_option("10 steps a second")
    press(other, "Play")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    show(page, "7")
    page.reload()
    page.get_by_role("tab", name="Society", exact=True).click()
    expect(page.get_by_role("heading", name="citizen 7")).to_be_visible()
    press(page, "Pause")
    expect(page.get_by_label("Citizens", exact=True)).to_be_hidden()
    expect(state(other)).to_contain_text("· paused")
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    curve = page.get_by_role("figure", name="Where citizens are")
    expect(curve).to_contain_text("at work")
    points = curve.locator("polyline").first.get_attribute("points") or ""
    assert all(0 <= float(each.partition(",")[2]) <= 50 for each in points.split())
    expect(page.get_by_role("figure", name="What citizens do")).to_contain_text("asleep")
    before = state(page).inner_text()
    press(other, "Step")
    expect(state(page)).not_to_have_text(before)
    # A branch lives one step after its checkpoint, each 24 steps: only later is there a way back.
    while (now := int(state(page).inner_text().split()[1].replace(",", ""))) % 24 < 2:
        press(other, "Step")
        expect(state(page)).to_contain_text(f"step {now + 1} ")
    town = studio.journal.runs()[-1].id
    press(page, "Branch")
    expect(page.get_by_text(re.compile(r"\d+ steps? back, to Mon \d\d:\d\d\."))).to_be_visible()
    press(page, "Branch there")
    expect(page.get_by_text("The original is kept under “Resume a recorded town”.")).to_be_visible()
    expect(state(other)).to_contain_text("· paused")
    assert studio.journal.runs()[-1].forked_from == town


def test_citizens_are_looked_at_and_asked_and_the_town_is_changed(page: Page) -> None:
    """A card has needs and plan, an answer says by what, a change with which step it holds."""
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    canvas = page.get_by_role("application", name="Map of the town")
    turned = (
        "(on, ctrlKey) => on.dispatchEvent(new WheelEvent('wheel', {ctrlKey, cancelable: true}))"
    )
    assert canvas.evaluate(turned, False)  # the page scrolls
    assert not canvas.evaluate(turned, True)
    canvas.press("Enter")
    expect(page.get_by_role("meter", name="hunger")).to_be_visible()
    expect(page.locator(".s-plan [aria-current]")).to_contain_text("sleep")
    picked = page.get_by_label("Citizen's number or name")
    before = picked.input_value()
    for _ in range(4):
        canvas.press("ArrowDown")
    canvas.press("Enter")  # the nearest to the middle is another one there
    expect(picked).not_to_have_value(before)
    before = picked.input_value()
    box = canvas.bounding_box()
    assert box is not None
    assert box["width"] * box["height"] > 0.55 * 1280 * 800  # the map has the room
    canvas.hover()
    page.mouse.down()
    page.mouse.move(500, box["y"] + box["height"] - 5)  # the town goes down, back to the middle
    page.mouse.up()
    canvas.press("Enter")
    expect(picked).not_to_have_value(before)
    for below in (page.get_by_role("button", name="Charts ↓"), page.locator(".s-legend .park")):
        expect(below).to_be_in_viewport()
    show(page, "park")  # a place is found by its id, name or kind
    expect(page.locator(".s-tip")).to_contain_text("park-1 · park for")
    show(page, "7")
    expect(page.get_by_role("heading", name="citizen 7")).to_be_visible()
    expect(page.locator(".s-tip")).to_be_hidden()
    page.get_by_label("Question to the citizen").fill("How are <b>you</b>?")
    press(page, "Interview")
    expect(page.get_by_text("How are <b>you</b>?")).to_be_visible()
    expect(page.get_by_text("My plan: 00:00 to")).to_be_visible()
    expect(page.get_by_text("by rule, before step 1")).to_be_visible()
    show(page, "61")
    expect(page.get_by_text("there is no citizen '61'")).to_be_visible()
    show(page, "Nobody at all")
    expect(page.get_by_text("there is no citizen whose name begins with")).to_be_visible()
    show(page, "a")
    expect(page.get_by_text("whose names begin so")).to_be_visible()
    press(page, "Step")
    expect(state(page)).to_contain_text("step 2 of 2,880")
    expect(page.get_by_text("whose names begin so")).to_be_visible()
    page.locator(".s-person").get_by_role("button").first.click()
    expect(page.get_by_role("meter", name="hunger")).to_be_visible()

    press(page, "Survey")
    page.get_by_label("Question", exact=True).fill("Do you like art?")
    page.get_by_label("Type of answer").select_option("a choice")
    page.get_by_label("Answered from").select_option("social need, met by 0 to 100 %")
    press(page, "Ask")
    expect(page.get_by_text("write two choices or more")).to_be_visible()
    page.get_by_label("Answered from").select_option("choose what stands for the answer")
    page.get_by_label("Type of answer").select_option("yes or no")
    page.get_by_label("How many citizens").fill("20")
    press(page, "Ask")
    found = page.get_by_role("region", name="Survey")
    answered_from = page.get_by_label("Answered from")
    assert answered_from.evaluate(
        "each => each.validity.valueMissing"
    )  # none is chosen for a person
    expect(found).to_have_count(0)
    answered_from.select_option("opinion of art, −100 to 100 %")
    press(page, "Ask")
    expect(page.get_by_text("write two choices or more")).to_have_count(0)
    expect(found.get_by_role("heading")).to_contain_text("rule: stands for opinion of art")
    expect(found).to_contain_text("20 citizens before step 2; 20 by rule")
    cells = found.locator("tbody").first.get_by_role("row")
    assert sum(int(each.locator("td").nth(1).inner_text()) for each in cells.all()) == 20

    # What was answered is in sight.
    for size in ({"width": 390, "height": 844}, SIZE):
        page.set_viewport_size(size)
        page.get_by_text("Ask citizens a question").click()
        page.get_by_label("Type of answer").select_option("a choice")
        page.get_by_label("Choices").fill("never, seldom, at times, often, always, on Sundays")
        press(page, "Ask")
        expect(page.get_by_label("Question", exact=True)).to_be_hidden()
        expect(found.locator("table").first).to_be_in_viewport(ratio=0.99)
    expect(found).to_have_count(3)

    press(page, "Interventions")
    page.get_by_label("Announcement").fill("The bridge is closed")
    press(page, "Apply at the next step")
    item = page.get_by_role("listitem").filter(has_text="news: The bridge is closed")
    expect(item).to_contain_text("will apply at Mon 00:30 (step 2)")
    page.get_by_label("Change", exact=True).select_option("Close a place")
    assert page.locator("#s-places option[value='park-1']").count() == 1
    page.get_by_label("Place", exact=True).fill("park-1")
    press(page, "Apply at the next step")
    expect(page.get_by_text("closes park-1")).to_be_visible()
    page.get_by_label("Place", exact=True).fill("school")  # for a day, so it opens by itself
    page.get_by_label("For how many hours").fill("24")
    press(page, "Apply at the next step")
    opens = page.get_by_role("listitem").filter(has_text="opens school")
    expect(opens).to_contain_text("will apply at Tue 00:30 (step 98)")
    page.get_by_label("Change", exact=True).select_option("Open a place again")
    page.get_by_label("Place", exact=True).fill("park-1")
    press(page, "Apply at the next step")
    expect(page.get_by_text("opens park-1")).to_be_visible()
    page.get_by_label("Change", exact=True).select_option("Pay money")
    page.get_by_label("Dollars to each, from the government").fill("1000000")
    press(page, "Apply at the next step")
    expect(page.get_by_text("is to pay 60,000,000.00")).to_be_visible()
    page.get_by_label("Citizen's number; empty: all").fill("61")
    press(page, "Apply at the next step")
    expect(page.get_by_text("there is no citizen '61' who could be paid")).to_be_visible()
    page.get_by_label("Citizen's number; empty: all").fill("6")
    page.get_by_label("Dollars to each, from the government").fill("20000")
    page.get_by_role("button", name="Apply at the next step").dblclick()  # pays once
    expect(page.get_by_role("listitem").filter(has_text="government pays")).to_have_count(1)
    press(page, "Apply at the next step")  # more than the government has: it fails, nothing else
    page.get_by_label("Dollars to each, from the government").fill("0")
    page.get_by_label("Change", exact=True).select_option("Set a fact, such as the weather")
    page.get_by_label("Fact, such as weather").fill("weather")
    page.get_by_label("Value").fill("rain")
    press(page, "Apply at the next step")
    expect(page.get_by_text("weather is rain")).to_be_visible()
    pays = page.get_by_role("listitem").filter(has_text="government pays")
    expect(pays).to_have_count(2)
    press(page, "Step")
    expect(state(page)).to_contain_text("step 3 of 2,880")
    expect(item).to_contain_text("applied Mon 00:30 (step 2)")
    expect(pays.first).to_contain_text("failed: pay:")
    expect(item).not_to_contain_text("failed")
    press(page, "Branch")  # from the checkpoint before them: what was changed comes again
    expect(
        page.get_by_text("2 steps back, to Mon 00:15, with what was changed since.")
    ).to_be_visible()
    press(page, "Branch there")
    expect(state(page)).to_contain_text("step 1 of 2,880 · paused")
    expect(item).to_contain_text("will apply at Mon 00:30 (step 2)", timeout=3000)


def test_town_is_read_by_layers_charts_its_log_and_its_checkpoints(
    page: Page, studio: Studio
) -> None:
    """Citizens are coloured by a value; charts are chosen and kept; the log is searched.

    A branch goes back to a chosen checkpoint, and how far back that is, is said before.
    """
    charts = page.locator(".s-curves figure")
    page.locator(".s-charting summary").click()
    page.get_by_label("model calls").check()
    page.get_by_role("checkbox", name="Messages").uncheck()
    expect(page.get_by_role("figure", name="model calls")).to_be_visible()
    layer = page.get_by_label("Colour of the citizens")
    layer.select_option("opinion of art")
    expect(page.locator(".s-map")).to_have_attribute("data-layer", "opinions.art")
    expect(page.locator(".s-legend")).to_contain_text("100 %")
    layer.select_option("what they do")
    expect(page.locator(".s-map")).to_have_attribute("data-layer", "")
    page.get_by_label("Speed").select_option("as fast as it can")
    press(page, "Play")
    expect(state(page)).to_contain_text(re.compile(r"step (5\d|[6-9]\d|\d{3,}) "))
    press(page, "Pause")
    expect(state(page)).to_contain_text("· paused")
    press(page, "Log")
    page.get_by_label("Search the log").fill("tomorrow")
    assert studio.society.town is not None
    studio.society.town.intervene(news=["The market is open tomorrow."])
    log = page.get_by_role("list", name="Log of events")
    expect(log.get_by_role("listitem")).to_have_count(1)
    expect(log).to_contain_text("The market is open tomorrow.")
    page.get_by_label("Search the log").fill("")
    expect(log).to_contain_text(re.compile(r"[A-Z]\w+ \d+ to [A-Z]\w+ \d+: "))
    with page.expect_download() as downloads:
        page.get_by_role("link", name="↓ CSV").click()
    table = downloads.value.path().read_text().splitlines()
    assert table[0].startswith("step,time,moving,home,work,")
    assert len(table) == int(state(page).inner_text().split()[1]) + 1
    page.reload()
    expect(page.get_by_role("figure", name="model calls")).to_be_visible()
    expect(charts).to_have_count(
        3
    )  # neither fallbacks, without a model, nor all money, which stays
    town = studio.journal.runs()[-1].id
    press(page, "Branch")
    line = page.get_by_label("Checkpoint to go back to")
    line.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(re.compile(r"\d+ steps back, to Mon 0\d:\d\d\."))).to_be_visible()
    press(page, "Branch there")
    expect(state(page)).to_contain_text(re.compile(r"step 1 of .* paused"))
    assert studio.journal.runs()[-1].forked_from == town


def test_finger_scrolls_the_page_over_the_whole_map_and_moves_one_that_is_zoomed(
    page: Page, open_page: Callable[..., Page]
) -> None:
    """On a phone the map takes the whole width: there is no other place for the finger."""
    phone = open_page("Society", has_touch=True)
    phone.set_viewport_size({"width": 390, "height": 844})
    expect(phone.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    fingers = phone.context.new_cdp_session(phone)

    def swipe() -> None:
        phone.evaluate("scrollTo(0, 0)")
        box = phone.get_by_label("Map of the town").bounding_box()
        assert box
        x, y = box["x"] + 150, box["y"] + 200
        for what, at in (("touchStart", 0), *(("touchMove", 20 * n) for n in range(1, 11))):
            told = {"type": what, "touchPoints": [{"x": x, "y": y - at}]}
            fingers.send("Input.dispatchTouchEvent", told)
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        phone.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    for _ in range(2):  # the first has moved nothing in it
        swipe()
        phone.wait_for_function("scrollY > 50")
    phone.get_by_role("button", name="Zoom in").first.click()
    phone.wait_for_function("document.querySelector('.s-map canvas').style.touchAction === 'none'")
    phone.wait_for_function(  # what the finger has set going has come to rest
        """() => {
            const [last, count] = window.rest ?? [-1, 0];
            window.rest = scrollY === last ? [last, count + 1] : [scrollY, 0];
            return window.rest[1] > 10;
        }"""
    )
    swipe()
    assert phone.evaluate("scrollY") == 0


@pytest.mark.long
def test_branch_has_what_was_changed_since_its_checkpoint_or_has_it_not(
    page: Page, studio: Studio
) -> None:
    """The words say which, so that a person who goes back goes back before the change."""
    town = studio.society.town
    assert town is not None
    press(page, "Step")
    expect(state(page)).to_contain_text("step 2 of 2,880")
    town.intervene(news=["There is a curfew."])
    press(page, "Step")
    expect(state(page)).to_contain_text("step 3 of 2,880")
    for fork, key, has, words in ((1, "End", 1, "with"), (2, "ArrowLeft", 0, "without")):
        press(page, "Branch")
        page.get_by_label("Checkpoint to go back to").press(key)
        said = f"2 steps back, to Mon 00:15, {words} what was changed since."
        expect(page.get_by_text(said)).to_be_visible()
        press(page, "Branch beside")
        if fork == 2:  # the first one lives beside it
            page.get_by_role("button", name="End it and go on").click()
        beside = page.get_by_role("group", name="The town beside it")
        expect(beside).to_contain_text(f"step 3 of 2,880 · run {town.run_id}.{fork}")
        assert studio.society.second_town is not None
        assert len(studio.society.second_town.wait_for_society().interventions) == has


def test_branches_live_side_by_side(page: Page, studio: Studio) -> None:
    """What is changed in one alone is seen beside the other; they are swapped, one is closed."""
    town = studio.society.town
    assert town is not None
    press(page, "Branch")
    press(page, "Branch beside")
    beside = page.get_by_role("group", name="The town beside it")
    expect(beside).to_contain_text("step 1 of 2,880")
    press(page, "Step")
    expect(state(page)).to_contain_text("step 2 of 2,880")
    press(page, "Step")
    expect(state(page)).to_contain_text("step 3 of 2,880")
    expect(beside).to_contain_text("step 3 of 2,880")
    curve = page.get_by_role("figure", name="Where citizens are")
    expect(curve.locator("polyline[stroke-dasharray='3 3']").first).to_be_attached()
    town.intervene(pay=[("government", "everyone", 10_000)])
    press(page, "Step")
    expect(beside).to_contain_text("step 4 of 2,880")
    other = studio.society.second_town
    assert other is not None
    richer = [each.wait_for_society().respondent("7").status["money"] for each in (town, other)]
    assert richer[0] - richer[1] == 10_000
    expect(page.get_by_label("Map of the town beside it")).to_be_visible()
    beside.get_by_role("button", name="Swap").click()
    expect(beside).to_contain_text(f"run {town.run_id}")
    press(page, "Step")
    expect(state(page)).to_contain_text("step 5 of 2,880")
    expect(beside).to_contain_text("step 5 of 2,880")
    assert studio.society.town is other
    beside.get_by_role("button", name="Close").click()
    expect(beside).to_be_hidden()
    expect(page.get_by_label("Map of the town beside it")).to_have_count(0)
    press(page, "Step")
    expect(state(page)).to_contain_text("step 6 of 2,880")
    press(page, "Compare")
    page.get_by_label("Town to put beside it").select_option(town.run_id)
    press(page, "Show beside")  # from its last checkpoint on
    expect(beside).to_contain_text("step 6 of 2,880")
    assert "shown already" in asked(studio, "put_beside", {"run": other.run_id})
    beside.get_by_role("button", name="Close").click()
    expect(beside).to_be_hidden()
    assert "no town beside" in asked(studio, "swap", {})


def test_town_plays_at_once_from_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    with a_studio(tmp_path) as studio, pages(browser, studio) as open_page:
        page = open_page("Society")
        page.get_by_role("button", name="Play a town of 300 citizens").click()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        expect(page.get_by_label("Citizens", exact=True)).to_be_hidden()
        expect(page.get_by_label("Map of the town")).to_be_in_viewport(ratio=1)


def test_page_tells_the_towns_of_two_programs_apart(tmp_path: Path) -> None:
    """One that comes back after a restart shows the new town, not both in one."""
    numbers = []
    for number in (1, 2):
        with Studio() as studio:
            studio.launch(0, journal=tmp_path / "runs.db", prevent_thread_lock=True, quiet=True)
            studio.society.set_up(SimulateOrder(10 * number))
            assert studio.society.town is not None
            numbers.append(studio.society.town.number)
    assert len({*numbers}) == 2


def test_town_that_another_program_plays_is_not_taken(page: Page, studio: Studio) -> None:
    """Each page says so; of the recorded towns the newest is the first."""
    with Studio() as other:
        kept: Any = {"journal": studio.journal.path, "prevent_thread_lock": True, "quiet": True}
        other.launch(0, token=TOKEN, **kept)
        other.society.set_up(SimulateOrder(12, step="6h"))
        at(other, 1)
        for name in ("Runs", "Society"):  # the page looks what is recorded when a tab is opened
            page.get_by_role("tab", name=name, exact=True).click()
        press(page, "Resume a recorded town")
        towns = page.get_by_label("Recorded towns")
        expect(towns.get_by_role("option").first).to_contain_text("12 citizens")
        towns.select_option(index=0)
        press(page, "Resume")
        page.get_by_role("button", name="End it and go on").click()
        expect(page.get_by_text("It failed")).to_be_visible()
        expect(state(page)).to_contain_text("is being worked on by process")
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_disabled()


def asked(studio: Studio, path: str, body: Any = None) -> Any:
    """What a page is answered; of a refusal what it says."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(f"{studio.url}studio/society/{path}", data, headers)) as answer:
            told = answer.read()
    except HTTPError as refused:
        return json.load(refused)["error"]
    return told if path.startswith("frame") else json.loads(told)


def frame(studio: Studio, query: str = "") -> tuple[dict[str, Any], bytes]:
    """How the town stands, and where its citizens are, packed."""
    told = asked(studio, f"frame{query}")
    length = int.from_bytes(told[:4], "little")
    return json.loads(told[4 : 4 + length]), told[4 + length :]


def at(studio: Studio, step: int, state: str = "paused") -> bytes:
    """Where citizens are then."""
    while True:
        head, packed = frame(studio)
        if (head.get("step"), head["state"]) == (step, state):
            return packed


def test_town_routes_survey_pay_change_and_locate(studio: Studio) -> None:
    """Through its routes: surveys by a state, payments, changes, and where citizens are."""

    def survey(**of: Any) -> Any:
        return asked(studio, "survey", {"text": "?", "kind": "yes_no", "citizens": 10, **of})

    def answers() -> dict[str, Any]:
        return {id: value for id, value, *_ in asked(studio, "log")["said"][0]["answers"]}

    def change(**of: Any) -> Any:
        return asked(studio, "intervene", of)

    def pay(to: str, cents: int) -> Any:
        return change(pay=[["government", to, cents]])

    def citizen(id: str) -> Any:
        return asked(studio, f"citizen?id={id}")

    studio.society.set_up(SimulateOrder(10, step="6h"))
    asleep = at(studio, 1)
    with pytest.raises(ConfigError, match="there is no model 'nonesuch'"):
        studio.society.set_up(SimulateOrder(10, model="nonesuch"))
    with pytest.raises(ConfigError, match="--seed must be from 0 to 18446744073709551615, got"):
        studio.society.set_up(SimulateOrder(10, seed=1 << 64))
    survey(by="need hunger")
    status = {id: citizen(id)["status"] for id in answers()}
    assert answers() == {id: its["needs"]["hunger"] >= 500 for id, its in status.items()}
    assert len(status) == 10
    part = {id: (its["opinions"]["art"] + 1000) / 2000 for id, its in status.items()}
    survey(by="opinion art", kind="scale")
    assert answers() == {id: 1 + round(each * 4) for id, each in part.items()}
    survey(by="opinion art", kind="choice", choices=["a", " b ", "c", ""])
    assert answers() == {id: "abc"[min(int(each * 3), 2)] for id, each in part.items()}
    counts = asked(studio, "log")["said"][0]["counts"]
    assert counts == [[each, [*answers().values()].count(each)] for each in "abc"]
    survey(by="opinion art", citizens=4)
    last = asked(studio, "log")["said"][0]
    assert (last["asked"], last["sources"], last["step"]) == (4, {"rule": 4}, 1)
    assert [id for id, *_ in last["answers"]] == ["1", "3", "5", "7"]
    assert [value for value, _ in last["counts"]] == [True, False]
    assert sum(number for _, number in last["counts"]) == 4
    assert survey(citizens=0) == "citizens: Input should be greater than or equal to 1"
    assert survey() == "name a model, or choose which state stands for the answer"
    for few in (["a"], ["a", " "], ["a", "b", "a"]):
        told = survey(by="opinion art", kind="choice", choices=few)
        assert "write two choices or more, each once" in told
    asked(studio, "interview", {"citizen": "3", "question": "How are you?"})
    with OpenAIServer(text('{"answer": "Fine."}'), text('{"answer": true}')) as server:
        model = f"{server.url}#m"
        asked(studio, "interview", {"citizen": "3", "question": "And now?", "model": model})
        survey(citizens=1, model=model)
    by_model = asked(studio, "log")["said"][:2]
    assert by_model[1]["answer"] == "Fine."
    assert [each.get("source") or each["sources"] for each in by_model] == [{"model": 1}, "model"]
    assert "there is no model 'nonesuch'" in survey(citizens=1, model="nonesuch")
    said = asked(studio, "log")["said"]
    assert [each["kind"] for each in said] == [
        "survey",
        *["interview"] * 2,
        *["survey"] * 4,
    ]
    assert f"I am {citizen('3')['name']}." in said[2]["answer"]
    name = citizen("3")["name"]
    found = asked(studio, f"find?name=%20{name[:2].upper()}")
    assert ["3", name, citizen("3")["status"]["home"]] in found
    assert all(each[1].startswith(name[:2]) for each in found)

    for value in ("null", 3, "[1]"):
        assert change(facts={f"f{value}": value}) == 1
    assert "at least 1 character" in change(news=[""])
    assert "an intervention must change something" in change()
    assert "Extra inputs" in change(status={"money": 5})  # a page offers no such change
    assert "not a place" in change(close=["nowhere"])
    place = asked(studio, "map")["places"][-1][0]
    assert change(close=[place]) == change(open=[place]) == 1
    assert 'no road "Nowhere Road"' in change(close_roads=["Nowhere Road"])
    assert change(close_roads=["n0-n1"], hours=6) == 1
    told = pay("everyone", 1_000_000)
    assert "the government has 22,000.00 dollars, and is to pay 100,000.00" in told
    assert "greater than or equal to 1" in pay("3", 0)
    assert pay("everyone", 150) == pay("3", 2_000) == 1
    assert [what for _, what, _ in asked(studio, "log")["changes"]] == [
        "government pays 20.00 to citizen 3",
        "government pays 1.50 to everyone",
        "opens road n0-n1",
        "closes road n0-n1",
        f"opens {place}",
        f"closes {place}",
        "f[1] is [1]",
        "f3 is 3",
        "fnull is null",
    ]
    before = frame(studio)[0]
    assert before["changes"] == 8 + 7
    asked(studio, "control", {"speed": 10})
    assert (frame(studio)[0]["speed"], frame(studio)[0]["step"]) == (10, 1)
    asked(studio, "control", {"do": "step"})
    while at(studio, 2) == asleep:  # the number of a step comes a moment before where citizens are
        pass
    pays = {id: citizen(id)["status"]["money"] - its["money"] for id, its in status.items()}
    assert pays["3"] >= 2_150
    asked(studio, "control", {"do": "play", "speed": 0})
    at(studio, 4, "ended")
    assert asked(studio, "control", {"do": "play"}) == "the run has ended: set up another town"
    assert "no step comes any more" in change(news=["late"])
    survey(by="need hunger")
    assert len(answers()) == 10
    assert asked(studio, "log")["said"][0]["step"] == 4

    rows = frame(studio)[0]["rows"]
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert frame(studio, f"?town={before['town']}&after=3")[0]["rows"] == rows[3:]
    assert frame(studio, "?town=1&after=3")[0]["rows"] == rows  # a page of another town
    own = ReActAgent("a", ScriptedModel(["Yes."]), journal=studio.journal)
    with ThreadPoolExecutor(1) as thread:  # in this one Playwright has a loop
        thread.submit(own.reply_sync, "go", run_id="own").result()
    with pytest.raises(ConfigError, match="run own records no town"):
        studio.society.load("own")
    assert frame(studio)[0]["town"] == before["town"]
    studio.society.close()
    assert frame(studio)[0] == {"town": 0, "state": "none"}
    assert citizen("3") == "there is no town: set one up, or resume a recorded one"
    studio.society.load(before["run"])
    at(studio, 4, "ended")
    head, acts = frame(studio)[0], len(before["acts"])
    assert [sum(row[-acts:]) for row in rows] == [10] * 4  # what each citizen does
    assert head["run"] == before["run"]
    assert [row[:-acts] for row in head["rows"]] == [row[:-acts] for row in rows]


def test_citizens_are_drawn_where_they_are(studio: Studio) -> None:
    """The packed numbers are scaled to the map; what each does is by name."""
    studio.society.set_up(SimulateOrder(10, step="6h", seed=1))
    at(studio, 1)
    asked(studio, "control", {"do": "play", "speed": 0})
    packed, head, plan = at(studio, 4, "ended"), frame(studio)[0], asked(studio, "map")
    left, low, wide, tall = plan["bounds"]
    xs, ys = struct.unpack("<10H", packed[:20]), struct.unpack("<10H", packed[20:40])
    spots = {id: (x, y) for id, _, x, y, *_ in plan["places"]}
    assert min(x for x, _ in spots.values()) >= left
    assert max(y for _, y in spots.values()) <= low + tall
    there = 0
    for number, (x, y, act) in enumerate(zip(xs, ys, packed[40:], strict=True), 1):
        status = asked(studio, f"citizen?id={number}")["status"]
        assert head["acts"][act] == status["act"]
        if status["moving"] is None:
            there += 1
            drawn = (left + x / 65_534 * wide, low + y / 65_534 * tall)
            assert drawn == pytest.approx(spots[status["place"]], abs=wide / 60_000 + 0.01)
    assert there


@pytest.mark.parametrize(
    ("layer", "least", "most"), (("needs.hunger", 0, 1000), ("opinions.art", -1000, 1000))
)
def test_citizens_levels_in_a_layer_of_the_map_are_parts_of_its_range(
    studio: Studio, layer: str, least: int, most: int
) -> None:
    studio.society.set_up(SimulateOrder(10, step="6h", seed=1))
    at(studio, 1)
    head, packed = frame(studio, f"?layer={layer}")
    assert head["level"] == {"layer": layer, "least": least, "most": most}
    kind, name = layer.split(".")
    for number, level in enumerate(packed[50:], 1):
        value = asked(studio, f"citizen?id={number}")["status"][kind][name]
        assert level == int((value - least) / (most - least) * 254)


def test_places_of_a_generated_town_stand_in_rows_at_its_streets(studio: Studio) -> None:
    """Streets have three classes, and quarters the names of their sides of the town."""
    studio.society.set_up(SimulateOrder(2000, step="6h", seed=3))
    at(studio, 1)
    plan = asked(studio, "map")
    nodes = plan["nodes"]

    def metres(x: float, y: float, road: list[int]) -> float:
        """How far a point is from a road."""
        (ax, ay), (bx, by) = nodes[road[0]], nodes[road[1]]
        part = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)
        part = min(1, max(0, part))
        return math.hypot(x - ax - part * (bx - ax), y - ay - part * (by - ay))

    apart = [min(metres(x, y, road) for road in plan["roads"]) for _, _, x, y, *_ in plan["places"]]
    assert max(apart) < 40
    assert sum(each < 14 for each in apart) > len(apart) / 2  # in the first row
    assert min(apart) > 8  # none is on a street
    assert {road[2] for road in plan["roads"]} == {0, 1, 2}
    names = {name: (x, y) for name, x, y in plan["quarters"]}
    assert names["West"][0] < names["Centre"][0] < names["East"][0]
    assert names["South"][1] < names["Centre"][1] < names["North"][1]


def test_citizens_go_around_corners_along_the_streets(open_page: Callable[..., Page]) -> None:
    """From a place at one street to a place at another, they pass the crossing between them."""
    halfway = open_page().evaluate(
        """async () => {
            const { along, makeStreets } = await import("./studio/static/streets.js");
            const nodes = [[0, 0], [100, 0], [100, 100]], roads = [[0, 1, 0], [1, 2, 0]];
            const { way } = makeStreets({ nodes, roads });
            return along(way(20, 10, 90, 80), 0.5);
        }"""
    )
    assert halfway == pytest.approx([100, 0])


@pytest.mark.long
def test_citizens_of_a_large_town_are_asked_too(page: Page) -> None:
    """Its citizens are kept in columns."""
    another(page, 10_001)
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "density")
    press(page, "Citizen")
    show(page, "10001")
    expect(page.get_by_role("heading", name="Citizen 10001")).to_be_visible()
    press(page, "Survey")
    page.get_by_label("Question", exact=True).fill("Do you like art?")
    page.get_by_label("Answered from").select_option("opinion of art, −100 to 100 %")
    page.get_by_label("How many citizens").fill("30")
    press(page, "Ask")
    found = page.get_by_role("region", name="Survey")
    expect(found).to_contain_text("30 citizens before step 1; 30 by rule")


@pytest.mark.long
def test_recorded_town_goes_on(page: Page, studio: Studio) -> None:
    """From its last checkpoint, chosen in the journal or in the tab Runs."""
    another(page, 5)
    expect(page.get_by_text("citizens must be from 10 to 100,000, got 5")).to_be_visible()
    expect(state(page)).to_contain_text("step 1 of 2,880 · paused")
    page.locator("#society-new summary").click()
    page.get_by_label("Model", exact=True).fill("nonesuch")
    set_up(page, 10, 1)
    expect(page.get_by_text("there is no model 'nonesuch'")).to_be_visible()
    expect(state(page)).to_contain_text("step 1 of 2,880 · paused")
    page.get_by_label("Model", exact=True).fill("")
    set_up(page, 10, 1)
    page.get_by_role("button", name="End it and go on").click()
    expect(state(page)).to_contain_text("step 1 of 96 · paused")
    page.get_by_label("Speed").select_option("as fast as it can")
    press(page, "Play")
    expect(state(page)).to_contain_text("step 96 of 96 · ended")
    press(page, "Resume a recorded town")
    towns = page.get_by_label("Recorded towns")
    named = towns.get_by_role("option", name="60 citizens").first.get_attribute("value")
    towns.select_option(named)
    press(page, "Resume")
    expect(state(page)).to_contain_text("step 1 of 2,880 · paused")
    *_, first, second = studio.journal.runs()
    assert (first.state, second.state) == ("running", "done")

    another(page, 10)
    expect(page.get_by_role("figure", name=re.compile(r"at home (\d|10)\b"))).to_be_visible()
    page.get_by_role("tab", name="Runs", exact=True).click()
    page.get_by_role("list", name="Runs").locator(f'[data-run="{first.id}"]').click()
    press(page, "Resume")
    page.get_by_role("button", name="End it and go on").click()
    page.get_by_role("tab", name="Society", exact=True).click()
    expect(page.get_by_role("figure", name=re.compile(r"at home [4-6]\d\b"))).to_be_visible()


EXPERIMENT = """\
name: small
question: Who is at home?
society: {citizens: 10, step: 12h}
metrics: [home]
workflow: [step: 2]
seeds: 2
"""


def test_experiment_is_run_and_its_report_is_shown(
    tab: Page, studio: Studio, tmp_path: Path
) -> None:
    """It is stopped and continued; what cannot be run says why."""
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT)
    press(tab, "Run an experiment")
    run = tab.get_by_role("button", name="Run", exact=True)
    path = tab.get_by_label("File of the experiment")
    path.fill(str(tmp_path / "none.yaml"))
    run.click()
    expect(tab.get_by_text("none.yaml")).to_be_visible()
    path.fill(str(file))
    run.click()
    shown = tab.get_by_label("Experiment small")
    expect(shown.get_by_role("status")).to_contain_text("2 of 2 cells")
    expect(shown).to_contain_text("ended")
    report = tab.frame_locator("iframe[title='Report of small']")
    expect(report.get_by_text("Who is at home?", exact=True)).to_be_visible()
    expect(report.get_by_role("img").first).to_be_visible()
    assert (tmp_path / "small-results" / "results.parquet").exists()
    file.write_text(EXPERIMENT.replace("step: 2", "step: 20000").replace("small", "long"))
    form = studio.society.experiments
    form.start(str(file), 1, None, str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="is under way in"):
        form.start(str(file), 1, None, str(tmp_path / "out"))
    shown = tab.get_by_label("Experiment long")
    expect(shown).to_contain_text("running")
    shown.get_by_role("button", name="Stop").click()
    expect(shown).to_contain_text("stopped")
    file.write_text(EXPERIMENT.replace("small", "long"))
    shown.get_by_role("button", name="Continue").click()
    expect(shown).to_contain_text("ended")  # and there is one of it
    tab.reload()
    expect(shown.get_by_role("status")).to_contain_text("2 of 2 cells")
    expect(tab.get_by_title("Report of long")).to_be_hidden()  # the town has the room
    with pytest.raises(ConfigError, match="needs a limit"):
        form.start(str(remote(tmp_path)), 1, None, "")


def test_experiments_pages_are_told_how_far_it_is(studio: Studio, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    studio.society.experiments.start(str(tmp_path / "small.yaml"), 1, None, "")
    told = Told(studio)
    first = told.until("experiment", cells_ended=1)
    assert (first["state"], first["cells"]) == ("running", 2)
    assert 0.5 <= first["part"] < 1
    assert first["seconds_left"] > 0
    ended = told.until("experiment", state="ended")
    assert (ended["cells_ended"], ended["part"]) == (2, 1)


def remote(folder: Path) -> Path:
    """An experiment that asks a model on a server without a limit."""
    path = folder / "remote.yaml"
    path.write_text(EXPERIMENT.replace("step: 12h", "step: 12h, llm: 'openai:nobodys'"))
    return path
