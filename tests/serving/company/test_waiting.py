"""What waits for a person in a company: parked, reminded of, answered by another process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.foundation.errors import ActionError, ConfigError
from moothall.serving import ScheduleControl, asgi
from serving.company.conftest import MakeCompany, live, until, value
from serving.company.served import Served
from serving.company.test_health import get
from serving.doors.a2a_calls import plain, rpc
from serving.doors.conftest import Waiting as Unanswering
from serving.doors.conftest import serving

AGENTS = """
from moothall import ACCESS_REQUESTED, Action, ReActAgent, ScriptedModel

paid = []
told = []


def pay(coins: int) -> str:
    paid.append(coins)
    return f"paid {coins}"


def clerk(id):
    script = [{"name": "pay", "args": {"coins": 3}}, "Paid."] * 50
    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    return ReActAgent(id, ScriptedModel(script), actions=[asked])


def tell(wait):
    told.append(str(wait))
"""

COMPANY = """
journal: runs.db
on_waiting: program.py:tell
remind: 1h
expire: 7d
agents:
  Clerk: {ref: 'program.py:clerk'}
"""


def test_message_parks_and_goes_on_once_another_process_has_permitted(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(AGENTS)
    company = make_company(COMPANY)

    async def work(me: Agent) -> None:
        say = {"to": "Clerk", "action": {"name": "say", "args": {"content": "Pay."}}}
        with pytest.raises(ActionError, match="waiting for the approval of pay"):
            await me.request(say, None)
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting()
            assert wait.until is not None
            assert wait.until - wait.since == pytest.approx(7 * 86_400, abs=60)
            text = company.metrics()
            assert value(text, "moothall_waiting", agent="Clerk", kind="approval") == 1
            assert (value(text, "moothall_in_doubt"), value(text, "moothall_stopped")) == (0, 0)
            office.answer(wait.run, wait.key, True, by="eva")
            await until(lambda: office.run(wait.run).state == "done")

    live(company, work)


SLOW = """
import threading

from moothall import ACCESS_REQUESTED, Action, Context, ReActAgent, ScriptedModel

LET_GO = threading.Event()


def pay(context: Context) -> str:
    return str(context.thread == "ada" and LET_GO.wait(20))


def answer(said, actions):
    return "Paid." if said[-1]["role"] == "tool" else {"name": "pay"}


def clerk(id):
    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    return ReActAgent(id, ScriptedModel(answer), actions=[asked])


def tell(wait):
    pass
"""


def test_run_that_is_permitted_goes_on_beside_one_that_takes_long(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(SLOW)
    company = make_company(COMPANY)

    async def work(me: Agent) -> None:
        from program import LET_GO  # type: ignore[import-not-found]

        clerk: Any = company.agents["Clerk"]
        for user in ("ada", "bo"):
            await clerk.reply("Pay.", thread=user, run_id=user)
        with Journal(folder / "runs.db") as office:
            for user, state in (("ada", "running"), ("bo", "done")):
                (wait,) = office.waiting(user)
                office.answer(user, wait.key, True, by="eva")
                await until(lambda: office.run(user).state == state)  # noqa: B023
            assert office.run("ada").state == "running"
            LET_GO.set()
            await until(lambda: office.run("ada").state == "done")

    live(company, work)


BELOW = """
from moothall import ACCESS_REQUESTED, Action, ReActAgent, ScriptedModel, Waiting

paid = []


def answer(calls):
    return ScriptedModel(lambda messages, _: "Done." if messages[-1]["role"] == "tool" else calls)


def clerk(id):
    pay = Action("pay", lambda: paid.append(1), "Pay.", access_policy=ACCESS_REQUESTED)
    about = {"journal": "JOURNAL", "approver": Waiting()}
    below = ReActAgent("below", answer({"name": "pay"}), actions=[pay], **about)
    for name in ("mid", id):
        call = answer({"name": str(below.id), "args": {"text": "Pay."}})
        below = ReActAgent(name, call, actions=[below.as_action()], **about)
    return below
"""


def test_company_started_anew_goes_on_with_what_its_agents_agents_had_asked(
    folder: Path, make_company: MakeCompany
) -> None:
    journal = folder / "runs.db"
    (folder / "program.py").write_text(BELOW.replace("JOURNAL", str(journal)))

    async def ask(me: Agent) -> None:
        say = {"to": "Clerk", "action": {"name": "say", "args": {"content": "Pay."}}}
        with pytest.raises(ActionError, match="waiting for"):
            await me.request(say, None)

    company = "journal: runs.db\nagents:\n  Clerk: {ref: 'program.py:clerk'}\n"
    live(make_company(company), ask)
    with Journal(journal) as office:
        (wait,) = office.waiting(kind="approval")
        office.answer(wait.run, wait.key, True, by="eva")

        async def look(me: Agent) -> None:
            await until(lambda: all(run.state == "done" for run in office.runs()))
            assert (len(office.runs()), office.waiting()) == (3, [])

        live(make_company(company), look)


ASKS = """
import asyncio
import os

from moothall import ACCESS_REQUESTED, Action, CallbackApprover, ReActAgent, ScriptedModel


async def decide(request):
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "permitted")):
        await asyncio.sleep(0.02)
    return True


def helper(id):
    script = [{"name": "pay"}, "Paid."]
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    approver = CallbackApprover(decide)
    return ReActAgent(id, ScriptedModel(script), actions=[pay], approver=approver)


def clerk(id):
    script = [{"name": "helper", "args": {"text": "Pay."}}, "Done."]
    return ReActAgent(id, ScriptedModel(script), actions=[helper("helper").as_action()])
"""


@pytest.mark.parametrize("made", ("helper", "clerk"))
def test_metrics_count_the_calls_for_which_an_approver_of_an_agents_own_is_asked(
    folder: Path, make_company: MakeCompany, made: str
) -> None:
    (folder / "program.py").write_text(ASKS)
    text = f"journal: runs.db\nagents:\n  Clerk: {{ref: 'program.py:{made}'}}\n"
    company = make_company(text)

    def asking() -> float:
        return value(company.metrics(), "moothall_asking", agent="Clerk")

    async def work(me: Agent) -> None:
        say = {"to": "Clerk", "action": {"name": "say", "args": {"content": "Pay."}}}
        assert asking() == 0
        pending = me.request(say, None)
        await until(lambda: asking() == 1)
        (folder / "permitted").touch()
        await pending
        assert asking() == 0

    live(company, work)


TELLS = """
import os
import threading

from moothall import Agent


def clerk(id):
    return Agent(id)


def tell(wait):
    with open("told", "a") as file:
        file.write(f"{wait.run} {os.getpid()}\\n")
    if os.path.exists("hangs"):
        threading.Event().wait()
"""


def park(folder: Path, *runs: str) -> None:
    """Have runs of another program wait in the folder's journal."""
    action = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(folder / "runs.db") as journal:
        for run in runs:
            model = ScriptedModel([{"name": "pay"}])
            clerk = ReActAgent("Else", model, actions=[action], journal=journal, approver=Waiting())
            assert clerk.reply_sync("Pay.", run_id=run).stop_reason == "waiting"


def told(folder: Path) -> list[list[str]]:
    file = folder / "told"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.timeout(60)
def test_hook_is_called_once_by_two_companies_and_again_if_one_is_killed_in_it(
    folder: Path,
) -> None:
    (folder / "program.py").write_text(TELLS)
    (folder / "company.yaml").write_text(COMPANY + "http: {listen: '127.0.0.1:0'}\n")
    both = {each.process.pid: each for each in (Served(folder), Served(folder))}
    runs = [f"r{number}" for number in range(20)]
    park(folder, *runs)
    asyncio.run(until(lambda: len(told(folder)) >= len(runs)))
    (folder / "hangs").touch()
    park(folder, "last")
    asyncio.run(until(lambda: told(folder)[-1][0] == "last"))
    (folder / "hangs").unlink()
    killed = both.pop(int(told(folder)[-1][1]))
    killed.process.kill()
    killed.end()
    asyncio.run(until(lambda: told(folder)[-1][1] in map(str, both)))
    assert Counter(run for run, _ in told(folder)) == {**dict.fromkeys(runs, 1), "last": 2}
    for each in both.values():
        each.process.send_signal(signal.SIGTERM)
        assert each.end() == 0


def test_hook_hears_at_the_next_start_what_was_asked_while_no_company_ran(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(AGENTS)
    park(folder, "early")

    async def work(me: Agent) -> None:
        program = sys.modules["program"]
        await until(lambda: len(program.told) == 1)
        assert "the approval of pay()" in program.told[0]

    live(make_company(COMPANY), work)


DOUBTS = """
import time

from moothall import Agent, ReActAgent, ScriptedModel, action


def held():
    with open("paid", "a") as file:
        file.write("x\\n")
    if len(open("paid").readlines()) < 3:
        time.sleep(600)


def pay() -> str:
    "Pay."
    held()
    return "paid"


class Bank(Agent):
    @action
    def book(self) -> str:
        "Book."
        held()
        return "booked"


def clerk(id):
    return ReActAgent(id, ScriptedModel([{"name": "pay"}, "Paid."] * 9), actions=[pay])


def tell(wait):
    with open("told", "a") as file:
        file.write(f"{wait.run} {wait.kind} {wait.key}\\n")
"""


@pytest.mark.timeout(60)
def test_calls_that_a_kill_cut_off_reach_hook_and_metrics_and_go_on_once_decided(
    folder: Path,
) -> None:
    (folder / "program.py").write_text(DOUBTS)
    (folder / "company.yaml").write_text(
        """
journal: runs.db
on_waiting: program.py:tell
http: {listen: '127.0.0.1:0'}
agents:
  Clerk: {ref: 'program.py:clerk'}
  Bank: {ref: 'program.py:Bank'}
schedules:
  wages: {every: 1d, to: Clerk, args: {content: Pay.}}
  books: {every: 1d, to: Bank, action: book}
"""
    )
    first = Served(folder)
    with Journal(folder / "runs.db") as office:
        firings = {ScheduleControl(office, name, by="eva").fire() for name in ("wages", "books")}
        paid = folder / "paid"
        asyncio.run(until(lambda: paid.exists() and len(paid.read_text().split()) == 2))
        first.process.kill()
        first.end()
        second = Served(folder)
        asyncio.run(until(lambda: len(told(folder)) == 2))
        assert {run.removesuffix("/reply") for run, *_ in told(folder)} == firings
        text = second.get("/metrics")[1]
        assert value(text, "moothall_waiting", agent="Clerk", kind="doubt") == 1
        assert value(text, "moothall_waiting", agent="books", kind="doubt") == 1
        wages, books = sorted(firings, reverse=True)
        asyncio.run(until(lambda: office.run(wages).state == "waiting"))
        assert office.run(books).state == "in_doubt"
        for wait in office.waiting(kind="doubt"):
            status, _ = sent(second.port, None, {"run": wait.run, "key": wait.key, "value": "skip"})
            assert status == 200
        asyncio.run(until(lambda: office.run(wages).state == "done"))
        asyncio.run(until(lambda: not office.runs(needs_person=True)))
        assert len(told(folder)) == len(paid.read_text().split()) == 2
        second.process.send_signal(signal.SIGTERM)
        assert second.end() == 0


def sent(
    port: int | None, token: str | None, body: object = None, path: str = "/waiting"
) -> tuple[int, dict[str, Any]]:
    """Return the status and the data of an answer of a path; a body is posted."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}


def test_route_with_a_token_lists_what_waits_and_takes_answers(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(AGENTS)
    http = "http: {listen: '127.0.0.1:0', token: '${TOKEN}'}\n"
    company = make_company(COMPANY + http, TOKEN="secret")

    async def work(me: Agent) -> None:
        agent: Any = company.agents["Clerk"]
        assert (await agent.reply("Pay.", run_id="r")).stop_reason == "waiting"
        port = company.port
        assert (await asyncio.to_thread(sent, port, None))[0] == 401
        status, found = await asyncio.to_thread(sent, port, "secret")
        (wait,) = found["waiting"]
        assert (status, wait["run"], wait["args"]) == (200, "r", {"coins": 3})
        body = {"run": "r", "key": wait["key"], "value": True}
        wrong: tuple[tuple[object, int], ...] = (
            ([], 400),
            ({**body, "more": 1}, 400),
            ({**body, "run": "none"}, 404),
            ({**body, "value": "yes"}, 400),
            ({**body, "key": "f" * 64}, 409),
        )
        for bad, code in wrong:
            assert (await asyncio.to_thread(sent, port, "secret", bad))[0] == code
        assert (await asyncio.to_thread(sent, port, None, body))[0] == 401
        assert (await asyncio.to_thread(sent, port, "secret", body))[0] == 200
        assert (await asyncio.to_thread(sent, port, "secret", body))[0] == 200
        other = await asyncio.to_thread(sent, port, "secret", {**body, "value": False})
        assert other[0] == 409
        with Journal(folder / "runs.db") as office:
            await until(lambda: office.run("r").state == "done")

    live(company, work)


def test_route_with_a_token_has_a_hand_on_a_run(folder: Path, make_company: MakeCompany) -> None:
    (folder / "program.py").write_text(AGENTS)
    http = "http: {listen: '127.0.0.1:0', token: '${TOKEN}'}\n"
    company = make_company(COMPANY + http, TOKEN="secret")

    async def work(me: Agent) -> None:
        agent: Any = company.agents["Clerk"]
        assert (await agent.reply("Pay.", run_id="a/r")).stop_reason == "waiting"

        async def ask(verb: str, token: str | None = "secret", body: object = None) -> Any:
            path = f"/runs/a%2Fr/{verb}"
            return await asyncio.to_thread(sent, company.port, token, body or {}, path)

        assert (await ask("pause", None))[0] == 401
        assert await ask("pause") == (200, {"run": "a/r", "state": "waiting", "held": False})
        assert (await ask("tell", body={"text": "Hurry."}))[0] == 200
        assert [(await ask("tell"))[0], (await ask("hop"))[0]] == [400, 404]
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting(kind="approval")
            office.answer("a/r", wait.key, True)
            (paused,) = office.waiting(kind="paused")
            assert paused.text == "token has paused it"
            assert (await ask("go-on"))[0] == 200
            await until(lambda: office.run("a/r").state == "done")
            assert [e.data for e in office.entries("a/r") if "told_keys" in e.data]
        assert [(await ask(verb))[0] for verb in ("go-on", "pause", "cancel")] == [409] * 3

    live(company, work)


def test_callers_of_a_company_answer_for_others_only_if_the_file_says_so(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(AGENTS)
    ada = "{token: '${NEW}', old_token: '${ADA}', approves: true}"
    callers = f"{{ada: {ada}, bob: {{token: '${{BOB}}'}}}}"
    http = f"http: {{listen: '127.0.0.1:0', callers: {callers}}}\n"
    company = make_company(COMPANY + http, NEW="new of ada", ADA="of ada", BOB="of bob")

    async def work(me: Agent) -> None:
        agent: Any = company.agents["Clerk"]
        assert (await agent.reply("Pay.", run_id="r")).stop_reason == "waiting"
        for secret, code in (("of bob", 403), ("of eva", 401), ("of ada", 200)):
            status, found = await asyncio.to_thread(sent, company.port, secret)
            assert status == code
        body = {"run": "r", "key": found["waiting"][0]["key"], "value": True}
        assert (await asyncio.to_thread(sent, company.port, "of bob", body))[0] == 403
        assert (await asyncio.to_thread(sent, company.port, "of ada", body))[0] == 200
        with Journal(folder / "runs.db") as office:
            await until(lambda: office.run("r").state == "done")
            assert [each.id for each in office.runs(decided_by="ada")] == ["r"]
            assert office.runs(decided_by="bob") == []

    live(company, work)


def test_rate_of_a_companys_callers_is_one_for_each_and_lets_probes_pass(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(AGENTS)
    callers = "{ada: {token: '${ADA}', approves: true}, bob: {token: '${BOB}'}}"
    http = f"http: {{listen: '127.0.0.1:0', callers: {callers}, rate: 1, max_replies: 9}}\n"
    company = make_company(COMPANY + http, ADA="of ada", BOB="of bob")

    async def work(me: Agent) -> None:
        for secret, code in (("of ada", 200), ("of ada", 429), ("of bob", 403), ("of bob", 429)):
            assert (await asyncio.to_thread(sent, company.port, secret))[0] == code
        for _ in range(3):
            probe = f"http://127.0.0.1:{company.port}/health/live"
            assert (
                await asyncio.to_thread(urllib.request.urlopen, probe, timeout=30)
            ).status == 200

    live(company, work)


def test_firing_waits_and_ends_with_its_reply(folder: Path, make_company: MakeCompany) -> None:
    (folder / "program.py").write_text(AGENTS)
    company = make_company(
        f"""{COMPANY}
schedules:
  wages: {{every: 1d, missed: skip, to: Clerk, timeout: 1s, args: {{content: Pay.}}}}
"""
    )

    async def work(me: Agent) -> None:
        scheduler = company._scheduler
        assert scheduler is not None
        call = company._scheduled_calls["wages"]
        at = next(call.schedule.after(scheduler.now()))
        await scheduler.fire(call, at)
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting()
            firing = wait.run.removesuffix("/reply")
            assert office.run(firing).state == "waiting"
            office.answer(wait.run, wait.key, True)
            await until(lambda: office.run(firing).state == "done")
            entries = office.entries(wait.run)
            begun = [each for each in entries if each.kind == "started" and "args" in each.data]
            assert [each.data["args"] for each in begun] == [{"coins": 3}]

    live(company, work)


def test_firing_ends_with_the_changed_program_that_goes_on_with_its_reply(
    folder: Path, make_company: MakeCompany
) -> None:
    schedule = "{every: 1d, missed: skip, to: Clerk, args: {content: Pay.}}"
    text = f"{COMPANY}\nschedules: {{wages: {schedule}}}\n"
    (folder / "program.py").write_text(AGENTS)
    first = make_company(text)

    async def fire(me: Agent) -> None:
        scheduler = first._scheduler
        assert scheduler is not None
        call = first._scheduled_calls["wages"]
        await scheduler.fire(call, next(call.schedule.after(scheduler.now())))

    live(first, fire)
    changed = AGENTS.replace("actions=[asked])", "actions=[asked], system_prompt='Be polite.')")
    (folder / "changed.py").write_text(changed)  # another module: one is imported once
    second = make_company(text.replace("program.py:", "changed.py:"))

    async def permit(me: Agent) -> None:
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting()
            firing = wait.run.removesuffix("/reply")
            office.answer(wait.run, wait.key, True)
            await until(lambda: office.run(wait.run).state == "mismatch")
            assert office.run(firing).state == "waiting"
            office.answer(wait.run, "operator:program", "fork")
            await until(office.waiting)
            (again,) = office.waiting()
            office.answer(again.run, again.key, True)
            await until(lambda: office.run(firing).state == "done")
            assert office.run(again.run).state == "done"
            entries = office.entries(again.run)
            begun = [each for each in entries if each.kind == "started" and "args" in each.data]
            assert [each.data["args"] for each in begun] == [{"coins": 3}]

    live(second, permit)


@pytest.mark.parametrize(
    ("more", "why"),
    (
        ("remind: 1h", "remind: needs a journal"),
        ("journal: runs.db\nremind: 1h", "remind: needs on_waiting"),
        ("expire: 0s", "expire: "),
        ("journal: runs.db\nexpire: 1d\napprover: program.py:tell", "expire: is for approvals"),
    ),
)
def test_wrong_setting_is_named(
    folder: Path, make_company: MakeCompany, more: str, why: str
) -> None:
    (folder / "program.py").write_text(AGENTS)
    with pytest.raises(ConfigError, match=why):
        make_company(f"{more}\nagents:\n  Clerk: {{ref: 'program.py:clerk'}}\n")


LATE = """
import threading

from moothall import ReActAgent, ScriptedModel

MODEL = ScriptedModel(["Bought."])
MODEL.name = "waiting"  # as that of the process that has ended
FAILED, LET_GO = threading.Event(), threading.Event()


def shop(id):
    if not FAILED.is_set():
        FAILED.set()
        raise OSError("no way in")
    LET_GO.wait(20)
    return ReActAgent(id, MODEL)
"""


def test_a2a_task_of_a_process_that_has_ended_goes_on_when_its_agent_enters_late(
    folder: Path, make_company: MakeCompany
) -> None:
    (folder / "program.py").write_text(LATE)
    model = Unanswering()
    with serving(asgi(ReActAgent("shop", model, journal=folder / "runs.db"))) as url:
        at_once = {"configuration": {"returnImmediately": True}}
        task = rpc(url, "SendMessage", plain("Buy.") | at_once)["result"]["task"]
        asyncio.run(model.has_begun())
    company = make_company(
        "journal: runs.db\nhttp: {listen: '127.0.0.1:0'}\nrestart: {first: 1ms, most: 5}\n"
        "agents: {shop: {ref: 'program.py:shop'}}\n"
    )

    async def work(me: Agent) -> None:
        from program import LET_GO  # type: ignore[import-not-found]

        status, _ = await asyncio.to_thread(get, company.port, "/health")
        assert status == 503  # the doors are open, and the agent is not there
        LET_GO.set()
        with Journal(folder / "runs.db") as journal:
            await until(lambda: journal.run(task["id"]).state == "done")

    live(company, work)


UPWARD = """
import asyncio

from moothall import ACCESS_REQUESTED, Action, Agent, ReActAgent, ScriptedModel, action

paid = []


def calling(name, **args):
    def answer(said, actions):
        return said[-1]["content"] if said[-1]["role"] == "tool" else {"name": name, "args": args}

    return ScriptedModel(answer)


class Bank(Agent):
    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self) -> str:
        '''Pay.'''
        paid.append("bank")
        return "paid by the bank"


def found(id):
    return ReActAgent(id, calling("Bank_pay"), discover=["Bank"])


def asked(id):
    pay = Action("pay", lambda: paid.append("helper"), "Pay.", access_policy=ACCESS_REQUESTED)
    helper = ReActAgent("helper", calling("pay"), actions=[pay])
    return ReActAgent(id, calling("helper", text="go"), actions=[helper.as_action()])
"""

OF_OTHERS = """
journal: runs.db
agents:
  Bank: {ref: 'program.py:Bank'}
  Clerk: {ref: 'program.py:MADE'}
"""


@pytest.mark.parametrize("made", ("found", "asked"))
def test_approval_that_another_agent_asks_for_waits_in_the_journal_of_its_company(
    folder: Path, make_company: MakeCompany, made: str
) -> None:
    (folder / "program.py").write_text(UPWARD)

    async def work(me: Agent) -> None:
        say = {"to": "Clerk", "action": {"name": "say", "args": {"content": "Pay."}}}
        with pytest.raises(ActionError, match="waiting for the approval"):
            await me.request(say, None)
        from program import paid  # type: ignore[import-not-found]

        assert paid == []
        with Journal(folder / "runs.db") as office:
            (wait,) = office.waiting()
            assert (wait.kind, wait.agent) == ("approval", "Clerk")
            office.answer(wait.run, wait.key, True, by="eva")
            await until(lambda: office.run(wait.run).state == "done")
            assert paid == [{"found": "bank", "asked": "helper"}[made]]

    live(make_company(OF_OTHERS.replace("MADE", made)), work)
