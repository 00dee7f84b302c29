"""Runs that other programs left waiting: what the page says of them, also on a phone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from moothall import (
    ACCESS_REQUESTED,
    Call,
    Later,
    ModelReply,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.studio import Studio


@action(access_policy=ACCESS_REQUESTED)
def refund(customer: str, amount: float, account: str) -> str:
    """Pay money back."""
    return "paid"


@action
def delivery(parcel: str) -> object:
    """Wait until it is delivered."""
    return Later(f"parcel-{parcel}")


def leave(studio: Studio, name: str, args: dict[str, object], run: str) -> None:
    """Have a program of another process ask, and end."""
    model = ScriptedModel([ModelReply("", (Call("1", name, args),)), "Done."])
    agent = ReActAgent(
        "cashier",
        model,
        actions=[refund, delivery],
        approver=Waiting(),
        journal=studio.journal.path,
    )
    with ThreadPoolExecutor(1) as pool:  # the browser's loop is in this thread
        reply = pool.submit(agent.reply_sync, "Go on.", run_id=run).result()
    assert reply.stop_reason == "waiting"
    studio.refresh_waits()  # a page that is opened now finds it


REFUND = {"customer": "acme", "amount": 180.5, "account": "DE02 1203 0000 0000 2020 51"}


def test_run_that_a_person_has_answered_waits_for_its_program_and_no_longer_for_them(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    leave(studio, "refund", REFUND, "q-1")
    leave(studio, "delivery", {"parcel": "7"}, "q-2")
    page = open_page("Space", viewport={"width": 1280, "height": 800})
    page.get_by_role("article", name="approval").get_by_role(
        "button", name="Permit", exact=True
    ).click()
    decided = page.get_by_role("log", name="What came of it")
    expect(decided).to_contain_text("refund was permitted")
    expect(decided).to_contain_text("answered, waits for its program")
    expect(decided).not_to_contain_text("waiting for you")
    page.get_by_role("tab", name="Runs", exact=True).click()
    badges = page.locator("[data-run] .s-badge")
    expect(badges.filter(has_text="answered, waits for its program")).to_have_count(1)
    expect(badges.filter(has_text="waits for a result or a moment")).to_have_count(1)
    expect(badges.filter(has_text="waiting for you")).to_have_count(0)


@pytest.mark.parametrize("width", (350, 390, 760, 1024, 1440))
def test_card_has_both_answers_and_the_reason_within_it_at_any_width(
    studio: Studio, open_page: Callable[..., Page], width: int
) -> None:
    leave(studio, "refund", REFUND, "q-1")
    page = open_page("Space", viewport={"width": width, "height": 844})
    card = page.get_by_role("article", name="approval")
    if width <= 760:  # on a phone the inbox is a bar
        page.get_by_role("button", name="1 waits for you", exact=True).click()
    expect(card).to_be_visible()
    outer = card.bounding_box()
    assert outer is not None
    right = min(width, outer["x"] + outer["width"])
    why = card.get_by_label("Reason for refusing")
    for part in (
        card.get_by_role("button", name="Permit", exact=True),
        card.get_by_role("button", name="Refuse", exact=True),
        why,
    ):
        box = part.bounding_box()
        assert box is not None
        assert outer["x"] <= box["x"], part
        assert box["x"] + box["width"] <= right, part
    hint = "each => each.scrollWidth <= each.clientWidth + 1"
    why.evaluate("each => { each.value = each.placeholder; }")  # its text is not cut
    assert why.evaluate(hint)
