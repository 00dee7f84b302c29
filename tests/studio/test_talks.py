"""Conversations in the tab Space: beside each other, and after a restart of the program."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    Call,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    action,
)
from moothall.studio import Studio
from studio.conftest import a_studio, pages

Kept = Literal["journal", "memory"]


def poet(answers: list[str], studio: Studio, folder: Path, kept: Kept) -> ReActAgent:
    """An agent whose conversations outlive the program."""
    model = ScriptedModel(answers)
    if kept == "journal":
        return ReActAgent("Poet", model, journal=studio.journal, receive_own_broadcasts=False)
    memory = SQLiteMemory(folder / "memory.db")
    return ReActAgent("Poet", model, memory=memory, receive_own_broadcasts=False)


@contextmanager
def opened(folder: Path, answers: list[str], kept: Kept) -> Iterator[Studio]:
    """A studio as its program has it: with a space and the poet, whose files are in a folder."""
    with a_studio(folder) as studio, NativeSpace() as space:
        space.add(poet(answers, studio, folder, kept))
        space.add(studio.user)
        yield studio


def say(page: Page, to: str, text: str) -> None:
    """Say something in a conversation, by the keyboard."""
    line = page.get_by_role("textbox", name=f"Say to {to}", exact=True)
    line.fill(text)
    line.press("Enter")


def talks_of(page: Page, agent: str) -> None:
    """Choose an agent in the list."""
    page.get_by_role("list", name="Agents").get_by_text(agent, exact=True).click()


def test_conversations_stand_beside_each_other(browser: Browser, tmp_path: Path) -> None:
    """Each has its own thread and memory; what everybody writes is a second view."""
    with (
        opened(tmp_path, ["In rhyme.", "By train."], "journal") as studio,
        pages(browser, studio) as open_page,
    ):
        assert studio.user.space is not None
        studio.user.space.add(ReActAgent("Clerk", ScriptedModel(["Paid."])))
        page = open_page()
        talks_of(page, "Poet")
        say(page, "Poet", 'A "quoted" line\nand another')
        first = page.get_by_role("log", name="Conversation with Poet", exact=True)
        expect(first).to_contain_text("In rhyme.")
        expect(first).to_contain_text('A "quoted" line')
        page.get_by_label("Name of a new conversation with Poet").fill("trip")
        page.keyboard.press("Enter")
        say(page, "Poet, trip", "How do I travel?")
        second = page.get_by_role("log", name="Conversation with Poet, trip")
        expect(second).to_contain_text("By train.")
        expect(first).not_to_contain_text("By train.")
        of = page.get_by_role("group", name="2 conversations with Poet")
        expect(of.get_by_role("button", name="trip")).to_be_visible()  # before a reload, too
        expect(second).not_to_contain_text("In rhyme.")
        one, two = first.bounding_box(), second.bounding_box()
        assert one is not None
        assert two is not None
        assert one["x"] + one["width"] <= two["x"]
        # Of another agent a third; with a fourth, the first makes room.
        page.get_by_role("button", name="Talk to Clerk beside").click()
        say(page, "Clerk", "Pay it")
        third = page.get_by_role("log", name="Conversation with Clerk")
        expect(third).to_contain_text("Paid.")
        gone = page.get_by_text("Gone when the program ends")
        expect(gone.filter(visible=True)).to_have_count(1)
        page.get_by_label("Name of a new conversation with Poet").fill("home")
        page.keyboard.press("Enter")
        expect(page.get_by_label("Say to Poet, home")).to_be_focused()
        expect(first).to_have_count(0)
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("region", name="With Clerk").get_by_role("button", name="Close").click()
        expect(third).to_have_count(0)
        page.get_by_role("button", name="All messages").click()
        expect(second).to_have_count(0)
        expect(page.get_by_role("log", name="Messages")).to_contain_text(["in trip"])
        expect(page.get_by_role("log", name="Messages")).to_contain_text(["By train."])


class Porter(Agent):
    """Carries things."""

    @action
    async def carry(self, what: str) -> str:
        """Carry something upstairs."""
        return f"{self.id} carries the {what}"


def test_group_is_talked_to_as_an_agent_and_its_members_answer_in_their_names(
    browser: Browser, tmp_path: Path
) -> None:
    """The first screen offers what agents do; a click writes the call."""
    with (
        a_studio(tmp_path) as studio,
        NativeSpace() as space,
        pages(browser, studio) as open_page,
    ):
        for name in ("Ann", "Bob"):
            space.add(Porter(name), groups=("hall",))
        space.add(studio.user)
        page = open_page()
        page.get_by_role("button", name="Ann: carry").click()
        line = page.get_by_role("textbox", name="Say to Ann", exact=True)
        expect(line).to_have_value('/Ann.carry what:""')
        line.fill("Bring the piano")
        expect(line).to_have_attribute("placeholder", re.compile("^Choose what Ann does"))
        line.press("Enter")
        with_ann = page.get_by_role("region", name="With Ann")
        expect(with_ann.get_by_role("alert")).to_contain_text("Ann takes no words: choose")
        line.fill("")
        talks_of(page, "#hall")
        with_all = page.get_by_role("region", name="With #hall")
        expect(with_all).to_contain_text("A group: Ann, Bob.")
        with_all.get_by_role("button", name="carry").click()
        line = page.get_by_role("textbox", name="Say to #hall", exact=True)
        line.fill('/#hall.carry what:"piano"')
        line.press("Enter")
        log = page.get_by_role("log", name="Conversation with #hall")
        expect(log).to_contain_text("Ann carries the piano")
        expect(log).to_contain_text("Bob carries the piano")
        expect(log.get_by_role("article").get_by_text("Bob", exact=True)).to_be_visible()


@pytest.mark.long
def test_conversation_leads_to_its_runs_and_to_what_waits_for_the_person(
    browser: Browser, tmp_path: Path
) -> None:
    """A card of an agent of the space stands there; the agent's runs are one click away."""

    @action(access_policy=ACCESS_REQUESTED)
    def burn(poem: str) -> str:
        """Burn a poem."""
        return f"{poem} is ashes"

    with opened(tmp_path, [], "journal") as studio, pages(browser, studio) as open_page:
        assert studio.user.space is not None
        burns = ModelReply("", (Call("1", "burn", {"poem": "Ode"}),))
        model = ScriptedModel(["Yes?", burns, "It is burnt."])
        studio.user.space.add(ReActAgent("Critic", model, actions=[burn], journal=studio.journal))
        page = open_page()
        talks_of(page, "Critic")
        log = page.get_by_role("log", name="Conversation with Critic")
        for said, answer in (("Hear me", "Yes?"), ("Burn it", "waits for you")):
            say(page, "Critic", said)
            expect(log).to_contain_text(answer)
        talk = page.get_by_role("region", name="With Critic")
        expect(page).to_have_title("(1) waits for you · moothall studio")
        expect(page.get_by_role("list", name="Agents")).to_contain_text("waits for you")
        expect(talk).not_to_contain_text("writes …")
        expect(talk.get_by_role("article", name="approval")).to_be_in_viewport(ratio=1)
        log.get_by_role("button", name="waits for you").click()
        card = talk.get_by_role("article", name="approval")
        expect(card).to_be_focused()
        card.get_by_role("button", name="Permit", exact=True).click()
        expect(log).to_contain_text("It is burnt.")
        expect(talk.get_by_role("textbox", name="Say to Critic")).to_be_focused()
        expect(log.get_by_text("1 step")).to_be_visible()
        expect(log).to_contain_text('permitted by the person at the studio: burn(poem="Ode")')
        log.get_by_role("article").filter(has_text="Yes?").get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="Reply")).to_contain_text("Yes?")
        page.get_by_role("tab", name="Space").click()
        page.get_by_role("button", name="2 runs").click()
        page.wait_for_url("**/runs")
        expect(page.get_by_role("searchbox", name="Filter runs")).to_have_value("Critic")
        rows = page.get_by_role("list", name="Runs").locator("[data-run]")
        expect(rows).to_contain_text(["Burn it", "Hear me"])


class Slow(Agent):
    """Hears one thing at a time, and takes as long as the test wants."""

    def __init__(self, id: str) -> None:
        super().__init__(id, receive_own_broadcasts=False)
        self.heard: list[str] = []
        self.free = threading.Semaphore(0)

    @action
    async def say(self, content: str) -> str:
        """Say something."""
        self.heard.append(content)
        await asyncio.to_thread(self.free.acquire)
        return f"I heard {content}"


def test_conversation_shows_what_waits_while_the_agent_works_and_a_message_is_taken_back(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    with NativeSpace() as space:
        slow = space.add(Slow("Slow"))
        space.add(studio.user)
        other = space.add(Agent("Other"))
        page = open_page()
        talks_of(page, "Slow")
        for word in ("one", "two", "three"):
            say(page, "Slow", word)
        queue = page.get_by_role("region", name="What waits for Slow")
        rows = queue.get_by_role("listitem")
        expect(rows).to_have_text(["You twoTake back", "You threeTake back"])
        other.send({"to": "Slow", "action": {"name": "say", "args": {"content": "four"}}})
        expect(rows).to_have_text(["You twoTake back", "You threeTake back", "Other four"])
        rows.first.get_by_role("button", name="Take back").click()
        expect(rows).to_have_text(["You threeTake back", "Other four"])
        log = page.get_by_role("log", name="Conversation with Slow")
        expect(log).to_contain_text('the message to "Slow.say" was taken back before it began')
        slow.free.release()
        expect(log).to_contain_text("I heard one")
        expect(rows).to_have_text(["Other four"])
        slow.free.release(2)
        expect(log).to_contain_text("I heard three")
        expect(queue).to_have_count(0)
        assert slow.heard == ["one", "three", "four"]
        assert not studio.user.take_back("Slow", "User-3")  # it has begun


def test_phone_shows_whom_one_talks_to_and_nothing_before_what_was_said(
    browser: Browser, tmp_path: Path
) -> None:
    """The first screen is shown from its beginning; what an agent does stands below."""
    with (
        opened(tmp_path, [f"{'La la.' * 150} Verse {n}." for n in range(3)], "journal") as studio,
        pages(browser, studio) as open_page,
    ):
        page = open_page(viewport={"width": 390, "height": 844})
        expect(page.get_by_text("Talk to somebody")).to_be_in_viewport()
        scheme = page.get_by_role("button", name="Light / dark", exact=True).bounding_box()
        assert scheme is not None
        assert scheme["width"] < 50  # beside “12 failed” and an inbox of 34, too
        talks_of(page, "Poet")
        log = page.get_by_role("log", name="Conversation with Poet")
        for n in range(3):
            say(page, "Poet", "Write")
            expect(log).to_contain_text(f"Verse {n}.")
        poet = page.get_by_role("list", name="Agents").get_by_text("Poet", exact=True)
        expect(poet).to_be_in_viewport()
        page.get_by_role("button", name="All messages").click()
        expect(page.get_by_text("Verse 2.")).to_be_in_viewport()
        expect(poet).to_be_in_viewport()
        poet.click()
        page.evaluate("scrollTo(0, 0)")
        said, does = log.bounding_box(), page.get_by_text("What Poet does").bounding_box()
        assert said is not None
        assert does is not None
        assert said["y"] < 140
        assert does["y"] > said["y"] + said["height"]


@pytest.mark.parametrize("kept", ("journal", pytest.param("memory", marks=pytest.mark.long)))
def test_conversation_is_there_after_the_program_was_started_again(
    browser: Browser, tmp_path: Path, kept: Kept
) -> None:
    """What was said before comes from the agent's journal, or from its memory in a file."""
    with opened(tmp_path, ["Roses are red.", "By train."], kept) as studio:
        space = studio.user.space
        assert space is not None
        for said, thread in (("Write", {}), ("How do I travel?", {"thread": "trip"})):
            studio.user.ask("Poet", "say", content=said, **thread).result(20)
        # Another person's conversation is not this one's.
        space.add(Agent("User2")).ask("Poet", "help").result(20)
    with (
        opened(tmp_path, ["Violets are blue."], kept) as studio,
        pages(browser, studio) as open_page,
    ):
        page = open_page()
        talks_of(page, "Poet")
        of = page.get_by_role("group", name="2 conversations with Poet")
        of.get_by_role("button", name="Conversation", exact=True).click()
        log = page.get_by_role("log", name="Conversation with Poet", exact=True)
        turns = log.get_by_role("article")
        expect(turns).to_have_count(2)
        expect(turns).to_contain_text(["Write", "Roses are red."])
        say(page, "Poet", "Write on")
        expect(turns).to_have_count(4)
        expect(turns).to_contain_text(["Write", "Roses", "Write on", "Violets are blue."])
        page.reload()  # which conversations are open is kept, too
        expect(turns).to_have_count(4)
        of.get_by_role("button", name="trip").click()
        trip = page.get_by_role("log", name="Conversation with Poet, trip").get_by_role("article")
        expect(trip).to_contain_text(["How do I travel?", "By train."])
        if kept == "journal":
            trip.last.get_by_role("button", name="Run").click()
            expect(page.get_by_role("group", name="Steps")).to_contain_text("By train.")
