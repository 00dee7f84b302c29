"""The conformance package of the protocol, from npm, against our server and our client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.conformant import Tools
from doors.conftest import installed, serving
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
    folder = tmp_path_factory.mktemp("npm")
    return [installed(folder, PACKAGE), str(folder / "node_modules/.bin/conformance")]


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
