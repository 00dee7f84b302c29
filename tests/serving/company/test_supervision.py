"""Agents of a company die and are started again; requests wait meanwhile."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from benchmarks.postgresql import Server

from moothall import Agent, Journal, MoothallError
from moothall.foundation.errors import (
    ActionError,
    ConfigError,
    DefinitionError,
    GivenUp,
    RequestError,
    SpaceClosed,
)
from serving.company.conftest import WAIT_S, MakeCompany, live, until, value

CLERK = """
agents:
  Clerk:
    ref: program.py:Clerk
    restart: {first: 1ms, longest: 20ms, most: 1000}
"""


def test_agent_that_died_is_made_anew_and_what_waits_is_answered(
    make_company: MakeCompany,
) -> None:
    company = make_company(CLERK)

    async def work(me: Agent) -> None:
        assert await me.ask("Clerk", "which") == 1
        await me.ask("Clerk", "die")
        await until(lambda: company.health()["agents"]["Clerk"]["restarts"] == 1)
        assert await me.ask("Clerk", "which") == 2
        said = company.health()["agents"]["Clerk"]
        assert (said["state"], said["deaths"]) == ("running", 1)
        assert said["error"] == "RuntimeError: no luck"

    live(company, work)


def test_agent_that_left_its_space_comes_back(make_company: MakeCompany) -> None:
    company = make_company(CLERK)

    async def work(me: Agent) -> None:
        await me.ask("Clerk", "leave")
        assert (
            await me.request({"to": "Clerk", "action": {"name": "which", "args": {}}}, wait=True)
            == 2
        )
        assert "has left its space" in company.health()["agents"]["Clerk"]["error"]

    live(company, work)


def test_action_that_raises_is_an_outcome_and_no_death(make_company: MakeCompany) -> None:
    company = make_company(CLERK)

    async def work(me: Agent) -> None:
        with pytest.raises(ActionError, match="only this action"):
            await me.ask("Clerk", "fail")
        assert company.health()["agents"]["Clerk"]["deaths"] == 0
        assert (
            value(
                company.metrics(), "moothall_requests_total", agent="Clerk", outcome="ActionError"
            )
            == 1
        )

    live(company, work)


def test_agent_whose_coming_fails_is_tried_again_and_its_messages_wait(
    make_company: MakeCompany,
) -> None:
    company = make_company(CLERK + "    options: {fails_to_come: 3}\n")

    async def work(me: Agent) -> None:
        await me.ask("Clerk", "die")
        await until(lambda: company.health()["agents"]["Clerk"]["deaths"] > 1)
        assert await me.ask("Clerk", "which") == 5
        await until(lambda: company.health()["agents"]["Clerk"]["restarts"] == 1)
        said = company.health()["agents"]["Clerk"]
        assert (said["deaths"], said["restarts"]) == (4, 1)
        assert said["error"] == "OSError: no way in"

    live(company, work)


def test_agent_that_dies_too_often_ends_the_company(make_company: MakeCompany) -> None:
    company = make_company(
        CLERK.replace("most: 1000", "most: 2") + "on_given_up: program.py:given_up"
    )

    async def work(me: Agent) -> None:
        for _ in range(3):
            await me.ask("Clerk", "die")
            deaths = company.health()["agents"]["Clerk"]["deaths"]
            await until(lambda: company.health()["agents"]["Clerk"]["deaths"] > deaths)  # noqa: B023
            await until(lambda: company.health()["agents"]["Clerk"]["state"] != "waiting")
            if company.health()["agents"]["Clerk"]["state"] == "given up":
                break
            await until(lambda: company.health()["agents"]["Clerk"]["state"] == "running")
        with pytest.raises(GivenUp, match="'Clerk' died 3 times and is not started again"):
            await company.ended()
        assert company.health()["live"] is False
        assert value(company.metrics(), "moothall_given_up_total") == 1

    live(company, work)
    assert [each.name for each in sys.modules["program"].told] == ["Clerk"]


def test_agent_that_is_given_up_may_leave_the_others_at_work(make_company: MakeCompany) -> None:
    company = make_company(
        CLERK.replace("most: 1000", "most: 0")
        + "  Other: {ref: 'program.py:Clerk'}\ngiven_up: stay\n"
    )

    async def work(me: Agent) -> None:
        await me.ask("Clerk", "die")
        await until(lambda: "Clerk" not in company.space.ids())
        with pytest.raises(RequestError):
            await me.ask("Clerk", "which")
        assert await me.ask("Other", "which")
        said = company.health()
        assert (said["live"], said["ready"]) == (True, False)
        assert said["agents"]["Clerk"]["state"] == "given up"

    live(company, work)


@pytest.mark.parametrize(
    ("path", "body"),
    (
        ("/v1/chat/completions", {"model": "D", "messages": [{"role": "user", "content": "Hi"}]}),
        ("/ag-ui/D", {"threadId": "t", "runId": "r", "messages": []}),
        ("/a2a/D", {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}),
    ),
)
def test_agent_that_is_given_up_is_not_there_for_callers_by_http(
    make_company: MakeCompany, path: str, body: dict[str, Any]
) -> None:
    company = make_company(
        "agents: {D: {ref: 'program.py:Recorder'}, E: {ref: 'program.py:Recorder'}}\n"
        "restart: {most: 0}\ngiven_up: stay\nhttp: {listen: '127.0.0.1:0'}\n"
    )

    async def work(me: Agent) -> None:
        company.space.loop_thread.call_soon(company.agents["D"].dying.set)  # type: ignore[attr-defined]
        await until(lambda: "D" not in company.space.ids())
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{company.port}") as http:
            models = (await http.get("/v1/models")).json()["data"]
            assert [each["id"] for each in models] == ["E"]
            assert (await http.post(path, json=body)).status_code == 404

    live(company, work)


def test_deaths_under_load_leave_no_request_without_an_outcome_and_the_counters_agree(
    make_company: MakeCompany,
) -> None:
    """300 requests of ten senders at three agents, which die 30 times meanwhile."""
    deaths_under_load(make_company, requests=30, deaths=10)


def test_metrics_count_the_replies_that_waited_for_an_agent_made_anew(
    make_company: MakeCompany,
) -> None:
    company = make_company(
        "agents: {D: {ref: 'program.py:Recorder'}}\nrestart: {first: 1ms, most: 100}\n"
    )

    async def work(me: Agent) -> None:
        answered = 0
        for number in range(5):
            company.space.loop_thread.call_soon(company.agents["D"].dying.set)  # type: ignore[attr-defined]
            await until(lambda: company.health()["agents"]["D"]["deaths"] > number)  # noqa: B023
            asked = [me.ask("D", "say", content=f"{each}") for each in range(10)]
            answered += [await each for each in asked].count("yes")
            await until(lambda: company.health()["agents"]["D"]["restarts"] > number)  # noqa: B023
        said = value(company.metrics(), "moothall_replies_total", agent="D", stop_reason="done")
        assert said == answered == 50

    live(company, work)


@pytest.mark.long
def test_deaths_by_the_thousand_leave_no_request_without_an_outcome(
    make_company: MakeCompany,
) -> None:
    deaths_under_load(make_company, requests=3_000, deaths=1_000)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_deaths_and_cut_connections_to_the_journal_leave_no_request_without_an_outcome(
    make_company: MakeCompany, postgresql: Server
) -> None:
    """Beside the three, an agent whose replies are recorded in PostgreSQL dies as often."""
    url = postgresql.url(f"s{secrets.token_hex(6)}")
    Journal(url).close()
    deaths = int(os.environ.get("MOOTHALL_DEATHS", "250"))
    deaths_under_load(make_company, requests=4 * deaths, deaths=deaths, journal=url)


def deaths_under_load(
    make_company: MakeCompany, requests: int, deaths: int, journal: str | None = None
) -> None:
    names = ["A", "B", "C"]
    text = "agents:\n" + "".join(f"  {each}: {{ref: 'program.py:Clerk'}}\n" for each in names)
    if journal is not None:
        names.append("D")
        text = f"journal: '{journal}'\n{text}  D: {{ref: 'program.py:Recorder'}}\n"
    company = make_company(text + "restart: {first: 1ms, longest: 5ms, most: 1000000}\n")
    seen: Counter[tuple[str, str]] = Counter()
    slowest = 0.0

    async def ask(sender: Agent, number: int) -> None:
        for index in range(requests):
            to = names[(number + index) % len(names)]
            given = {"content": f"{number}.{index}"} if to == "D" else {}
            what = "say" if given else ("which", "greet", "fail")[index % 3]
            try:
                await sender.ask(to, what, **given)
                seen[to, "ok"] += 1
            except MoothallError as error:
                seen[to, type(error).__name__] += 1
            await asyncio.sleep(0)

    async def kill(name: str) -> None:
        nonlocal slowest
        loop = asyncio.get_running_loop()
        for number in range(deaths):
            agent = company.agents[name]
            company.space.loop_thread.call_soon(agent.dying.set)  # type: ignore[attr-defined]
            begun = loop.time()
            await until(lambda: company.health()["agents"][name]["restarts"] > number)  # noqa: B023
            slowest = max(slowest, loop.time() - begun)

    async def cut(dying: list[asyncio.Task[None]]) -> int:
        """Cut the journal's connections again and again, while agents die; how often."""
        cuts = 0
        while journal is not None and not all(each.done() for each in dying):
            cuts += await asyncio.to_thread(cut_connections, journal)
        return cuts

    async def work(me: Agent) -> None:
        senders = [
            await asyncio.to_thread(company.space.add, Agent(f"sender {each}"))
            for each in range(10)
        ]
        dying = [asyncio.create_task(kill(name)) for name in names]
        *_, cuts = await asyncio.gather(
            *(ask(sender, number) for number, sender in enumerate(senders)), *dying, cut(dying)
        )
        metrics = company.metrics()
        print(f"{deaths * len(names)} deaths, {cuts} cuts, slowest {slowest:.2f} s: {dict(seen)}")
        for name in names:
            assert value(metrics, "moothall_deaths_total", agent=name) == deaths
            assert value(metrics, "moothall_restarts_total", agent=name) == deaths
            for outcome in {outcome for _, outcome in seen}:
                counted = value(metrics, "moothall_requests_total", agent=name, outcome=outcome)
                assert counted == seen[name, outcome], (name, outcome)
        assert sum(seen.values()) == 10 * requests
        assert value(metrics, "moothall_requests_total") == 10 * requests
        assert {outcome for name, outcome in seen if name != "D"} <= OUTCOMES
        # A restart may wait for the journal's connection, which comes back meanwhile.
        assert slowest < (2 if journal is None else 10)
        if journal is not None:
            assert cuts > 0
            said = value(metrics, "moothall_replies_total", agent="D", stop_reason="done")
            with Journal(journal) as recorded:
                # A run that seemed to be stopped, as its connection was cut, may be replayed.
                assert min(len(recorded.runs(agent="D")), said) >= seen["D", "ok"]

    live(company, work, within=1800 if journal else WAIT_S)


OUTCOMES = {"ok", "ActionError", "AgentStopped"}


def cut_connections(url: str) -> int:
    """Have the server end every other connection to a database; how many there were."""
    with psycopg.connect(url, autocommit=True) as server:
        ended = server.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND query LIKE '%entries%'"
        ).fetchone()
    return 0 if ended is None else int(ended[0])


async def test_drain_lets_what_runs_end_and_begins_nothing_new(make_company: MakeCompany) -> None:
    company = make_company(CLERK + "drain: 30s\n")
    async with company:
        program = sys.modules["program"]
        me = await asyncio.to_thread(company.space.add, Agent("me"))
        holding = [me.ask("Clerk", "hold", seconds=30) for _ in range(5)]
        await asyncio.to_thread(program.HOLDING.wait, 10)
        ending = asyncio.create_task(company.__aexit__())
        await until(lambda: company.health()["draining"])
        program.LET_GO.set()
        assert [await each for each in holding[:4]] == ["held"] * 4
        with pytest.raises(SpaceClosed):
            await holding[4]
        await ending


@pytest.mark.parametrize(
    ("ref", "error", "told"),
    (
        ("program.py:Nobody", ConfigError, "has no 'Nobody'"),
        ("nowhere.py:Clerk", ConfigError, "there is no file"),
        ("program:made", ConfigError, "neither an agent, nor a class"),
        ("../x/..:Clerk", ConfigError, "not of the form MODULE:NAME"),
    ),
)
def test_company_whose_agent_cannot_be_made_does_not_start(
    make_company: MakeCompany, ref: str, error: type[DefinitionError], told: str
) -> None:
    company = make_company(f"agents: {{Clerk: {{ref: '{ref}'}}}}")

    async def work(me: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(error, match=told):
        live(company, work)


@pytest.mark.parametrize(
    ("text", "told"),
    (
        ("agents: {A: {kind: react, options: {model: nope}}}", "agent 'A': there is no model"),
        ("agents: {A: {kind: host, options: {root: gone}}}", "does not exist"),
        ("agents: {A: {kind: mcp}}", "agent 'A': options need target"),
        (
            "agents: {A: {ref: 'program.py:clerk'}}\nbroker: {tls: true, ca_file: gone.pem}",
            "broker.ca_file: there is no file",
        ),
    ),
    ids=["model", "folder", "target", "certificate"],
)
def test_company_whose_file_names_what_is_not_there_does_not_start(
    make_company: MakeCompany, text: str, told: str
) -> None:
    async def work(me: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(ConfigError, match=told):
        live(make_company(text), work)


@pytest.mark.parametrize("kind", ("chatty", "react", "function"))
def test_company_keeps_the_conversations_of_a_built_in_agent_in_a_file_beside_its_own(
    make_company: MakeCompany, folder: Path, kind: str
) -> None:
    async def work(me: Agent) -> bool:
        return (folder / "chat.db").is_file()

    options = "{model: 'http://127.0.0.1:9/v1#none', memory: chat.db}"
    assert live(make_company(f"agents: {{A: {{kind: {kind}, options: {options}}}}}"), work)


def test_company_says_what_a_built_in_agent_is_good_for(make_company: MakeCompany) -> None:
    async def work(me: Agent) -> str:
        told: str = (await me.ask("A", "help"))["say"]["description"]
        return told

    options = "{model: 'http://127.0.0.1:9/v1#none', description: Sells tea.}"
    said = live(make_company(f"agents: {{A: {{kind: react, options: {options}}}}}"), work)
    assert said == "Sells tea."


def test_company_names_each_agent_that_its_modules_do_not_have(make_company: MakeCompany) -> None:
    async def work(me: Agent) -> None:
        raise AssertionError("it has started")

    company = make_company(
        "agents: {A: {ref: 'program.py:Gone'}, B: {ref: 'gone.py:B'}, C: {ref: 'program.py:clerk'}}"
    )
    with pytest.raises(ConfigError) as error:
        live(company, work)
    assert "agent 'A': 'program.py:Gone'" in str(error.value)
    assert "agent 'B': 'gone.py:B'" in str(error.value)


def test_function_without_id_makes_an_agent_of_that_id(make_company: MakeCompany) -> None:
    async def work(me: Agent) -> int:
        number: int = await me.ask("Clerk", "which")
        return number

    assert live(make_company("agents: {Clerk: {ref: 'program.py:clerk'}}"), work) == 1
