"""The inbox beside the tab Space: what waits is in sight, and what came of it is said there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, expect

from moothall import ACCESS_REQUESTED, Call, ModelReply, ReActAgent, ScriptedModel, action
from moothall.studio import Studio


@action(access_policy=ACCESS_REQUESTED, facts={"danger": "high"})
def transfer(amount: int) -> str:
    """Transfer money."""
    return f"sent as T-{amount}"


@action(access_policy=ACCESS_REQUESTED)
def mail(to: str) -> str:
    """Send a mail."""
    if to == "nobody":
        raise ValueError("there is no such address")
    return f"mailed {to}"


PAYS, MAILS = (("pays", transfer, {"amount": 420})), ("mails", mail, {"to": "ann"})
ASKS, FAILS = ("asks", mail, {"to": "bob"}), ("fails", mail, {"to": "nobody"})


@contextmanager
def asking(studio: Studio, *calls: tuple[str, Any, dict[str, Any]]) -> Iterator[list[Future[Any]]]:
    """Agents whose calls wait for the person; those that are left are refused."""
    with ThreadPoolExecutor(len(calls)) as pool:
        done = []
        for name, act, args in calls:
            replies = [ModelReply("", (Call("1", act.__name__, args),)), f"{name} is done."]
            model, kept = ScriptedModel(replies), studio.journal
            agent = ReActAgent(name, model, actions=[act], approver=studio.cards, journal=kept)
            done.append(pool.submit(agent.reply_sync, f"Do it, {name}.", run_id=name))
        try:
            yield done
        finally:
            while not all(each.done() for each in done):
                for each in studio.cards.to_json():
                    studio.cards.decide(each["number"], {"permit": False})


def test_inbox_stands_beside_the_space_while_something_waits(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """It covers nothing; whoever closes it has closed it, until something new waits."""
    page = open_page("Space")
    panel = page.get_by_role("complementary", name="Inbox")
    expect(panel).to_be_hidden()
    with asking(studio, PAYS, MAILS):
        expect(panel.get_by_role("article", name="approval")).to_have_count(2)
        left, chat = panel.bounding_box(), page.locator(".s-space").bounding_box()
        assert left is not None
        assert chat is not None
        assert chat["x"] + chat["width"] <= left["x"]
        page.get_by_role("tab", name="Runs", exact=True).click()
        expect(panel).to_be_hidden()
        page.get_by_role("tab", name="Space", exact=True).click()
        expect(panel).to_be_visible()
        panel.get_by_role("button", name="Close", exact=True).click()
        page.reload()
        expect(page.get_by_role("button", name="Inbox: 2 wait for you")).to_be_visible()
        expect(panel).to_be_hidden()
    expect(page.get_by_role("button", name="Inbox: nothing waits for you")).to_be_visible()
    with asking(studio, ASKS):
        expect(panel).to_be_visible()


def test_inbox_of_a_phone_is_a_bar_that_opens_it(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Open it would lie over the work."""
    with asking(studio, PAYS):
        expect(open_page("Space").get_by_role("article", name="approval")).to_be_visible()
        page = open_page("Space", viewport={"width": 390, "height": 844})
        panel = page.get_by_role("complementary", name="Inbox")
        bar = page.get_by_role("button", name="1 waits for you", exact=True)
        expect(bar).to_be_in_viewport(ratio=1)
        expect(panel).to_be_hidden()
        bar.click()
        expect(bar).to_be_hidden()
        panel.get_by_role("button", name="Permit", exact=True).click()
        came = panel.get_by_role("log", name="What came of it")
        expect(came).to_contain_text("sent as T-420")
    panel.get_by_role("button", name="Close", exact=True).click()
    with asking(studio, MAILS):
        expect(page.get_by_role("button", name="Inbox: 1 wait for you")).to_be_visible()
        expect(panel).to_be_hidden()


def test_inbox_says_what_came_of_a_decision(studio: Studio, open_page: Callable[..., Page]) -> None:
    """The result of the call, why it was refused or failed, and how its run ended."""
    page = open_page("Space")
    came = page.get_by_role("log", name="What came of it").get_by_role("listitem")
    card = page.get_by_role("article", name="approval")
    with asking(studio, PAYS, MAILS, FAILS) as done:
        paying = card.filter(has_text="pays")
        paying.get_by_role("button", name="Edit arguments").click()
        paying.get_by_role("textbox", name="Argument amount").fill("400")
        paying.get_by_role("button", name="Permit as edited").click()
        paid = came.filter(has_text="pays.transfer was permitted")
        expect(paid).to_contain_text("sent as T-400")
        expect(paid).to_contain_text("pays is done.")
        why = card.filter(has_text="ann").get_by_label("Reason for refusing")
        why.fill("not to Ann")
        why.press("Enter")
        expect(came.filter(has_text="mails.mail was refused")).to_contain_text("not to Ann")
        card.filter(has_text="nobody").get_by_role("button", name="Permit", exact=True).click()
        expect(came.filter(has_text="fails.mail")).to_contain_text("there is no such address")
        expect(card).to_have_count(0)
        for each in done:
            each.result(30)
    paid.get_by_role("button", name="Its run").click()
    page.wait_for_url("**/runs/pays")


def test_inbox_permits_calls_without_a_warning_at_once(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """A dangerous one is not among them: it is read by itself."""
    page = open_page("Space")
    card = page.get_by_role("article", name="approval")
    with asking(studio, PAYS, MAILS, ASKS) as (_, *mailed):
        page.get_by_role("button", name="Permit these 2 without a warning").click()
        expect(card).to_have_count(1)
        expect(card).to_contain_text("danger: high")
        assert [each.result(30).text for each in mailed] == ["mails is done.", "asks is done."]
        expect(page.get_by_role("button", name="without a warning")).to_be_hidden()
