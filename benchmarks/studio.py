"""How quick the studio's page is in a real browser, beside Gradio's own chat.

    python -m benchmarks.studio [--quick]

From a start to a page that can be written in, cold and warm; 100 messages a second, each timed from
its sending to its row; the page with 100,000 messages: each click, one more, and its memory; the
tab Runs with 10,000 runs and one of 100,000 entries: each click; memory of the process. Gradio's
`Chatbot` gets 10,000 messages in a page of its own. The map of a town of 10,000, and of 100,000, at
eight in the morning: how many frames a second the page has while the town plays, and while a person
zooms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measure import emit
from moothall import Agent, ChattyAI, Journal, NativeSpace
from moothall.studio import Studio
from moothall.studio.orders.simulate import SimulateOrder

CHROMIUM = "/usr/bin/chromium"
MANY, PER_SECOND, SECONDS = 100_000, 100, 10
CHATBOT, UPDATES = 10_000, 300
TOWNS = {10_000: 60, 100_000: 20}
"""Citizens, and the frames a second that their map is to have."""
TOKEN = "t" * 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studio", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer messages")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        return _only_start()
    seconds = 3 if options.quick else SECONDS
    many = 2_000 if options.quick else MANY
    towns = {1_000: 60} if options.quick else TOWNS
    with sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        cold = _cold(browser)
        emit(
            "studio: a page to write in", "cold, with the program's start", cold, "s", target="<= 6"
        )
        with tempfile.TemporaryDirectory() as folder:
            _ours(browser, Path(folder), many, seconds)
            if not options.quick:
                _runs(browser, Path(folder))
            for citizens, target in towns.items():
                _map(browser, Path(folder), citizens, target)
        _gradio(browser, min(many, CHATBOT))
        browser.close()
    return 0


def _only_start() -> int:
    """A studio in a process of its own, until its standard input ends."""
    with tempfile.TemporaryDirectory() as folder, NativeSpace() as space, Studio() as studio:
        studio.launch(0, journal=Path(folder) / "runs.db", token=TOKEN, prevent_thread_lock=True)
        space.add(studio.user)
        space.add(ChattyAI("Chatty"))
        sys.stdin.read()
    return 0


def _cold(browser: Browser) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.studio", "--start"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        page = _open(browser, url)
        took = time.perf_counter() - began
        megabytes = _memory(process.pid)
        emit("studio: memory", "no model, one page", megabytes, "MB", target="<= 400")
        page.set_default_timeout(120_000)
        page.get_by_role("textbox", name="Message or slash line").fill("Hello, what is a harbour?")
        page.keyboard.press("Enter")
        page.get_by_text("answered").first.wait_for()
        megabytes = _memory(process.pid)
        emit(
            "studio: memory", "the model in the box, after a chat", megabytes, "MB", target="<= 650"
        )
        page.context.close()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
    return took


def _memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _open(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(url)
    page.get_by_role("textbox", name="Message or slash line").wait_for()
    return page


def _ours(browser: Browser, folder: Path, many: int, seconds: int) -> None:
    with NativeSpace() as space, Studio() as studio:
        url = studio.launch(
            0, journal=folder / "runs.db", token=TOKEN, prevent_thread_lock=True, quiet=True
        )
        space.add(studio.user)
        teller = space.add(Agent("Teller"))
        _open(browser, url).context.close()
        began = time.perf_counter()
        page = _open(browser, url)
        emit("studio: a page to write in", "warm", time.perf_counter() - began, "s", target="<= 3")
        page.evaluate(_WATCH)

        def tell(number: int) -> None:
            content = f"at {time.time() * 1000:.1f} message {number}"
            teller.send({"to": "User", "action": {"name": "say", "args": {"content": content}}})

        _paced(tell, seconds)
        page.evaluate(_REACHED, seconds * PER_SECOND)
        late = sorted(page.evaluate("window.late"))
        worst = late[int(len(late) * 0.99)]
        variant = f"on the page, at {PER_SECOND} a second"
        emit(
            "studio: a message", variant, statistics.median(late), "ms", p99=worst, target="<= 300"
        )
        for number in range(many):
            tell(number)
        there = f"{min(many + seconds * PER_SECOND, MANY):,} messages"
        page.get_by_role("status").get_by_text(there).wait_for(timeout=300_000)
        for what, clicks in _CLICKS.items():
            took = [page.evaluate(_CLICKED, [each, f"{many - 1:,}"]) for each in clicks]
            variant = f"{many:,} messages, {what}"
            emit("studio: a click", variant, statistics.median(took), "ms", target="<= 200")
        megabytes = _page_memory(page)
        emit("studio: memory of the page", f"{many:,} messages", megabytes, "MB", target="<= 60")
        page.evaluate("window.late.length = 0")
        tell(-1)
        page.evaluate(_REACHED, 1)
        late = page.evaluate("window.late[0]")
        emit(f"studio: {many:,} messages", "one more", late, "ms", target="<= 200")
        page.context.close()


def _paced(tell: Any, seconds: int) -> None:
    began = time.perf_counter()
    waits = threading.Event()
    for number in range(seconds * PER_SECOND):
        left = began + number / PER_SECOND - time.perf_counter()
        if left > 0:
            waits.wait(left)
        tell(number)


_WATCH = """() => {
  window.late = [];
  new MutationObserver((all) => {
    for (const each of all)
      for (const row of each.addedNodes) {
        const at = /at ([0-9.]+) message/.exec(row.textContent || "");
        if (at) window.late.push(Date.now() - +at[1]);
      }
  }).observe(document.querySelector('.s-messages'), { childList: true });
}"""
_REACHED = """async (count) => {
  while (window.late.length < count) await new Promise((done) => setTimeout(done, 20));
}"""
_FIELD, _EARLIER = ".s-chat .s-tools input", ".s-chat .s-scroll > button"
_CLICKS = {  # what is clicked or written into, what is written, and what then is there
    "filter by words": [[_FIELD, f"message {n}8", f"message {n}8"] for n in range(1, 10)],
    "filter by sender": [
        [_FIELD, "from:A", "No message passes"],
        [_FIELD, "from:Teller", "message {last}"],
    ]
    * 3,
    "no filter": [[_FIELD, "", "message {last}"]],
    "earlier messages": [[_EARLIER, None, None]] * 5,
    "another tab and back": [["#to-runs", None, None], ["#to-space", None, None]],
    "an agent": [[".s-agents button", None, None]],
}
_CLICKED = """async ([[selector, text, shown], last]) => {
  const each = document.querySelector(selector);
  const log = document.querySelector('.s-messages');
  const before = log.childElementCount;
  const began = performance.now();
  if (text === null) each.click();
  else {
    each.value = text;
    each.dispatchEvent(new Event('input'));
  }
  const is = () => selector.includes('s-scroll') ? log.childElementCount > before
    : shown === null || log.textContent.includes(shown.replace('{last}', last.replace(',', '')));
  while (!is() && performance.now() - began < 5000) await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


_FILTER_RUNS = ".s-runs .s-tools input"
_RUN_CLICKS = {
    "filter": [[_FILTER_RUNS, f"run-77{n}", f"run-77{n}"] for n in range(5)],
    "no filter": [[_FILTER_RUNS, "", "10,001 runs"]],
    "a run of 100,000 entries": [["[data-run=long]", None, "more of 99,503 entries"]],
    "its timeline": [[".s-views button:nth-child(2)", None, "0 ms"]],
    "a step of it": [[".s-entry > button", None, "Copy its address"]],
}


def _runs(browser: Browser, folder: Path) -> None:
    with Journal(folder / "many.db") as journal, Studio() as studio, ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, _recorded(journal)).result()  # this thread has Playwright's loop
        url = studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        page = _open(browser, url)
        page.get_by_role("tab", name="Runs", exact=True).click()
        page.get_by_text("10,001 runs").wait_for()
        for what, clicks in _RUN_CLICKS.items():
            if what == "a step of it":
                page.get_by_role("button", name="Steps", exact=True).click()
                page.locator(".s-entry > button").first.wait_for()
            took = [page.evaluate(_SHOWN, each) for each in clicks]
            variant = f"10,000 runs, {what}"
            emit("studio: a click", variant, statistics.median(took), "ms", target="<= 200")
        emit("studio: memory of the page", "10,000 runs", _page_memory(page), "MB", target="<= 60")
        page.context.close()


async def _recorded(journal: Journal) -> None:
    """10,000 runs of five entries, and one of 100,003."""
    for id, steps in (*((f"run-{number}", 1) for number in range(10_000)), ("long", 50_000)):
        part = await journal.begin(id, "Counter", "me", f"count {steps}")
        part.note("begun", {"kind": "Counter", "agent": "me", "fingerprint": None, "task": "count"})
        for number in range(steps):
            part.note("started", {"key": f"count.{number}", "args": {"text": "count"}})
            part.note("ended", {"key": f"count.{number}", "result": "count"})
        part.note("state", {"state": {"count": steps}, "appended": {}})
        part.note("over", {"reason": "done"})
        part.end("done")
        await part.commit()
        part.close()


_SHOWN = """async ([selector, text, shown]) => {
  const each = document.querySelector(selector);
  const part = document.getElementById('studio-runs');
  const began = performance.now();
  if (text === null) each.click();
  else {
    each.value = text;
    each.dispatchEvent(new Event('input'));
  }
  const is = () => part.textContent.includes(shown);
  while (!is() && performance.now() - began < 5000) await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def _page_memory(page: Page) -> float:
    """Megabytes of the page's objects, and of its nodes at a kilobyte each, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    measured = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return float(measured["JSHeapTotalSize"] + 1_000 * measured["Nodes"]) / 1e6


def _map(browser: Browser, folder: Path, citizens: int, target: int) -> None:
    with NativeSpace() as space, Studio() as studio:
        journal = folder / f"town-{citizens}.db"
        url = studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        space.add(studio.user)
        studio.society.set_up(SimulateOrder(citizens))
        page = _open(browser, url)
        page.set_default_timeout(120_000)
        page.get_by_role("tab", name="Society", exact=True).click()
        page.get_by_text("step 1 of 96 · paused").wait_for()
        page.get_by_label("Speed").select_option("as fast as it can")
        page.get_by_role("button", name="Play").click()
        for variant, key in ("playing", None), ("zooming", "+-"):
            drawn = page.evaluate(_DRAWN, key)
            variant = f"{citizens:,} citizens, {variant}"
            emit("studio: the map", variant, drawn, "frames/s", target=f">= {target}")
        page.context.close()


_DRAWN = """async (keys) => {
  const canvas = document.querySelector('.s-map canvas');
  const clock = document.querySelector('.s-control progress');
  const frame = () => new Promise(requestAnimationFrame);
  while (clock.value < 32) await frame();
  const began = performance.now();
  let frames = 0;
  for (; performance.now() - began < 5000; frames++) {
    if (keys) canvas.dispatchEvent(new KeyboardEvent('keydown', { key: keys[frames % 2] }));
    await frame();
  }
  return frames / 5;
}"""


def _gradio(browser: Browser, many: int) -> None:
    import gradio

    history = [{"role": "assistant", "content": f"message {n}"} for n in range(many)]
    with gradio.Blocks(analytics_enabled=False) as blocks:
        chat = gradio.Chatbot(height=500)
        fill, more, stream = (gradio.Button(each) for each in ("fill", "more", "stream"))
        fill.click(lambda: history, None, chat)
        more.click(lambda told: [*told, {"role": "user", "content": "one more"}], chat, chat)

        def streamed() -> Any:
            told: list[dict[str, str]] = []
            for number in range(UPDATES):
                told.append({"role": "assistant", "content": f"streamed {number}."})
                yield told

        stream.click(streamed, None, chat)
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    page = browser.new_page()
    page.set_default_timeout(120_000)
    page.goto(url)
    for button, text, what in (
        ("stream", f"streamed {UPDATES - 1}.", f"{UPDATES} updates"),
        ("fill", f"message {many - 1}", f"showing {many:,} messages"),
        ("more", "one more", f"one more after {many:,}"),
    ):
        began = time.perf_counter()
        page.get_by_role("button", name=button, exact=True).click()
        page.get_by_text(text, exact=True).first.wait_for(state="attached")
        emit("studio: gradio's Chatbot", what, time.perf_counter() - began, "s")
    page.close()
    blocks.close()


if __name__ == "__main__":
    sys.exit(main())
