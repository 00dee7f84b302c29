"""The tab Doors: what is connected, locked, changed and served."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
from playwright.sync_api import Page, expect

from moothall import ACCESS_PERMITTED, A2AAgent, Budget, NativeSpace, ReActAgent, ScriptedModel
from moothall.serving import MCPAgent, asgi
from moothall.studio import Studio
from serving.doors.conftest import serving

SERVER = """
from mcp.server import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b


server.run()
"""


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
    with NativeSpace() as space, ExitStack() as stack:
        space.add(studio.user)
        page = open_page("Space")
        tab = page.get_by_role("tab", name="Doors", exact=True)
        expect(page.get_by_role("list", name="Agents")).to_contain_text("Nobody else")
        expect(tab).to_be_hidden()  # there is nothing to show
        space.add(MCPAgent("sums", command, lock=lock, access=ACCESS_PERMITTED))
        tab.click()
        expect(page.get_by_text("This program serves no agent.")).to_be_visible()
        clerk = ReActAgent("Clerk", ScriptedModel(["Good day."]))
        space.add(clerk)
        application = asgi(clerk, budget=Budget(model_calls=3))
        space.add(A2AAgent("far", "http://127.0.0.1:9"))
        connected = page.get_by_role("region", name="Connected").get_by_role("row")
        sums = connected.filter(has_text="MCP server")
        expect(sums).to_contain_text("which says it is sums")
        expect(sums).to_contain_text("1 changed")
        expect(connected.filter(has_text="A2A agent")).to_contain_text("not called yet")
        served = page.get_by_role("region", name="Served").get_by_role("row")
        clerks, local = served.filter(has_text="Clerk"), served.filter(has_text="local")
        expect(clerks).to_contain_text("no request yet")
        expect(local).to_contain_text("nothing")
        url = stack.enter_context(serving(application))
        asked = {"model": "Clerk", "messages": [{"role": "user", "content": "Hello"}]}
        httpx2.post(f"{url}/v1/chat/completions", json=asked).raise_for_status()
        expect(clerks).to_contain_text(url)
        expect(local).to_contain_text("model calls: 1, 2 left")
        card = page.get_by_role("article", name="Changed definitions of sums")
        expect(card).to_contain_text("was Add two integers.")
        expect(card).to_contain_text("Add two <b>numbers</b>.")
        expect(card).not_to_contain_text("Takes")  # that has not changed
        page.get_by_text("1 tool").click()
        expect(sums.get_by_role("listitem")).to_have_text("add Add two <b>numbers</b>.")
        page.set_viewport_size({"width": 390, "height": 800})
        for each in (card, sums, clerks, local):
            assert each.evaluate("each => each.getBoundingClientRect().right") <= 390
        page.set_viewport_size({"width": 1280, "height": 800})
        studio.user.send({"to": "sums", "action": {"name": "add", "args": {"a": 1, "b": 2}}})
        card.get_by_role("button", name="Accept these definitions").click()
        expect(sums).to_contain_text("locked, as accepted")
        expect(card).to_have_count(0)
        assert json.loads(lock.read_text()) != accepted


FALLS = """
import os
import sys

from mcp.server import MCPServer

server = MCPServer("falls")


@server.tool()
def fall() -> str:
    "End at once."
    print("the disk is full", file=sys.stderr, flush=True)
    os._exit(3)


server.run()
"""


def test_doors_say_why_calls_fail_where_agents_are_served_and_who_is_refused(
    tmp_path: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Opened again, the tab shows at once what has happened; a tool that nobody accepted is new."""
    program = tmp_path / "falls.py"
    program.write_text(FALLS)
    with NativeSpace() as space, ExitStack() as stack:
        space.add(studio.user)
        command = [sys.executable, str(program)]
        lock = tmp_path / "lock.json"
        space.add(MCPAgent("falls", command, lock=lock))
        clerk = ReActAgent("Clerk", ScriptedModel(["Good day."]))
        url = stack.enter_context(serving(asgi(clerk, budget=Budget(model_calls=1))))
        page = open_page("Doors")
        row = page.get_by_role("region", name="Connected").get_by_role("row").last
        expect(row).to_contain_text("1 new")
        page.get_by_role("button", name="Accept these definitions").click()
        expect(row).to_contain_text("locked, as accepted")
        page.get_by_role("tab", name="Space").click()
        studio.user.send({"to": "falls", "action": {"name": "fall", "args": {}}})
        page.get_by_role("article", name="approval").get_by_role("button", name="Permit").click()
        expect(page.get_by_role("log").first).to_contain_text("the disk is full")
        httpx2.get(f"{url}/v1/models").raise_for_status()
        page.get_by_role("tab", name="Doors").click()
        page.get_by_text("How to call it").click()
        told = page.get_by_role("region", name="Served").locator("pre")
        expect(told.first).to_contain_text(f"curl {url}/v1/chat/completions")
        _, to, *_, asked = shlex.split(told.first.inner_text())
        httpx2.post(to, json=json.loads(asked)).raise_for_status()  # what is shown works
        settings = json.loads(told.last.inner_text())
        assert settings == {"mcpServers": {"Clerk": {"url": f"{url}/mcp"}}}
        row.get_by_text("why").click()
        expect(row).to_contain_text("the disk is full")
        all_served = page.get_by_role("region", name="Served").get_by_role("row")
        served, caller = (all_served.filter(has_text=each) for each in ("Clerk", "local"))
        expect(caller).to_contain_text("is refused: ")
        for _ in range(2):  # when the page looks again, what is opened stays so
            with page.expect_response("**/doors/state"):
                pass
        expect(row.get_by_text("the disk is full")).to_be_visible()
        at = [
            f"MCP: {url}/mcp",
            f"A2A: {url}/a2a/Clerk",
            f"OpenAI: {url}/v1",
            f"AG-UI: {url}/ag-ui/Clerk",
        ]
        expect(served.get_by_role("cell").nth(1).get_by_role("listitem")).to_contain_text(at)
        for head in page.get_by_role("columnheader").all():  # no word is cut in two
            assert head.evaluate("each => each.getClientRects().length") == 1
            assert (head.bounding_box() or {})["height"] < 40
        caller.get_by_role("button", name="Runs of local").click()
        page.wait_for_url("**/runs")
        expect(page.get_by_role("searchbox", name="Filter runs")).to_have_value("-local")
