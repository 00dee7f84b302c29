"""An agent behind AG-UI, run by the protocol's own JavaScript client under Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget
from moothall.serving import asgi
from packages import node, npm_folder
from serving.doors.conftest import serving
from serving.doors.test_ag_ui import buyer

PACKAGES = ("@ag-ui/client@1.0.0", "@ag-ui/client@0.0.59")  # the latter is CopilotKit's

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=PACKAGES)
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    folder = npm_folder(request.param)
    program = shutil.copy(Path(__file__).with_name("ag_ui_client.mjs"), folder)

    def budget(name: str) -> Budget | None:
        return Budget(model_calls=0) if name == "poor" else None

    bought: list[str] = []
    tokens = {"rich": "t-rich", "poor": "t-poor"}
    app = asgi(buyer(bought), token=tokens, budget=budget, approves=["rich"])
    with serving(app) as url:
        done = subprocess.run(
            [node(), program, url, "t-rich"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "purchases": bought}


def test_ag_ui_client_reads_a_run_and_continues_it(told: dict[str, Any]) -> None:
    assert (told["text"]["role"], told["text"]["content"]) == ("assistant", "heard hello")
    assert told["text"]["events"][0] == "RUN_STARTED"
    assert told["text"]["events"][-1] == "RUN_FINISHED"
    assert told["again"]["content"] == "heard again"


def test_ag_ui_client_executes_a_tool_of_its_own(told: dict[str, Any]) -> None:
    assert told["call"] == {"name": "paint", "arguments": '{"colour": "red"}'}
    assert told["result"]["content"] == "So: painted"


def test_ag_ui_client_goes_on_with_calls_whose_ids_repeat(told: dict[str, Any]) -> None:
    assert [each["failed"] for each in told["turns"]] == [""] * 6
    assert [each["content"] for each in told["turns"][1::2]] == ["So: painted"] * 3
    assert len({*told["ids"]}) == 3


def test_ag_ui_client_approves_an_interrupt_once(told: dict[str, Any]) -> None:
    (wanted,) = told["asked"]["interrupts"]
    assert (wanted["action"], wanted["args"]) == ("buy", {"item": "lamp"})
    for forged in ("forged", "elsewhere"):
        assert "no run of this thread waits" in told[forged]["failed"]
    for answered in ("bought", "twice"):  # an answer that comes again gets the reply again
        assert (told[answered]["failed"], told[answered]["content"]) == ("", "So: bought lamp")
    assert told["purchases"] == ["lamp"]


def test_ag_ui_client_hears_that_its_budget_is_spent(told: dict[str, Any]) -> None:
    assert told["poor"]["events"][-1] == "RUN_ERROR"
