"""A phone, 390 by 844: in forty tasks no control is outside, covered, or smaller than a finger."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from moothall import ACCESS_REQUESTED, Agent, NativeSpace, action
from moothall.studio import Studio

PHONE = {"width": 390, "height": 844}

UNUSABLE = """() => {
  const LEAST = 24; // pixels: WCAG 2.2, the size of a target
  const CONTROLS = "button, a[href], input, select, textarea, summary, [role=tab], [role=button]";
  const seen = (it) => it.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
    && it.getBoundingClientRect().width > 0 && !it.disabled;
  const named = (it) => (it.getAttribute("aria-label") || it.innerText || it.labels?.[0]?.innerText
    || it.title || it.className).trim().replace(/\\s+/g, " ").slice(0, 50);
  const scrolls = (it) => { // it is reached by scrolling what it stands in
    for (let up = it.parentElement; up; up = up.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(up).overflowX)
        && up.scrollWidth > up.clientWidth) return true;
    return false;
  };
  const target = (it) => (it.type === "checkbox" && it.labels?.[0]) || it;
  const inSentence = (it) => it.matches("a") && getComputedStyle(it).display === "inline";
  const modal = [...document.querySelectorAll("dialog[open], .s-town.large")].pop();
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page is too wide");
  const everything = [...document.querySelectorAll("*")];
  const scrolled = everything.map((it) => [it, it.scrollTop, it.scrollLeft]);
  for (const it of [...(modal || document).querySelectorAll(CONTROLS)].filter(seen)) {
    const is = target(it), name = `${it.tagName.toLowerCase()} ${JSON.stringify(named(it))}`;
    let box = is.getBoundingClientRect();
    if ((box.left < -0.5 || box.right > innerWidth + 0.5) && !scrolls(is)) {
      found.push(`${name} is outside: ${Math.round(box.left)} to ${Math.round(box.right)}`);
      continue;
    }
    if (!inSentence(it) && Math.min(box.width, box.height) < LEAST - 0.5)
      found.push(`${name} is small: ${Math.round(box.width)} by ${Math.round(box.height)}`);
    is.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    box = (inSentence(it) && is.getClientRects()[0]) || is.getBoundingClientRect();
    const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const reached = top && (is.contains(top) || top.contains(is)
      || [...(it.labels || [])].some((each) => each.contains(top)));
    if (!reached) found.push(`${name} is covered by ${top ? `${top.className} ${named(top)}` : 0}`);
  }
  for (const [it, top, left] of scrolled)
    if (it.scrollTop !== top || it.scrollLeft !== left)
      it.scrollTo({ top, left, behavior: "instant" });
  return [...new Set(found)];
}"""
"""What a finger cannot press, a line each: a control outside the window, covered, or too small."""


class Clerk(Agent):
    """Hears, adds, and pays where it may."""

    def __init__(self) -> None:
        super().__init__("Clerk", receive_own_broadcasts=False)
        self.free = threading.Semaphore(0)

    @action
    async def say(self, content: str) -> str:
        """Say something to the clerk."""
        if content == "wait":
            await asyncio.to_thread(self.free.acquire)
        return f"You said {content}"

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, account: str, amount: float) -> str:
        """Pay an amount."""
        return f"{amount} to {account}"


class Phone:
    """Does tasks on a page and collects what a finger cannot reach after each."""

    def __init__(self, page: Page, clerk: Clerk) -> None:
        self.page = page
        self.clerk = clerk
        self.done = 0
        self.faults: list[str] = []

    def did(self, task: str, *shown: Locator) -> None:
        """Look at the page once what a task leads to is shown."""
        for each in shown:
            expect(each).to_be_visible()
        self.done += 1
        self.faults += [f"{task}: {each}" for each in self.page.evaluate(UNUSABLE)]

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    def press(self, name: str, within: Locator | None = None) -> None:
        (within or self.page).get_by_role("button", name=name, exact=True).first.click()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights and no key; the state of the user is a folder of the test."""
    for name in ("OPENAI_API_KEY", "MOOTHALL_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def tasks_in_space(phone: Phone) -> None:
    page, clerk = phone.page, phone.clerk
    phone.tab("Space")
    phone.did("look at the agents", page.get_by_role("list", name="Agents"))
    line = page.get_by_role("textbox", name="Message or slash line")
    line.fill("Hello")
    phone.press("Send")
    phone.did("say to all", page.get_by_text("You said Hello"))
    line.fill("/Cl")
    phone.did("complete a name")
    line.fill("/Clerk.add a:1 b:")
    line.press("Enter")
    phone.did("mistype a line", page.locator(".s-fault").first)
    line.fill("/Clerk.add a:1 b:2")
    line.press("Enter")
    phone.did("call an action", page.get_by_text("answers add"))
    page.get_by_role("searchbox", name="Filter messages").fill("hello")
    phone.did("filter messages", page.get_by_text("2 of 4 messages"))
    page.get_by_role("searchbox", name="Filter messages").fill("")
    page.get_by_role("list", name="Agents").get_by_text("Clerk", exact=True).click()
    talk = page.get_by_role("region", name="With Clerk", exact=True)
    phone.did("talk to one", talk)
    say = page.get_by_role("textbox", name="Say to Clerk", exact=True)
    for word in ("wait", "wait", "second"):
        say.fill(word)
        say.press("Enter")
    phone.did("see what waits", talk.get_by_role("button", name="Take back").nth(1))
    phone.press("Take back", talk)
    expect(talk.get_by_role("button", name="Take back")).to_have_count(1)
    phone.did("take a message back")
    clerk.free.release(3)
    expect(talk.get_by_role("button", name="Take back")).to_have_count(0)
    phone.press("Help as a page", talk)
    phone.did("read an agent's help", page.get_by_role("dialog"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    if not talk.get_by_role("button", name="pay", exact=True).is_visible():
        talk.locator("summary").get_by_text("What Clerk does").click()
    phone.press("pay", talk)
    phone.did("write a call at a click")
    say.fill('/Clerk.pay account:"DE02 1203 0000 0000 2020 51" amount:180.5')
    say.press("Enter")
    card = page.get_by_role("article", name="approval")
    phone.did("see a card in a conversation", card)
    phone.press("Permit", card)
    expect(card).to_have_count(0)
    phone.did("permit")
    say.fill('/Clerk.pay account:"DE02" amount:1')
    say.press("Enter")
    card.get_by_label("Reason for refusing").fill("too much")
    phone.press("Refuse", card)
    expect(card).to_have_count(0)
    phone.did("refuse with a reason")
    phone.press("Close", talk)
    phone.did("close a conversation", line)


def tasks_with_runs(phone: Phone) -> None:
    page = phone.page
    panel = page.get_by_role("tabpanel")
    phone.tab("Act and review")
    phone.did("see an empty tab", panel.get_by_role("button", name="A refund that you permit"))
    form = page.locator("#act-new")
    expect(form.get_by_label("Task", exact=True)).to_be_visible()
    form.get_by_text("More", exact=True).click()
    phone.did("unfold a form", form.get_by_label("Seconds"))
    form.get_by_label("Task", exact=True).fill("Look")
    form.get_by_label("Seconds").fill("61,5")
    phone.press("Start", form)
    phone.did("mistype a field", form.get_by_role("alert"))
    panel.get_by_role("button", name="A refund that you permit").click()
    card = page.get_by_role("article", name="approval")
    phone.did("see a run ask", card)
    phone.press("Edit arguments", card)
    phone.did("edit its arguments", card.get_by_label("Argument amount"))
    phone.press("Undo the edits", card)
    phone.press("Permit", card)
    phone.did("see its answer", page.get_by_text("You have your money back.").first)
    phone.tab("Research")
    phone.did("see where research begins", page.locator("#tab-research form").first)
    phone.tab("Space")
    phone.did("come back")
    phone.tab("Research")
    page.get_by_role("tabpanel").get_by_role("button", name="A report on three").click()
    report = page.get_by_label("Narrative").frame_locator("iframe").locator("body")
    expect(report).to_contain_text("about a year")
    phone.did("read a report")
    page.get_by_label("Question about the report").fill("How long?")
    page.get_by_label("Question about the report").press("Enter")
    phone.did("ask a report", page.get_by_label("Answers from the report"))
    phone.tab("Runs")
    phone.press("All runs")
    rows = page.get_by_role("list", name="Runs").locator("[data-run]")
    phone.did("see the runs", rows.first)
    report_run = rows.filter(has_text="Researcher").get_attribute("data-run") or ""
    page.get_by_role("searchbox", name="Filter runs").fill("Cashier")
    expect(rows).to_have_count(1)
    phone.did("filter the runs")
    phone.press("What they cost")
    phone.did("see what they cost")
    page.get_by_role("searchbox", name="Filter runs").fill("")
    rows.filter(has_text="Cashier").first.click()
    phone.did("open a run", page.get_by_role("group", name="How it is shown"))
    for view in ("Timeline", "Transcript", "Calls", "Cost", "Steps"):
        phone.press(view, page.get_by_role("group", name="How it is shown"))
        phone.did(f"see its {view.lower()}")
    page.get_by_label("Search the steps of this run").fill("money")
    phone.press("Search")
    phone.did("search a run", page.get_by_label("Found"))
    phone.press("Share")
    phone.did("share a run", page.get_by_label("Days"))
    page.keyboard.press("Escape")
    phone.press("Replay")
    phone.did("replay a run", page.get_by_role("region", name="Replay"))
    page.get_by_label("Compare with").fill(report_run)
    phone.press("Compare")
    phone.did("compare two runs", page.get_by_label("Comparison"))
    phone.press("Close", page.get_by_label("Comparison"))
    phone.press("All runs")
    phone.did("go back to all runs", rows.first)


def tasks_in_society(phone: Phone) -> None:
    page = phone.page
    phone.tab("Society")
    panel = page.locator("#tab-society")
    phone.did("see where a town begins", panel.get_by_role("button", name="Play a town"))
    panel.get_by_role("button", name="Play a town").first.click()
    expect(panel).to_contain_text("playing")
    phone.did("play a town", panel.get_by_label("Speed"))
    page.get_by_role("button", name="Pause", exact=True).last.click()
    phone.did("pause it")
    page.get_by_label("Citizen's number or name").fill("1")
    page.get_by_label("Citizen's number or name").press("Enter")
    phone.did("find a citizen", page.get_by_text("Money", exact=True).first)
    phone.press("Large")
    phone.did("see the map large")
    phone.press("Large")
    for part in page.get_by_label("What is shown beside the map").get_by_role("button").all():
        part.click()
        phone.did(f"see beside the map {part.inner_text()}")
    page.get_by_role("button", name="Each gets 50 dollars").click()
    phone.did("try a rule", page.get_by_role("group", name="The town beside it"))


ROUNDS = {tasks_in_space: 15, tasks_with_runs: 24, tasks_in_society: 10}
"""How many tasks each does."""


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param(each, marks=[] if each is tasks_in_space else pytest.mark.long)
        for each in ROUNDS
    ],
    ids=lambda each: each.__name__,
)
def test_phone_has_each_control_within_the_window_uncovered_and_as_large_as_a_finger(
    bare: None, studio: Studio, open_page: Callable[..., Page], tasks: Callable[..., None]
) -> None:
    with NativeSpace() as space:
        clerk = space.add(Clerk())
        space.add(studio.user)
        phone = Phone(open_page(viewport=PHONE), clerk)
        tasks(phone)
        assert phone.faults == []
        assert phone.done == ROUNDS[tasks]
