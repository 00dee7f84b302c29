"""The tab Doors: what is connected, locked, changed and served."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Page, expect

from moothall import ACCESS_PERMITTED, Agent, NativeSpace, action
from moothall.doors import asgi
from moothall.mcp import MCPAgent
from moothall.studio import Studio

SERVER = """
from mcp.server import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b


server.run()
"""


class Clerk(Agent):
    """Sells tickets."""

    @action
    def sell(self, tickets: int) -> int:
        """Sell tickets."""
        return tickets


def test_doors_show_what_is_connected_locked_changed_and_served(
    tmp_path: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """A definition that has changed is shown, with its difference, until a person accepts it."""
    program, lock = tmp_path / "sums.py", tmp_path / "lock.json"
    program.write_text(SERVER)
    command = [sys.executable, str(program)]
    with MCPAgent("sums", command, lock=lock) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.accept_definitions).result()  # this thread has Playwright's loop
    accepted = json.loads(lock.read_text())
    program.write_text(SERVER.replace("Add two integers.", "Add two <b>numbers</b>."))
    with NativeSpace() as space:
        space.add(studio.user)
        page = open_page("Doors")
        expect(page.get_by_text("No MCP server and no remote agent is connected.")).to_be_visible()
        expect(page.get_by_text("This program serves no agent.")).to_be_visible()
        space.add(MCPAgent("sums", command, lock=lock, access=ACCESS_PERMITTED))
        clerk = Clerk("Clerk")
        space.add(clerk)
        application = asgi(clerk)
        connected = page.get_by_role("region", name="Connected").get_by_role("row")
        expect(connected.last).to_contain_text("MCP server")
        expect(connected.last).to_contain_text("1 changed")
        served = page.get_by_role("region", name="Served").get_by_role("row")
        expect(served.last).to_contain_text("Clerk")
        expect(served.last).to_contain_text("local")
        card = page.get_by_role("article", name="Changed definitions of sums")
        expect(card).to_contain_text("was Add two integers.")
        expect(card).to_contain_text("Add two <b>numbers</b>.")
        expect(card).not_to_contain_text("Takes")  # that has not changed
        page.get_by_text("1 tool").click()
        expect(connected.last.get_by_role("listitem")).to_have_text("add")
        page.set_viewport_size({"width": 390, "height": 800})
        for each in (card, connected.last, served.last):
            assert each.evaluate("each => each.getBoundingClientRect().right") <= 390
        expect(served.last).to_contain_text("local")
        page.set_viewport_size({"width": 1280, "height": 800})
        studio.user.send({"to": "sums", "action": {"name": "add", "args": {"a": 1, "b": 2}}})
        card.get_by_role("button", name="Accept these definitions").click()
        expect(connected.last).to_contain_text("locked, as accepted")
        expect(card).to_have_count(0)
        assert json.loads(lock.read_text()) != accepted
        del application
