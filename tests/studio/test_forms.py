"""What a form says to an order, what a page is told of entries and events, and what cards take."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from moothall import (
    Action,
    Call,
    DualActAgent,
    Journal,
    ModelReply,
    Person,
    ReActAgent,
    RefuseAll,
    ScriptedModel,
    Usage,
    Waiting,
    action,
)
from moothall.actions import ACCESS_REQUESTED
from moothall.actions.approval import AlwaysInRun, ApprovalRequest, NeverInRun, Question, Refused
from moothall.agents.decision import DecisionAction, HumanDecision
from moothall.foundation.errors import CardGone, ConfigError
from moothall.journal import Entry
from moothall.studio.cards import Cards
from moothall.studio.event_feed import EventFeed
from moothall.studio.page import non_empty_fields
from moothall.studio.run_view import Totals, entry_row


def test_form_says_what_is_filled_in_alone() -> None:
    given = {"task": " a\n", "model": " ", "max_usd": 0, "max_tokens": None, "yes_read": False}
    assert non_empty_fields(given) == {"task": "a", "yes_read": False}
    more = {"root": "~/a", "folder": "~", "role": "~", "max_seconds": 1.5, "max_iterations": 3}
    home = os.path.expanduser("~")
    assert non_empty_fields(more) == {**more, "root": f"{home}/a", "folder": home}


def aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own: in this one Playwright's loop may run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def frames(feed: EventFeed, after: int, count: int) -> list[Any]:
    """The first frames that a page gets that has all events up to one."""
    async with aclosing(feed.frames(feed.epoch, after)) as found:
        return [json.loads(await anext(found)) for _ in range(count)]


def test_frame_has_so_many_events_and_none_is_missing_or_twice() -> None:
    feed = EventFeed()
    for number in range(1201):
        feed.publish("n", number)
    told = aside(frames(feed, 0, 4))
    assert [len(each["events"]) for each in told] == [0, 500, 500, 201]
    assert [each["last"] for each in told] == [0, 500, 1000, 1201]
    assert [event[2] for each in told for event in each["events"]] == list(range(1201))
    assert [each["events"] for each in aside(frames(feed, 1200, 2))] == [[], [[1201, "n", 1200]]]
    (reset,) = aside(frames(feed, 1202, 1))
    assert (reset["reset"], reset["last"], reset["events"]) == (True, 1201, [])
    assert not feed.is_watched  # the pages have gone


@pytest.mark.long
def test_page_hears_of_a_studio_in_which_nothing_happens() -> None:
    """Else it could not tell it from a connection that was cut without a word."""
    assert [each["events"] for each in aside(frames(EventFeed(), 0, 2))] == [[], []]


def test_feed_misses_none_of_twenty_thousand_events() -> None:
    feed = EventFeed()
    for number in range(20_001):
        feed.publish("n", number)
    kept, missed = aside(frames(feed, 1, 2)), aside(frames(feed, 0, 1))
    assert [each.get("reset") for each in (*kept, *missed)] == [None, None, True]
    assert kept[1]["events"][0] == [2, "n", 1]


@action
def look(path: str) -> str:
    """Look at a file."""
    raise ValueError(f"there is no {path}")


@action(access_policy=ACCESS_REQUESTED)
def remove(path: str) -> str:
    """Remove a file."""
    return path


def test_run_comes_to_what_its_entries_say(tmp_path: Path) -> None:
    calls = (Call("1", "look", {"path": "a"}), Call("2", "remove", {"path": "x" * 3000}))
    model = ScriptedModel([ModelReply("", calls, Usage(1000, 200)), "y" * 2500])
    model.name = "openai:gpt-4.1"
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", model, actions=[look, remove], approver=RefuseAll())
        agent.journal = journal
        aside(agent.reply("Do it.", run_id="R"))
        entries = journal.entries("R")
    totals, took = Totals(entries).to_json(), entries[-1].at - entries[0].at
    assert totals.pop("seconds") == pytest.approx(took)
    resumed = [*entries, *(replace(each, at=each.at + 1000) for each in entries)]
    assert Totals(resumed).to_json()["seconds"] == pytest.approx(2 * took)  # it rested between
    decided = replace(entries[-2], kind="decided", at=entries[-2].at + 1000)
    killed = Totals([*entries[:-1], decided]).to_json()["seconds"]
    assert killed == pytest.approx(entries[-2].at - entries[0].at)  # so does a killed one
    assert totals == {
        "began": entries[0].at,
        "input": 1000,
        "output": 200,
        "tokens": 1200,
        "model_calls": 2,
        "unpriced": 0,
        # 2 and 8 US dollars a million.
        "usd": "0.0036",
        "tool_calls": 2,
        "errors": 1,
        "refused": 1,
    }
    told = [entry_row(each) for each in entries]
    assert [each["sequence"] for each in told] == [each.sequence for each in entries]
    faults = {each["data"]["about"]["action"]: each["fault"] for each in told if "fault" in each}
    assert list(faults) == ["look"]
    assert "there is no a" in faults["look"]
    (refused,) = (each for each in told if each.get("refused"))
    assert refused["data"]["about"]["action"] == "remove"
    (first, second) = (each["spent"] for each in told if "spent" in each)
    assert first == {
        "input": 1000,
        "output": 200,
        "tokens": 1200,
        "model_calls": 1,
        "usd": "0.0036",
    }
    assert second["tokens"] == 0
    cut = [each for each in told if each.get("cut")]
    assert cut
    assert all("y" * 2001 not in json.dumps(each) for each in told)
    assert all("x" * 2001 not in json.dumps(each) for each in told)
    whole = [entry_row(each, uncut=True) for each in entries]
    assert any("y" * 2500 in json.dumps(each["data"]) for each in whole)
    assert not any(each.get("cut") for each in whole)


MODEL = {"key": "1", "about": {"model": "of a server"}}
ACTION = {"key": "1.0", "about": {"action": "look", "id": "call_1"}}
ANSWER = {"text": "Yes.", "usage": [10, 5]}


@pytest.mark.parametrize(
    ("kind", "data", "tokens", "usd", "calls"),
    (
        ("ended", {**MODEL, "result": ANSWER}, 15, None, 1),
        ("ended", {**MODEL, "result": {"answer": ANSWER}}, 15, None, 1),  # of a citizen
        ("ended", {**MODEL, "result": {"text": "Free.", "usage": [0, 0]}}, 0, "0", 1),
        (
            "ended",
            {**MODEL, "result": ANSWER, "charged": {"tokens": 20, "usd": "0.5"}},
            20,
            "0.5",
            1,
        ),
        ("failed", {**MODEL, "charged": {"tokens": 7, "model_calls": 2}}, 7, None, 2),
        ("ended", {"key": "H1", "result": {"stop_reason": "done", "usage": [3, 4]}}, 7, None, 0),
        ("started", {**MODEL, "result": ANSWER}, None, None, 0),
        ("ended", {"key": "1", "result": {"usage": [3, 4]}}, None, None, 0),
        ("ended", {"key": "1", "result": {"stop_reason": "x", "usage": "all"}}, None, None, 0),
        ("ended", {**ACTION, "result": {"stop_reason": "x", "usage": [3, 4]}}, None, None, 0),
    ),
)
def test_step_shows_what_it_spent(
    kind: str, data: dict[str, Any], tokens: int | None, usd: str | None, calls: int
) -> None:
    entry = Entry(1, "", kind, 1.0, data)
    told, totals = entry_row(entry).get("spent"), Totals([entry]).to_json()
    if tokens is None:
        assert (told, totals["tokens"]) == (None, 0)
    else:
        assert (told["tokens"], told["usd"], told["model_calls"]) == (tokens, usd, calls)
        assert totals["unpriced"] == (0 if usd else tokens)
    assert (totals["model_calls"], totals["usd"]) == (calls, usd or "0")


def test_run_has_as_many_errors_in_its_row_as_in_its_head(tmp_path: Path) -> None:
    """An answer that could not be used is one, also in a copy from elsewhere."""
    script = [Call("1", "nothing", {}), Call("2", "look", {"path": "a"}), "There is none."]
    with Journal(tmp_path / "runs.db") as journal, Journal(tmp_path / "other.db") as other:
        agent = ReActAgent("a", ScriptedModel(script), actions=[look], journal=journal)
        aside(agent.reply("Do it.", run_id="R"))
        journal.export("R", tmp_path / "R.jsonl")
        other.import_run(tmp_path / "R.jsonl")
        assert Totals(journal.entries("R")).to_json()["errors"] == 2
        assert (journal.run("R").errors, other.run("R").errors) == (2, 2)
        assert journal.sums().errors == 2


@pytest.mark.parametrize(
    ("kind", "data", "fault"),
    (
        ("failed", {**MODEL, "error": "HTTP 500"}, "HTTP 500"),
        ("failed", {**MODEL, "error": "stopped", "cancelled": True}, None),
        ("ended", {**ACTION, "result": {"args": {}, "result": {"error": "no file"}}}, "no file"),
        ("ended", {**ACTION, "result": {"args": {}, "result": {"error": None}}}, None),
        ("ended", {**MODEL, "result": {"failed": "no answer"}}, "no answer"),  # of a citizen
        ("ended", {"key": "1", "result": {"failed": "3 of 4"}}, None),  # of a program of one's own
        ("ended", {"key": "1", "result": "error"}, None),
    ),
)
def test_step_shows_what_went_wrong(kind: str, data: dict[str, Any], fault: str | None) -> None:
    entry = Entry(1, "", kind, 1.0, data)
    assert entry_row(entry).get("fault") == fault
    assert Totals([entry]).to_json()["errors"] == bool(fault)


def test_entry_is_cut_where_it_is_long() -> None:
    """And whole where it is not; a call that was begun twice is one."""
    deep: Any = []
    for _ in range(39):
        deep = [deep]
    args = {"text": "x" * 2000, "list": [*range(100)], "deep": deep}
    entry = Entry(1, "", "started", 1.0, {**ACTION, "args": args})
    told = entry_row(entry)
    assert (told["data"], "cut" in told) == (entry.data, False)
    long = {"text": "x" * 2001, "list": [*range(101)], "deep": [[deep]]}
    again = Entry(2, "", "started", 2.0, {**ACTION, "args": long})
    cut = entry_row(again)
    assert cut["cut"] is True
    assert cut["data"]["args"] == {"text": "x" * 2000 + " …", "list": [*range(100)], "deep": deep}
    assert entry_row(again, uncut=True)["data"] == again.data
    assert Totals([entry, again]).to_json()["tool_calls"] == 1


def test_card_of_a_call_offers_a_permission_for_its_run_unless_it_has_a_note() -> None:
    """A refusal tells its reason."""
    cards = Cards(EventFeed())

    def call(path: str, run: str | None = "r", action: str = "write", note: str = "") -> Any:
        about = (action, {"path": path}, "a", {}, run)
        return ApprovalRequest("a", *about, note=note, check=lambda args: None)

    async def decided(request: ApprovalRequest, **answer: Any) -> Any:
        asking = asyncio.create_task(cards.approve(request))
        await asyncio.sleep(0)
        (card,) = cards.to_json()
        given = {"permit": True, "fingerprint": card["fingerprint"], **answer}
        wrong_choices: Any = ({"choice": each} for each in ("always", "runs", True, ["run"], 1))
        for wrong in (
            *wrong_choices,
            {"always": True},
            {"permit": None, "choice": ""},
            {"reason": 3},
            {"reason": "x" * 2_001},
        ):
            with pytest.raises(ConfigError):
                cards.decide(card["number"], {**given, **wrong})
        if request.note or request.run_id is None:
            assert card["choices"] == {}
            with pytest.raises(ConfigError, match="choice must be empty for this call, got 'run'"):
                cards.decide(card["number"], {**given, "choice": "run"})
        else:
            offered = {"run": "Always in this run", "never": "Never in this run"}
            assert card["choices"] == offered
            both = {**given, "permit": True, "choice": "run"}
            with pytest.raises(ConfigError, match="args must be for this call alone"):
                cards.decide(card["number"], {**both, "args": {"path": "x"}})
        cards.decide(card["number"], given)
        return await asking

    async def story() -> None:
        assert await decided(call("1")) is True
        assert await decided(call("2"), choice="run") == AlwaysInRun()
        assert await decided(call("2"), choice="run", permit=None) == AlwaysInRun()
        assert await decided(call("2"), choice="run", permit=False) is False
        for said in (None, False, True):
            assert await decided(call("2"), choice="never", permit=said) == NeverInRun()
        others = (call("4", "s"), call("4", action="delete"), call("4", note="x"), call("4", None))
        for other in others:
            refused = await decided(other, permit=False, reason=" not now ")
            assert refused == Refused("not now")
        assert await decided(others[0], permit=False) is False

    aside(story())


class Watched(Journal):
    """A journal at which somebody looks as soon as a wait is answered."""

    is_answered: Callable[[], None] = staticmethod(lambda: None)

    def answer(self, *args: Any, **options: Any) -> None:
        super().answer(*args, **options)
        self.is_answered()


def test_card_whose_answer_is_found_in_the_journal_meanwhile_is_answered(tmp_path: Path) -> None:
    cards = Cards(EventFeed())
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    model = ScriptedModel([{"name": "pay"}, "Done."])
    with Watched(tmp_path / "runs.db") as journal:
        about: dict[str, Any] = {"journal": journal, "approver": Waiting()}
        agent = ReActAgent("clerk", model, actions=[pay], **about)
        aside(agent.reply("Go.", run_id="r"))
        cards.refresh_waits(journal, "eva")
        (card,) = cards.to_json()
        journal.is_answered = lambda: cards.refresh_waits(journal, "eva")
        answer = {"permit": True, "fingerprint": card["fingerprint"]}
        assert cards.decide(card["number"], answer) == "permitted"
        assert cards.to_json() == []


def test_card_takes_a_decision_and_nothing_else(tmp_path: Path) -> None:
    """Any page may give it, in words; who comes late is told so."""
    feed = EventFeed()
    cards = Cards(feed)
    given: dict[str, Any] = {"instruction": " Look. ", "reasoning": " so "}
    wrong = (
        ({}, 'missing argument "choice"'),
        ({"choice": "stop"}, "choice must be one of accept, continue, redirect, got 'stop'"),
        ({"choice": "continue"}, "to continue, write an instruction"),
        ({"choice": "redirect", "instruction": " \n"}, "to redirect, write an instruction"),
        ({"choice": "accept", "reasoning": 3}, 'argument "reasoning" must be'),
    )

    async def decided(journal: Journal, run: str, answer: dict[str, Any]) -> HumanDecision:
        clerk = ReActAgent("clerk", ScriptedModel(["Ten.", "Two."]))
        about: dict[str, Any] = {"journal": journal, "approver": Waiting()}
        agent = DualActAgent(human=Person("you"), reactive=clerk, first="reactive", **about)
        await agent.reply("How many?", run_id=run)
        cards.refresh_waits(journal, "you")
        (card,) = cards.to_json()
        assert (card["kind"], card["run"], card["round"]) == ("decision", run, 1)
        for each, words in wrong:
            with pytest.raises(ConfigError, match=re.escape(words)):
                cards.decide(card["number"], each)
        cards.decide(card["number"], answer)
        with pytest.raises(CardGone, match="is not open: it was answered, or what asked"):
            cards.decide(card["number"], answer)
        (resumed,) = await agent.resume_decided()
        journal.delete(run)
        return cast(Any, resumed.reply).decisions[0]

    with Journal(tmp_path / "runs.db") as journal:
        accepted = aside(decided(journal, "1", {"choice": "accept", **given}))
        continued = aside(decided(journal, "2", {"choice": "continue", "instruction": "Look."}))
        redirected = aside(decided(journal, "3", {"choice": "redirect", **given}))
    assert accepted == HumanDecision(DecisionAction.TERMINATE, "", "so")
    assert continued == HumanDecision(DecisionAction.CONTINUE, "Look.", "continued by a person")
    assert redirected == HumanDecision(DecisionAction.REDIRECT, "Look.", "so")
    told = aside(frames(feed, 0, 2))[1]["events"]
    assert [each[1] for each in told] == ["card", "card_gone"] * 3
    assert told[1][2] == {"number": 1, "said": "accepted"}

    async def questions() -> list[str]:
        of = [Question("a", f"{n}?", f"run {n}") for n in range(2)]
        asking = [asyncio.create_task(cards.answer(each)) for each in of]
        await asyncio.sleep(0)
        shown = cards.to_json()
        assert [Question(*map(each.get, ("agent", "text", "run"))) for each in shown] == of
        for each in shown:
            assert cards.decide(each["number"], {"text": f" {each['text']}"}) == "answered"
        return await asyncio.gather(*asking)

    assert aside(questions()) == [" 0?", " 1?"]
