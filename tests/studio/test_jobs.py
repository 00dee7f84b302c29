"""What the studio runs in the background goes on by the command line, and the other way round."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import at_terminal
from models.openai_server import HANG, OpenAIServer, call, calls, text
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import ConfigError, MoothallError, RunMismatch, StateError
from moothall.studio import Studio
from moothall.studio.orders.order import ActOrder, ResearchOrder, record_order
from serving.company.conftest import until
from studio.conftest import a_studio
from studio.told import Told


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all runs of this file."""
    with a_studio(tmp_path_factory.mktemp("runs")) as studio:
        yield studio


@pytest.fixture
def told(studio: Studio) -> Told:
    """What pages of the studio are told."""
    return Told(studio)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file."""
    made = tmp_path / "folder"
    made.mkdir()
    (made / "notes.md").write_text("Messages are lost when the mailbox of an agent is full.\n")
    return made


def order(folder: Path, server: OpenAIServer) -> ActOrder:
    """Work that a person reviews."""
    model = f"{server.url}#m"
    return ActOrder("Do it", str(folder), model, False, "me", None, True, False)


def test_review_goes_from_the_page_to_the_terminal_and_back(
    told: Told, studio: Studio, folder: Path
) -> None:
    """The person decides where they like; the model is asked once a round."""
    path = str(studio.journal.path)
    with OpenAIServer(text("One."), text("Two.")) as server:
        run = studio.jobs.start(order(folder, server))
        told.until("card", kind="decision", round=1)
        studio.jobs.stop(run)
        told.until("job", run=run, state="ended")
        with at_terminal("resume", run, "--journal", path, cwd=folder) as terminal:
            assert "One." in terminal.until("you> ")
            terminal.type("r Look again.\n")
            assert "Two." in terminal.until("you> ")
        assert studio.jobs.resume(run) == run
        card = told.until("card", kind="decision")
        assert (card["conclusion"]["summary"], card["round"], card["task"]) == ("Two.", 2, "Do it")
        studio.cards.decide(card["number"], {"choice": "accept"})
        assert told.until("job", run=run, state="ended")["reason"] == "terminated"
        assert len(server.requests) == 2
    with pytest.raises(StateError, match="has ended"):
        studio.jobs.resume(run)


def test_research_that_is_stopped_leaves_its_report(
    told: Told, studio: Studio, folder: Path
) -> None:
    """As far as it is."""
    out = folder.parent / "report.md"
    with OpenAIServer(HANG) as server:
        wanted = ResearchOrder(
            ["Why is it lost?"], str(folder), model=f"{server.url}#m", out=str(out)
        )
        run = studio.jobs.start(wanted)
        server.wait_for_request()
        studio.jobs.stop(run)
        assert told.until("job", run=run, state="ended")["reason"] == "cancelled"
    assert "Why is it lost?" in out.read_text()
    assert studio.journal.run(run).state in ("cancelled", "stopped")
    assert studio.jobs.running() == []


def test_report_that_cannot_be_written_is_told(
    told: Told, studio: Studio, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To the pages, and in the log of the program."""
    gone = folder.parent / "gone"
    gone.mkdir()
    with OpenAIServer(HANG) as server:
        out = str(gone / "report.md")
        order = ResearchOrder(["Why?"], str(folder), model=f"{server.url}#m", out=out)
        run = studio.jobs.start(order)
        server.wait_for_request()
        gone.rmdir()
        studio.jobs.stop(run)
        ended = told.until("job", run=run, state="ended", reason="error")
    assert str(gone) in ended["text"]
    assert f"run {run!r} failed" in caplog.text


def test_totals_of_a_run_are_of_all_that_came_before_a_page_looked(tmp_path: Path) -> None:
    """The run is another program's, and was under way when the list was first loaded."""

    async def go_on(part: Any, key: str) -> None:
        part.note("started", {"key": key, "about": {"action": "look"}})
        part.note("ended", {"key": key, "result": None})
        await part.commit()

    async def begin(journal: Journal) -> Any:
        part = await journal.begin("counts", "Counter", "me", "count")
        await go_on(part, "1")
        return part

    with a_studio(tmp_path) as studio, ThreadPoolExecutor(1) as thread:
        part = thread.submit(asyncio.run, begin(studio.journal)).result()
        studio.runs.refresh()
        thread.submit(asyncio.run, go_on(part, "2")).result()
        studio.runs.refresh()
        assert Told(studio).until("run", id="counts")["totals"]["tool_calls"] == 2
        part.close()


def test_job_is_resumed_by_one_of_many_at_once(told: Told, studio: Studio, folder: Path) -> None:
    """The run stays in hand, and hears what it was told before it was stopped."""
    with OpenAIServer(HANG, text("One."), HANG) as server:
        run = studio.jobs.start(replace(order(folder, server), review=None))
        server.wait_for_request()
        studio.jobs.pause(run)
        studio.jobs.steer(run, " Be brief. ")
        studio.jobs.stop(run)
        with suppress(StateError):  # it may have ended already
            studio.jobs.unpause(run)  # too late
        told.until("job", run=run, state="ended", reason="cancelled", told=["Be brief."])
        at_once, outcomes = threading.Barrier(4), []

        def resume() -> None:
            at_once.wait()
            try:
                outcomes.append(studio.jobs.resume(run))
            except ConfigError as error:
                outcomes.append(f"refused: {error}")

        pages = [threading.Thread(target=resume) for _ in range(4)]
        for page in pages:
            page.start()
        for page in pages:
            page.join()
        assert sorted(outcomes) == [run, *[f"refused: run {run!r} is under way already"] * 3]
        while server.requests[-1].body["messages"][-1]["content"] != "Be brief.":
            server.wait_for_request()
        assert (studio.jobs.state(run), studio.jobs.messages_for(run)) == ("running", [])
        studio.jobs.stop(run)
        told.until("job", run=run, state="ended")
    assert (studio.jobs.state(run), studio.jobs.running()) == (None, [])


@pytest.mark.parametrize("elsewhere", (False, True), ids=["here", "elsewhere"])
def test_paused_job_waits_in_its_journal_and_goes_on_by_whoever_lets_it(
    told: Told, studio: Studio, folder: Path, elsewhere: bool
) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def listing(request: Any) -> Any:
        asked.set()
        may_answer.wait(30)
        return call("list_files", "{}")

    with (
        OpenAIServer(lambda request: calls(listing(request)), text("One.")) as server,
        Journal(studio.journal.path) as office,
    ):
        run = studio.jobs.start(replace(order(folder, server), review=None))
        assert asked.wait(30)
        (office if elsewhere else studio.jobs).pause(run)
        works = studio.journal.held_runs._open_runs
        with ThreadPoolExecutor(1) as thread:  # Playwright has a loop run in this one
            mine = lambda: [each for each in [*works] if each.id == run]  # noqa: E731
            rests = until(lambda: any(each.work.pause_cause for each in mine()))
            thread.submit(asyncio.run, rests).result()
            may_answer.set()
            rests = until(lambda: [each.kind for each in office.waiting(run)] == ["paused"])
            thread.submit(asyncio.run, rests).result()
        told.until("job", run=run, state="paused")
        assert len(server.requests) == 1
        if elsewhere:
            office.go_on(run, by="eva")
        else:
            studio.jobs.unpause(run)
        assert told.until("job", run=run, state="ended")["reason"] == "done"


def test_job_that_cannot_begin_or_resume_says_why(told: Told, studio: Studio, folder: Path) -> None:
    """In words for the person at the page, and nothing is under way."""
    path, jobs, journal = Path(studio.journal.path), studio.jobs, studio.journal
    with ThreadPoolExecutor(1) as thread:  # in this one Playwright has a loop
        agent = ReActAgent("own", ScriptedModel(["Yes."]), journal=journal)
        thread.submit(agent.reply_sync, "go", run_id="own").result()
    done = jobs.start(ResearchOrder(["What is lost?"], folder=str(folder), iterations=1))
    told.until("job", run=done, state="ended")
    act = ActOrder("go", str(folder), "http://127.0.0.1:1/v1#m")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: jobs.start(replace(act, task=" \n")), "the task is empty: say what is to be done"),
        (
            lambda: jobs.start(replace(act, root=str(path.parent))),
            "is in the folder that the agent",
        ),
        (lambda: jobs.start(replace(act, model="http://u:p@x.example#m")), "a user or a query"),
        (lambda: jobs.start(ResearchOrder(["x"])), "there is nothing to search"),
        (lambda: jobs.resume("nonesuch"), "has no run 'nonesuch'"),
        (lambda: jobs.resume("own"), "begun by a program of yours: resume it there"),
        (lambda: jobs.resume(done), "has ended (done): begin another run"),
        (lambda: jobs.resume(done, {"yes_read": 1}), "moothall research has no such limits: yes_r"),
        (
            lambda: jobs.resume(done, {"iterations": 0}),
            "iterations must be a number above 0, got 0",
        ),
        (lambda: jobs.resume(done, {"max_usd": math.inf}), "max_usd must be a number above 0, got"),
        (lambda: jobs.stop(done), "has ended: it is done"),
        (lambda: jobs.pause(done), "cannot be paused: it is done"),
        (lambda: jobs.steer(done, "x"), "cannot be told something: it is done"),
        (lambda: jobs.steer(done, " "), "write what the agent is to be told"),
    ]
    for begun, words in cases:
        with pytest.raises(MoothallError, match=re.escape(words)):
            begun()
    copy = journal.fork(done)
    with pytest.raises(StateError, match=f"was forked as '{copy}': resume the fork"):
        jobs.resume(done, {"iterations": 2})
    assert jobs.resume(copy, {"iterations": 2}) == copy
    told.until("job", run=copy, command="research", state="running", told=[])
    told.until("job", run=copy, state="ended", reason="done")


def test_open_question_outlives_the_studio_and_its_run_takes_no_task(
    tmp_path: Path, folder: Path
) -> None:
    """The next studio shows it; answered there or in another process, the run goes on."""
    write = [call("write_file", json.dumps({"file_name": name, "content": "x"})) for name in "ab"]
    with OpenAIServer(calls(write[0]), calls(write[1]), text("Written.")) as server:
        with a_studio(tmp_path) as studio:
            told = Told(studio)
            wanted = replace(order(folder, server), review=None)
            run = studio.jobs.start(wanted)
            card = told.until("card", kind="approval")
            assert (card["run"], card["action"]) == (run, "write_file")
            journal = studio.journal
            with ThreadPoolExecutor(1) as thread:  # Playwright has a loop run in this one
                thread.submit(asyncio.run, until(lambda: not journal.run(run).held)).result()
        with a_studio(tmp_path) as studio:
            told = Told(studio)
            card = told.until("card", kind="approval")
            permit = {"permit": True, "fingerprint": card["fingerprint"]}
            with pytest.raises(ConfigError, match="fingerprint"):
                studio.cards.decide(card["number"], {**permit, "fingerprint": "0" * 64})
            assert studio.cards.decide(card["number"], permit) == "permitted"
            second = told.until("card", kind="approval", args={"file_name": "b", "content": "x"})
            assert (folder / "a").exists()
            with Journal(studio.journal.path) as office:
                (wait,) = office.waiting(run)
                office.answer(run, wait.key, False, by="eva")
            told.until("card_gone", number=second["number"])
            assert told.until("job", run=run, state="ended")["reason"] == "done"
            assert not (folder / "b").exists()
            assert [each.id for each in studio.journal.runs(decided_by="User")] == [run]


def test_run_stopped_while_it_waits_asks_nobody_until_it_is_resumed(
    tmp_path: Path, folder: Path
) -> None:
    """It is cancelled in the journal, also for the next studio; resumed, it asks again."""
    write = call("write_file", json.dumps({"file_name": "a", "content": "x"}))
    with OpenAIServer(calls(write), text("Written.")) as server:
        with a_studio(tmp_path) as studio:
            told = Told(studio)
            run = studio.jobs.start(replace(order(folder, server), review=None))
            card = told.until("card", kind="approval")
            studio.jobs.stop(run)
            told.until("job", run=run, state="ended", reason="cancelled")
            told.until("card_gone", number=card["number"], said="withdrawn")
            assert (studio.jobs.running(), studio.journal.waiting()) == ([], [])
        with a_studio(tmp_path) as studio:
            told = Told(studio)
            assert (studio.journal.run(run).state, studio.cards.to_json()) == ("cancelled", [])
            studio.jobs.resume(run)
            again = told.until("card", kind="approval")
            assert again["fingerprint"] == card["fingerprint"]
            permit = {"permit": True, "fingerprint": again["fingerprint"]}
            assert studio.cards.decide(again["number"], permit) == "permitted"
            assert told.until("job", run=run, state="ended")["reason"] == "done"
    assert (folder / "a").exists()


def test_message_to_a_run_that_cannot_resume_is_heard_once(studio: Studio, folder: Path) -> None:
    """Its folder was away; the person presses Resume again, with the same message."""
    with OpenAIServer(HANG, text("One."), text("Two.")) as server:
        run = studio.jobs.start(replace(order(folder, server), review=None))
        server.wait_for_request()
        studio.jobs.stop(run)
        with ThreadPoolExecutor(1) as thread:  # Playwright has a loop run in this one
            rests = until(lambda: studio.jobs.state(run) is None)
            thread.submit(asyncio.run, rests).result()
        away = folder.rename(folder.with_name("away"))
        with pytest.raises(MoothallError, match="does not exist"):
            studio.jobs.resume(run, text="Be brief.")
        assert studio.jobs.messages_for(run) == []
        away.rename(folder)
        studio.jobs.resume(run, text="Be brief.")
        while server.requests[-1].body["messages"][-1]["content"] != "Be brief.":
            server.wait_for_request()


def test_research_is_told_nothing_while_it_runs(studio: Studio, folder: Path) -> None:
    with OpenAIServer(HANG) as server:
        run = studio.jobs.start(ResearchOrder(["Why?"], str(folder), model=f"{server.url}#m"))
        server.wait_for_request()
        with pytest.raises(ConfigError, match="a run of research takes no message"):
            studio.jobs.steer(run, "Hurry.")
        studio.jobs.stop(run)


def test_run_that_waits_here_and_is_ended_elsewhere_is_no_longer_under_way_here(
    tmp_path: Path, folder: Path
) -> None:
    """It is stopped at another studio's page, or deleted."""
    write = call("write_file", json.dumps({"file_name": "a", "content": "x"}))
    with OpenAIServer(calls(write), calls(write)) as server, a_studio(tmp_path) as studio:
        told = Told(studio)
        runs = [studio.jobs.start(replace(order(folder, server), review=None)) for _ in range(2)]
        with ThreadPoolExecutor(1) as thread, a_studio(tmp_path) as other:
            for run in runs:
                rests = until(lambda run=run: studio.journal.run(run).state == "waiting")
                thread.submit(asyncio.run, rests).result()
            other.jobs.stop(runs[0])
            other.journal.delete(runs[1])
        for run in runs:
            assert told.until("job", run=run, state="ended")["reason"] == "cancelled"
        assert studio.jobs.running() == []


def test_run_of_another_program_does_not_go_on_by_a_press(studio: Studio, folder: Path) -> None:
    """What its changed program would do is for `moothall resume --force`, which says so."""
    model = ScriptedModel([OSError("down")])
    with OpenAIServer(text("Well.")) as server:
        agent = ReActAgent("files", model, system_prompt="Hurry.", journal=studio.journal)
        wanted = replace(order(folder, server), review=None)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(
                asyncio.run, record_order(wanted, studio.journal, "changed", agent)
            ).result()
            reply = thread.submit(agent.reply_sync, "Do it", run_id="changed").result()
        assert reply.stop_reason == "error"
        with pytest.raises(RunMismatch, match="begun by another program"):
            studio.jobs.resume("changed")
        assert server.requests == []
    assert studio.journal.runs(forked_from="changed") == []
