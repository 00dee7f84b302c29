"""The tab Act and review: work on a folder is ordered, permitted, reviewed, stopped and resumed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from models.openai_server import HANG, Answer, OpenAIServer, Request, call, calls, http, text
from moothall.studio import Studio
from moothall.studio.orders import ActOrder

LIST = [call("list_files", "{}")]
WRITE = [call("write_file", json.dumps({"file_name": "b.txt", "content": "<b>two</b>"}))]


def scripted(*answers: Any) -> Callable[[Request], Answer]:
    """Gives the answer that comes after those that the conversation has."""

    def answer(request: Request) -> Answer:
        said = sum(each["role"] == "assistant" for each in request.body["messages"])
        given = answers[min(said, len(answers) - 1)]
        if isinstance(given, Answer):
            return given
        return text(given) if isinstance(given, str) else calls(*given)

    return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file."""
    made = tmp_path / "folder"
    made.mkdir()
    (made / "a.txt").write_text("one")
    return made


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A model that lists the files, writes one and is done."""
    with OpenAIServer(scripted(LIST, WRITE, "b.txt is written.")) as server:
        yield server


def start(page: Page, folder: Path, server: OpenAIServer, review: str = "") -> None:
    """Fill in the form as a person does, and press Start."""
    page.get_by_label("Task", exact=True).fill("Write b.txt" + " as was said" * 90)
    page.get_by_label("Folder that it works on").fill(str(folder))
    choose(page, "Model", f"{server.url}#m")
    if review:
        choose(page, "Reviewer", review)
    page.get_by_role("button", name="Start", exact=True).click()


def choose(page: Page, label: str, value: str) -> None:
    """Write into a field that proposes options, and takes any text."""
    page.locator("#tab-act").get_by_label(label, exact=True).fill(value)


def limit(page: Page, label: str, value: str) -> None:
    """Set a limit, which is folded under More."""
    field = page.locator("#tab-act").get_by_label(label)
    if not field.is_visible():
        page.locator("#act-new summary").click()
    field.fill(value)


def permit(page: Page) -> None:
    """Permit what is asked."""
    card = page.get_by_role("article", name="approval")
    expect(card.get_by_text("<b>two</b>")).to_be_in_viewport()  # however long the task is
    card.get_by_role("button", name="Permit", exact=True).click()


def steps(page: Page) -> Locator:
    """What the run has done, as it is shown."""
    return page.get_by_role("log", name="Steps")


def test_file_is_written_once_it_is_permitted(
    folder: Path, server: OpenAIServer, open_page: Callable[..., Page]
) -> None:
    """The steps come as they happen, on two pages, with exact arguments; reloading loses none.

    What cannot begin is said at once.
    """
    page, other = open_page("Act and review"), open_page("Act and review")
    start(page, folder / "nowhere", server)
    expect(page.get_by_text('nowhere" does not exist')).to_be_visible()
    page.get_by_label("Folder that it works on").fill(str(folder))
    limit(page, "US dollars", "0.5")
    choose(page, "Model", "https://models.example/v1#m")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("m' is not known, so a limit in US dollars")).to_be_visible()
    assert not server.requests
    start(page, folder, server)
    expect(other.get_by_role("article", name="approval")).to_be_visible()
    page.reload()
    page.get_by_role("tab", name="Act and review").click()
    expect(steps(page)).to_contain_text("list_files")
    expect(page.get_by_label("Task", exact=True)).to_be_hidden()  # folded: there is a run
    expect(page.locator(".s-act-head")).to_contain_text(re.compile(r"[1-9]\d* tokens"))
    assert not (folder / "b.txt").exists()
    permit(page)
    for each in (page, other):
        expect(steps(each)).to_contain_text("b.txt is written.")
        expect(steps(each)).to_contain_text("wrote 10 bytes")
    assert (folder / "b.txt").read_text() == "<b>two</b>"


def test_run_that_fails_at_once_says_why_once_and_is_tried_again(
    folder: Path, open_page: Callable[..., Page], studio: Studio
) -> None:
    with OpenAIServer(lambda request: http(b"no such key", 401), text("It is there.")) as server:
        page = open_page("Act and review")
        page.get_by_label("May read without asking").uncheck()
        start(page, folder, server)
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        expect(steps(page).get_by_text("failed")).to_be_visible()
        expect(page.get_by_text("no such key")).to_have_count(1)
        page.get_by_role("button", name="Try again").click()
        expect(steps(page)).to_contain_text("It is there.")
    (run,) = studio.runs.refresh()
    assert studio.runs.sums(run.id)["order"]["yes_read"] is False


@pytest.mark.long
def test_person_at_the_page_reviews(
    folder: Path, server: OpenAIServer, open_page: Callable[..., Page]
) -> None:
    """As H: sees what was really called, redirects once, then accepts."""
    page = open_page("Act and review")
    expect(page.get_by_text("No work yet")).to_be_visible()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/studio/cards", lambda route: late.append((route, route.fetch())))
    start(page, folder, server, review="me")
    expect(page.get_by_role("button", name="Inbox: 1 wait for you")).to_be_visible()
    for route, answer in late:  # of before there was a card: the stream has told more
        route.fulfill(response=answer)
    page.unroute("**/studio/cards")
    expect(page.locator(".s-act-head .s-badge")).to_have_text("waiting for you")
    permit(page)
    card = page.get_by_role("article", name="decision")
    expect(card).to_contain_text("b.txt is written.")
    expect(card).to_contain_text("wrote 10 bytes")
    page.set_viewport_size({"width": 640, "height": 400})  # as at a zoom of 200 %
    card.get_by_text("wrote 10 bytes").click(trial=True, timeout=3000)  # nothing is over it
    page.evaluate("scrollTo(0, 0)")
    top = (
        "each => { const at = each.getBoundingClientRect();"
        " return document.elementFromPoint(at.x + 5, at.y + 5) === each; }"
    )
    assert page.get_by_role("button", name="Stop").evaluate(top)  # nor over what stops the run
    work, review = (each.bounding_box() for each in page.locator(".s-lane").all())
    assert work
    assert review
    assert work["y"] + work["height"] <= review["y"]
    card.get_by_role("button", name="Redirect").click()
    expect(page.get_by_text("to redirect, write an instruction")).to_be_visible()
    card.get_by_label("Instruction").fill("Say it in French")
    card.get_by_label("Reasoning").fill("nobody here reads English")
    card.get_by_role("button", name="Redirect").click()
    expect(card).to_contain_text("round 2")
    card.get_by_role("button", name="Accept").click()
    expect(steps(page)).to_contain_text("the review accepted it")
    expect(steps(page)).to_contain_text("nobody here reads English")
    expect(steps(page)).to_contain_text("accepted by a person")


def test_run_at_its_limit_goes_on_with_more(
    folder: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """The new limit is of all its calls together; Resume, which would end again, is not offered."""
    with OpenAIServer(scripted(LIST, "One file.")) as server:
        page = open_page("Act and review")
        limit(page, "Tokens", "100")
        start(page, folder, server)
        expect(steps(page)).to_contain_text("at its limit")
        expect(page.get_by_text("tokens are needed")).to_have_count(1)  # said once
        expect(page.get_by_role("button", name="Resume")).to_have_count(0)
        assert not server.requests
        page.get_by_role("button", name="Steps and cost").click()  # where the same is proposed
        expect(page.locator("#tab-runs form[data-run] input")).not_to_have_value("200")
        page.get_by_role("tab", name="Act and review", exact=True).click()
        expect(page.locator("#tab-act form[data-run] input")).not_to_have_value("200")
        page.get_by_role("button", name="Continue").click()  # what is proposed is enough
        expect(steps(page)).to_contain_text("One file.")
        expect(steps(page)).to_contain_text("finished")
        page.get_by_role("button", name="New work").click()
        limit(page, "Tokens", "0")
        limit(page, "Answers", "1")
        start(page, folder, server)
        expect(steps(page)).to_contain_text("the iterations were used up without an answer")
        page.get_by_role("button", name="Begin again").click()  # with what the form may change
        expect(page.locator("#tab-act").get_by_label("Answers")).to_have_value("2")
        expect(page.get_by_label("Task", exact=True)).to_have_value(re.compile("Write b.txt as"))
        page.get_by_role("tab", name="Runs").click()
        page.get_by_role("list", name="Runs").get_by_role(
            "button", name="Write b.txt"
        ).first.click()
        expect(page.get_by_role("button", name="Replay")).to_be_visible()
        expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    assert [run.state for run in studio.journal.runs()] == ["done", "max_iterations"]


@pytest.mark.long
def test_act_run_resumes_after_the_studio_was_closed(
    folder: Path, tmp_path: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Held, stopped with the studio, and resumed in another one: nothing is done twice."""
    with OpenAIServer(scripted(LIST, WRITE, HANG)) as server:
        page = open_page("Act and review")
        start(page, folder, server)
        permit(page)
        expect(steps(page)).to_contain_text("wrote 10 bytes")
        server.wait_for_request()
        (run,) = studio.jobs.running()
        address = studio.url
        page.goto("about:blank")
        studio.close()
        server.wait_for_close()
        (folder / "b.txt").unlink()
        before = len(server.requests)
        server.answers = [scripted(LIST, WRITE, "Done all the same.")]
        port = int(str(address).rsplit(":", 1)[1].strip("/"))
        studio.launch(
            port, journal=tmp_path / "runs.db", token="t" * 20, prevent_thread_lock=True, quiet=True
        )
        page = open_page("Act and review")
        expect(steps(page)).to_contain_text("wrote 10 bytes")
        page.get_by_role("button", name="Resume").click()
        expect(steps(page)).to_contain_text("Done all the same.")
        assert len(server.requests) == before + 1
        assert not (folder / "b.txt").exists()
        assert studio.journal.run(run["run"]).state == "done"


def test_act_run_is_paused_steered_and_stopped(
    folder: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """Paused it makes no call; what it is told it hears; stopped, nothing goes on."""
    with OpenAIServer(scripted(LIST, WRITE, HANG)) as server:
        page = open_page("Act and review")
        start(page, folder, server)
        card = page.get_by_role("article", name="approval")
        expect(card.get_by_role("button", name="Write b.txt")).to_be_visible()  # the run's task
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("waits in its journal once its step has ended")).to_be_visible()
        before = len(server.requests)
        permit(page)
        page.get_by_label("Tell the agent").fill("Stay with plain text")
        page.get_by_label("Tell the agent").press("Enter")
        page.get_by_label("Tell the agent").fill("and be brief")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Sent when it continues: and be brief")).to_be_visible()
        page.reload()
        page.get_by_role("tab", name="Act and review").click()
        expect(page.get_by_text("Sent when it continues: Stay with plain text")).to_be_visible()
        assert len(server.requests) == before
        page.get_by_role("button", name="Continue", exact=True).click()
        expect(steps(page)).to_contain_text("wrote 10 bytes")
        expect(steps(page)).to_contain_text("Stay with plain text")
        expect(page.get_by_text("Sent when it continues")).to_have_count(0)
        for _ in range(before + 1):
            server.wait_for_request()
        told = server.requests[before].body["messages"][-1]
        assert told == {"role": "user", "content": "Stay with plain text\n\nand be brief"}
        page.get_by_label("Tell the agent").fill("Say it in French")
        page.get_by_role("button", name="Send").click()
        expect(steps(page)).to_contain_text("Say it in French")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        assert not studio.jobs.running()


def test_message_that_is_being_written_stays_with_its_run(
    folder: Path, open_page: Callable[..., Page], studio: Studio
) -> None:
    with OpenAIServer(lambda request: HANG) as server:
        page = open_page("Act and review")
        start(page, folder, server)
        page.get_by_placeholder("Send it a message while it works").fill("Write c.txt, too")
        run = page.get_by_label("Run", exact=True)
        first = run.input_value()
        other = studio.jobs.start(ActOrder("List", str(folder), f"{server.url}#m"))
        expect(run.locator(f'[value="{other}"]')).to_have_count(1)
        page.wait_for_load_state("networkidle")
        expect(run).to_have_value(first)


def test_stopped_run_begins_again_from_a_step_with_another_message(
    folder: Path, studio: Studio, open_page: Callable[..., Page]
) -> None:
    """The copy has what was before the step, and what the person writes; so has a resumed one."""
    with OpenAIServer(scripted(LIST, WRITE, "b.txt is written.")) as server:
        page = open_page("Act and review")
        start(page, folder, server)
        expect(page.get_by_role("article", name="approval")).to_be_visible()
        (run,) = studio.jobs.running()
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Steps and cost").click()
        view = page.get_by_role("region", name="Run", exact=True)
        view.get_by_role("button").filter(has_text="call write_file").click()
        expect(view.get_by_text("2 messages that it was given before")).to_be_visible()
        view.get_by_role("button", name="Begin again from this step").click()
        page.wait_for_url(f"**/runs/{run['run']}.1")
        before = len(server.requests)
        view.get_by_label("Message to the agent").fill("Call it c.txt")
        view.get_by_role("button", name="Resume").click()
        for _ in range(before + 1):
            server.wait_for_request()
        asked = server.requests[before].body["messages"]
        assert asked[-1] == {"role": "user", "content": "Call it c.txt"}
        assert [each["role"] for each in asked[-3:]] == ["assistant", "tool", "user"]
        view.get_by_role("button", name="Stop", exact=True).click()
        expect(view.get_by_role("button", name="Resume")).to_be_visible()
        view.get_by_role("button", name="Open in Act and review").click()
        page.get_by_label("Tell the agent").fill("And be brief")
        page.get_by_role("button", name="Send").click()
        card = page.get_by_role("article", name="approval")  # of what it had asked for already
        card.get_by_role("button", name="Refuse").click()
        expect(steps(page)).to_contain_text("And be brief")
        assert len(studio.journal.runs()) == 2
