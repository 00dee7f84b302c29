"""An edit that waits for a person: it is a difference, and the work keeps its room beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from models.openai_server import OpenAIServer, call, calls
from moothall import ACCESS_REQUESTED, Action, ReActAgent, ScriptedModel, Waiting
from moothall.studio import Studio
from moothall.studio.orders.order import ActOrder

OLD = "def total(items):\n    sum = 0\n    return sum\n"
NEW = "def total(items):\n    return 0\n"


def test_edit_is_a_difference_and_the_run_says_what_waited_when_it_was_stopped(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "shop.py").write_text(OLD)
    edit = {"file_name": "shop.py", "old": OLD, "new": NEW}
    with OpenAIServer(calls(call("edit_file", json.dumps(edit)))) as server:
        run = studio.jobs.start(ActOrder("Shorten it", str(folder), f"{server.url}#m"))
        page = open_page("Act and review")
        card, steps = page.get_by_role("article", name="approval"), page.get_by_role("log")
        for each in (card, steps):
            expect(each.locator("del")).to_have_text(["−     sum = 0", "−     return sum"])
            expect(each.locator("ins")).to_have_text(["+     return 0"])
            expect(each).to_contain_text("def total(items):")
        for each in (card.get_by_role("button", name="Refuse"), steps.locator("ins")):
            expect(each).to_be_in_viewport()
        box = steps.bounding_box()
        assert box is not None
        assert box["height"] > 400
        kinds = {
            name: str(card.get_by_role("button", name=name).get_attribute("class")).split()[-1]
            for name in ("Permit", "Refuse")
        }
        assert kinds == {"Permit": "s-button", "Refuse": "s-button"}  # neither is urged
        page.get_by_role("button", name="Stop", exact=True).click()
        said = "it was stopped while waiting for the approval of edit_file("
        expect(steps).to_contain_text(said)
        page.get_by_role("tab", name="Runs", exact=True).click()
        page.get_by_role("list", name="Runs").locator(f"[data-run='{run}']").click()
        expect(page.get_by_role("region", name="Reply")).to_contain_text(said)


def replaces(path: str, old_string: str, new_string: str) -> None:
    """Edit, as an editor's tool does."""


def patches(path: str, edits: list[dict[str, str]]) -> None:
    """Edit, as a server of files does."""


@pytest.mark.parametrize(
    ("function", "args"),
    (
        (replaces, {"old_string": OLD, "new_string": NEW}),
        (patches, {"edits": [{"oldText": OLD, "newText": NEW}]}),
    ),
)
def test_edit_by_any_tool_is_a_difference(
    studio: Studio, open_page: Callable[..., Page], function: Any, args: dict[str, Any]
) -> None:
    """It is shown so, too, where the program that asked has ended."""
    args = {"path": "shop.py", **args}
    patch = Action("patch", function, access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([[{"name": "patch", "args": args}]])
    agent = ReActAgent("a", model, actions=[patch], approver=Waiting(), journal=studio.journal)
    with ThreadPoolExecutor(1) as pool:  # this thread has Playwright's loop
        pool.submit(agent.reply_sync, "Shorten it").result()
    page = open_page()
    card = page.get_by_role("article", name="approval")
    expect(card.locator("del")).to_have_text(["−     sum = 0", "−     return sum"])
    expect(card.locator("ins")).to_have_text(["+     return 0"])
    expect(card).to_contain_text("shop.py")


def test_line_to_write_in_is_at_the_end_of_a_phones_screen(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("button", name="Send")).to_be_in_viewport()
    line = page.locator(".s-write").bounding_box()
    assert line is not None
    tabs = page.get_by_role("tablist").bounding_box()
    assert tabs is not None
    assert 0 < tabs["y"] - (line["y"] + line["height"]) < 24  # the tabs alone stand below
