"""The page as a whole: for everybody, by keyboard, in light and dark, and after a restart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from civitas import Agent, NativeSpace
from civitas.studio import Studio

TABS = ("Space", "Act and review", "Research", "Society", "Runs")
PROGRAM = """
import sys
from civitas import Agent, NativeSpace
from civitas.studio import demo, gradio_user

with NativeSpace() as space:
    space.add(Agent("Clerk"))
    space.add(gradio_user)
    demo.launch(port=int(sys.argv[1]), journal=sys.argv[2])
"""


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_axe_finds_nothing_serious(
    studio: Studio, open_page: Callable[..., Page], scheme: str
) -> None:
    """No serious or critical finding on any tab."""
    with NativeSpace() as space:
        space.add(studio.user)
        space.add(Agent("Clerk"))
        page = open_page(color_scheme=scheme)
        found = []
        for tab in TABS:
            page.get_by_role("tab", name=tab, exact=True).click()
            page.wait_for_load_state("networkidle")
            for each in Axe().run(page).response["violations"]:
                if each["impact"] in ("serious", "critical"):
                    nodes = [node["html"][:200] for node in each["nodes"][:3]]
                    found.append(f"{tab}: {each['id']}: {nodes}")
    assert not found, "\n".join(found)


def test_everything_is_reached_by_keyboard(studio: Studio, open_page: Callable[..., Page]) -> None:
    """Tab reaches the tabs, the agents, the filter and the line, in that order, visibly."""
    with NativeSpace() as space:
        space.add(studio.user)
        space.add(Agent("Clerk"))
        page = open_page()
        page.reload()  # nothing has the focus
        expect(page.get_by_role("list", name="Agents")).to_contain_text("Clerk")
        reached = []
        for _ in range(30):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    "() => { const e = document.activeElement;"
                    " return e.getAttribute('aria-label') || e.innerText.trim(); }"
                )
            )
            if reached[-1] == "Message or slash line":
                break
        wanted = ["Space", "Clerk", "Filter messages", "Message or slash line"]
        assert [each for each in reached if each in wanted] == wanted


def test_a_studio_that_is_started_again(browser: Browser, tmp_path: Path) -> None:
    """The page that was open goes on with the next one, once the program runs again."""
    environment = {**os.environ, "CIVITAS_STUDIO_TOKEN": "t" * 20}

    def started(port: int) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", PROGRAM, str(port), str(tmp_path / "runs.db")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[2]

    first, url = started(0)
    page = browser.new_page()
    page.goto(url)
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=10)
    expect(page.get_by_text("not connected")).to_be_visible()
    second, _ = started(int(url.split(":")[2].split("/")[0]))
    try:
        expect(page.get_by_text("connected", exact=True)).to_be_visible()
        page.get_by_role("textbox", name="Message or slash line").fill("/Clerk.help")
        page.keyboard.press("Enter")
        expect(page.get_by_text("answered", exact=True)).to_be_visible()
    finally:
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=20)
        assert second.returncode == 0
    page.close()
