"""The conformance package of the protocol, from npm, against our server and our client."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.serving import asgi
from packages import node, npm_folder
from serving.doors.conformant import Tools
from serving.doors.conftest import serving

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
# What is not here is what docs/mcp.md says is not offered: resources, prompts, completion, logging,
# sampling, forms of an action's own, and streams that are resumed; for the client, what the SDK's
# providers of OAuth do not have.
SERVER = (
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image"),
    *("tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content"),
    *("tools-call-error", "tools-call-elicitation", "json-schema-2020-12"),
    *("tools-call-with-progress", "server-sse-multiple-streams", "dns-rebinding-protection"),
)
METADATA = tuple(f"auth/metadata-{each}" for each in ("default", "var1", "var2", "var3"))
OAUTH = (
    *METADATA,
    *("auth/basic-cimd", "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported"),
    *("auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post"),
    *("auth/token-endpoint-auth-none", "auth/pre-registration", "auth/resource-mismatch"),
    *("auth/offline-access-scope", "auth/offline-access-not-supported"),
)
CLIENT = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *OAUTH,
    *("auth/2025-03-26-oauth-endpoint-fallback", "auth/client-credentials-jwt"),
    "auth/client-credentials-basic",
)
# The next version of the package has the scenarios of revision 2026-07-28. Beside the above, those
# of tools with forms and headers of their own are not here.
NEXT = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NEXT_SERVER = (
    *("tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio"),
    *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error"),
    *("json-schema-2020-12", "server-sse-multiple-streams", "dns-rebinding-protection"),
    "tools-call-with-progress",
    "http-header-validation",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-validate-input",
)
NEXT_CLIENT = (
    *("tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers"),
    *("http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"),
    "json-schema-2020-12-preservation",
    *OAUTH,
    *("auth/authorization-server-migration", "auth/iss-supported", "auth/iss-not-advertised"),
    *("auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected"),
    *("auth/iss-normalized", "auth/metadata-issuer-mismatch"),
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def conformance() -> list[str]:
    """Install the package, and return its command."""
    return [node(), str(npm_folder(PACKAGE) / "node_modules/.bin/conformance")]


@pytest.fixture(scope="module")
def following() -> list[str]:
    """Install the next version of the package, and return its command."""
    return [node(), str(npm_folder(NEXT) / "node_modules/.bin/conformance")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(asgi(Tools("tools"))) as url:
        yield f"{url}/mcp"


def tried(command: list[str], side: str, scenario: str, *options: str) -> None:
    """Try a scenario, and fail if a check of it does."""
    command = [*command, side, "--scenario", scenario, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed, 0 warnings" in done.stdout + done.stderr


@pytest.mark.parametrize("scenario", SERVER)
def test_mcp_door_conforms_in_scenario(conformance: list[str], url: str, scenario: str) -> None:
    tried(conformance, "server", scenario, "--url", url)


@pytest.mark.parametrize("scenario", NEXT_SERVER)
def test_mcp_door_conforms_in_scenario_of_2026(
    following: list[str], url: str, scenario: str
) -> None:
    tried(following, "server", scenario, "--url", url, "--spec-version", "2026-07-28")


# It goes to a shell: the path of the clone may have spaces.
PROGRAM = shlex.join((sys.executable, str(Path(__file__).with_name("conformant.py"))))
USES = ("--command", PROGRAM, "--timeout", "100000")


@pytest.mark.parametrize("scenario", CLIENT)
def test_mcp_agent_conforms_in_scenario(conformance: list[str], scenario: str) -> None:
    tried(conformance, "client", scenario, *USES)


@pytest.mark.parametrize("scenario", NEXT_CLIENT)
def test_mcp_agent_conforms_in_scenario_of_2026(following: list[str], scenario: str) -> None:
    tried(following, "client", scenario, *USES, "--spec-version", "2026-07-28")
