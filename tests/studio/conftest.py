"""A studio on a free port, and pages of a real browser that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from chromium import ARGUMENTS, CHROMIUM
from moothall.studio import Studio

TOKEN = "t" * 20
NO_FAULTS = ("Failed to load resource",)
SIZE = {"width": 1280, "height": 800}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window.

    It ends with the tests of this folder: its loop runs in their thread, where others need one.
    """
    assert Path(CHROMIUM).exists(), "Chromium is missing: apt-get install chromium"
    expect.set_options(timeout=30_000)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def a_studio(folder: Path) -> Iterator[Studio]:
    """A studio that is served, with a journal of its own."""
    with Studio() as studio:
        journal = folder / "runs.db"
        studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        yield studio


@contextmanager
def pages(browser: Browser, studio: Studio) -> Iterator[Callable[..., Page]]:
    """Opens pages, each as in a browser of its own, on a tab of the studio.

    Fails the test on an error of a script and on any request that leaves the machine.
    """
    faults: list[str] = []
    contexts = []

    def log(told: ConsoleMessage) -> None:
        if told.type == "error" and not any(each in told.text for each in NO_FAULTS):
            faults.append(f"console: {told.text}")

    def request(sent: Request) -> None:
        to, here = urlsplit(sent.url), urlsplit(studio.url or sent.url)
        if to.scheme in ("http", "https", "ws", "wss") and to.netloc != here.netloc:
            faults.append(f"left the machine: {sent.url}")

    def opened(tab: str = "Space", **options: object) -> Page:
        # Nothing pulses: each frame of it costs a core without a graphics card.
        still: dict[str, object] = {"viewport": SIZE, "reduced_motion": "reduce"}
        context = browser.new_context(**still | options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on("console", log)
        page.on("request", request)
        page.goto(f"{studio.url}?token={TOKEN}")
        page.get_by_role("tab", name=tab, exact=True).click()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    """A studio of this test."""
    with a_studio(tmp_path) as studio:
        yield studio


@pytest.fixture
def open_page(browser: Browser, studio: Studio) -> Iterator[Callable[..., Page]]:
    """Opens pages of the test's studio."""
    with pages(browser, studio) as opened:
        yield opened


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A page on the first tab."""
    return open_page()
