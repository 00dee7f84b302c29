"""The page as a whole: for everybody, by keyboard, in light and dark, and after a restart."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from moothall import Agent, NativeSpace
from moothall.studio import Studio
from studio.conftest import TOKEN

TABS = ("Space", "Act and review", "Research", "Society", "Runs")
PROGRAM = """
import sys
from moothall import Agent, NativeSpace
from moothall.studio import demo, gradio_user

with NativeSpace() as space:
    space.add(Agent("Clerk"))
    space.add(gradio_user)
    demo.launch(port=int(sys.argv[1]), journal=sys.argv[2])
    print("after", demo.url)
"""


def reached(page: Page, last: str) -> list[str]:
    """What Tab leads to, up to what is called so."""
    found: list[str] = []
    while last not in found and len(found) < 30:
        page.keyboard.press("Tab")
        found.append(
            page.evaluate(
                "() => { const e = document.activeElement;"
                " return e.getAttribute('aria-label') || e.innerText.trim(); }"
            )
        )
    return found


@pytest.mark.long
def test_page_can_be_used_by_everybody(studio: Studio, open_page: Callable[..., Page]) -> None:
    """Tab reaches the tabs, the agents, the filter and the line, in that order.

    Axe finds nothing above minor on any tab, light and dark.
    """
    with NativeSpace() as space:
        space.add(studio.user)
        space.add(Agent("Clerk"))
        page = open_page()
        page.reload()  # nothing has the focus
        expect(page.get_by_role("list", name="Agents")).to_contain_text("Clerk")
        wanted = ["Space", "Clerk", "Filter messages", "Message or slash line"]
        focused = dict.fromkeys(each for each in reached(page, wanted[-1]) if each in wanted)
        assert [*focused] == wanted
        found = []
        for scheme in ("light", "dark"):
            for tab in TABS:
                page.get_by_role("tab", name=tab, exact=True).click()
                page.wait_for_load_state("networkidle")
                for each in Axe().run(page).response["violations"]:
                    if each["impact"] != "minor":
                        nodes = [node["html"][:200] for node in each["nodes"][:3]]
                        found.append(f"{tab}, {scheme}: {each['id']}: {nodes}")
            page.get_by_role("button", name="Light / dark").click()
    assert not found, "\n".join(found)


def test_forms_are_filled_by_the_keyboard_alone(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """On each tab with a form: Tab to its lists, arrows and Enter to choose, Tab to its button.

    Where the focus is, is seen. A number that is too low is an error that names its field.
    """
    page = open_page()
    page.reload()
    keys, field = page.keyboard, page.locator(":focus")
    expect(page.get_by_role("button", name="Light / dark")).to_be_visible()

    def to(name: str) -> None:
        """Go there by Tab."""
        wanted = page.get_by_label(name, exact=True)
        for role in ("button", "tab"):
            wanted = wanted.or_(page.get_by_role(role, name=name, exact=True))
        wanted.filter(visible=True).first.wait_for()  # a form comes by the server's answer
        for _ in range(40):
            keys.press("Tab")
            if wanted.and_(field).count():
                assert field.evaluate("each => getComputedStyle(each).outlineStyle") != "none"
                return
        raise AssertionError(f"Tab does not lead to {name!r}")

    to("Light / dark")
    keys.press("Tab")
    keys.press("ArrowRight")
    to("Task")
    keys.type("Look around")
    to("Folder that it works on")
    keys.press("Control+A")
    keys.type(str(tmp_path / "nowhere"))
    to("Reviewer")
    keys.type("me")
    to("Start")
    keys.press("Enter")
    expect(page.get_by_text('nowhere" does not exist')).to_be_visible()
    expect(page.get_by_label("Reviewer")).to_have_value("me")
    to("Act and review")
    keys.press("ArrowRight")
    to("Objectives, one a line")
    keys.type("alpha")
    to("Model: listed, or any by name")
    keys.type("local")
    to("Start")
    keys.press("Enter")
    expect(page.get_by_text("there is nothing to search")).to_be_visible()
    expect(page.get_by_label("Model: listed")).to_have_value("local")
    to("Research")
    keys.press("ArrowRight")
    to("Citizens")
    keys.press("Control+A")
    keys.type("10")
    to("Length of a step")
    for _ in range(2):  # of 15min, 30min, 1h
        keys.press("ArrowDown")
    expect(field).to_have_value("1h")
    to("Play it at once")
    keys.press("Space")
    for seed in ("-1", "7"):
        to("Seed")
        keys.press("Control+A")
        keys.type(seed)
        to("Set up")
        keys.press("Enter")
        if seed == "-1":
            expect(page.get_by_text("“Seed” must be 0 or more, got -1")).to_be_visible()
    expect(page.get_by_text("step 1 of 24 · paused")).to_be_visible()


def test_tab_stands_in_the_address(open_page: Callable[..., Page]) -> None:
    """Back goes to the tab before, and a reload stays, in a narrow window too."""
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 700})

    def is_on(tab: str) -> None:
        page.wait_for_url(f"**/{tab}")
        expect(page.locator(f".s-{tab}")).to_be_visible()

    for tab, name in (("runs", "Runs"), ("research", "Research")):
        page.get_by_role("tab", name=name, exact=True).click()
        is_on(tab)
    page.reload()
    is_on("research")
    page.go_back()
    is_on("runs")
    page.go_back()
    expect(page.locator(".s-space")).to_be_visible()
    page.go_forward()
    is_on("runs")


def test_connection_that_was_cut_without_a_word_is_made_again(page: Page, studio: Studio) -> None:
    """As one that a router has forgotten, or that a laptop slept through; nothing is missed."""
    page.add_init_script("""
        window.made = [];
        window.WebSocket = class extends WebSocket {
          constructor(to) { super(to); made.push(this); }
        };""")
    page.clock.install()
    page.reload()
    with NativeSpace() as space:
        space.add(Agent("Clerk"))
        space.add(studio.user)
        expect(page.get_by_role("list", name="Agents")).to_contain_text("Clerk")
        page.evaluate("made.forEach((each) => (each.onmessage = null))")
        studio.user.send({"to": "*", "action": {"name": "say", "args": {"content": "at last"}}})
        page.clock.fast_forward(60_000)
        expect(page.get_by_text("at last", exact=True)).to_be_visible()


def test_studio_that_is_started_again_with_another_token_asks_for_it(
    browser: Browser, tmp_path: Path, studio: Studio
) -> None:
    """On whatever tab the page is."""
    page = browser.new_page()
    page.goto(f"{studio.url}?token={TOKEN}")
    page.get_by_role("tab", name="Runs", exact=True).click()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    port, secret = urlsplit(str(studio.url)).port or 0, "another" * 3
    studio.close()
    kept: Any = {"journal": tmp_path / "runs.db", "prevent_thread_lock": True, "quiet": True}
    studio.launch(port, token=secret, **kept)
    asks = page.get_by_label("The token of this studio")
    asks.fill(secret)
    asks.press("Enter")
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    page.close()


@pytest.mark.long
@pytest.mark.timeout(120)  # two programs start one after the other
def test_studio_that_is_started_again(browser: Browser, tmp_path: Path) -> None:
    """Killed, it is missed by its page, which goes on with the next one; Ctrl-C frees the port."""
    environment = {**os.environ, "MOOTHALL_STUDIO_TOKEN": "t" * 20}

    def started(port: int) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-u", "-c", PROGRAM, str(port), str(tmp_path / "runs.db")]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "(Ctrl-C ends it)" in line
        return process, line.split()[2]

    first, url = started(0)
    port = int(url.split(":")[2].split("/")[0])
    page = browser.new_page()
    page.goto(url)
    line = page.get_by_role("textbox", name="Message or slash line")
    expect(line).to_be_visible()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    first.kill()
    first.communicate(timeout=10)
    expect(page.get_by_text("not connected")).to_be_visible()
    second, _ = started(port)
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    line.fill("/Clerk.help")
    page.keyboard.press("Enter")
    expect(page.get_by_text("answered", exact=True)).to_be_visible()
    second.send_signal(signal.SIGINT)
    out, err = second.communicate(timeout=30)
    page.close()
    assert (second.returncode, err) == (0, "")
    assert out.endswith("after None\n")
    with socket.create_server(("127.0.0.1", port)):
        pass
