"""The files of `deploy/`: the company of the containers starts, and has the metrics asked for."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from benchmarks.broker import Broker
from benchmarks.postgresql import Server

from moothall import Agent
from serving.company.conftest import MakeCompany, live

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
FILES = DEPLOY / "compose" / "files"


@pytest.mark.timeout(180)
def test_company_of_the_containers_serves_from_a_system_that_is_read_only(
    tmp_path: Path, broker: Broker, postgresql: Server, exchange: str
) -> None:
    schema = exchange.replace(".", "_")
    written = (FILES / "company.yaml").read_text()
    for theirs, ours in (
        ("postgresql://moothall@postgres/moothall", postgresql.url(schema)),
        ("host: rabbitmq", f"host: 127.0.0.1\n  port: {broker.port}"),
        ("username: moothall", f"username: {broker.user}"),
        ("exchange: shop", f"exchange: {exchange}"),
        ("listen: 0.0.0.0:8100", "listen: 127.0.0.1:0"),
    ):
        assert theirs in written
        written = written.replace(theirs, ours)
    (tmp_path / "company.yaml").write_text(written)
    (tmp_path / "shop.py").write_bytes((FILES / "shop.py").read_bytes())
    with psycopg.connect(postgresql.url(), autocommit=True) as database:
        database.execute(f"CREATE SCHEMA {schema}")
    process = subprocess.Popen(
        [
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--ro-bind", tmp_path, "/mnt", "--chdir", "/mnt", "--die-with-parent"),
            *(sys.executable, "-m", "moothall", "serve", "company.yaml"),
        ],
        env={"PATH": os.environ["PATH"], "MOOTHALL_TOKEN": "secret", "RABBITMQ_PASSWORD": "guest"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
    finally:
        process.terminate()
        _, complained = process.communicate(timeout=60)
    assert re.search(r"at port \d+", line), complained


def test_alerts_and_dashboard_ask_for_metrics_that_a_company_has(
    folder: Path, make_company: MakeCompany, broker: Broker, exchange: str
) -> None:
    (folder / "shop.py").write_bytes((FILES / "shop.py").read_bytes())
    company = make_company(
        f"broker: {{host: 127.0.0.1, port: {broker.port}, exchange: {exchange}}}\n"
        "journal: runs.db\nbudget: {model_calls: 5}\nagents: {Stock: {ref: 'shop.py:Stock'}}\n"
    )

    async def read(me: Agent) -> str:
        return await asyncio.to_thread(company.metrics)

    had = set(re.findall(r"^# TYPE (\w+)", live(company, read), re.MULTILINE))
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked.append((DEPLOY / "alerts.yml").read_text())
    names = {
        re.sub("_(total|bucket)$", "", each)
        for text in asked
        for each in re.findall(r"\bmoothall_\w+", text)
    }
    assert len(names) > 10
    assert names <= had
