"""The tab Runs: runs under way, ended and killed; their trees, totals, replays and forks."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, expect

from journal.process import Processes
from models.openai_server import HANG, OpenAIServer, call, calls, text
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    DualActAgent,
    DualActConfig,
    Journal,
    ModelReply,
    ReActAgent,
    ScriptedModel,
    Usage,
    Waiting,
    action,
)
from moothall.studio import Studio
from studio.conftest import a_studio, pages
from studio.killed import RUN, teller

# One studio and one page serve all of them.


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all runs of this file."""
    with a_studio(tmp_path_factory.mktemp("runs")) as studio:
        yield studio


@pytest.fixture(scope="module")
def open_page(browser: Browser, studio: Studio) -> Iterator[Callable[..., Page]]:
    """Opens its pages."""
    with pages(browser, studio) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(open_page: Callable[..., Page]) -> Page:
    """A page that all stories are looked at on, before there is a run."""
    page = open_page("Runs")
    expect(page.get_by_text("No runs yet.")).to_be_visible()
    return page


async def count(journal: Journal, run_id: str, steps: int = 1, text: str = "") -> None:
    """A run of an orchestrator of one's own, of two entries a step and three more."""
    part = await journal.begin(run_id, "Counter", "me", f"count {steps}")
    about = {"kind": "Counter", "agent": "me", "fingerprint": None}
    part.note("begun", {**about, "task": f"count {steps}"})
    for number in range(steps):
        part.note("started", {"key": f"count.{number}", "args": {"text": text}})
        part.note("ended", {"key": f"count.{number}", "result": text})
    part.note("state", {"state": {"count": steps}, "appended": {}})
    part.note("over", {"reason": "done"})
    part.end("done")
    await part.commit()
    part.close()


def aside(work: Callable[[], object]) -> None:
    """Do it in a thread of its own: this one has Playwright's loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def choose(page: Page, run: str) -> Locator:
    """Choose a run in the list; gives what is shown of it."""
    listed = page.get_by_role("list", name="Runs")
    listed.locator(f'[data-run="{run}"]').click()
    view = page.get_by_role("region", name="Run", exact=True)
    shows(view, run)
    return view


def shows(view: Locator, run: str) -> None:
    """Wait until a run is shown."""
    expect(view.locator("code").first).to_have_text(run)


def dual(journal: Journal) -> DualActAgent:
    """H has R look, and accepts; R's model has a price, H's has none."""

    @action
    def look(path: str) -> str:
        """Look at a file."""
        raise ValueError(f"there is no {path}")

    answers = [
        '{"action": "CONTINUE", "new_instruction": "Look.", "reasoning": "so"}',
        '{"action": "TERMINATE", "new_instruction": "", "reasoning": "so"}',
    ]
    h = ScriptedModel([ModelReply(each, usage=Usage(100, 10)) for each in answers])
    h.name = "openai:unknown"
    calls = (Call("1", "look", {"path": "<b>notes</b>"}),)
    r = ScriptedModel([ModelReply("", calls, Usage(1_000, 200)), "There is nothing."])
    r.name = "openai:gpt-4.1"
    config = DualActConfig(
        human=ReActAgent("boss", h), reactive=ReActAgent("worker", r, actions=[look])
    )
    return DualActAgent(config, "pair", journal=journal)


def test_run_is_a_tree_of_parts_and_steps(studio: Studio, page: Page) -> None:
    """Totals, parts, steps with their exact input and output, the replay, a copy."""
    agent = dual(studio.journal)
    aside(lambda: agent.reply_sync("Find the notes.", run_id="pair-1"))
    page.get_by_role("tab", name="Runs", exact=True).click()
    row = page.locator("[data-run=pair-1]")
    expect(row.locator("span")).to_contain_text(["pair", "finished", "1,420 tokens", "$0.0036"])
    assert (row.bounding_box() or {})["width"] > 1000  # a table as wide as the window
    view = choose(page, "pair-1")
    state = view.locator(".s-entry.state").first
    expect(state).to_be_hidden()
    view.get_by_role("button", name="Every entry").click()
    expect(state).to_be_visible()
    view.get_by_role("button", name="Every entry").click()
    # 1,000 tokens in at 2 and 200 out at 8 US dollars a million
    for figure in ("cost$0.0036and 220 tokens", "model calls4", "tool calls1", "errors1"):
        expect(view.locator("dl")).to_contain_text(figure)
    expect(view.locator("summary")).to_contain_text(["H1 · boss", "R1 · worker", "H2 · boss"])
    steps, figures = (each.bounding_box() for each in (view.locator(".s-tree"), view.locator("dl")))
    assert (steps or {})["y"] < (figures or {})["y"]
    look = view.get_by_role("button", name="tool look")
    expect(look).to_contain_text("there is no <b>notes</b>")
    expect(look).to_contain_text("failed")
    look.click()
    expect(view.get_by_role("region", name="Input")).to_have_text('{\n "path": "<b>notes</b>"\n}')
    expect(view.get_by_role("region", name="Output")).to_contain_text("there is no <b>notes</b>")
    look.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(view.get_by_role("region", name="Input: message 1, user")).to_contain_text("Look.")
    view.get_by_text("Tools: look", exact=True).click()
    expect(view.get_by_role("region", name="Input: tools")).to_contain_text("Look at a file.")
    view.get_by_role("button", name="Calls", exact=True).click()
    graph = view.get_by_role("figure", name="Who calls whom")
    expect(graph.get_by_role("button", name="agent boss: 2 calls")).to_be_visible()
    graph.get_by_text("As a table").click()
    expect(graph.get_by_role("row", name="worker look action 1")).to_be_visible()
    called = graph.get_by_role("button", name=re.compile("action look: 1 call, .*, 1 error"))
    called.press("Enter")
    expect(view.get_by_role("region", name="Output")).to_contain_text("there is no <b>notes</b>")
    view.get_by_role("button", name="Replay").click()
    replay = view.get_by_role("region", name="Replay")
    expect(replay).to_contain_text("no model was asked, nothing was executed")
    expect(replay).to_contain_text("There is nothing.")
    view.get_by_role("button", name="Fork", exact=True).click()
    shows(view, "pair-1.1")
    expect(page.get_by_role("list", name="Runs")).to_contain_text("pair-1.1, a fork of pair-1")
    expect(view).to_contain_text("It has ended, so nothing is left to resume")
    view.get_by_role("button", name="pair-1", exact=True).click()
    shows(view, "pair-1")
    page.reload()
    shows(view, "pair-1")


def test_call_of_an_action_that_is_not_there_is_a_failed_step(studio: Studio, page: Page) -> None:
    """From the run, a click leads back to the table of all."""
    model = ScriptedModel([{"name": "pay", "args": {}}, "It is paid."])
    aside(lambda: ReActAgent("Clerk", model, journal=studio.journal).reply_sync("Pay", run_id="r"))
    page.get_by_role("tab", name="Runs", exact=True).click()
    view = choose(page, "r")
    step = view.locator(".s-entry.answer")
    expect(step).to_contain_text('unusable: "pay" is not an action')
    expect(step).to_contain_text("failed")
    expect(view.locator("dl")).to_contain_text("errors1")
    page.get_by_role("button", name="All runs").click()
    page.wait_for_url("**/runs")


def test_run_with_a_failed_step_says_so_in_its_row_and_is_found_by_the_column(
    studio: Studio, page: Page
) -> None:
    def find() -> str:
        """Find it."""
        raise ValueError("there is none")

    model = ScriptedModel([{"name": "find", "args": {}}, "I found none."])
    actions = [Action("find", find)]
    aside(
        lambda: ReActAgent("Seeker", model, actions=actions, journal=studio.journal).reply_sync(
            "Find it", run_id="found"
        )
    )
    aside(lambda: asyncio.run(count(studio.journal, "later")))
    page.get_by_role("tab", name="Runs", exact=True).click()
    order, rows = page.get_by_label("Order", exact=True), page.locator("[data-run]")
    expect(page.locator('[data-run="found"]')).to_contain_text("finished1 error")
    expect(rows.first).to_have_attribute("data-run", "later")
    page.get_by_title("Order: most errors first").click()
    expect(rows.first).to_contain_text("error")
    expect(order).to_have_value("errors")
    order.select_option("newest")


@pytest.fixture
def gate() -> Iterator[threading.Semaphore]:
    """Holds up an action as often as it is not released."""
    gate = threading.Semaphore(0)
    yield gate
    gate.release(9)


def test_run_under_way_is_told_to_both_pages(
    studio: Studio, page: Page, open_page: Callable[..., Page], gate: threading.Semaphore
) -> None:
    """One that somebody else began appears by itself, its steps as they come.

    What comes between the press and the release of the mouse takes away no click.
    """

    @action
    async def wait() -> str:
        """Wait."""
        await asyncio.to_thread(gate.acquire)
        return "waited"

    looking = (page, open_page("Runs"))
    views = [each.get_by_role("region", name="Run", exact=True) for each in looking]
    expect(looking[1].get_by_role("searchbox", name="Filter runs")).to_be_visible()
    with Journal(studio.journal.path) as journal:  # as another process has it
        calls = ModelReply("", (Call("1", "wait", {}),), Usage(10, 5))
        model = ScriptedModel([calls, calls, "It is over."])
        agent = ReActAgent("waits", model, actions=[wait], journal=journal)
        run = threading.Thread(target=agent.reply_sync, args=("Wait.",), kwargs={"run_id": "w"})
        run.start()
        for view in views:
            choose(view.page, "w")
            expect(view.get_by_role("button", name="tool wait()")).to_contain_text("under way")
            expect(view.get_by_role("button", name="Resume")).to_have_count(0)
        views[0].get_by_role("button", name="Fork").hover()
        page.mouse.down()
        gate.release()
        for view in views:
            expect(view.locator("dl")).to_contain_text("model calls2")
        page.mouse.up()
        expect(view.page.get_by_role("button", name="fork of w")).to_be_visible()
        expect(views[0].get_by_text("This is a fork of")).to_be_visible()
        page.locator('[data-run="w"]').hover()
        page.mouse.down()
        gate.release()
        run.join()
        expect(page.locator('[data-run="w"]')).to_contain_text("finished")
        page.mouse.up()
    for view in views:
        expect(view.get_by_role("button", name="tool wait()").last).to_contain_text('→ "waited"')
        expect(view.get_by_role("button", name="end finished")).to_contain_text("It is over.")
        expect(view.locator("dl")).to_contain_text("model calls3")
        expect(view.page.get_by_role("list", name="Runs")).to_contain_text("finished")


def test_run_that_waits_for_a_person_says_so(studio: Studio, page: Page) -> None:
    """In the list and above its steps, until its card is answered."""

    @action(access_policy=ACCESS_REQUESTED)
    def delete(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    calls = [Call(path, "delete", {"path": path}) for path in ("a", "b")]
    script = [*(ModelReply("", (each,)) for each in calls), "Done."]
    agent = ReActAgent(
        "cleans",
        ScriptedModel(script),
        actions=[delete],
        approver=studio.cards,
        journal=studio.journal,
    )
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(agent.reply_sync, "Clean.", run_id="c")
        view = choose(page, "c")
        waits = page.locator(".s-badge", has_text="waiting for you")
        expect(waits).to_have_count(2)
        page.get_by_role("button", name="Permit", exact=True).click()
        by_whom = 'permitted by the person at the studio: delete(path="a")'
        view.get_by_role("button", name=by_whom).click()
        expect(view.locator(".s-detail .s-readable")).to_contain_text(by_whom)
        view.get_by_role("button", name=by_whom).click()
        page.get_by_role("button", name="Refuse").click()
        done.result()
        expect(view.get_by_role("button", name="tool delete").last).to_contain_text("refused")
        expect(waits).to_have_count(0)
        expect(view.locator("dl")).to_contain_text("tool calls21 refusederrors0")


def test_run_of_a_killed_process(studio: Studio, page: Page, tmp_path: Path) -> None:
    """Its call in doubt is decided about, in a copy otherwise; gone on with, it is replayed."""
    aside(lambda: asyncio.run(count(studio.journal, "beside")))
    with Processes("studio.killed") as processes:
        assert processes.run(tmp_path, journal=str(studio.journal.path)) == -9
    listed = page.locator(f'[data-run="{RUN}"]')
    expect(listed).to_contain_text("in doubt")
    page.get_by_label("State").select_option("in doubt")
    expect(page.get_by_role("status").get_by_text(re.compile(r"^\d+ of"))).to_be_visible()
    expect(listed).to_be_visible()
    page.goto(f"{studio.url}runs")
    page.get_by_role("region", name="In doubt").get_by_role(
        "button", name="Move the coins."
    ).click()
    view = page.get_by_role("region", name="Run", exact=True)
    shows(view, RUN)
    expect(view.get_by_role("button", name="Resume")).to_have_count(0)
    expect(view.get_by_role("button", name="tool transfer(coins=3)")).to_contain_text("in doubt")
    view.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("has not ended")).to_be_visible()
    view.get_by_role("button", name="Transcript").click()
    call = view.locator(".s-call")
    expect(call).to_contain_text("transferin doubt")
    view.get_by_role("button", name="Steps", exact=True).click()
    doubt = view.get_by_role("article", name="Call in doubt 1")
    expect(doubt).to_contain_text("transfer(coins=3)")
    view.get_by_role("button", name="Fork", exact=True).click()
    shows(view, f"{RUN}.1")
    doubt.get_by_role("button", name="Skip").click()
    expect(view.get_by_text("skip it")).to_be_visible()
    expect(doubt).to_have_count(0)
    view.get_by_text("Decide otherwise").click()
    doubt.get_by_role("button", name="Repeat").click()
    expect(view.get_by_text("run it again")).to_be_visible()
    choose(page, RUN)
    doubt.get_by_role("button", name="Done with this result").click()
    expect(page.get_by_text("write the result of the call first")).to_be_visible()
    doubt.get_by_role("textbox", name="Result of transfer(coins=3)").fill("moved 3")
    doubt.get_by_role("button", name="Done with this result").click()
    expect(view.get_by_text("it took effect, result")).to_be_visible()
    assert RUN in [each.id for each in studio.journal.runs(decided_by="User")]
    expect(listed).to_contain_text("stopped")
    paid: list[str] = []
    agent = teller(studio.journal, paid.append)
    aside(lambda: agent.reply_sync("Move the coins.", run_id=RUN))
    assert paid == []
    expect(view.get_by_role("button", name="tool transfer(coins=3)")).to_contain_text("moved 3")
    expect(view.get_by_role("button", name="Resume")).to_have_count(0)
    view.get_by_role("button", name="Replay").click()
    expect(view.get_by_role("region", name="Replay")).to_contain_text("All is moved.")


def test_killed_run_is_resumed(studio: Studio, page: Page, tmp_path: Path) -> None:
    """A process of `moothall act` is killed while its model answers; the studio resumes it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.md").write_text("Hello")
    order = ("moothall", "act", "List them", "--journal", str(studio.journal.path), "--run-id", "a")
    with OpenAIServer(calls(call("list_files", "{}")), HANG) as server:
        command = (sys.executable, "-m", *order, "--model", f"{server.url}#m", "--yes-read")
        with subprocess.Popen(command, cwd=folder) as killed:
            server.wait_for_request()
            server.wait_for_request()
            killed.kill()
        server.answers = [text("There is notes.md.")]
        view = choose(page, "a")
        expect(view.get_by_role("button", name="set up")).to_contain_text(f"m in {folder}")
        expect(view.get_by_role("button", name="model").last).to_contain_text("cut off")
        view.get_by_role("button", name="Resume", exact=True).click()
        expect(view.get_by_role("button", name="end finished")).to_contain_text("notes.md")
        expect(view.locator("dl")).to_contain_text("model calls2")
        page.reload()
        expect(view.get_by_role("button", name="model").nth(1)).to_contain_text("cut off")
        assert len(server.requests) == 3


@pytest.mark.parametrize("seen", (True, False), ids=("chosen before", "chosen just now"))
def test_figures_of_a_run_that_ends_while_they_load(studio: Studio, page: Page, seen: bool) -> None:
    """An answer that comes after the run's end does not hide its final figures."""
    id, held = f"late-{seen}", list[tuple[Route, APIResponse]]()

    async def asked(number: int, *ends: str) -> None:
        """Let the run ask its model once more."""
        part = await studio.journal.begin(id, "Asker", "me", "ask")
        about = {"key": f"{number}.model", "about": {"model": "m"}}
        if number == 1:
            part.note("begun", {"kind": "Asker", "agent": "me", "fingerprint": None, "task": "ask"})
        part.note("started", about)
        part.note("ended", {**about, "result": {"type": "reply", "text": "", "usage": [10, 5]}})
        for reason in ends:
            part.note("over", {"reason": reason})
            part.end(reason)
        await part.commit()
        part.close()

    def hold(route: Route) -> None:
        held.append((route, route.fetch()))

    aside(lambda: asyncio.run(asked(1)))
    listed = page.locator(f'[data-run="{id}"]')
    view = page.get_by_role("region", name="Run", exact=True)
    if seen:
        choose(page, id)
    asks = f"**/studio/runs/run?run={id}"
    page.route(asks, hold, times=1)
    with page.expect_request(asks):
        if seen:
            aside(lambda: asyncio.run(asked(2)))
        else:
            listed.click()
    while not held:
        page.wait_for_timeout(10)
    aside(lambda: asyncio.run(asked(3, "done")))
    expect(listed).to_contain_text("finished")
    final = f"model calls{3 if seen else 2}"
    if seen:
        expect(view.locator("dl")).to_contain_text(final)
    ((route, answer),) = held
    route.fulfill(response=answer)
    page.evaluate("fetch('/studio/cards').then((each) => each.text())")
    expect(view.locator("dl")).to_contain_text(final)
    expect(view.get_by_role("button", name="Resume")).to_have_count(0)


@pytest.mark.long
def test_thousand_runs_and_ten_thousand_entries(browser: Browser, tmp_path: Path) -> None:
    """The newest are listed first, a part of them; of a long run the first entries."""

    async def made(journal: Journal) -> None:
        for number in range(1_000):
            await count(journal, f"run-{number:03}")
        await count(journal, "long", 5_000)

    with a_studio(tmp_path) as studio, pages(browser, studio) as open_page:
        aside(lambda: asyncio.run(made(studio.journal)))
        page = open_page("Runs")
        runs = page.get_by_role("list", name="Runs")
        expect(page.get_by_text("1,001 runs")).to_be_visible()
        expect(runs.get_by_role("button")).to_have_count(201)
        expect(runs.get_by_role("button").first).to_contain_text("long")
        page.get_by_role("searchbox", name="Filter runs").fill("RUN-00")
        expect(page.get_by_text("10 of 1,001 runs")).to_be_visible()
        page.get_by_role("searchbox", name="Filter runs").fill("")
        page.get_by_text("count 5000").click()
        more = page.locator(".s-more")  # no role, which is dear to find among thousands of rows
        expect(more).to_have_text("Show 500 more of 9,503 entries")
        more.locator("button").click()
        expect(more).to_have_text("Show 500 more of 9,003 entries")
        expect(page.locator(".s-entry")).to_have_count(501)
        expect(page.locator(".s-entry").last).to_contain_text("under way")  # its end is not loaded


def test_runs_that_are_large_damaged_or_gone(studio: Studio, page: Page) -> None:
    """Of a large text the beginning is sent until it is asked for.

    A text that is written from right to left turns nothing beside it around. Of a damaged run the
    page says which entry it is, and goes on with the others.
    """
    large = "\ud800" + "x" * 149_999  # a half of a character, as JSON may have it

    async def made() -> None:
        for run in ("gone", "bad"):
            await count(studio.journal, run)
        await count(studio.journal, "large", text=large)

    aside(lambda: asyncio.run(made()))
    asked = ReActAgent("own", ScriptedModel(["نعم"]), journal=studio.journal)
    aside(lambda: asked.reply_sync("متى يفتح الميناء؟", run_id="0abc"))
    whole = "(id) => id.getClientRects().length"  # its digit does not go to the other side
    assert choose(page, "0abc").locator("h3 code").evaluate(whole) == 1
    sent = studio.runs.entries("large")[1]
    assert (sent["cut"], sent["data"]["args"]["text"]) == (True, large[:2_000] + " …")
    assert studio.runs.entry("large", 2)["data"]["args"] == {"text": large}
    view = choose(page, "large")
    with sqlite3.connect(studio.journal.path) as db:
        bad = "(SELECT number FROM runs WHERE id = 'bad')"
        db.execute(f"UPDATE entries SET data = '{{}}' WHERE place = ({bad} << 32 | 3)")
        db.execute("DELETE FROM runs WHERE id = 'gone'")
    db.close()
    runs = page.get_by_role("list", name="Runs")
    runs.get_by_role("button", name="bad").click()
    expect(page.get_by_text("entry 3 of run 'bad' is not what was written")).to_be_visible()
    expect(runs.get_by_role("button", name="gone")).to_have_count(0)
    page.goto(f"{studio.url}runs/gone")
    expect(page.get_by_text("has no run 'gone'")).to_be_visible()
    expect(page.get_by_label("Search the steps of this run")).to_be_hidden()
    choose(page, "large")
    view.get_by_role("button", name="step count.0").click()
    view.get_by_role("button", name="Show all 150,000 characters").click()
    expect(view.get_by_role("region", name="Output")).to_have_text(re.compile("^.x{149999}$"))


def test_cost_of_runs_is_drawn_over_time(studio: Studio, page: Page) -> None:
    """By agent, model and thread, in tokens and in money; of a run alone, too."""
    aside(lambda: dual(studio.journal).reply_sync("Look.", run_id="cost", thread="ann"))
    page.goto(f"{studio.url}runs")
    chart = page.locator(".s-overview figure")
    expect(chart).to_have_accessible_name(re.compile("Tokens by agent: .*pair"))
    page.get_by_label("By what").select_option("by model")
    expect(chart).to_have_accessible_name(re.compile("openai:gpt-4.1"))
    listed = page.get_by_role("region", name="Run", exact=True).get_by_role("row")
    expect(listed.filter(has_text="openai:gpt-4.1")).to_contain_text("$")
    expect(listed.filter(has_text="openai:unknown")).to_contain_text("no price")
    for name, price in (("openai:unknown", "not known"), ("scripted", "$0")):
        model = ScriptedModel([ModelReply("Done.", usage=Usage(50, 5))])
        model.name = name
        agent = ReActAgent(name.partition(":")[2] or "free", model, journal=studio.journal)
        aside(lambda agent=agent: agent.reply_sync("Do it.", run_id=f"of-{agent.id}"))
        page.get_by_label("By what").select_option("by agent")
        row = listed.filter(has=page.get_by_role("rowheader", name=str(agent.id), exact=True))
        expect(row.get_by_role("cell").nth(3)).to_have_text(price)
    page.get_by_label("By what").select_option("by thread")
    page.get_by_label("What is added up").select_option("Cost")
    expect(chart).to_have_accessible_name(re.compile(r"Cost by thread: .*ann \$"))
    page.get_by_label("When").select_option("last day")
    page.get_by_label("Order").select_option("the dearest first")
    expect(page.locator('[data-run="cost"]')).to_contain_text("$0.0036")
    page.set_viewport_size({"width": 390, "height": 844})  # nothing is wider than a phone
    page.get_by_role("button", name="What they cost").click()
    expect(page.get_by_role("heading", name="By thread")).to_be_in_viewport()
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 800})
    view = choose(page, "cost")
    view.get_by_role("button", name="Cost", exact=True).click()
    of_run = view.get_by_role("figure", name=re.compile("Tokens by agent"))
    expect(of_run).to_have_accessible_name(re.compile("worker 1,.*boss 2"))
    of_run.get_by_text("As a table").click()
    expect(of_run.get_by_role("columnheader", name="worker")).to_be_visible()
    view.get_by_role("button", name="Steps", exact=True).click()
    page.get_by_label("When").select_option("any time")


def test_run_has_an_address_and_is_compared(studio: Studio, page: Page) -> None:
    """A step has one too; the browser's Back leads back. As a timeline and as a transcript.

    Its steps are searched; a fork from a step has what came before it, and the first difference
    from the original is named. It is exported as a file that a journal reads.
    """

    @action
    def look(path: str) -> str:
        """Look at a file."""
        return f"{path} is **empty**"

    calls = ModelReply("I look.", (Call("1", "look", {"path": "a.md"}),), Usage(1_000, 200))
    for run, last in (("tale", "It is empty."), ("tale-2", "Nobody wrote it.")):
        model = ScriptedModel([calls, last])
        agent = ReActAgent("files", model, actions=[look], journal=studio.journal)
        aside(lambda agent=agent, run=run: agent.reply_sync("Read a.md.", run_id=run))  # type: ignore[misc]
    view = choose(page, "tale")
    page.wait_for_url("**/runs/tale")
    page.get_by_label("Search the steps of this run").fill("EMPTY")
    page.keyboard.press("Enter")
    found = view.get_by_role("region", name="Found")
    expect(found).to_contain_text('look: "a.md is **empty**"')
    said = found.get_by_role("listitem").filter(has_text="turn finished").first
    expect(said).to_contain_text("a.md is **empty**")  # the words that were searched for
    found.get_by_role("listitem").filter(has_text="tool result: look").get_by_role("button").click()
    page.wait_for_url(re.compile(r"/runs/tale/\d+$"))
    expect(view.locator(".s-readable")).to_contain_text("a.md is empty")  # as Markdown
    step = page.url
    page.reload()
    view.get_by_text("Output, exactly as recorded").click()
    expect(view.get_by_role("region", name="Output")).to_contain_text("a.md is **empty**")
    answer = (
        view.get_by_role("group", name="Steps").get_by_role("button").filter(has_text="I look.")
    )
    answer.click()
    expect(view.locator(".s-called")).to_contain_text(re.compile("calls look\\s*path\\s*a.md"))
    answer.click()
    view.get_by_role("button", name="Timeline").click()
    bars = view.get_by_role("region", name="Timeline").get_by_role("button")
    expect(bars).to_contain_text(["model", "look(", "model"])
    view.get_by_role("button", name="Transcript").click()
    expect(view.locator(".s-story")).to_contain_text("It is empty.")
    view.get_by_role("button", name="Steps", exact=True).click()
    view.get_by_role("button", name="Open in Act and review").click()
    page.wait_for_url("**/act/tale")
    expect(page.locator("#tab-act")).to_contain_text("It is empty.")
    page.go_back()
    expect(view.get_by_role("button", name="Fork after this step")).to_be_visible()
    assert page.url == step
    view.get_by_role("button", name="Fork after this step").click()
    shows(view, "tale.1")
    expect(view.locator("dl").first).to_contain_text("tokens0and 1,200 copied")
    assert studio.journal.entries("tale.1")[-1].sequence == int(step.rpartition("/")[2])
    view.get_by_label("Compare with").fill("ale-2")
    view.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url("**/runs/tale.1/compare/tale-2")
    page.goto(f"{studio.url}runs/tale/compare/tale-2")
    pairs = view.get_by_role("region", name="Comparison")
    expect(pairs.get_by_role("row").filter(has_text="first difference")).to_contain_text(
        re.compile("It is empty.*Nobody wrote it")
    )
    expect(pairs.locator(".s-pairs tr.same").first).to_contain_text(
        re.compile("calls look\\s*path")
    )
    expect(pairs).not_to_contain_text('{"')
    expect(pairs.locator("tr.same").filter(has_text="a.md is **empty**")).to_have_count(1)
    pairs.get_by_role("button", name="Close").click()
    with page.expect_download() as started:
        view.get_by_role("link", name="Export").click()
    assert started.value.suggested_filename == "tale.jsonl"
    exported = started.value.path()
    aside(lambda: studio.journal.import_run(exported, "tale-3"))
    search = page.get_by_role("searchbox", name="Filter runs")
    search.fill("nobody wrote")  # in its reply alone
    rows = page.get_by_role("list", name="Runs").locator("[data-run]")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("tale-2")
    search.fill("")
    page.get_by_role("tab", name="Runs").click()
    page.wait_for_url("**/runs")
    expect(view.get_by_role("row", name="Act and review")).to_contain_text(
        re.compile(r"[1-9],\d{3}")
    )


def test_runs_that_are_deleted_beside_leave_the_list(studio: Studio, page: Page) -> None:
    aside(lambda: asyncio.run(count(studio.journal, "short-lived")))
    page.goto(f"{studio.url}runs")
    listed = page.locator('[data-run="short-lived"]')
    expect(listed).to_have_count(1)
    aside(lambda: studio.journal.delete("short-lived"))
    expect(listed).to_have_count(0)


def test_run_that_waits_in_an_action_named_decide_is_asked_about_as_any_other(
    studio: Studio, page: Page
) -> None:
    """Only H of a dual act has a card with a conclusion."""

    @action(access_policy=ACCESS_REQUESTED)
    def decide(about: str) -> str:
        """Decide."""
        return about

    script = [Call("d", "decide", {"about": "the harbour"}), "Done."]
    agent = ReActAgent(
        "decider",
        ScriptedModel(script),
        actions=[decide],
        approver=Waiting(),
        journal=studio.journal,
    )
    aside(lambda: agent.reply_sync("Decide it.", run_id="decided"))
    page.goto(f"{studio.url}runs/decided")
    card = page.locator(".s-card", has_text="the harbour").first
    card.get_by_role("button", name="Refuse").click()
    expect(card).to_have_count(0)


def test_tags_of_a_run_stand_in_the_list_and_find_it(studio: Studio, page: Page) -> None:
    def run() -> None:
        agent = ReActAgent("tagged", ScriptedModel(["Done."]), journal=studio.journal)
        agent.reply_sync("Do it.", run_id="tagged", tags={"customer": "acme", "urgent": ""})

    aside(run)
    page.goto(f"{studio.url}runs")
    expect(page.locator('[data-run="tagged"]')).to_contain_text("customer=acme, urgent")
    page.get_by_label("Filter runs").fill("customer=acme")
    expect(page.locator("[data-run]")).to_have_count(1)
    page.get_by_label("Filter runs").fill("")


def test_failed_runs_are_counted_above_every_tab_which_leads_to_the_last(
    studio: Studio, page: Page
) -> None:
    def run() -> None:
        agent = ReActAgent("luckless", ScriptedModel([]), journal=studio.journal)
        agent.reply_sync("Try it.", run_id="luckless")

    aside(run)
    failed = sum(each.state == "error" for each in studio.journal.runs())
    page.goto(f"{studio.url}doors")
    page.get_by_role("button", name=f"{failed} failed", exact=True).click()
    page.wait_for_url("**/runs/luckless")
    expect(page.get_by_role("region", name="Run", exact=True)).to_contain_text("Try it.")
