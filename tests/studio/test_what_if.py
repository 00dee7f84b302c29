"""A teacher's town plays at a click; a rule is tried beside, a place shut, the map shown large."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from moothall.studio import Studio
from moothall.studio.orders.simulate import SimulateOrder
from moothall.studio.towns.changes import Change


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_town_plays_at_a_click_of_the_first_screen_and_slower_at_another(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Space")
    press(page, "Watch a town live")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    press(page, "Slower")
    speed = page.get_by_label("Speed")
    expect(speed).to_have_value("2")
    press(page, "Faster")
    expect(speed).to_have_value("4")
    press(page, "Pause")
    page.get_by_label("Citizen's number or name").fill("17")
    press(page, "Show")
    press(page, "How are you?")
    expect(page.get_by_text("by rule, before step")).to_be_visible()
    press(page, "Large")
    box, window = page.locator(".s-maps").bounding_box(), page.viewport_size
    assert box is not None
    assert window is not None
    assert box["width"] > window["width"] - 60
    expect(page.get_by_label("Citizen's number or name")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Citizen's number or name")).to_be_visible()


def test_rule_is_tried_with_the_town_without_it_beside(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.set_up(SimulateOrder(20, days=30.0))
    press(page, "Schools close")
    expect(page.get_by_role("group", name="The town beside it")).to_contain_text("step")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    press(page, "Pause")
    press(page, "Interventions")
    expect(page.get_by_text("closes school-1")).to_be_visible()
    assert studio.society.second_town is not None
    beside = studio.society.second_town.wait_for_society()
    assert not beside.changed.closed


@pytest.mark.long
def test_place_that_was_found_is_shut_and_opened_again(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.set_up(SimulateOrder(20, days=30.0))
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    page.get_by_label("Citizen's number or name").fill("shop")
    press(page, "Show")
    page.get_by_role("button", name="Close it").first.click()
    press(page, "Step")
    page.get_by_label("Citizen's number or name").fill("home")
    press(page, "Show")
    expect(page.get_by_role("button", name="Close it")).to_have_count(0)
    page.get_by_label("Citizen's number or name").fill("shop")
    press(page, "Show")
    page.get_by_role("button", name="Open it again").first.click()
    expect(page.get_by_role("button", name="Close it").first).to_be_visible()


def test_road_that_was_clicked_on_the_map_is_shut_and_opened_again(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.set_up(SimulateOrder(20, days=30.0))
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    assert studio.society.town is not None
    society = studio.society.town.wait_for_society()
    canvas, (left, low, wide, tall) = page.locator(".s-map canvas"), studio.society.map()["bounds"]
    box = canvas.bounding_box()
    assert box is not None
    scale = 0.96 * min(box["width"] / (wide + 24), box["height"] / (tall + 24))
    shown = page.get_by_text("road n")
    for road in society.city.roads:  # of some, a citizen or a place is nearer
        ends = [society.city.position(each) for each in (road.a, road.b)]
        x, y = (sum(each[axis] for each in ends) / 2 for axis in (0, 1))
        right, down = (x - left - wide / 2) * scale, (low + tall / 2 - y) * scale
        at = {"x": box["width"] / 2 + right, "y": box["height"] / 2 + down}
        canvas.click(position=at)  # type: ignore[arg-type]
        if shown.count():
            break
    expect(shown).to_contain_text(road.id)
    page.get_by_role("button", name="Close it").first.click()
    press(page, "Step")
    expect(page.get_by_role("button", name="Open it again")).to_be_visible()
    page.get_by_role("button", name="Open it again").click()
    press(page, "Step")
    expect(page.get_by_role("button", name="Close it")).to_be_visible()
    said = [each.in_words() for each in society.interventions]
    assert said == [f"closes road {road.id}", f"opens road {road.id}"]


def test_listed_places_say_what_was_shut_since_they_were_listed(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.set_up(SimulateOrder(20, days=30.0))
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    page.get_by_label("Citizen's number or name").fill("school-1")
    press(page, "Show")
    expect(page.get_by_role("button", name="Close it")).to_be_visible()
    studio.society.intervene(Change(close=["school-1"], hours=0))  # on another page
    press(page, "Step")
    expect(page.get_by_role("button", name="Open it again")).to_be_visible()


def test_pace_that_was_chosen_stays_when_a_frame_from_before_arrives(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    page = open_page("Society")
    studio.society.set_up(SimulateOrder(20, days=30.0))
    expect(page.locator(".s-map")).to_have_attribute("data-drawn", "dots")
    frames: list[Route] = []
    page.route("**/society/frame*", lambda route: frames.append(route))

    def until_asked_for(count: int) -> None:
        while len(frames) < count:
            page.evaluate("null")  # what is routed is told between two calls

    press(page, "Step")
    until_asked_for(1)
    before = frames[0].fetch()
    press(page, "Slower")
    speed = page.get_by_label("Speed")
    frames[0].fulfill(response=before)
    until_asked_for(2)  # the first is shown
    expect(speed).to_have_value("2")
    press(page, "Faster")
    expect(speed).to_have_value("4")
    page.unroute("**/society/frame*")
    expect(speed).to_have_value("4")
