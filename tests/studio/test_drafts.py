"""What a person has written and not sent is there again after a reload, and after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from models.openai_server import OpenAIServer, call, calls, text
from moothall import Agent, NativeSpace, action
from moothall.studio import Studio
from moothall.studio.orders.order import ActOrder
from moothall.studio.orders.research import ResearchOrder
from studio.conftest import TOKEN


class Clerk(Agent):
    """Somebody to talk with."""

    @action
    async def say(self, content: str) -> str:
        """Answer.

        Args:
            content: what is said
        """
        return f"heard {content}"


def test_drafts_of_forms_and_lines_outlive_a_reload_until_they_are_sent(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """A form that was written in is open again; what was sent does not come back."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("The port of alpha is 4711.\n")
    with NativeSpace() as space:
        space.add(studio.user)
        space.add(Clerk("Clerk"))
        page = open_page()
        page.get_by_role("textbox", name="Message or slash line").fill("a long\nmessage")
        page.get_by_role("list", name="Agents").get_by_text("Clerk", exact=True).click()
        page.get_by_role("textbox", name="Say to Clerk").fill("half a sen")
        page.get_by_role("tab", name="Research", exact=True).click()
        form = page.locator("#research-new")
        form.get_by_label("Objectives").fill("Which port?\nWhose port?")
        form.get_by_label("Folder to search").fill(str(tmp_path / "texts"))
        form.get_by_label("Show me the plan first").check()
        form.locator("summary").click()
        form.get_by_label("Iterations").fill("2")
        page.reload()
        expect(form.get_by_label("Objectives")).to_have_value("Which port?\nWhose port?")
        expect(form.get_by_label("Show me the plan first")).to_be_checked()
        expect(form.get_by_label("Iterations")).to_have_value("2")
        form.get_by_label("Show me the plan first").uncheck()
        form.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("combobox", name="Run")).to_contain_text("Which port?")
        page.reload()
        expect(form.get_by_label("Objectives")).to_have_value("")
        expect(form.get_by_label("Objectives")).to_be_hidden()
        page.get_by_label("Question about the report").fill("And who")
        page.reload()
        expect(page.get_by_label("Question about the report")).to_have_value("And who")
        page.get_by_role("tab", name="Space", exact=True).click()
        expect(page.get_by_role("textbox", name="Say to Clerk")).to_have_value("half a sen")
        page.get_by_role("button", name="All messages").click()
        line = page.get_by_role("textbox", name="Message or slash line")
        expect(line).to_have_value("a long\nmessage")
        page.keyboard.press("Escape")
        line.press("Enter")
        expect(page.get_by_text("heard a long").first).to_be_visible()
        # The answer may be there before the page knows that the line was sent.
        page.wait_for_function("!sessionStorage['moothall-drafts'].includes('a long')")
        page.reload()
        expect(line).to_have_value("")
        page.get_by_role("list", name="Agents").get_by_text("Clerk", exact=True).click()
        expect(page.get_by_role("textbox", name="Say to Clerk")).to_have_value("half a sen")


def test_drafts_on_a_card_outlive_the_program(
    studio: Studio, browser: Browser, tmp_path: Path
) -> None:
    """The run waits in its journal, and its new card has what was written on the one that went."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with OpenAIServer(text("It is done.")) as server:
        page = browser.new_page()  # its socket may be refused
        page.goto(f"{studio.url}act?token={TOKEN}")
        form = page.locator("#act-new")
        form.get_by_label("Task", exact=True).fill("Do it")
        form.get_by_label("Folder that it works on").fill(str(folder))
        form.get_by_label("Model").fill(f"{server.url}#m")
        form.get_by_label("Reviewer").fill("me")
        form.get_by_role("button", name="Start", exact=True).click()
        page.get_by_label("Instruction").fill("Look once more")
        port = int(str(studio.url).rsplit(":", 1)[1].strip("/"))
        studio.close()
        expect(page.get_by_text("not connected")).to_be_visible()
        studio.launch(
            port, journal=tmp_path / "runs.db", token=TOKEN, prevent_thread_lock=True, quiet=True
        )
        expect(page.get_by_text("not connected")).to_be_hidden()
        expect(page.get_by_label("Instruction")).to_have_value("Look once more")
        page.get_by_role("button", name="Continue with instruction").click()
        card = page.get_by_role("article", name="decision")
        expect(card).to_contain_text("round 2")
        expect(card.get_by_label("Instruction")).to_have_value("")
        page.close()


@pytest.mark.long
def test_drafts_of_a_plan_and_of_edited_arguments_outlive_a_reload(
    studio: Studio, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """What a person changed in a plan stands in it; edited arguments are there to edit again."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("The port of alpha is 4711.\n")
    page = open_page("Research")
    studio.jobs.start(ResearchOrder(["Which port?"], str(folder), review_plan=True))
    card = page.get_by_role("article", name="plan")
    card.get_by_role("button", name="Remove").first.click()
    card.get_by_role("button", name="Add").first.click()
    card.get_by_label("query of the task").last.fill("alpha 4711")
    written = [each.input_value() for each in card.get_by_label("query of the task").all()]
    page.reload()
    expect(card.get_by_label("query of the task").last).to_have_value("alpha 4711")
    assert [each.input_value() for each in card.get_by_label("query of the task").all()] == written
    card.get_by_role("button", name="Begin research").click()
    page.get_by_role("button", name="How it was found").click()
    expect(page.get_by_text("search folder: “alpha 4711”").first).to_be_visible()
    write = calls(call("write_file", '{"file_name": "b", "content": "c"}'))
    with OpenAIServer(write, text("It stays.")) as server:
        studio.jobs.start(ActOrder(task="Write b", root=str(folder), model=f"{server.url}#m"))
        page.get_by_role("tab", name="Act and review", exact=True).click()
        card = page.get_by_role("article", name="approval")
        card.get_by_role("button", name="Edit arguments").click()
        card.get_by_label("Argument content").fill("a better text")
        page.get_by_label("Tell the agent").fill("Be quick")
        page.reload()
        card.get_by_role("button", name="Edit arguments").click()
        expect(card.get_by_label("Argument content")).to_have_value("a better text")
        expect(page.get_by_label("Tell the agent")).to_have_value("Be quick")
        card.get_by_role("button", name="Undo the edits").click()
        card.get_by_role("button", name="Edit arguments").click()
        expect(card.get_by_label("Argument content")).to_have_value("c")
        card.get_by_role("button", name="Refuse").click()
        expect(card).to_have_count(0)
