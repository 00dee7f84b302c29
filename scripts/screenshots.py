"""Pictures of the studio's tabs, of the living demo: docs/pictures/studio-TAB[-WIDTH]-SCHEME.png.

Each is light and dark, 1280, 1024 and 390 wide.

python scripts/screenshots.py [FOLDER]
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = "/usr/bin/chromium"
# The living demo with an MCP server, one of whose tools has changed since a person accepted it.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop())
from pathlib import Path
import studio
from moothall.serving import asgi
from moothall.serving import MCPAgent

SERVER = '''
from mcp.server import MCPServer

server = MCPServer("library")

@server.tool()
def borrow(title: str) -> str:
    "Borrow a book by its title."
    return title

@server.tool()
def search(words: str) -> list[str]:
    "Search the titles."
    return [words]

server.run()
'''

program = Path("library.py")
program.write_text(SERVER)
command = [sys.executable, str(program)]
with MCPAgent("Library", command, lock="lock.json") as library:
    library.accept_definitions()
program.write_text(SERVER.replace("by its title", "by its title, for two weeks"))
clerk = studio.Calculator("Clerk")
application = asgi(clerk)
studio.main(MCPAgent("Library", command, lock="lock.json"))
"""
SIZES = {1280: 800, 1024: 768, 390: 844}
COLOURS = 128
"""A picture keeps so many colours: a third of the size, and no difference to be seen."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "MOOTHALL_JOURNAL": str(Path(state, "runs.db"))}
        command = [sys.executable, "-c", PROGRAM, "0", str(ROOT / "examples")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, cwd=state
        ) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[2]
            try:
                with sync_playwright() as started:
                    browser = started.chromium.launch(
                        executable_path=CHROMIUM, args=["--no-sandbox"]
                    )
                    for scheme in ("light", "dark"):
                        sizes = [{"width": w, "height": h} for w, h in SIZES.items()]
                        context = browser.new_context(viewport=sizes[0], color_scheme=scheme)
                        page = context.new_page()
                        page.set_default_timeout(300_000)
                        page.goto(url)
                        for tab in TABS:
                            page.set_viewport_size(sizes[0])
                            page.get_by_role("tab", name=tab, exact=True).click()
                            TABS[tab](page)
                            for size in sizes:
                                page.set_viewport_size(size)
                                page.evaluate("scrollTo(0, 0)")
                                page.wait_for_timeout(500)
                                width = "" if size is sizes[0] else f"-{size['width']}"
                                name = f"studio-{tab.split()[0].lower()}{width}-{scheme}.png"
                                picture(page, folder / name)
                        context.close()
                    browser.close()
            finally:
                process.send_signal(signal.SIGINT)


def picture(page: Page, path: Path) -> None:
    """Keep a picture of the window, in few colours."""
    whole = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    whole.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def space(page: Page) -> None:
    """A conversation with one agent, which was asked something."""
    page.get_by_text("answered").nth(1).wait_for()
    page.get_by_role("list", name="Agents").get_by_text("Calculator").click()
    page.get_by_role("button", name="multiply").wait_for()
    line = page.get_by_role("textbox", name="Say to Calculator")
    line.fill("/Calculator.multiply a:6 b:7")
    line.press("Enter")
    page.get_by_role("log", name="Conversation").get_by_text("42").first.wait_for()


def act(page: Page) -> None:
    """A run waits for a decision, whose card is open."""
    page.get_by_text("You are the reviewer").filter(visible=True).first.wait_for()
    page.get_by_role("log", name="Steps").get_by_text("search_in_file").first.wait_for()


def research(page: Page) -> None:
    """The report is there."""
    shown = page.frame_locator("iframe[title=Report]")
    shown.get_by_text("eleven in the evening").first.wait_for()


def society(page: Page) -> None:
    """The town plays for a while, and a citizen's card is open."""
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_timeout(10_000)
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_label("Citizen's number or name").fill("17")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("Needs").first.wait_for()


def runs(page: Page) -> None:
    """A run is chosen."""
    page.get_by_role("list", name="Runs").get_by_role("button").nth(1).click()
    page.get_by_role("group", name="Steps").get_by_text("search").first.wait_for()


def doors(page: Page) -> None:
    """What has changed is shown."""
    page.get_by_role("article", name="Changed definitions of Library").wait_for()


TABS = {
    "Space": space,
    "Act and review": act,
    "Research": research,
    "Society": society,
    "Runs": runs,
    "Doors": doors,
}


if __name__ == "__main__":
    main()
