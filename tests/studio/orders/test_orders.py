"""What orders may say, whose key a model is given, and what an order is made into."""

from __future__ import annotations

import asyncio
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moothall import Journal, RefuseAll
from moothall.actions import ACCESS_PERMITTED, ACCESS_REQUESTED
from moothall.foundation.errors import (
    ConfigError,
    FileError,
    MissingExtra,
    PageError,
    RunMismatch,
    StateError,
)
from moothall.journal import Entry
from moothall.models.named_models import budget_of, chosen_model, made_model
from moothall.models.names import model
from moothall.research import Report, Researcher, ResourcePool
from moothall.studio.orders.act import act_agent, actions_of, check_journal_apart, model_keys
from moothall.studio.orders.order import (
    ActOrder,
    ResearchOrder,
    check_no_keys,
    order_line,
    order_of,
    readable_order,
    record_order,
)
from moothall.studio.orders.research import check_research, make_researcher, write_report

SERVED = "http://127.0.0.1:1/v1#m"


def test_key_of_the_file_is_for_the_model_of_the_file_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOTHALL_KEY", "own")
    said = {"model": "openai:a", "key": "of-file"}
    of_file = ActOrder("x", model="openai:a", model_of_file=True)
    assert model_keys(of_file, said) == ("of-file", "own")
    assert model_keys(replace(of_file, model="openai:b"), said) == (None, "own")
    assert model_keys(of_file, {"key": "of-file"}) == (None, "own")
    assert model_keys(replace(of_file, model_of_file=False), said) == ("own", "own")
    assert chosen_model(said, "openai:c", "k") == ("openai:c", "k")
    assert chosen_model(said, None, "k") == ("openai:a", "of-file")
    assert chosen_model({"key": "of-file"}, None, "k") == ("local", None)


def test_model_is_made_with_its_key_or_it_is_said_what_is_wrong() -> None:
    assert made_model(SERVED, "k").name == made_model(SERVED, None).name == model(SERVED).name
    for each in ("openai:gpt-4o-mini", "anthropic:claude-x", "openrouter:anthropic/claude-x"):
        assert made_model(each, "k").name == each
    for wrong in ("gpt-4o-mini", "ftp://x#m"):
        with pytest.raises(ConfigError, match=f"there is no model '{wrong}'.*; names are local"):
            made_model(wrong, "k")
    for wrong, why in (
        ("http://127.0.0.1:1/v1", "does not say which model"),
        ("http://127.0.0.1/v1?a#m", "its address must end with its path"),
        ("local:nope", "there are no weights called 'nope'"),
    ):
        with pytest.raises(ConfigError, match=why):
            made_model(wrong, "k")
    assert budget_of("act", None, usd=None, tokens=None) is None
    budget = budget_of("act", None, usd=None, tokens=5)
    assert budget is not None
    assert budget.name == "moothall act"


@pytest.mark.parametrize("yes_read", (True, False))
@pytest.mark.parametrize("small", (True, False))
def test_order_of_approval_for_reads_asks_before_reading(
    tmp_path: Path, small: bool, yes_read: bool
) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "below").mkdir()
    order = ActOrder("x", str(tmp_path), "local" if small else SERVED, yes_read=yes_read)
    actions = {each.name: each for each in actions_of(order)}
    looking = [actions.pop(name) for name in ("list_files", "read_file", "search_in_file")]
    policy = ACCESS_PERMITTED if yes_read else ACCESS_REQUESTED
    assert {each.access_policy for each in looking} == {policy}
    assert {each.access_policy for each in actions.values()} == {ACCESS_REQUESTED}
    assert {each.terminal for each in (*looking, *actions.values())} == {small}
    assert bool(looking[0].parameters["properties"]) is not small
    assert ("anyOf" in looking[1].parameters["properties"]["file_name"]) is small


@pytest.mark.parametrize(
    ("name", "given", "answers"), ((SERVED, None, 10), (SERVED, 3, 3), ("local", None, 1))
)
def test_model_gives_as_many_answers_as_are_usual_or_ordered(
    tmp_path: Path, weights: Path, name: str, given: int | None, answers: int
) -> None:
    order = ActOrder("x", str(tmp_path), name, max_iterations=given)
    assert act_agent(order, approver=RefuseAll()).max_iterations == answers


def test_journal_is_out_of_the_folders_reach(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    order = ActOrder("x", str(root))
    for inside in (root / "runs.db", tmp_path / "link" / "runs.db", root / "a" / ".." / "b"):
        with pytest.raises(ConfigError, match="is in the folder that the agent works on"):
            check_journal_apart(order, str(inside))
    check_journal_apart(order, str(tmp_path / "runs.db"))
    check_journal_apart(order, str(tmp_path / "work.db"))


@pytest.mark.parametrize("field", ("model", "review"))
@pytest.mark.parametrize("address", ("https://me:key@x.test/v1#m", "http://x.test/v1?key=1#m"))
def test_order_address_that_may_hold_a_key_is_not_recorded(field: str, address: str) -> None:
    with pytest.raises(ConfigError, match=r"the address of x\.test has a user or a query"):
        check_no_keys(ActOrder("x", **{field: address}))
    check_no_keys(ActOrder("x", model="http://x.test/v1#a?b@c", review="gguf:/a?b@c"))


def test_order_in_words_is_one_line() -> None:
    order = ActOrder("x", "docs", "openai:a")
    assert order.in_words == "openai:a in docs"
    more = replace(order, review="me", network=True)
    assert more.in_words == "openai:a in docs, reviewed by me, commands have the network"
    found = ResearchOrder(["a", "b"], folder="docs", search_web=True)
    assert (found.task, found.in_words) == ("a\nb", "no model, extractive; docs and the web")
    found = replace(found, model="m", searxng="http://s", site="a.org")
    assert found.in_words == "m; docs and the web by http://s, a.org alone"


def test_run_of_another_program_is_none_of_a_command(tmp_path: Path) -> None:
    async def mine(journal: Journal) -> None:
        part = await journal.begin("R", "Clerk", "files", "x")
        part.note("begun", {"kind": "Clerk", "agent": "files", "fingerprint": None})
        await part.commit()
        part.close()
        agent = act_agent(ActOrder("x", str(tmp_path), SERVED), approver=RefuseAll())
        with pytest.raises(RunMismatch, match="it is not a run of moothall act"):
            await record_order(ActOrder("x", "."), journal, "R", agent)
        await record_order(ActOrder("x", ".", SERVED), journal, "S", agent)
        found = order_of(journal.entries("S"))
        assert isinstance(found, ActOrder)
        assert found.root == str(Path.cwd())  # whichever folder it goes on from

    with Journal(tmp_path / "runs.db") as journal:
        asyncio.run(mine(journal))


@pytest.mark.parametrize(
    ("order", "told"),
    (
        ({}, "there is nothing to search: give --folder DIR, --search-web or --searxng URL"),
        ({"objectives": ["a", " "], "folder": "."}, "an OBJECTIVE is empty"),
        ({"folder": ".", "site": "a.org"}, "--site is for the web"),
        ({"folder": ".", "allow_hosts": ["x"]}, "--allow-host is for the web"),
        ({"search_web": True, "site": "a.org/b"}, "--site must be a host such as"),
        ({"search_web": True, "site": "https:a"}, "--site must be a host such as"),
        ({"folder": ".", "role": "poet"}, "--role is for a model: give --model too"),
        ({"folder": ".", "max_usd": 1.0}, "--max-usd is for a model"),
        ({"folder": ".", "max_tokens": 1}, "--max-tokens is for a model"),
        ({"folder": ".", "out": "/none/a.md"}, "--out: nothing can be written in '/none'"),
        ({"folder": ".", "html": "/none/a.html"}, "--html: nothing can be written in '/none'"),
    ),
)
def test_order_of_research_that_cannot_be_carried_out_is_told(
    order: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        check_research(ResearchOrder(**{"objectives": ["a"], **order}))


def test_order_of_a_page_without_its_extra_fails_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ResearchOrder(["a"], folder=str(tmp_path), html=str(tmp_path / "r.html"))
    check_research(order)
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(MissingExtra, match=r"a report as HTML needs the extra 'research'"):
        check_research(order)


def test_research_is_made_as_it_was_ordered_and_its_report_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The port of alpha is 4711.\n")
    out, page = tmp_path / "report.md", tmp_path / "report.html"
    order = ResearchOrder(["the port of alpha"], folder=str(tmp_path), iterations=2)
    order = replace(order, out=str(out), html=str(page), max_seconds=60.0)
    check_research(order)
    report = Report("The port of alpha is 9.\x1b[31m\n", [], "done")
    assert write_report(report, order) == [("page", str(page)), ("report", str(out))]
    assert out.read_text().startswith("The port of alpha is 9.\ufffd[31m\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # as on a full disk
    try:
        with pytest.raises(FileError, match=r"the report '.*report\.md' cannot be written: File"):
            write_report(report, replace(order, html=None))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    made = make_researcher(order)
    assert (made.iterations, list(made.tools)) == (2, ["search_folder"])
    assert [each.passage.url for each in made.report_sync().citations] == [
        (tmp_path / "notes.md").as_uri()
    ]
    web = make_researcher(
        replace(order, folder=None, searxng="http://127.0.0.1:1", search_web=False)
    )
    assert list(web.tools) == ["search_web", "visit_page", "read_pdf"]
    on_site = make_researcher(
        replace(order, folder=None, search_web=True, site="sqlite.org", allow_hosts=["127.0.0.1"])
    )

    here = make_researcher(replace(order, folder=None, search_web=True, allow_hosts=["127.0.0.1"]))

    async def visited(made: Researcher, tool: str) -> None:
        await made.tools[tool].function(url="http://127.0.0.1:9/", pool=ResourcePool())

    for tool in ("visit_page", "read_pdf"):
        with pytest.raises(PageError, match=r"is not on sqlite\.org"):
            asyncio.run(visited(on_site, tool))
        with pytest.raises(PageError, match=r"robots\.txt cannot be read \((?!.*public)"):
            asyncio.run(visited(here, tool))


def test_order_of_another_version_is_said_and_shown_as_an_entry() -> None:
    """The last order counts; what is no order is passed over."""
    state = {"task": "Do it", "root": "/tmp", "model": "m"}
    entries = [
        Entry(1, "", "begun", 0.0, {"kind": "ReActAgent", "agent": "files", "task": "Do it"}),
        Entry(2, "act", "state", 0.0, {"state": state, "appended": {}}),
        Entry(3, "act", "state", 0.0, {"state": state | {"review": "me"}, "appended": {}}),
        Entry(4, "act", "over", 0.0, {"reason": "done"}),
    ]
    assert order_of(entries) == ActOrder("Do it", "/tmp", "m", review="me")
    assert order_of(entries[:1]) is None
    assert order_line(entries[2]) == "set up: m in /tmp, reviewed by me"
    newer = Entry(5, "act", "state", 0.0, {"state": state | {"color": "red"}, "appended": {}})
    with pytest.raises(StateError, match="entry 5 was written by another version of moothall"):
        order_of([*entries, newer])
    assert readable_order(newer) is None
    assert not order_line(newer).startswith("set up")
