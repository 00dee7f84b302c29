"""The files of `deploy/`, checked by the tools of those who read them; the bill of materials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release.conftest import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
DEPLOY = ROOT / "deploy"


def check(*command: str | Path, **environment: str) -> None:
    """Run a checker; what it complains of fails the test."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_unit_of_systemd_has_an_exposure_of_at_most_three() -> None:
    unit = DEPLOY / "moothall.service"
    check("systemd-analyze", "security", "--offline=yes", "--threshold=30", unit)


def test_compose_file_is_accepted_and_says_which_secret_is_missing() -> None:
    command = ["docker-compose", "--file", DEPLOY / "compose" / "compose.yaml", "config", "--quiet"]
    names = ("MOOTHALL_TOKEN", "POSTGRES_PASSWORD", "RABBITMQ_PASSWORD", "GRAFANA_PASSWORD")
    check(*command, **dict.fromkeys(names, "secret"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "set it in .env" in done.stderr


def test_manifests_of_kubernetes_fit_its_schemas() -> None:
    check(sys.executable, "-m", "kubernetes_validate", "--strict", DEPLOY / "kubernetes.yaml")


def test_configuration_and_alert_rules_of_prometheus_are_accepted(tmp_path: Path) -> None:
    for file in (DEPLOY / "compose" / "prometheus.yml", DEPLOY / "alerts.yml"):
        shutil.copy(file, tmp_path)
    (tmp_path / "token").write_text("secret")
    check("promtool", "check", "config", tmp_path / "prometheus.yml")


def test_make_sbom_lists_what_every_extra_installs_at_the_pinned_versions() -> None:
    check("make", "-C", ROOT, "sbom")
    written = (ROOT / "build" / "moothall.cdx.json").read_text()
    listed = {each["name"]: each["version"] for each in json.loads(written)["components"]}
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert "moothall" in listed
    assert {name: listed[name] for name in ("pydantic", "pika")} == {
        name: pins[name] for name in ("pydantic", "pika")
    }
    assert str(ROOT) not in written
