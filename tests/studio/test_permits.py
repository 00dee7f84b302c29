"""Cards of calls that want permission: units of amounts, refused edits, a phone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from playwright.sync_api import Locator, Page, expect
from pydantic import Field

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    Call,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.studio import Studio

PHONE = {"width": 390, "height": 844}
OUTSIDE = """() => [...document.querySelectorAll("button, input, select, textarea, a")]
    .filter(each => each.offsetParent && getComputedStyle(each).visibility === "visible")
    .map(each => [each.getBoundingClientRect(), each.getAttribute("aria-label") || each.innerText])
    .filter(([box]) => box.width && (box.left < 0 || box.right > innerWidth))
    .map(([, name]) => name)"""
"""The controls that stand outside the window, or half outside."""


def of(format: str) -> Any:
    return Field(json_schema_extra={"format": format})


@action(access_policy=ACCESS_REQUESTED)
def refund(
    amount: Annotated[float, Field(gt=0), of("money:EUR")],
    account: Annotated[str, Field(pattern="^DE")] = "DE02",
    size: Annotated[int, of("bytes")] = 0,
    lasts: Annotated[float, of("seconds")] = 0,
    part: Annotated[float, of("percent")] = 0,
    paused: Annotated[int, of("microseconds")] = 0,
) -> str:
    """Pay money back."""
    return f"{amount} is paid"


AMOUNTS = {"amount": 1180.5, "size": 2_500_000, "lasts": 150, "part": 12.5, "paused": 40}


class Clerk(Agent):
    """Pays."""

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, amount: Annotated[float, of("money")]) -> str:
        """Pay."""
        return "paid"


def asks(studio: Studio, run: str, action: Action | None = None, **args: object) -> None:
    """Leave a run waiting that wants to pay."""
    action = action or Action.of(refund)
    model = ScriptedModel([ModelReply("", (Call("1", action.name, args),)), "Done."])
    agent = ReActAgent(
        "cashier", model, actions=[action], approver=Waiting(), journal=studio.journal.path
    )
    with ThreadPoolExecutor(1) as pool:  # the browser's loop is in this thread
        pool.submit(agent.reply_sync, "Go on.", run_id=run).result()
    studio.refresh_waits()


def press(card: Locator, name: str) -> None:
    card.get_by_role("button", name=name, exact=True).click()


def test_amounts_have_the_units_of_their_schema_where_they_are_permitted(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    asks(studio, "q-1", **AMOUNTS)
    page = open_page("Space")
    card = page.get_by_role("article", name="approval")
    for shown in (
        "1,180.50 EUR",
        "2,500,000 bytes  2.5 MB",
        "150 s  2 min 30 s",
        "12.5 %",
        "40 µs",
    ):
        expect(card.get_by_text(shown, exact=True)).to_be_visible()
    press(card, "Edit arguments")
    expect(card).to_contain_text("amount (EUR)")
    expect(card.get_by_label("Argument amount")).to_have_value("1180.5")


def test_amount_of_a_call_in_a_space_has_its_unit(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    with NativeSpace() as space:
        space.add(studio.user)
        space.add(Clerk("Clerk"))
        page = open_page("Space")
        page.get_by_label("Message or slash line").fill("/Clerk.pay amount:1000000")
        page.keyboard.press("Enter")
        card = page.get_by_role("article", name="approval")
        expect(card.get_by_text("1,000,000.00", exact=True)).to_be_visible()
        press(card, "Refuse")
        expect(card).to_have_count(0)


def test_refused_edit_says_so_at_its_field_on_a_phone_and_the_next_card_is_not_permitted(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    for number in (1, 2):
        asks(studio, f"q-{number}", amount=number, account="DE02")
    page = open_page("Space", viewport=PHONE)
    page.get_by_role("button", name="2 wait for you", exact=True).click()
    cards = page.get_by_role("article", name="approval")
    card = cards.first
    press(card, "Edit arguments")
    for name, value, fault in (
        ("amount", "-3", "-3 is less than or equal to the minimum"),
        ("account", "X" * 300, "does not match"),
    ):
        field = card.get_by_label(f"Argument {name}")
        before = field.input_value()
        field.fill(value)
        press(card, "Permit as edited")
        expect(card.get_by_role("alert")).to_contain_text(fault)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        assert page.evaluate(OUTSIDE) == []
        field.fill(before)
        expect(card.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".s-toast")).to_have_count(0)
    press(card, "Permit as edited")
    expect(cards).to_have_count(1)
    expect(cards).to_be_focused()  # and not its button
    assert [each.run for each in studio.journal.waiting()] == ["q-2"]


def test_refused_edit_stands_at_its_field_whatever_its_name_and_the_words_of_the_others(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Both arguments are of a server's schema, whose names need be no names of Python."""
    note, date = {"type": "string"}, {"type": "string", "pattern": "^2026-"}
    schema = {"type": "object", "properties": {"note": note, "due date": date}}
    pay = Action("pay", lambda **_: "paid", "Pay.", schema, access_policy=ACCESS_REQUESTED)
    asks(studio, "q-1", pay, **{"note": "-", "due date": "2026-01-05"})
    page = open_page("Space")
    card = page.get_by_role("article", name="approval")
    press(card, "Edit arguments")
    card.get_by_label("Argument due date").fill('argument "note"')
    press(card, "Permit as edited")
    expect(card.get_by_role("alert")).to_contain_text("does not match")
    expect(card.get_by_label("Argument due date")).to_be_focused()
    expect(card.get_by_label("Argument note")).not_to_have_attribute("aria-invalid", "true")
