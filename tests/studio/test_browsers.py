"""A browser that lacks what the page needs says so; one that has it is not held up by its age."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import Browser, expect

from moothall import ReActAgent, ScriptedModel
from moothall.studio import Studio
from studio.conftest import TOKEN


def opened(browser: Browser, studio: Studio, script: str) -> str:
    """What a page shows of a browser that a script has changed before."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(script)
    page.goto(f"{studio.url}?token={TOKEN}")
    expect(page.get_by_role("alert")).to_be_visible()
    told = page.get_by_role("alert").first.inner_text()
    context.close()
    return told


def test_old_browser_is_told_which_ones_the_page_needs(browser: Browser, studio: Studio) -> None:
    told = opened(browser, studio, "delete Array.prototype.findLast")
    assert "too old for the studio: it needs Chrome or Edge 97, Firefox 104" in told


def test_browser_without_storage_is_told_so(browser: Browser, studio: Studio) -> None:
    no_storage = """Object.defineProperty(window, "localStorage",
        { get() { if (location.pathname !== "/login") throw new Error("denied"); } })"""
    assert "needs the storage of this browser" in opened(browser, studio, no_storage)


def test_runs_are_listed_in_a_browser_of_some_years_ago(browser: Browser, studio: Studio) -> None:
    """Such as Firefox 104, which cannot sort into a copy."""
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=studio.journal)
    with ThreadPoolExecutor(1) as pool:  # this thread has Playwright's loop
        pool.submit(agent.reply_sync, "Are you there?").result()
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(
        "for (const name of ['toSorted', 'toReversed', 'with']) delete Array.prototype[name]"
    )
    page.goto(f"{studio.url}runs?token={TOKEN}")
    expect(page.get_by_role("list", name="Runs")).to_contain_text("Are you there?")
    expect(page.get_by_role("region", name="Run", exact=True)).to_contain_text("By day")
    context.close()
