"""Health, metrics and systemd's watchdog, while an agent holds the loop or the journal is gone."""

from __future__ import annotations

import asyncio
import resource
import secrets
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from benchmarks.postgresql import Server

from moothall import Agent
from serving.company.conftest import MakeCompany, live, until
from serving.company.served import Served

# A loaded machine starts processes slowly.
pytestmark = pytest.mark.timeout(180)

AGENTS = """
import threading
from pathlib import Path

from moothall import Agent, action

LET_GO = threading.Event()


class Clerk(Agent):
    @action
    async def hold(self, seconds: float) -> None:
        (Path(__file__).parent / "held").touch()
        LET_GO.wait(seconds)
"""

COMPANY = """
http: {listen: '127.0.0.1:0'}
journal: runs.db
agents: {Clerk: {ref: 'holding.py:Clerk'}}
drain: 100ms
"""


@pytest.fixture
def holding(folder: Path) -> Iterator[Path]:
    """A folder whose module `holding` is this test's own: another's would hold another event."""
    (folder / "holding.py").write_text(AGENTS)
    yield folder
    sys.modules.pop("holding", None)


def get(port: int | None, path: str) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_company_is_not_ready_while_an_agent_holds_the_loop_and_metrics_say_so(
    holding: Path, make_company: MakeCompany
) -> None:
    company = make_company(COMPANY)

    async def hold(me: Agent) -> None:
        from holding import LET_GO  # type: ignore[import-not-found]

        def answers(path: str) -> tuple[int, str]:
            return get(company.port, path)

        assert (await asyncio.to_thread(answers, "/health"))[0] == 200
        held = me.ask("Clerk", "hold", seconds=60)
        await until((holding / "held").exists)
        try:
            status, said = await asyncio.to_thread(answers, "/health")
            assert (status, '"ready":false' in said) == (503, True)
            status, said = await asyncio.to_thread(answers, "/metrics")
            assert (status, "moothall_loops_up 0.0" in said) == (200, True)
        finally:
            LET_GO.set()
        await held
        assert (await asyncio.to_thread(answers, "/health"))[0] == 200

    live(company, hold, within=60)


def test_company_is_not_ready_while_its_journal_is_gone_and_metrics_say_so(
    holding: Path, make_company: MakeCompany
) -> None:
    # A probe is no request of a caller, of whom one a minute is answered.
    asks_once = COMPANY.replace("0'}", "0', rate: 1}")
    company = make_company(asks_once + "budget: {model_calls: 5}\n")
    path = holding / "runs.db"

    async def lose(me: Agent) -> None:
        path.rename(holding / "away.db")
        status, said = await asyncio.to_thread(get, company.port, "/health")
        assert (status, '"ready":false' in said) == (503, True)
        status, said = await asyncio.to_thread(get, company.port, "/metrics")
        assert (status, "moothall_journal_up 0.0" in said) == (200, True)
        (holding / "away.db").rename(path)
        assert (await asyncio.to_thread(get, company.port, "/health"))[0] == 200

    live(company, lose)


def test_company_is_not_ready_while_its_disk_is_full(
    holding: Path, make_company: MakeCompany
) -> None:
    company = make_company(COMPANY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def fill(me: Agent) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
        try:
            status, said = await asyncio.to_thread(get, company.port, "/health")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (status, '"journal":false' in said) == (503, True)
        assert (await asyncio.to_thread(get, company.port, "/health"))[0] == 200

    live(company, fill)


def test_company_is_not_ready_while_the_server_of_its_journal_takes_no_writes(
    holding: Path, make_company: MakeCompany, postgresql: Server
) -> None:
    url = str(postgresql.url(f"t{secrets.token_hex(6)}"))
    company = make_company(COMPANY.replace("runs.db", url))
    end_sessions = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )

    async def switch(me: Agent) -> None:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
            try:
                admin.execute(end_sessions)
                status, said = await asyncio.to_thread(get, company.port, "/health")
                assert (status, '"journal":false' in said) == (503, True)
            finally:
                admin.execute("ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
            admin.execute(end_sessions)
        assert (await asyncio.to_thread(get, company.port, "/health"))[0] == 200

    live(company, switch)


def test_systemd_is_told_that_a_company_runs_and_that_it_stops(
    holding: Path, make_company: MakeCompany, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(holding / "notify"))
        systemd.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(holding / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")

        async def listen(me: Agent) -> None:
            while len(told) < 3:
                told.append((await asyncio.to_thread(systemd.recv, 100)).decode())

        live(make_company(COMPANY), listen)
        while told[-1] != "STOPPING=1":
            told.append(systemd.recv(100).decode())
    assert told[0] == "READY=1"
    assert set(told[1:-1]) == {"WATCHDOG=1"}


@pytest.mark.long
def test_company_whose_agent_holds_the_loop_is_not_live_and_ends_at_sigterm(holding: Path) -> None:
    (holding / "company.yaml").write_text(
        COMPANY.replace("'127.0.0.1:0'", "'127.0.0.1:0', token: '${TOKEN}'")
        + "schedules: {hold: {every: 1s, to: Clerk, args: {seconds: 60}, action: hold}}\n"
    )
    served = Served(holding)
    try:
        while served.get("/health/live")[0] == 200:
            pass
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(20) == 1
    finally:
        served.process.kill()
        served.end()
