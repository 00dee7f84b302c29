"""What strangers write, and pages of theirs in the same browser, in a real one."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    Call,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Usage,
    action,
)
from moothall.actions.approval import ApprovalRequest
from moothall.serving import MCPAgent
from moothall.studio import Studio
from moothall.studio.orders.order import ResearchOrder
from moothall.studio.orders.simulate import SimulateOrder

MARK = "document.title='taken';alert(1)"
TEXTS = (
    f"</script><script>{MARK}</script>",
    f'<img src=x onerror="{MARK}"><svg/onload="{MARK}"><iframe srcdoc="<script>{MARK}</script>">',
    "<style>body{display:none}</style><base href=//evil.example><meta http-equiv=refresh>",
    f"[click](javascript:{MARK}) ![x](https://evil.example/a.png) <https://evil.example>",
    f"javascript:{MARK} data:text/html,<script>{MARK}</script> //evil.example/x",
    "${alert(1)} {{constructor.constructor('alert(1)')()}} `${alert(1)}` $(alert(1))",
    "\x1b[2J\x1b]0;taken\x07\x1b[31m red \x08\x00\x7f\u0085",
    "\u202etxt.exe\u2066\u2028\u2029\ufeff\u200b\u200f\u00ad\U000e0041",
    "[" * 10_000 + "<b>" * 10_000,
    "<i>long</i>" * 100_000,
)


class Mallory(Agent):
    """<img src=//evil.example/x onerror=alert(1)>."""

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, to: str) -> str:
        """</script><script>alert(1)</script>."""
        return to


@pytest.fixture
def space(studio: Studio) -> Iterator[NativeSpace]:
    with NativeSpace() as space:
        space.add(studio.user)
        yield space


def test_texts_of_strangers_are_text(
    space: NativeSpace, open_page: Callable[..., Page], studio: Studio
) -> None:
    """In messages, arguments, ids, errors, descriptions and cards: no element, dialog or request.

    What would turn a line around, or steer a terminal, is shown by its number; of many megabytes
    the beginning is shown, and how long it was.
    """
    page = open_page()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    name = "<img src=x onerror=alert(1)>\u200b"
    mallory = space.add(Mallory(name))
    for text in TEXTS:
        for to in ("*", "User"):
            mallory.send({"to": to, "action": {"name": "say", "args": {"content": text}}})
        args = {"error": text, text[:1000]: [text], "data": {text[:1000]: text}}
        mallory.send({"to": "User", "action": {"name": "error", "args": args}})
        mallory.send({"to": "User", "action": {"name": "odd", "args": args}})
        asked = {"to": name, "action": {"name": "pay", "args": {"to": text}}}
        studio.user.send(asked)
    no_id = {"data": "", "original_message_id": {"toString": 1, "valueOf": 1}}
    mallory.send({"to": "*", "action": {"name": "response", "args": no_id}})
    many = {f"a{number}": ["x" * 100_000] for number in range(20)}
    mallory.send({"to": "User", "action": {"name": "odd", "args": many}})
    cards = page.get_by_role("article", name="approval")
    expect(cards).to_have_count(len(TEXTS))
    expect(page.get_by_role("log")).to_contain_text("(1,100,000 characters)")
    expect(page.get_by_role("log")).to_contain_text("(100,004 characters)")
    assert len(page.get_by_role("article").last.inner_text()) < 100_000
    expect(cards.nth(7)).to_contain_text("[U+202E]txt.exe[U+2066]")
    expect(cards.nth(7)).to_contain_text("[U+200F][U+00AD][U+E0041]")
    inbox = page.get_by_role("button", name=f"Inbox: {len(TEXTS)} wait for you")
    expect(inbox).to_be_visible()
    page.get_by_role("list", name="Agents").get_by_text("(1)>[U+200B]").click()
    expect(page.get_by_role("button", name="pay", exact=True)).to_be_visible()
    made = page.locator(".s-root").locator(
        "img, script, iframe, svg, style, base, meta, a, i, object"
    )
    expect(made).to_have_count(0)
    page.reload()
    expect(page.get_by_role("article", name="approval")).to_have_count(len(TEXTS))
    expect(made).to_have_count(0)
    agent = ReActAgent("mallory", ScriptedModel([TEXTS[7]]), journal=studio.journal)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(agent.reply_sync, TEXTS[7]).result()
    page.get_by_role("tab", name="Runs", exact=True).click()
    page.get_by_role("list", name="Runs").get_by_text("[U+202E]txt.exe[U+2066]").click()
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("region", name="Replay").first).to_contain_text("[U+202E]txt.exe")
    assert dialogs == []
    assert "taken" not in page.title()


STRANGE = "".join(TEXTS[:8]).replace("\0", "")
NAME = "<img src=x onerror=alert(1)>"
EXPERIMENT = {
    "society": {"citizens": 10, "step": "12h"},
    "metrics": ["home"],
    "workflow": [{"step": 2}],
}
SERVER = """
from mcp.server import MCPServer

server = MCPServer("odd")


def odd(path: str) -> str:
    return TEXT


odd.__doc__ = TEXT
server.tool()(odd)
server.run()
"""
MADE = r"""() => {
  const found = [];
  for (const each of document.body.querySelectorAll("*")) {
    const names = each.getAttributeNames();
    const odd = names.some((name) => name.startsWith("on") || name === "srcdoc");
    const to = ["href", "src", "action"].map((name) => each.getAttribute(name) || "#");
    const made = each.matches("img, script, object, embed, base, meta, style");
    if (odd || made || !to.every((link) => /^(http:\/\/127|\/|#)/.test(link)))
      found.push(each.outerHTML.slice(0, 200));
  }
  const hidden = /[\u202a-\u202e\u2066-\u2069\u200b\u200f\ufeff\u00ad\x1b]/u;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { data, parentNode } = walk.currentNode;
    if (hidden.test(data)) found.push(`hidden in ${parentNode.outerHTML.slice(0, 200)}`);
  }
  return found;
}"""
"""What of a stranger's text has become part of the page, or is hidden in it."""


def recorded(studio: Studio) -> None:
    """Two runs and a report in which all that can be a stranger's text is."""

    @action
    def look(path: str) -> dict[str, str]:
        """Look at a file."""
        return {STRANGE: STRANGE, "error": STRANGE}

    for number in (1, 2):
        call = ModelReply(STRANGE, (Call("1", "look", {"path": STRANGE}),), Usage(1_000, 200))
        model = ScriptedModel([call, f"{STRANGE} {number}"])
        model.name = NAME
        agent = ReActAgent(NAME, model, actions=[look], journal=studio.journal)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(agent.reply_sync, STRANGE, run_id=f"{NAME}{number}").result()


def press(page: Page, name: str) -> None:
    """Press a button."""
    page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.long
def test_texts_of_strangers_are_text_in_every_tab(
    space: NativeSpace, open_page: Callable[..., Page], studio: Studio, tmp_path: Path
) -> None:
    """In runs and what is made of them, conversations, reports, towns, experiments and doors.

    Nothing becomes a part of the page, nor is hidden in it.
    """
    recorded(studio)
    page = open_page("Runs")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    found: list[str] = []

    def look(what: str) -> None:
        """Look for what of the texts is more than text in what is shown now."""
        found.extend(f"{what}: {each}" for each in page.evaluate(MADE))

    look("the list")
    page.get_by_role("list", name="Runs").locator("[data-run]").first.click()
    view = page.get_by_role("region", name="Run", exact=True)
    for name in ("Steps", "Timeline", "Transcript", "Cost"):
        view.get_by_role("button", name=name, exact=True).click()
        look(name)
    view.get_by_role("button", name="Steps", exact=True).click()
    view.get_by_role("button", name="Every entry").click()
    for step in view.locator(".s-entry > button").all():
        step.click()
        look("a step")
        step.click()
    page.get_by_label("Search the steps of this run").fill("click")
    page.keyboard.press("Enter")
    expect(view.get_by_role("region", name="Found")).to_be_visible()
    look("what a search finds")
    other = view.get_by_label("Compare with")
    other.focus()
    other.fill(view.locator("#s-with option").first.get_attribute("value") or "")
    view.get_by_role("button", name="Compare", exact=True).click()
    expect(view.get_by_role("region", name="Comparison")).to_be_visible()
    look("a comparison")

    page.get_by_role("tab", name="Space", exact=True).click()
    poet = ReActAgent("Poet", ScriptedModel([STRANGE, STRANGE]), journal=studio.journal)
    space.add(poet)
    page.get_by_role("list", name="Agents").get_by_text("Poet", exact=True).click()
    page.get_by_label("Name of a new conversation with Poet").fill(NAME)
    page.keyboard.press("Enter")
    page.get_by_label(f"Say to Poet, {NAME}").fill(STRANGE)
    page.keyboard.press("Enter")
    turns = page.get_by_role("log", name=f"Conversation with Poet, {NAME}").get_by_role("article")
    expect(turns).to_have_count(2)
    look("a conversation")

    page.get_by_role("tab", name="Research", exact=True).click()
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / f"{NAME}.md").write_text(
        f"# {STRANGE}\n\nThe alpha protocol uses port 4711 {STRANGE}.\n"
    )
    studio.jobs.start(ResearchOrder([f"Which port does alpha use? {STRANGE}"], str(folder)))
    expect(page.locator("iframe[title=Report]")).to_be_visible()
    page.get_by_label("Question about the report").fill(STRANGE)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("log", name="Answers from the report")).to_contain_text("click")
    look("a report")

    page.get_by_role("tab", name="Society", exact=True).click()
    studio.society.set_up(SimulateOrder(10, step="6h"))
    expect(page.locator(".s-control").get_by_role("status")).to_contain_text("step 1 of")
    press(page, "Citizen")
    page.get_by_label("Citizen's number or name").fill("3")
    press(page, "Show")
    page.get_by_label("Question to the citizen").fill(STRANGE)
    press(page, "Interview")
    expect(page.get_by_text("by rule, before step 1")).to_be_visible()
    look("an interview")
    town = studio.society.town
    assert town is not None
    town.intervene(news=[STRANGE], facts={NAME: STRANGE})
    press(page, "Survey")
    page.get_by_label("Question", exact=True).fill(STRANGE)
    page.get_by_label("Type of answer").select_option("a choice")
    page.get_by_label("Choices").fill(f"{NAME}, {STRANGE.replace(',', ' ')[:300]}")
    page.get_by_label("Answered from").select_option("opinion of art, −100 to 100 %")
    press(page, "Ask")
    expect(page.get_by_role("region", name="Survey")).to_contain_text("by rule")
    look("a survey")
    for part in ("Interventions", "Log"):
        press(page, part)
        look(part)
    file = tmp_path / "odd.yaml"
    file.write_text(json.dumps({**EXPERIMENT, "name": "odd", "question": "".join(TEXTS[:4])}))
    studio.society.experiments.start(str(file), 1, None, "")
    expect(page.get_by_label("Experiment odd")).to_contain_text("ended")
    look("an experiment")
    page.get_by_role("tab", name="Act and review", exact=True).click()
    page.get_by_label("Task", exact=True).fill(STRANGE)
    page.get_by_label("Folder that it works on").fill(f"{tmp_path}/{STRANGE[:300]}")
    press(page, "Start")
    expect(page.get_by_text("does not exist")).to_be_visible()
    look("a form")

    server = tmp_path / "server.py"
    server.write_text(f"TEXT = {STRANGE!r}\n{SERVER}")
    space.add(MCPAgent(NAME, [sys.executable, str(server)], lock=tmp_path / "lock.json"))
    page.get_by_role("tab", name="Doors", exact=True).click()
    asked = {"to": NAME, "action": {"name": "help", "args": {}}}
    studio.user.send(asked)
    expect(page.get_by_role("article", name="Changed definitions")).to_be_visible()
    page.get_by_text("The definition, exactly").first.click()
    look("a server")
    assert found == []
    assert dialogs == []
    assert "taken" not in page.title()


# -- a page of a program at another port of this machine -------------------------------------------

PAGE = Path(__file__).with_name("hostile.html")


@pytest.fixture
def sent() -> list[str]:
    """The cookies that the other program is sent."""
    return []


@pytest.fixture
def evil(studio: Studio, sent: list[str]) -> Iterator[str]:
    """A page of another program at another port: the same site, so it is sent the cookie."""
    body = PAGE.read_text().replace("STUDIO", str(studio.url)).encode()

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join(10)


def test_page_of_another_local_program_can_do_nothing(
    space: NativeSpace, page: Page, studio: Studio, evil: str, sent: list[str]
) -> None:
    """It reads nothing, sends nothing, answers no card, opens no stream, embeds nothing.

    The cookie that the browser lends it opens nothing for the program itself.

    Nor can it shut the person out by cookies that it sets for this host.
    """
    heard: list[Any] = []
    space.observe(heard.append)
    space.add(Agent("Clerk"))
    request = ApprovalRequest("Clerk", "pay", {"to": "evil"}, "User", {})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asked = asyncio.run_coroutine_threadsafe(studio.cards.approve(request), loop)
    card = page.get_by_role("article", name="approval")
    expect(card).to_be_visible()
    (number,) = (each["number"] for each in studio.cards.to_json())
    heard.clear()

    other = page.context.new_page()
    other.goto(evil)
    told = other.evaluate(
        "([studio, card, fingerprint]) => attack(studio, card, fingerprint)",
        [studio.url, number, request.fingerprint],
    )
    assert len(told) == 43
    # What is sent without asking for an answer gives an empty one, and is refused where it arrives.
    assert {name: each for name, each in told.items() if each not in ("refused", "")} == {}
    other.get_by_role("link").click()
    expect(other.get_by_text("a page from elsewhere may not use this studio")).to_be_visible()
    assert sent[0].startswith("moothall_studio_")
    for path in ("cards", f"cards/{number}", "space/messages"):
        taken = urllib.request.Request(f"{studio.url}studio/{path}", headers={"Cookie": sent[0]})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(taken)
    # The person's own page asks each agent what it offers, and is answered.
    assert [each for each in heard if "what-is-offered" not in json.dumps(each)] == []
    assert not asked.done()

    page.reload()
    card.get_by_role("button", name="Permit").click()
    assert asked.result(20) is True
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
