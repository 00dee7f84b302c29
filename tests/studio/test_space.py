"""The tab Space: a person talks with agents, calls their actions, and permits or refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from benchmarks.broker import Broker
from playwright.sync_api import Page, Route, expect

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    AMQPOptions,
    AMQPSpace,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    action,
)
from moothall.cli.own_agents import AwaitedWeights
from moothall.studio import Studio
from studio.conftest import TOKEN, a_studio
from studio.told import Told


class Clerk(Agent):
    """Says back what it hears, adds, and deletes where it may."""

    @action
    async def say(self, content: str) -> str:
        """Say something to the clerk."""
        return f"You said {content}"

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, account: int) -> int:
        """Pay to an account."""
        return account

    @action(access_policy=ACCESS_REQUESTED)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"


@pytest.fixture
def space(studio: Studio) -> Iterator[NativeSpace]:
    """A space with the person at the page and one other."""
    with NativeSpace() as space:
        space.add(Clerk("Clerk", receive_own_broadcasts=False))
        space.add(studio.user)
        yield space


def write(page: Page, line: str) -> None:
    """Write a line as a person does."""
    field = page.get_by_role("textbox", name="Message or slash line")
    field.fill(line)
    field.press("Enter")


def test_person_talks_calls_and_looks_back(space: NativeSpace, page: Page) -> None:
    """Text goes to `*` as `say`, a slash line calls an action; answers are paired and filtered.

    A reload loses nothing, and what waits for the person stays.
    """
    heard: list[dict[str, object]] = []
    space.observe(heard.append)
    write(page, "Hello")
    log = page.get_by_role("log")
    expect(log).to_contain_text("You said Hello")
    expect(page.get_by_text("answered by 1")).to_be_visible()
    hello = {"name": "say", "args": {"content": "Hello"}}
    assert [(each["from"], each["to"]) for each in heard if each["action"] == hello] == [
        ("User", "*")
    ]
    write(page, "/Clerk.add a:1 b:2")
    expect(page.get_by_role("article").last).to_contain_text("3")
    expect(page.get_by_text("answered", exact=True)).to_be_visible()
    line = page.get_by_role("textbox", name="Message or slash line")
    for key, found in (("ArrowUp", "/Clerk.add a:1 b:2"), ("ArrowUp", "Hello"), ("ArrowDown", "/")):
        line.press(key)
        expect(line).to_have_value(re.compile(f"^{re.escape(found)}"))
    page.get_by_role("searchbox", name="Filter messages").fill("hello")
    expect(page.get_by_text("2 of 4 messages")).to_be_visible()
    expect(log.get_by_role("article")).to_contain_text(["User→allsay", "Clerk→Useranswers"])
    expect(log).not_to_contain_text("add")
    for wanted, found in (
        ("to:all", "1 of 4 messages"),
        ("to: *", "1 of 4"),
        ("from:", "4 messages"),
    ):
        page.get_by_role("searchbox", name="Filter messages").fill(wanted)
        expect(page.locator(".s-tools")).to_contain_text(re.compile(f"^{found}"))
    write(page, '/Clerk.delete path:"notes"')
    expect(page.get_by_role("article", name="approval")).to_be_visible()
    # What a page is sent of the cards may be older than what it was told since.
    held = []
    page.route("**/studio/cards", lambda route: held.append((route, route.fetch())))
    page.reload()
    expect(log).to_contain_text("You said Hello")
    write(page, '/Clerk.delete path:"more"')
    with page.expect_response("**/studio/cards"):
        for route, response in held:
            route.fulfill(response=response)
    expect(page.get_by_role("article", name="approval")).to_contain_text(["notes", "more"])
    clerk = page.get_by_role("list", name="Agents").get_by_text("Clerk")
    clerk.focus()
    space.add(Agent("Other"))
    expect(page.get_by_role("list", name="Agents")).to_contain_text("Other")
    expect(clerk).to_be_focused()  # an agent that comes takes the keyboard from nobody
    space.remove("Other")
    space.remove("Clerk")
    expect(page.get_by_text("Nobody else is in this space.")).to_be_visible()
    write(page, "A long word. " * 300)
    folded = page.get_by_role("article").filter(has_text="A long word.").first
    height = (folded.bounding_box() or {})["height"]
    folded.get_by_role("button", name="Show all of it").click()
    assert (folded.bounding_box() or {})["height"] > 2 * height


def test_line_is_looked_back_at_before_it_is_known_to_be_sent(
    space: NativeSpace, page: Page
) -> None:
    """It is recalled at once, also if it is not sent and another was written meanwhile."""
    line = page.get_by_role("textbox", name="Message or slash line")
    write(page, "Hello")
    expect(page.get_by_role("log")).to_contain_text("You said Hello")
    held: list[Route] = []
    page.route("**/studio/space/line", lambda route: held.append(route))
    with page.expect_request("**/studio/space/line"):
        write(page, "Lost")
    for key, found in (("ArrowUp", "Lost"), ("ArrowUp", "Hello"), ("ArrowDown", "Lost")):
        line.press(key)
        expect(line).to_have_value(found)
    line.fill("Other")
    held[0].abort()
    expect(page.locator(".s-fault")).to_be_visible()
    expect(line).to_have_value("Other")
    line.press("ArrowUp")
    expect(line).to_have_value("Lost")


def test_space_tab_shows_an_agents_class_model_cost_and_help(
    space: NativeSpace, page: Page, studio: Studio
) -> None:
    """Its class, its model and what its recorded runs have cost; its help as a list.

    While nothing was said, the agents and the other tabs are offered; later, a button shows them.
    """
    invitation = page.get_by_role("log", name="Messages")
    offers = ["Clerk", "Clerk: add", "Clerk: pay", "folder", "question", "town"]
    expect(invitation.get_by_role("button")).to_contain_text(offers)
    invitation.get_by_role("button", name="Clerk", exact=True).click()
    expect(page.get_by_label("Say to Clerk")).to_be_focused()
    page.get_by_role("button", name="All messages").click()
    for id, journal in (("Poet", studio.journal), ("Silent", None)):
        model = ScriptedModel(["Roses."], name="roses-1")
        space.add(ReActAgent(id, model, journal=journal, receive_own_broadcasts=False))
    write(page, '/Poet.say content:"Write"')
    expect(page.get_by_role("log")).to_contain_text("Roses.")
    agents = page.get_by_role("list", name="Agents")
    agents.get_by_text("Poet", exact=True).click()
    expect(page.get_by_role("region", name="With Poet")).to_contain_text(
        re.compile(r"ReActAgent · model roses-1 · 1 run, \d+ tokens")
    )
    agents.get_by_text("Silent", exact=True).click()
    silent = page.get_by_role("region", name="With Silent")
    expect(silent).to_contain_text("ReActAgent · model roses-1 · no run is recorded")
    agents.get_by_text("Clerk", exact=True).click()
    page.get_by_text("Help as a page").click()
    help = page.get_by_role("dialog", name="Help of Clerk")
    expect(help).to_contain_text("Pay to an account.")
    expect(help.get_by_role("row", name="account integer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(help).to_have_count(0)
    page.get_by_role("button", name="Things to try").click()
    things = page.get_by_role("dialog", name="Things to try")
    expect(things.get_by_role("listitem")).to_contain_text(["Say something to the clerk."])
    things.get_by_role("button", name="Watch a town live").click()
    expect(things).to_have_count(0)
    expect(page.get_by_role("tab", name="Society")).to_have_attribute("aria-selected", "true")
    assert asked(studio, "behind?id=Nobody") == {"here": False}


def asked(studio: Studio, path: str, body: Any = None) -> Any:
    """What a page is answered."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with urlopen(Request(f"{studio.url}studio/space/{path}", data, headers), timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize("kept", ("journal", "memory"))
def test_words_that_are_said_twice_are_shown_twice_and_lead_each_to_its_own_run(
    space: NativeSpace, studio: Studio, tmp_path: Path, kept: str
) -> None:
    model = ScriptedModel(["Roses.", "Violets."])
    memory = SQLiteMemory(tmp_path / "memory.db")
    where: dict[str, Any] = {"journal": studio.journal} if kept == "journal" else {"memory": memory}
    space.add(ReActAgent("Poet", model, receive_own_broadcasts=False, **where))
    for _ in range(2):
        studio.user.ask("Poet", "say", content="Write").result(20)
    turns = asked(studio, "conversation?id=Poet")
    assert [each["content"] for each in turns] == ["Write", "Roses.", "Write", "Violets."]
    runs = [run.id for run in studio.journal.runs(agent="Poet", sort="began")]
    if kept == "journal":
        assert [each["run"] for each in turns] == [runs[0], runs[0], runs[1], runs[1]]


def test_pages_are_told_that_weights_could_not_be_fetched(
    space: NativeSpace, studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MOOTHALL_OFFLINE", "1")
    space.add(ReActAgent("Poet", AwaitedWeights("local")))
    (lacking,) = asked(studio, "agents")["missing"]
    asked(studio, "fetch", {"name": lacking["name"]})
    ended = Told(studio).until("weights", name=lacking["name"], running=False)
    assert "MOOTHALL_OFFLINE" in ended["error"]


def test_studios_of_one_process_offer_what_is_in_their_own_spaces(
    space: NativeSpace, studio: Studio, tmp_path: Path
) -> None:
    class Poet(Agent):
        @action
        async def rhyme(self) -> str:
            """Find a rhyme."""
            return "thyme"

    (folder := tmp_path / "other").mkdir()
    with a_studio(folder) as other, NativeSpace() as elsewhere:
        elsewhere.add(Poet("Clerk"))
        elsewhere.add(other.user)
        offered = [asked(each, "complete?text=/Clerk.")["found"] for each in (studio, other)]
    assert offered == [["say ", "add ", "pay ", "delete ", "help "], ["rhyme ", "help "]]


def test_long_line_is_sent_whole(space: NativeSpace, studio: Studio) -> None:
    """It comes in many parts over the network."""
    said = "x" * 900_000
    sent = asked(studio, "line", {"line": f'/Clerk.say content: "{said}"'})["sent"]
    assert sent["action"]["args"] == {"content": said}
    lines = ("/Clerk.help", "/User.help", "/*.help", "Hello", "/Nobody.help")
    notices = [asked(studio, "line", {"line": each})["notice"] for each in lines]
    assert notices == [None] * 4 + ['There is no agent "Nobody" here, so nobody gets this.']


def test_line_is_completed_and_its_faults_are_shown(space: NativeSpace, page: Page) -> None:
    """Tab takes the first completion, a click on an action writes its line.

    The error of a line that is no message names the column, and the cursor stands there.
    """
    field = page.get_by_role("textbox", name="Message or slash line")
    choices = page.get_by_role("listbox", name="Completions")
    field.press_sequentially("/Cl")
    expect(choices.get_by_role("option")).to_have_text(["Clerk."])
    field.press("Tab")
    of = choices.get_by_role("option")
    expect(of).to_have_count(5)
    expect(choices).to_have_id(field.get_attribute("aria-controls") or "none")
    for key, picked in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        field.press(key)
        expect(of.nth(picked)).to_have_attribute("aria-selected", "true")
    field.press_sequentially("a")
    expect(choices.get_by_role("option")).to_have_text(["add "])
    field.press("Tab")
    expect(choices.get_by_role("option")).to_have_text(["a:", "b:"])
    page.get_by_label("Filter messages").focus()
    expect(choices).to_be_hidden()  # it would cover the cards
    field.focus()
    field.press("Escape")
    expect(field).to_have_value("/Clerk.add ")
    page.get_by_role("list", name="Agents").get_by_text("Clerk").click()
    page.get_by_role("button", name="add", exact=True).click()
    field = page.get_by_role("textbox", name="Say to Clerk")
    expect(field).to_have_value("/Clerk.add a: b:")
    field.press_sequentially("1")
    field.press("Tab")  # leads to the next argument
    field.press_sequentially("2")
    expect(field).to_have_value("/Clerk.add a:1 b:2")
    field.press("Enter")
    talk = page.get_by_role("log", name="Conversation with Clerk").get_by_role("article")
    expect(talk).to_contain_text(["calls add", "3"])
    page.get_by_role("button", name="All messages").click()
    field = page.get_by_role("textbox", name="Message or slash line")
    write(page, "/Clerk.add a:1 b:x")
    expect(page.get_by_role("alert")).to_contain_text("column 18: expected a JSON value")
    expect(field).to_have_value("/Clerk.add a:1 b:x")
    assert field.evaluate("each => each.selectionStart") == 17
    write(page, "/Nobody.add")
    expect(page.get_by_text('There is no agent "Nobody" here')).to_be_visible()


def test_call_that_asks_first_is_permitted_or_refused(
    space: NativeSpace, open_page: Callable[..., Page]
) -> None:
    """The card shows the exact arguments; one page's answer is seen by the other."""
    first, second = open_page(), open_page()
    write(first, '/Clerk.delete path:"<b>notes</b>"')
    card = second.get_by_role("article", name="approval")
    expect(card).to_contain_text("<b>notes</b>")
    card.get_by_role("button", name="Permit").click()
    expect(first.get_by_role("log")).to_contain_text("<b>notes</b> is gone")
    expect(first.get_by_role("article", name="approval")).to_have_count(0)
    expect(first.get_by_text("Clerk.delete was permitted on another page.")).to_be_visible()
    expect(second.get_by_text("on another page")).to_have_count(0)
    expect(second.get_by_text("Clerk.delete was permitted.")).to_be_visible()
    write(second, '/Clerk.delete path:"more"')
    first.get_by_label("Reason for refusing").fill("keep it")
    first.get_by_role("button", name="Refuse").click()
    expect(second.get_by_role("log")).to_contain_text('"Clerk.delete" not permitted: keep it')
    # JavaScript alone would round this one.
    write(first, "/Clerk.pay account:12345678901234567891")
    expect(card).to_contain_text("12345678901234567891")
    card.get_by_role("button", name="Permit").click()
    expect(second.get_by_role("article").last).to_contain_text("answers pay")
    expect(second.get_by_role("article").last).to_contain_text("12345678901234567891")


def test_narrow_window_has_room_to_write_and_to_permit(
    space: NativeSpace, open_page: Callable[..., Page]
) -> None:
    """A long call's buttons are in sight without scrolling, and the line is wide enough."""
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 700})
    line = page.locator(".s-line")
    line.fill("/Clerk.delete path:" + json.dumps("a long path / " * 80))
    line.press("Enter")
    permit = page.get_by_role("button", name="Permit")
    expect(permit).to_be_in_viewport(ratio=1)
    assert line.evaluate("each => each.getBoundingClientRect().width") > 200
    permit.click()
    expect(page.locator(".s-message", has_text="is gone")).to_be_visible()


def test_person_who_leaves_and_comes_back_sees_each_message_once(studio: Studio) -> None:
    """So too in another space meanwhile, and where an event loop runs, as in a notebook."""
    assert asked(studio, "agents") == {
        "space": None,
        "me": "User",
        "agents": [],
        "groups": {},
        "missing": [],
    }
    with NativeSpace() as space, NativeSpace() as other:
        for each in (space, other, space):
            if studio.user.space is not None:
                studio.user.space.remove(studio.user)
            each.add(studio.user)
        clerk = space.add(Clerk("Clerk"))
        clerk.ask("User", "help").result(5)  # it has come back
        hello = {"name": "say", "args": {"content": "Hello"}}
        long = "x" * 100_000
        clerk.send({"id": long, "meta": {long: long}, "to": "User", "action": hello})
        many = {f"a{number}": "x" * 200 for number in range(200)}
        clerk.send({"to": "*", "action": {"name": "odd", "args": many}})
        # Only the questions of pages are left out, not what else has the same id.
        adds = {"name": "add", "args": {"a": 1, "b": 2}}
        clerk.request({"id": "what-is-offered", "to": "Clerk", "action": adds}).result(5)
        left = other.add(Clerk("Clerk"))
        left.request({"to": "Clerk", "action": adds}).result(5)  # nobody is there to see it
        shown = asked(studio, "messages")["messages"][-3:]
    assert [each["action"]["name"] for each in shown] == ["say", "odd", "add"]
    assert len(shown.pop(1)["action"]["args"]) == 100  # of very many the first
    assert len(json.dumps(shown)) < 5_000


CLICKED = """async ([selector, text, shown]) => {
  const each = document.querySelector(selector);
  const began = performance.now();
  if (text === null) each.click();
  else {
    each.value = text;
    each.dispatchEvent(new Event('input'));
  }
  const wanted = new RegExp(shown);
  const is = () => wanted.test(document.querySelector('.s-chat').textContent);
  while (!is() && performance.now() - began < 10000) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""


@pytest.mark.long
@pytest.mark.timeout(300)  # on a loaded machine they take long to come
def test_click_is_answered_at_once_with_a_hundred_thousand_messages(
    space: NativeSpace, page: Page
) -> None:
    """They are counted, filtered and scrolled; of the oldest, those that have no room are gone."""
    many = space.add(Agent("Many"))
    for number in range(100_100):
        many.send({"to": "User", "action": {"name": "say", "args": {"content": f"Nr {number}"}}})
    counted = page.get_by_role("status").get_by_text("100,000 messages, the newest")
    expect(counted).to_be_visible(timeout=200_000)
    rows = page.get_by_role("log", name="Messages").get_by_role("article")
    expect(rows.filter(has_text="Nr 100099")).to_be_in_viewport()
    expect(rows).to_have_count(300)
    field, earlier = ".s-tools input", ".s-chat .s-scroll > button"
    took = {
        what: min(page.evaluate(CLICKED, [selector, text, shown]) for text, shown in twice)
        for what, selector, twice in (
            ("words", field, (("Nr 7654", "11 of 100,000"), ("Nr 99", "of 100,000 [^]*Nr 99999"))),
            ("a part", field, (("from:No", "0 of 100,000"), ("", "Nr 100099"))),
            ("earlier", earlier, ((None, "Nr 99600"), (None, "Nr 99300"))),
        )
    }
    assert max(took.values()) < 1000, took  # benchmarks/studio.py has the figures
    expect(rows).to_have_count(900)
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000


def test_agent_is_asked_anew_what_it_offers(space: NativeSpace, studio: Studio) -> None:
    assert "add" in asked(studio, "help?id=Clerk")
    space.remove("Clerk")
    space.add(Agent("Clerk"))
    assert "add" not in asked(studio, "help?id=Clerk")


@pytest.mark.long
def test_receiver_over_a_broker_may_be_elsewhere(broker: Broker, studio: Studio) -> None:
    options, exchange = AMQPOptions(port=broker.port), f"test.{uuid4().hex}"
    with AMQPSpace(amqp_options=options, exchange=exchange) as space:
        space.add(studio.user)
        told = asked(studio, "line", {"line": "/Far.add a:1 b:2"})
    assert (told["sent"]["to"], told["notice"]) == ("Far", None)


@pytest.mark.long
def test_agents_of_other_processes_over_a_broker(
    broker: Broker, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """The same page over RabbitMQ: agents that are elsewhere are listed, heard and called."""
    options, exchange = AMQPOptions(port=broker.port), f"test.{uuid4().hex}"
    with (
        AMQPSpace(amqp_options=options, exchange=exchange) as elsewhere,
        AMQPSpace(amqp_options=options, exchange=exchange) as here,
    ):
        elsewhere.add(Clerk("Clerk", receive_own_broadcasts=False))
        here.add(studio.user)
        page = open_page()
        expect(page.get_by_role("list", name="Agents")).to_contain_text("Clerk")
        write(page, "Hello")
        expect(page.get_by_role("log")).to_contain_text("You said Hello")
        write(page, "/Clerk.add a:1 b:2")
        expect(page.get_by_role("article").last).to_contain_text("3")
        elsewhere.add(Clerk("Late"))
        agents = page.get_by_role("list", name="Agents")
        expect(agents).to_contain_text("Late")
        elsewhere.remove("Clerk")
        agents.get_by_text("Clerk").click()  # it is asked what it offers
        expect(agents).not_to_contain_text("Clerk")
        here.remove(studio.user)
        with NativeSpace() as alone:
            alone.add(studio.user)
            expect(page.get_by_text("Nobody else is in this space.")).to_be_visible()
