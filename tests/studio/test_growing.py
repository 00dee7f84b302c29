"""An answer is seen while its model writes it, in each tab that shows its run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from models.openai_server import DONE, Answer, OpenAIServer, calls, delta, events, text
from moothall import ChattyAI, Conversation, MaxTurns, NativeSpace, ReActAgent, action
from moothall.studio import Studio
from moothall.studio.orders.order import ActOrder, ResearchOrder
from research.small_web import evaluation, plan


def grows(*said: str) -> tuple[Answer, list[threading.Event]]:
    """An answer whose pieces come one by one, each but the first once its event is set."""
    events_of = [threading.Event() for _ in said[1:]]
    data: list[object] = [delta(said[0])]
    for event, piece in zip(events_of, said[1:], strict=True):
        data += [event, delta(piece)]
    return events(*data, delta(finish_reason="stop"), DONE), events_of


@action
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def test_answer_in_a_space_grows_with_what_it_calls(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """On a page that comes later, too; the message then says what was called, and leads there."""
    answer, (goes, ends) = grows("Three, ", "as was ", "asked.")
    wants = calls(
        {
            "id": "1",
            "type": "function",
            "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
        }
    )
    with OpenAIServer(wants, answer) as server, NativeSpace() as space:
        model = f"{server.url}#m"
        space.add(
            ReActAgent(
                "Adder", model, actions=[add], journal=studio.journal, receive_own_broadcasts=False
            )
        )
        space.add(studio.user)
        page = open_page()
        page.get_by_role("textbox", name="Message or slash line").fill('/Adder.say content:"What"')
        page.keyboard.press("Enter")
        writes = page.get_by_role("article", name="Adder writes")
        expect(writes).to_contain_text("calls add")
        expect(writes).to_contain_text("Three,")
        goes.set()
        expect(writes).to_contain_text("Three, as was")
        other = open_page()
        expect(other.get_by_role("article", name="Adder writes")).to_contain_text("Three, as was")
        ends.set()
        for each in (page, other):
            expect(each.get_by_role("log", name="Messages")).to_contain_text("Three, as was asked.")
            expect(each.get_by_role("article", name="Adder writes")).to_have_count(0)
        page.get_by_role("button", name="add", exact=True).click()
        expect(page.get_by_role("region", name="Run", exact=True)).to_contain_text("Adder")


def test_answer_in_a_conversation_grows_there(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """That of a chat agent, which has no runs."""
    answer, (ends,) = grows("Roses ", "are red.")
    with OpenAIServer(answer) as server, NativeSpace() as space:
        space.add(ChattyAI("Poet", f"{server.url}#m", receive_own_broadcasts=False))
        space.add(studio.user)
        page = open_page()
        page.get_by_role("list", name="Agents").get_by_text("Poet", exact=True).click()
        page.get_by_label("Say to Poet").fill("Write")
        page.keyboard.press("Enter")
        talk = page.get_by_role("region", name="With Poet")
        expect(talk).to_contain_text("writes …")
        expect(talk).to_contain_text("Roses")
        ends.set()
        expect(talk).to_contain_text("Roses are red.")
        expect(talk.get_by_text("writes …")).to_have_count(0)


@pytest.mark.long
def test_answer_in_act_and_in_its_run_grows(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    answer, (ends,) = grows("There is ", "nothing.")
    (tmp_path / "work").mkdir()
    with OpenAIServer(answer) as server:
        page, other = open_page("Act and review"), open_page("Runs")
        run = studio.jobs.start(ActOrder("Look", str(tmp_path / "work"), f"{server.url}#m"))
        steps = page.get_by_role("log", name="Steps")
        expect(steps).to_contain_text("There is")
        other.get_by_role("list", name="Runs").locator(f"[data-run='{run}']").click()
        expect(other.get_by_role("region", name="Being written")).to_contain_text("There is")
        ends.set()
        expect(steps).to_contain_text("There is nothing.")
        expect(other.get_by_role("region", name="Reply")).to_contain_text("There is nothing.")
        expect(other.get_by_role("region", name="Being written")).to_have_count(0)


@pytest.mark.long
def test_narrative_grows_while_a_model_writes_it(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    (tmp_path / "alpha.md").write_text("# Alpha\n\nAlpha uses port 4711.\n")
    answer, (ends,) = grows("Alpha uses ", "port 4711.[^1^]")
    found = plan(("search_folder", {"query": "4711"}))
    with OpenAIServer(text(found), answer, text(evaluation({"alpha": 0.95}))) as server:
        page = open_page("Research")
        studio.jobs.start(ResearchOrder(["alpha"], str(tmp_path), model=f"{server.url}#m"))
        draft = page.get_by_role("region", name="Draft")
        expect(draft).to_contain_text("Alpha uses")
        ends.set()
        report = page.frame_locator("iframe[title=Report]")
        expect(report.get_by_text("Alpha uses port 4711.").first).to_be_visible()
        expect(draft).to_be_hidden()


@pytest.mark.long
def test_answer_to_a_group_grows_in_the_groups_conversation(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Each member's in its name; a conversation of agents writes as one agent."""
    answer, (ends,) = grows("Roses ", "are red.")
    with OpenAIServer(answer, answer) as server, NativeSpace() as space:
        for name in ("Ann", "Bob"):
            poet = ChattyAI(name, f"{server.url}#m", receive_own_broadcasts=False)
            space.add(poet, groups=("hall",))
        space.add(studio.user)
        page = open_page()
        page.get_by_role("list", name="Agents").get_by_text("#hall", exact=True).click()
        page.get_by_label("Say to #hall").fill("Write")
        page.keyboard.press("Enter")
        talk = page.get_by_role("region", name="With #hall")
        for name in ("Ann", "Bob"):
            writes = talk.get_by_role("article").filter(has_text=name).filter(has_text="writes …")
            expect(writes).to_contain_text("Roses")
        ends.set()
        expect(talk.get_by_text("Roses are red.")).to_have_count(2)
        expect(talk.get_by_text("writes …")).to_have_count(0)


@pytest.mark.long
def test_answer_of_a_conversation_of_agents_grows_in_its_conversation(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    answer, (ends,) = grows("Roses ", "are red.")
    with OpenAIServer(answer) as server, NativeSpace() as space:
        poet = ReActAgent("Poet", f"{server.url}#m")
        space.add(Conversation([poet], id="Panel", until=MaxTurns(1)))
        space.add(studio.user)
        page = open_page()
        page.get_by_role("list", name="Agents").get_by_text("Panel", exact=True).click()
        page.get_by_label("Say to Panel").fill("Write")
        page.keyboard.press("Enter")
        talk = page.get_by_role("region", name="With Panel")
        expect(talk.get_by_role("article").filter(has_text="Poet")).to_contain_text("Roses")
        ends.set()
        expect(talk).to_contain_text("Roses are red.")
