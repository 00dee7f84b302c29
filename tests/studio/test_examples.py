"""Examples run at a click on a machine without weights: an approval, a report, a town."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from moothall.studio import Studio

PHONE = {"width": 390, "height": 844}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights and no key; the state of the user is a folder of the test."""
    for name in ("OPENAI_API_KEY", "MOOTHALL_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("tab", ("Space", "Act and review", "Research"))
def test_empty_tab_has_three_examples_at_390(open_page: Callable[..., Page], tab: str) -> None:
    page = open_page(tab, viewport=PHONE)
    examples = page.get_by_role("tabpanel").get_by_label("Examples")
    expect(examples.get_by_role("button")).to_have_count(3)
    for each in examples.get_by_role("button").all():
        box = each.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390


def test_example_of_a_refund_asks_and_goes_on_as_decided(
    open_page: Callable[..., Page], studio: Studio
) -> None:
    page = open_page("Act and review")
    panel = page.get_by_role("tabpanel")
    panel.get_by_role("button", name="A refund that you permit").click()
    card = page.get_by_role("article", name="approval")
    expect(card).to_contain_text("18.50 EUR")
    card.get_by_role("button", name="Permit", exact=True).click()
    expect(page.get_by_text("You have your money back.").first).to_be_visible()
    (run,) = studio.journal.runs()
    assert (run.agent, run.state) == ("Cashier", "done")


def test_example_of_a_report_cites_its_documents(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page("Research")
    page.get_by_role("tabpanel").get_by_role("button", name="A report on three").click()
    report = page.get_by_label("Narrative").frame_locator("iframe").locator("body")
    expect(report).to_contain_text("about a year")
    expect(report).to_contain_text("within 14 days")
    assert len(list((tmp_path / "state").rglob("*.md"))) == 3


def test_example_of_a_town_plays(open_page: Callable[..., Page]) -> None:
    page = open_page("Research")
    page.get_by_role("tabpanel").get_by_role("button", name="A town that lives").click()
    expect(page.locator("#tab-society")).to_contain_text("playing")


def test_society_without_a_town_has_one_green_button(open_page: Callable[..., Page]) -> None:
    page = open_page("Society")
    panel = page.locator("#tab-society")
    expect(panel.get_by_role("button", name="Play a town")).to_be_visible()
    colours = panel.get_by_role("button").evaluate_all(
        "all => all.filter(each => each.offsetParent && each.matches('.primary'))"
        ".map(each => getComputedStyle(each).backgroundColor)"
    )
    assert len([each for each in colours if each != "rgba(0, 0, 0, 0)"]) == 1


def test_newcomer_sees_a_run_a_report_and_a_rule_in_a_town_in_six_clicks(
    open_page: Callable[..., Page], studio: Studio
) -> None:
    page = open_page("Space")
    page.evaluate(
        "window.clicks = 0; addEventListener('click', (it) => window.clicks += it.isTrusted, true)"
    )
    space, panel = page.get_by_role("tab", name="Space"), page.get_by_role("tabpanel")
    panel.get_by_role("button", name="A refund that you permit").click()
    card = page.get_by_role("article", name="approval")
    card.get_by_role("button", name="Permit", exact=True).click()
    expect(page.get_by_label("Reply")).to_contain_text("You have your money back.")
    space.click()
    panel.get_by_role("button", name="A report on three documents").click()
    report = page.get_by_label("Narrative").frame_locator("iframe").locator("body")
    expect(report).to_contain_text("about a year")
    space.click()
    panel.get_by_role("button", name="What if schools close").click()
    expect(page.get_by_role("group", name="The town beside it")).to_contain_text("step")
    expect(page.locator("#tab-society")).to_contain_text("playing")
    assert page.evaluate("window.clicks") == 6
    assert studio.society.town is not None
    (rule,) = studio.society.town.wait_for_society().interventions
    assert rule.in_words().startswith("closes school-1")
