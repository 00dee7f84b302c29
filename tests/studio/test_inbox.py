"""The inbox, a narrow window, and what models write: what a person meets first."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from journal.process import Processes
from moothall import ACCESS_REQUESTED, Call, ModelReply, ReActAgent, ScriptedModel, action
from moothall.actions.approval import Question
from moothall.studio import Studio
from studio.killed import RUN

ANSWER = (
    "## Found\n\nIt is **here**, see [the page](https://a.example/x).\n\n"
    "- one\n- two\n\n<img src=x onerror=alert(1)>"
)
SCROLLS = """() => [...document.querySelectorAll('body *')].filter((each) =>
  each.offsetParent && /auto|scroll/.test(getComputedStyle(each).overflowY)
  && each.scrollHeight > each.clientHeight + 1 && !/TEXTAREA|PRE/.test(each.tagName)
).map((each) => each.className)"""

SIZE = "each => getComputedStyle(each).fontSize"


def kind(button: Locator) -> str:
    """The last class of a button, by which it has its colour."""
    return str(button.get_attribute("class")).split()[-1]


@action(access_policy=ACCESS_REQUESTED, facts={"danger": "high"})
def delete(path: str) -> list[list[object]]:
    """Delete a file."""
    return [[3, f"{path} is gone"], [4, "<b>and</b> all"]]


@action(access_policy=ACCESS_REQUESTED, facts={"undone": False})
def keep(days: int) -> str:
    """Keep it for some days."""
    return "kept"


def test_cards_that_want_the_same_name_their_tasks(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """A card leads to its run, which says its thread and how long it waited.

    What is no number is refused in words; a question is answered by the key that refuses.
    """
    calls = [ModelReply("", (Call("1", "keep", {"days": 30}),)), "Kept."]
    agents = [
        ReActAgent(
            name,
            ScriptedModel(calls),
            actions=[keep],
            approver=studio.cards,
            journal=studio.journal,
        )
        for name in ("one", "two")
    ]
    page = open_page("Space")
    with ThreadPoolExecutor(3) as pool:
        done = [
            pool.submit(each.reply_sync, f"Keep the {of}.", thread=f"of-{of}", run_id=of)
            for each, of in zip(agents, ("letters", "bills"), strict=True)
        ]
        question = Question("one", "Which colour?")
        said = pool.submit(asyncio.run, studio.cards.answer(question))
        try:
            card = page.get_by_role("article", name="approval")
            expect(card.filter(has_text="for Keep the letters.")).to_have_count(1)
            bills = card.filter(has_text="for Keep the bills.")
            expect(bills.get_by_text("undone: false")).to_be_visible()
            assert kind(bills.get_by_role("button", name="Permit", exact=True)) == "s-button"
            size = bills.get_by_text("30", exact=True).evaluate(SIZE)
            assert float(size.removesuffix("px")) > 18  # what is permitted is read first
            bills.get_by_role("button", name="Edit arguments").click()
            bills.get_by_role("textbox", name="Argument days").fill("soon")
            bills.get_by_role("button", name="Permit as edited").click()
            expect(
                bills.get_by_text("days must be a number, such as 30, not “soon”")
            ).to_be_visible()
            days = bills.get_by_role("textbox", name="Argument days")
            expect(days).to_have_attribute("aria-invalid", "true")
            expect(days).to_be_focused()
            expect(page.locator(".s-toast.bad")).to_have_count(0)  # it would lie over Permit
            days.fill("14")
            expect(days).not_to_have_attribute("aria-invalid", "true")
            asks = page.get_by_role("article", name="question")
            expect(page.get_by_text("r: refuse or answer")).to_be_visible()
            asks.focus()
            page.keyboard.press("r")
            page.keyboard.type("blue")
            page.keyboard.press("Enter")
            assert said.result(30) == "blue"
            bills.get_by_role("button", name="Keep the bills.").click()
            page.wait_for_url("**/runs/bills")
            view = page.get_by_role("region", name="Run", exact=True)
            expect(view).to_contain_text("two · thread of-bills")
            bills.get_by_role("button", name="Undo the edits").click()
            bills.get_by_role("button", name="Permit", exact=True).click()
            expect(view.get_by_role("button", name="person permitted")).to_contain_text(
                re.compile(r"\d m?s$")
            )
            view.get_by_role("button", name="Timeline").click()
            bar = view.get_by_role("region", name="Timeline").get_by_role("button", name="person")
            expect(bar).not_to_contain_text(re.compile(r"(?<!\d)0 ms"))
        finally:
            for each in studio.cards.to_json():
                asks = each["kind"] == "question"
                studio.cards.decide(each["number"], {"text": "none"} if asks else {"permit": False})
        assert [each.result(30).text for each in done] == ["Kept.", "Kept."]


def test_card_is_in_the_inbox_or_where_its_run_is_shown(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Folded it stays so over a reload; by keys it is found and permitted; always is for its run.

    With edited arguments it runs with these, and its step says that a person changed them.

    In a window of a phone nothing is cut off, all tabs are in reach, and the page alone scrolls.
    What a model writes is Markdown, without an element of its own making.
    """
    calls = [Call(str(n), "delete", {"path": f"notes-{n}.md"}) for n in range(4)]
    agent = ReActAgent(
        "files",
        ScriptedModel([*(ModelReply("", (each,)) for each in calls), ANSWER]),
        actions=[delete],
        approver=studio.cards,
        journal=studio.journal,
    )
    page = open_page("Space")
    page.set_viewport_size({"width": 390, "height": 844})
    card, inbox = page.get_by_role("article", name="approval"), page.locator(".s-inbox")
    expect(inbox).to_have_accessible_name("Inbox: nothing waits for you")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(agent.reply_sync, "Clean up.", run_id="clean")
        try:
            expect(inbox).to_have_accessible_name("Inbox: 1 wait for you")
            expect(card).to_have_count(0)
            page.set_viewport_size({"width": 390, "height": 240})
            page.evaluate("scrollTo(0, 9999)")
            expect(inbox).to_be_in_viewport()
            page.set_viewport_size({"width": 390, "height": 844})
            inbox.click()
            expect(card).to_contain_text("notes-0.md")
            permit = card.get_by_role("button", name="Permit", exact=True)
            refuse = card.get_by_role("button", name="Refuse", exact=True)
            assert [kind(each) for each in (permit, refuse)] == ["danger", "s-button"]
            card.locator("summary").click()
            expect(permit).to_be_hidden()
            page.reload()  # it is open, and the card is folded
            expect(card).to_be_visible()
            expect(permit).to_be_hidden()
            page.keyboard.press("j")
            page.keyboard.press("a")
            expect(card).to_contain_text("notes-1.md")
            page.keyboard.press("Escape")
            page.get_by_role("tab", name="Act and review").click()
            expect(card).to_be_in_viewport()
            inbox.click()
            panel = page.get_by_role("complementary", name="Inbox")
            panel.get_by_role("button", name="The agent wants delete: path notes-1.md").click()
            expect(card).to_be_focused()
            expect(panel).to_be_hidden()
            card.get_by_role("button", name="Edit arguments").click()
            card.get_by_role("textbox", name="Argument path").fill("old.md")
            card.get_by_role("button", name="Permit as edited").click()
            expect(card).to_contain_text("notes-2.md")
            card.get_by_role("button", name="Always in this run").click()
            done.result(30)
        finally:  # else the run would wait for ever, and this test with it
            while not done.done():
                for each in studio.cards.to_json():
                    studio.cards.decide(each["number"], {"permit": False})
    steps = page.get_by_role("log", name="Steps")
    expect(steps.get_by_role("row", name="3 old.md is gone")).to_be_visible()
    expect(steps.get_by_text("changed by a person")).to_be_visible()
    expect(steps.get_by_role("row", name="3 notes-3.md is gone")).to_be_visible()
    expect(steps.locator("strong")).to_have_text("here")
    expect(steps.locator("li")).to_have_text(["one", "two"])
    expect(steps).to_contain_text("the page (https://a.example/x)")
    expect(steps.locator("img, a")).to_have_count(0)
    for tab in ("Space", "Act and review", "Research", "Society", "Runs"):
        button = page.get_by_role("tab", name=tab, exact=True)
        expect(button).to_be_in_viewport(ratio=1)
        assert (button.bounding_box() or {})["y"] > 780, tab  # a bar below, for the thumb
        button.click()
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, tab
        assert page.evaluate(SCROLLS) == [], tab


def test_card_in_the_place_of_an_answered_one_gets_no_second_click_and_no_held_key(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Space")
    page.locator(".s-inbox").click()
    card = page.get_by_role("article", name="approval")
    permit = card.first.get_by_role("button", name="Permit", exact=True)
    calls = tuple(Call(str(n), "delete", {"path": f"notes-{n}.md"}) for n in range(4))
    agent = ReActAgent(
        "files",
        ScriptedModel([ModelReply("", calls), "Gone."]),
        actions=[delete],
        approver=studio.cards,
    )
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(agent.reply_sync, "Clean up.")
        try:
            expect(card).to_have_count(4)
            for count in (1, 2):
                permit.hover()
                page.mouse.down(click_count=count)
                page.mouse.up(click_count=count)
                expect(card).to_have_count(3)
            for _ in range(2):
                card.first.focus()
                page.keyboard.down("a")
                expect(card).to_have_count(2)
            page.wait_for_load_state("networkidle")
            assert len(studio.cards.to_json()) == 2
        finally:
            for each in studio.cards.to_json():
                studio.cards.decide(each["number"], {"permit": False})
        assert done.result(30).text == "Gone."


def test_call_in_doubt_of_a_killed_program_is_decided_in_the_inbox(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    with Processes("studio.killed") as processes:
        assert processes.run(tmp_path, journal=str(studio.journal.path)) == -9
    page = open_page("Space")
    card = page.get_by_role("article", name="doubt")
    expect(card).to_contain_text("teller is in doubt")
    card.get_by_role("button", name="Done with this result").click()
    expect(page.get_by_text("write the result of the call first")).to_be_visible()
    card.get_by_role("textbox", name="Result of transfer(coins=3)").fill('{"moved": 3}')
    card.get_by_role("button", name="Done with this result").click()
    expect(card).to_have_count(0)
    (decided,) = studio.journal.waits.decided(run_id=RUN)
    assert decided.answer == {"decision": "done", "value": {"moved": 3}}


def test_card_that_somebody_waits_for_stands_before_a_doubt(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """What was decided is told where its run is not shown."""
    with Processes("studio.killed") as processes:
        assert processes.run(tmp_path, journal=str(studio.journal.path)) == -9
    page = open_page("Society")
    page.get_by_role("button", name="Inbox: 1 wait for you").click()
    with ThreadPoolExecutor(1) as pool:
        question = Question("one", "Which colour?")
        said = pool.submit(asyncio.run, studio.cards.answer(question))
        panel = page.get_by_role("complementary", name="Inbox")
        expect(panel.get_by_role("article")).to_contain_text(["Which colour?", "in doubt"])
        panel.get_by_label("Answer to one").fill("blue")
        panel.get_by_role("button", name="Answer").click()
        assert said.result(30) == "blue"
    expect(page.get_by_text("A question of one was answered.")).to_be_visible()


def test_call_in_doubt_decided_at_its_run_is_told_to_other_pages_alone(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    with Processes("studio.killed") as processes:
        assert processes.run(tmp_path, journal=str(studio.journal.path)) == -9
    other, page = open_page("Space"), open_page("Runs")
    for each in (other, page):
        expect(each.get_by_role("button", name="Inbox: 1 wait for you")).to_be_visible()
    page.get_by_role("region", name="In doubt").get_by_role(
        "button", name="Move the coins."
    ).click()
    page.get_by_role("article", name="Call in doubt 1").get_by_role("button", name="Repeat").click()
    expect(other.get_by_text("on another page")).to_be_visible()
    expect(page.get_by_role("button", name="Inbox: nothing waits for you")).to_be_visible()
    expect(page.get_by_text("on another page")).to_have_count(0)
