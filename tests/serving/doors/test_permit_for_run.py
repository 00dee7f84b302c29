"""A caller permits or refuses an action for the rest of a run, by the form that its door offers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest

from moothall import Call, Journal
from moothall.serving import asgi
from serving.doors.a2a_calls import BOUGHT, asked, data, plain, rpc, shop, started, state
from serving.doors.test_ag_ui import run, user

Serve = Callable[[Any], str]

OFFERED = {"run": "Always in this run", "never": "Never in this run"}
SCRIPT = [*(Call(item, "buy", {"item": item}) for item in ("tea", "jam")), "Bought."]
WRONG: tuple[Any, ...] = ("always", "Run", "run ", True, 1, ["run"], {"run": True})


def options(kept: bool, folder: Path) -> dict[str, Any]:
    return {"journal": Journal(folder / "runs.db")} if kept else {}


@pytest.mark.parametrize("kept", (True, False))
def test_a2a_answer_for_run_permits_the_next_call_of_the_action_unasked(
    serve: Serve, tmp_path: Path, kept: bool
) -> None:
    url = serve(asgi(shop(*SCRIPT, **options(kept, tmp_path))))
    task = started(url, "Buy.")
    assert asked(task)["for"] == OFFERED
    answer = {"approval": asked(task)["approval"], "permit": True}
    for wrong in WRONG:
        refused = rpc(url, "SendMessage", data({**answer, "for": wrong}, taskId=task["id"]))
        assert refused["error"]["code"] == -32602, wrong
    assert BOUGHT == []
    ended = rpc(url, "SendMessage", data({**answer, "for": "run"}, taskId=task["id"]))
    assert state(ended["result"]["task"]) == "TASK_STATE_COMPLETED"
    assert BOUGHT == ["tea", "jam"]


def test_a2a_answer_may_repeat_what_the_task_offers_and_permits_one_call_then(
    serve: Serve,
) -> None:
    url = serve(asgi(shop(*SCRIPT)))
    task = started(url, "Buy.")
    answer = data({**asked(task), "permit": True}, taskId=task["id"])
    again = rpc(url, "SendMessage", answer)["result"]["task"]
    assert (state(again), BOUGHT) == ("TASK_STATE_INPUT_REQUIRED", ["tea"])
    refusal = data({**asked(again), "permit": False, "for": "run"}, taskId=task["id"])
    rpc(url, "SendMessage", refusal)
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize("kept", (True, False))
def test_ag_ui_resume_for_run_permits_the_next_call_of_the_action_unasked(
    serve: Serve, tmp_path: Path, kept: bool
) -> None:
    def answered(payload: Any) -> list[dict[str, Any]]:
        url = serve(asgi(shop(*SCRIPT, **options(kept, tmp_path))))
        new = {"runId": secrets.token_hex(8)}  # the same would go on with its run
        (interrupt,) = run(url, user("Buy."), **new)[-1]["outcome"]["interrupts"]
        schema = interrupt["responseSchema"]
        assert schema["properties"]["for"] == {"type": "string", "enum": [*OFFERED]}
        assert (schema["required"], schema["additionalProperties"]) == (["approved"], False)
        assert interrupt["metadata"]["for"] == OFFERED
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        return run(url, user("Buy."), resume=[entry])

    events = answered({"approved": True, "for": "run"})
    assert (events[-1]["outcome"], BOUGHT) == ({"type": "success"}, ["tea", "jam"])
    wrong = {"approved": True, "for": "always"}
    for payload in (wrong, {"for": "run"}, {"approved": False, "for": "run"}, {"approved": "run"}):
        answered(payload)
        assert BOUGHT == [], payload


@pytest.mark.parametrize(
    ("content", "bought", "questions"),
    (
        ({"permit": True, "for": "run"}, ["tea", "jam"], 1),
        ({"permit": True, "for": ""}, ["tea", "jam"], 2),
        ({"permit": True}, ["tea", "jam"], 2),
        ({"permit": False, "for": "run"}, [], 2),
        ({"permit": False, "for": "never"}, [], 1),
        ({"permit": True, "for": "never"}, [], 2),
        ({"for": "never"}, [], 2),
        ({"permit": True, "for": "always"}, [], 2),
        ({"for": "run"}, [], 2),
    ),
)
@pytest.mark.parametrize("kept", (True, False))
def test_mcp_form_offers_run_and_permits_the_next_call_of_the_action_unasked(
    serve: Serve, tmp_path: Path, kept: bool, content: Any, bought: list[str], questions: int
) -> None:
    forms: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params.requested_schema)
        return types.ElicitResult(action="accept", content=content)

    async def main() -> Any:
        url = f"{serve(asgi(shop(*SCRIPT, **options(kept, tmp_path))))}/mcp"
        async with mcp.Client(url, elicitation_callback=elicit) as client:
            return await client.call_tool("say", {"content": "Buy."})

    asyncio.run(main())
    assert (BOUGHT, len(forms)) == (bought, questions)
    assert forms[0]["properties"]["for"] == {"type": "string", "enum": [*OFFERED]}
    assert forms[0]["required"] == ["permit"]


def test_a2a_question_takes_no_word_of_a_permission(serve: Serve) -> None:
    url = serve(asgi(shop(Call("a", "ask", {}), "Red.")))
    task = started(url, "Ask.")
    answer = {"question": asked(task)["question"], "answer": "red", "for": "run"}
    assert rpc(url, "SendMessage", data(answer, taskId=task["id"]))["error"]["code"] == -32602
    ended = rpc(url, "SendMessage", plain("red", taskId=task["id"]))["result"]["task"]
    assert state(ended) == "TASK_STATE_COMPLETED"
