"""Agents of a company die and are started again; requests wait meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import pytest

from company.conftest import MakeCompany, live, until, value
from moothall import Agent
from moothall.errors import (
    ActionError,
    AgentStopped,
    ConfigError,
    DefinitionError,
    GivenUp,
    RequestError,
    SpaceClosed,
)

CLERK = """
agents:
  Clerk:
    ref: program.py:Clerk
    restart: {first: 1ms, longest: 20ms, most: 1000}
"""


def test_an_agent_that_died_is_made_anew_and_what_waits_is_answered(
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


def test_an_agent_that_left_its_space_comes_back(make_company: MakeCompany) -> None:
    company = make_company(CLERK)

    async def work(me: Agent) -> None:
        await me.ask("Clerk", "leave")
        assert (
            await me.request({"to": "Clerk", "action": {"name": "which", "args": {}}}, wait=True)
            == 2
        )
        assert "has left its space" in company.health()["agents"]["Clerk"]["error"]

    live(company, work)


def test_an_action_that_raises_is_an_outcome_and_no_death(make_company: MakeCompany) -> None:
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


def test_an_agent_whose_coming_fails_is_tried_again_and_its_messages_wait(
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


def test_an_agent_that_dies_too_often_ends_the_company(make_company: MakeCompany) -> None:
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


def test_an_agent_that_is_given_up_may_leave_the_others_at_work(make_company: MakeCompany) -> None:
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


def test_deaths_under_load_leave_no_request_without_an_outcome_and_the_counters_agree(
    make_company: MakeCompany,
) -> None:
    """300 requests of ten senders at three agents, which die 30 times meanwhile."""
    deaths_under_load(make_company, requests=30, deaths=10)


@pytest.mark.long
def test_three_thousand_deaths_under_load(make_company: MakeCompany) -> None:
    deaths_under_load(make_company, requests=3_000, deaths=1_000)


def deaths_under_load(make_company: MakeCompany, requests: int, deaths: int) -> None:
    names = ("A", "B", "C")
    company = make_company(
        "agents:\n"
        + "".join(f"  {each}: {{ref: 'program.py:Clerk'}}\n" for each in names)
        + "restart: {first: 1ms, longest: 5ms, most: 1000000}\n"
    )
    seen: Counter[tuple[str, str]] = Counter()
    slowest = 0.0

    async def ask(sender: Agent, number: int) -> None:
        for index in range(requests):
            to = names[(number + index) % 3]
            try:
                await sender.ask(to, ("which", "greet", "fail")[index % 3])
                seen[to, "ok"] += 1
            except (ActionError, AgentStopped) as error:
                seen[to, type(error).__name__] += 1
            await asyncio.sleep(0)

    async def kill(name: str) -> None:
        nonlocal slowest
        loop = asyncio.get_running_loop()
        for number in range(deaths):
            agent = company.agents[name]
            company.space._thread.enter(agent.dying.set)  # type: ignore[attr-defined]
            begun = loop.time()
            await until(lambda: company.health()["agents"][name]["restarts"] > number)  # noqa: B023
            slowest = max(slowest, loop.time() - begun)

    async def work(me: Agent) -> None:
        senders = [
            await asyncio.to_thread(company.space.add, Agent(f"sender {each}"))
            for each in range(10)
        ]
        await asyncio.gather(
            *(ask(sender, number) for number, sender in enumerate(senders)), *map(kill, names)
        )
        metrics = company.metrics()
        for name in names:
            assert value(metrics, "moothall_deaths_total", agent=name) == deaths
            assert value(metrics, "moothall_restarts_total", agent=name) == deaths
            for outcome in ("ok", "ActionError", "AgentStopped"):
                counted = value(metrics, "moothall_requests_total", agent=name, outcome=outcome)
                assert counted == seen[name, outcome], (name, outcome)
        assert sum(seen.values()) == 10 * requests
        assert value(metrics, "moothall_requests_total") == 10 * requests
        assert slowest < 2

    live(company, work)


def test_the_drain_lets_what_runs_end_and_begins_nothing_new(make_company: MakeCompany) -> None:
    company = make_company(CLERK + "drain: 30s\n")

    async def main() -> None:
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

    asyncio.run(main())


@pytest.mark.parametrize(
    ("ref", "error", "told"),
    (
        ("program.py:Nobody", ConfigError, "has no 'Nobody'"),
        ("nowhere.py:Clerk", ConfigError, "there is no file"),
        ("program:made", ConfigError, "neither an agent, nor a class"),
        ("../x/..:Clerk", ConfigError, "not of the form MODULE:NAME"),
    ),
)
def test_a_company_whose_agent_cannot_be_made_does_not_start(
    make_company: MakeCompany, ref: str, error: type[DefinitionError], told: str
) -> None:
    company = make_company(f"agents: {{Clerk: {{ref: '{ref}'}}}}")

    async def work(me: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(error, match=told):
        live(company, work)


def test_a_function_without_id_makes_an_agent_of_that_id(make_company: MakeCompany) -> None:
    async def work(me: Agent) -> int:
        number: int = await me.ask("Clerk", "which")
        return number

    assert live(make_company("agents: {Clerk: {ref: 'program.py:clerk'}}"), work) == 1
