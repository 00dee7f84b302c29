"""What a person does is asked, told and limited alike, from wherever on the page it is done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from models.openai_server import HANG, OpenAIServer, calls, text
from moothall import (
    ACCESS_REQUESTED,
    Action,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.foundation.errors import ConfigError
from moothall.studio import Studio
from moothall.studio.orders.simulate import SimulateOrder
from moothall.studio.towns.tab import SecondRun


@pytest.fixture
def stopped(studio: Studio) -> str:
    """The run of a town that was stopped; another one plays since."""
    for run in ("stopped", "plays"):
        studio.society.set_up(SimulateOrder(12, days=30, step="6h"), run)
        assert studio.society.town is not None
        while studio.society.town.step < 1:
            studio.runs.refresh()
    studio.society.town.control("play")
    return "stopped"


def asked(page: Page, answer: str) -> None:
    """The page asks whether the town that plays is to end."""
    dialog = page.get_by_role("dialog", name="Something ends")
    expect(dialog).to_contain_text("has not ended")
    dialog.get_by_role("button", name=answer, exact=True).click()
    expect(dialog).to_have_count(0)


def test_town_that_plays_ends_for_another_once_the_person_agrees(
    stopped: str, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """From the page of a run and from a form; a program is not asked."""
    page, plays = open_page("Runs"), studio.society.town
    assert plays is not None
    page.get_by_role("list", name="Runs").locator(f"[data-run={stopped}]").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    asked(page, "Cancel")
    expect(page.get_by_text("It goes on as it was.")).to_be_visible()
    assert (studio.society.town, plays.is_over) == (plays, False)
    page.get_by_role("tab", name="Society", exact=True).click()
    page.get_by_role("button", name="Set up a town", exact=True).click()
    page.get_by_role("button", name="Set up", exact=True).click()
    asked(page, "Cancel")
    assert studio.society.town is plays
    page.get_by_role("tab", name="Runs", exact=True).click()
    page.get_by_role("button", name="Resume", exact=True).click()
    asked(page, "End it and go on")
    page.get_by_role("tab", name="Society", exact=True).click()
    expect(page.locator(".s-control").get_by_role("status")).to_contain_text("paused")
    assert studio.society.town.run_id == stopped
    studio.society.load("plays")
    assert studio.society.town.run_id == "plays"


@pytest.mark.long
def test_town_beside_ends_for_a_third_once_the_person_agrees(
    stopped: str, studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.put_beside(SecondRun(run=stopped))
    studio.journal.fork(stopped)
    beside = studio.society.second_town
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("button", name="Show beside", exact=True).click()
    asked(page, "Cancel")
    assert studio.society.second_town is beside
    page.get_by_role("group", name="The town beside it").get_by_role("button", name="Close").click()
    expect(page.get_by_role("group", name="The town beside it")).to_be_hidden()


def test_town_with_too_many_citizens_is_refused_on_each_way(studio: Studio) -> None:
    with pytest.raises(ConfigError, match="at most 100,000"):
        studio.society.set_up(SimulateOrder(100_001, days=1))


def test_run_that_a_message_has_begun_is_stopped_where_it_is_shown(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """In its conversation and among the runs; whoever has asked is told."""
    with OpenAIServer(HANG) as server, NativeSpace() as space:
        model = f"{server.url}#m"
        space.add(ReActAgent("Poet", model, journal=studio.journal, receive_own_broadcasts=False))
        space.add(studio.user)
        page, other = open_page(), open_page("Runs")
        page.get_by_role("list", name="Agents").get_by_text("Poet", exact=True).click()
        talk = page.get_by_role("region", name="With Poet")
        for where in (talk, other.get_by_role("region", name="Run", exact=True)):
            page.get_by_label("Say to Poet").fill("Write")
            page.keyboard.press("Enter")
            server.wait_for_request()  # before its first step it would have no end
            expect(talk.get_by_role("button", name="Stop", exact=True)).to_be_visible()
            if where is not talk:
                runs = other.get_by_role("list", name="Runs").get_by_role("button")
                expect(runs).to_have_count(2)
                runs.first.click()
            where.get_by_role("button", name="Stop", exact=True).click()
            expect(talk.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
            expect(talk.get_by_role("article").last).to_contain_text("it was stopped; run")
        expect(other.get_by_role("region", name="Run", exact=True)).to_contain_text("stopped")
        assert {each.state for each in studio.journal.runs()} == {"cancelled"}


@pytest.mark.long
def test_run_that_waits_in_the_journal_is_stopped_where_it_is_shown(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """No process works on it: its program, or the studio before, has ended or rests."""
    refund = Action("refund", lambda order: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    for run in ("first", "second"):
        model = ScriptedModel([[{"name": "refund", "args": {"order": run}}]])
        options = {"actions": [refund], "approver": Waiting(), "journal": studio.journal}
        agent = ReActAgent("desk", model, **options)
        with ThreadPoolExecutor(1) as pool:  # this thread has Playwright's loop
            pool.submit(agent.reply_sync, "Refund it", run_id=run).result()
    page = open_page("Runs")
    expect(page.get_by_role("button", name="Inbox: 2 wait for you")).to_be_visible()
    for left, run in (("Inbox: 1 wait for you", "second"), ("Inbox: nothing waits", "first")):
        page.get_by_role("list", name="Runs").locator(f"[data-run={run}]").click()
        shown = page.get_by_role("region", name="Run", exact=True)
        shown.get_by_role("button", name="Stop", exact=True).click()
        said = f'it was stopped while waiting for the approval of refund(order="{run}")'
        expect(shown.get_by_role("region", name="Reply")).to_contain_text(said)
        expect(page.get_by_role("button", name=left)).to_be_visible()
    assert {each.state for each in studio.journal.runs()} == {"cancelled"}


def test_reply_with_footnotes_is_shown_with_their_numbers(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    said = "# Report\n\nThe last ferry leaves at eleven. [^1^] It costs three euros. [^12^]"
    agent = ReActAgent("desk", ScriptedModel([said]), journal=studio.journal)
    with ThreadPoolExecutor(1) as pool:  # this thread has Playwright's loop
        pool.submit(agent.reply_sync, "When?", run_id="ferry").result()
    page = open_page("Runs")
    page.get_by_role("list", name="Runs").locator("[data-run=ferry]").click()
    shown = page.get_by_role("region", name="Reply")
    expect(shown).to_contain_text("leaves at eleven. [1] It costs three euros. [12]")


def test_word_that_only_a_step_has_finds_its_run(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    wants = calls({"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}})

    @action
    async def look() -> str:
        """Look."""
        return "There is a Zebra."

    with OpenAIServer(wants, text("It is an animal.")) as server:
        agent = ReActAgent("a", f"{server.url}#m", actions=[look], journal=studio.journal)
        other = ReActAgent("b", ScriptedModel(["No."]), journal=studio.journal)
        with ThreadPoolExecutor(1) as pool:  # this thread has Playwright's loop
            pool.submit(agent.reply_sync, "What is there?").result()
            pool.submit(other.reply_sync, "Nothing?").result()
    page = open_page("Runs")
    page.get_by_role("searchbox", name="Filter runs").fill("zebra")
    expect(page.get_by_text("1 of 2 runs")).to_be_visible()
    expect(page.get_by_role("list", name="Runs")).to_contain_text("What is there?")


def test_change_to_a_town_that_is_written_before_its_map_came_stays(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    maps: list[Route] = []
    page.route("**/studio/society/map", lambda route: maps.append(route))
    with page.expect_request("**/studio/society/map"):
        studio.society.set_up(SimulateOrder(12, days=1, step="6h"))
    page.get_by_role("button", name="Interventions", exact=True).click()
    page.get_by_label("Change", exact=True).select_option("Close a place")
    page.get_by_label("Place", exact=True).fill("park-1")
    maps[0].continue_()
    expect(page.locator("#s-places option").first).to_be_attached()
    expect(page.get_by_label("Place", exact=True)).to_have_value("park-1")


def test_mistyped_text_is_no_error_of_the_page(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Neither a slash line nor a form nor a change: it is said where it was written."""
    page = open_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.get_by_role("textbox", name="Message or slash line").fill("/Poet.write about:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("column 19")
    page.get_by_role("tab", name="Act and review", exact=True).click()
    page.get_by_label("Folder that it works on").fill(str(tmp_path / "nowhere"))
    page.get_by_label("Task", exact=True).fill("Look")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("does not exist")).to_be_visible()
    studio.society.set_up(SimulateOrder(12, days=1, step="6h"))
    page.get_by_role("tab", name="Society", exact=True).click()
    expect(page.locator(".s-control").get_by_role("status")).to_contain_text("paused")
    page.get_by_role("button", name="Interventions", exact=True).click()
    page.get_by_label("Change", exact=True).select_option("Close a place")
    page.get_by_label("Place", exact=True).fill("park-1")
    page.get_by_label("For how many hours").fill("10000000")
    page.get_by_role("button", name="Apply at the next step").click()
    expect(page.get_by_text("less than or equal to 1000000")).to_be_visible()
    assert told == []
