"""A link shows one run to who has it, until it is withdrawn or over; nothing else opens by it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from moothall import Call, ConfigError, Journal, ModelReply, ReActAgent, ScriptedModel, action
from moothall.journal import RunShares
from moothall.studio import Studio

STRANGE = "<script>alert(1)</script>\u202e<img src=//evil.example/x>"


@action
def look(what: str) -> str:
    """Look at something."""
    return f"seen: {what}"


def recorded(studio: Studio, run: str, said: str) -> None:
    """Record a run that has ended."""
    model = ScriptedModel([ModelReply("", (Call("1", "look", {"what": said}),)), f"It is {said}."])
    agent = ReActAgent("scout", model, actions=[look], journal=studio.journal)
    with ThreadPoolExecutor(1) as pool:  # the browser's loop is in this thread
        pool.submit(agent.reply_sync, f"Look at {said}", run_id=run).result()


def get(studio: Studio, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{studio.url}{path}", headers=headers)


def test_link_is_made_and_withdrawn_on_the_page_and_shows_its_run_to_a_stranger(
    studio: Studio,
    open_page: Callable[..., Page],
    browser: Browser,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    recorded(studio, "mine", STRANGE)
    recorded(studio, "other", "a secret")
    page = open_page("Runs")
    page.goto(f"{studio.url}runs/mine")
    page.get_by_role("button", name="Share", exact=True).click()
    dialog = page.get_by_role("dialog", name="Share this run")
    expect(dialog).to_contain_text("No link opens this run.")
    dialog.get_by_role("button", name="Make a link").click()
    link = dialog.get_by_label("Link", exact=True).input_value()
    expect(dialog.get_by_role("list")).to_contain_text("Link 1, until")
    stranger = browser.new_context()
    their = stranger.new_page()
    their.on("request", lambda sent: asked.append(sent.url))
    asked: list[str] = []
    their.goto(link)
    expect(their.get_by_role("heading", level=1)).to_contain_text(
        "<script>alert(1)</script>\\u202e"
    )
    expect(their.locator("main")).to_contain_text("ReActAgent scout · done")
    expect(their.locator("main > pre")).to_contain_text("It is <script>")
    their.locator("summary").filter(has_text="look(").first.click()
    expect(their.locator("script, img, a, form")).to_have_count(0)
    assert asked == [link]
    assert their.context.cookies() == []
    assert their.goto(f"{studio.url}runs/mine").status == 401
    dialog.get_by_role("button", name="Withdraw").click()
    expect(dialog).to_contain_text("No link opens this run.")
    assert their.goto(link).status == 404
    expect(their.locator("main")).to_contain_text("opens nothing")
    stranger.close()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_label("Reply")).to_contain_text("It is <script>")  # what came of it stays
    token = urlsplit(link).path.split("/")[2]
    written = b"".join(
        each.read_bytes() for each in Path(studio.journal.path).parent.glob("runs.db*")
    )
    assert token.encode() not in written
    assert token not in caplog.text


def test_token_of_a_link_opens_no_other_run_page_or_route(studio: Studio) -> None:
    for run in ("mine", "other"):
        recorded(studio, run, "a tree")
    copy = studio.journal.fork("mine")
    token = RunShares(studio.journal).add("mine", 1)
    shown = get(studio, f"shared/{token}/mine")
    assert shown.status_code == 200
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert "sandbox" in shown.headers["content-security-policy"]
    assert RunShares(studio.journal).add("other", 1) != token
    for path in (f"shared/{token}/{copy}", f"shared/{token}/other", f"shared/{token}/none"):
        assert get(studio, path).status_code == 404, path
    assert get(studio, f"shared/{'x' * 43}/mine").text == get(studio, f"shared/{token}/none").text
    for path in ("", "runs/mine", "studio/runs/list", "studio/runs/run?run=mine", "studio/cards"):
        for headers in ({"Authorization": f"Bearer {token}"}, {"X-Moothall-Key": token}):
            assert get(studio, path, **headers).status_code == 401, path
        assert get(studio, f"{path}{'&' if '?' in path else '?'}token={token}").status_code == 401
    assert get(studio, f"shared/{token}/../../studio/cards").status_code in (401, 404)
    assert httpx2.post(f"{studio.url}shared/{token}/mine").status_code == 401
    assert get(studio, f"shared/{token}/mine", Host="evil.example").status_code == 403


def test_link_whose_time_is_over_opens_nothing(studio: Studio) -> None:
    recorded(studio, "mine", "a tree")
    shares = RunShares(studio.journal)
    over, open_one = shares.add("mine", 1e-9), shares.add("mine", 365)
    assert get(studio, f"shared/{over}/mine").status_code == 404
    assert get(studio, f"shared/{open_one}/mine").status_code == 200
    assert [each.number for each in shares.open_ones("mine")] == [2]
    shares.withdraw("mine", 2)
    with pytest.raises(ConfigError, match="no link 2"):
        shares.withdraw("mine", 2)
    with Journal(studio.journal.path) as journal:  # as another process reads it
        lines = [each.line for each in journal.entries("mine") if each.path == "@share"]
    assert re.fullmatch(r"shared by a link until \d{4}-.*", lines[0])
    assert lines[-1] == "a link to it was withdrawn"


@pytest.mark.parametrize("days", (0, -1, 366, float("nan"), True, "7"))
def test_days_of_a_link_that_are_none_are_refused(studio: Studio, days: object) -> None:
    with pytest.raises(ConfigError, match="days must be above 0 and at most 365"):
        RunShares(studio.journal).add("mine", days)  # type: ignore[arg-type]
