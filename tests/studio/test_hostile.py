"""What strangers write, and pages of theirs in the same browser, in a real one."""

from __future__ import annotations

import asyncio
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

from moothall import ACCESS_REQUESTED, Agent, NativeSpace, ReActAgent, ScriptedModel, action
from moothall.approval import ApprovalRequest
from moothall.studio import Studio

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


def test_a_page_of_another_local_program_can_do_nothing(
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
    assert heard == []
    assert not asked.done()

    page.reload()
    card.get_by_role("button", name="Permit").click()
    assert asked.result(20) is True
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
